#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: bwrap
# What is the user's stays as it is; programs that always fail are told of; what a killed runner left half removed is not used.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
need bwrap || { skip run_edges "no bubblewrap"; exit 0; }
copy_example tiny
chmod 755 "$WORK" .

# ---------------------------------------------------------------- the user's own directories

cp -r template mine
sed -i 's/^learnable:.*/&\non_violation: drop/' template/adapter.yaml
cp template/adapter.yaml mine/
echo kept >mine/notes-of-mine.txt
listing() { find mine template -printf '%p %m %s %T@\n' | sort && find mine template -type f -exec sha256sum {} + | sort; }
listing >before
expect_exit "a start_from that breaks the rules fails the check" 1 "$ORCH" check run.yaml candidate.start_from=mine
expect_stdout "and is named" 'notes-of-mine'
listing >after
check "the check changed nothing of it" cmp before after
run_cmd "$ORCH" run run.yaml candidate.start_from=mine
run_cmd "$ORCH" eval run.yaml --adapter ./mine/
listing >after
check "nor did a run and an evaluation" cmp before after

# ---------------------------------------------------------------- without an evolver

cd "$WORK" && rm -rf tiny && copy_example tiny
sed '/^evolver:/d' run.yaml >plain.yaml
grep -q evolver plain.yaml && not_ok "the config has no evolver" || ok "the config has no evolver"
expect_exit "it is checked" 0 "$ORCH" check plain.yaml
expect_stdout "with a word about it" 'no evolver'
expect_exit "it is evaluated" 0 "$ORCH" eval plain.yaml --adapter none
expect_exit "it cannot train" 2 "$ORCH" run plain.yaml
expect_stderr "and hears why" 'evolver\.command.*evolver\.agent: nop'
expect_exit "nop only measures" 0 "$ORCH" run plain.yaml evolver.agent=nop --json
last=$(tail -n 1 "$WORK/.e2e/out")
outcomes=$(python3 -c 'import json,sys; s=json.loads(sys.argv[1])["summary"]; print(sorted({x["outcome"] for x in s["steps"]}), "evolver" in s["failed_calls"])' "$last")
expect_equal "no step changes anything, no call fails" "['root', 'unchanged'] False" "$outcomes"

# ---------------------------------------------------------------- programs that always fail

printf '#!/bin/sh\nexit 3\n' >fails && chmod +x fails
expect_exit "agents that fail are scored" 0 "$ORCH" eval run.yaml --adapter none 'task.command=[./fails]' --new
expect_stdout "and told of" 'failed calls: task ([0-9]+) of \1 did not exit with 0; look at one: orch logs .* --call [0-9]+'
expect_exit "an evolver that always fails fails the run" 1 "$ORCH" run run.yaml 'evolver.command=[./fails]' --new
expect_stdout "with a word" 'failed calls: evolver ([0-9]+) of \1 '
run=$(sed -n 's/^run //p' "$WORK/.e2e/out")
check "the card says it too" grep -q 'failed calls: evolver' ".state/runs/$run/CARD.md"
call=$(sed -n 's/.*failed calls: evolver.*--call \([0-9]*\)$/\1/p' "$WORK/.e2e/out")
expect_exit "the call that it names can be looked at" 0 "$ORCH" logs latest --call "$call"

# ---------------------------------------------------------------- an adapter that is none

mkdir odd && ln -s /etc/passwd odd/link && mkfifo odd/pipe
runs() { find .state/runs -mindepth 1 -maxdepth 1 | wc -l; }
count=$(runs)
expect_exit "a directory with links is no adapter" 2 "$ORCH" eval run.yaml --adapter ./odd/
expect_stderr "and says so" 'odd/(link|pipe).*an adapter holds regular files'
expect_exit "nor is /etc" 2 "$ORCH" eval run.yaml --adapter /etc
expect_exit "nor a file" 2 "$ORCH" eval run.yaml --adapter ./run.yaml
expect_exit "nor what is not there" 2 "$ORCH" eval run.yaml --adapter ./nothing/
expect_equal "no run was made for them" "$count" "$(runs)"

# ---------------------------------------------------------------- half removed

cd "$WORK" && rm -rf tiny && copy_example tiny
expect_exit "an unbroken run" 0 "$ORCH" run run.yaml
"$ORCH" export latest --format json --normalize >"$WORK/unbroken.json"
rm -rf .state
{ ORCH_FAULT="step.settled:2:kill" "$ORCH" run run.yaml >/dev/null 2>&1; } 2>/dev/null
lost=$(find .state/local -path '*/version-*' -type f -not -name adapter.yaml -print -delete | wc -l)
check "a checked out version lost files" test "$lost" -gt 0
expect_exit "the run goes on" 0 "$ORCH" run run.yaml
"$ORCH" export latest --format json --normalize >"$WORK/resumed.json"
check "as if it had never stopped" cmp "$WORK/unbroken.json" "$WORK/resumed.json"
