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
runs() { find .state/runs -mindepth 1 -maxdepth 1 2>/dev/null | wc -l; }
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

# ---------------------------------------------------------------- parts of a record that are gone

damage() { # NAME COMMAND…: a run stopped after its second step, then damaged by the command, must exit 6 and say what is missing
    local name=$1
    shift
    rm -rf .state
    { ORCH_FAULT="step.settled:2:kill" "$ORCH" run run.yaml >/dev/null 2>&1; } 2>/dev/null
    (cd .state/runs/tiny-* && "$@")
    expect_exit "$name is damage" 6 "$ORCH" run run.yaml
    expect_stderr "$name is named" 'run tiny-.*(versions\.git|objects|0002|HEAD|repository)'
}
damage "a missing versions.git" rm -rf versions.git
damage "a version's missing commit" sh -c 'rm -rf versions.git/objects versions.git/refs; mkdir -p versions.git/objects versions.git/refs'
damage "a bad HEAD" sh -c 'echo rubbish >versions.git/HEAD'
damage "missing objects" rm -rf objects
damage "missing steps" rm -rf steps

# ---------------------------------------------------------------- outcomes that are what they look like

rm -rf .state
printf '#!/bin/sh\nmkdir -p /w/adapter/empty/inside\n' >makes-dirs && chmod +x makes-dirs
expect_exit "an evolver that only makes directories" 0 "$ORCH" run run.yaml 'evolver.command=[./makes-dirs]' --json
last=$(tail -n 1 "$WORK/.e2e/out")
outcomes=$(python3 -c 'import json,sys; print(sorted({x["outcome"] for x in json.loads(sys.argv[1])["summary"]["steps"]}))' "$last")
expect_equal "changes nothing" "['root', 'unchanged']" "$outcomes"

printf '#!/bin/sh\nseq 1 300000\n' >prints && chmod +x prints
expect_exit "an agent that prints two million bytes" 0 "$ORCH" eval run.yaml --adapter none 'task.command=[./prints]'
run_cmd "$ORCH" export latest --format json --calls
call=$(json_get '[c["id"] for c in d["calls"] if c["kind"] == "task"][0]')
expect_exit "has them kept" 0 "$ORCH" logs latest --call "$call" --stdout --raw
expect_equal "all of them" "$(seq 1 300000 | sha256sum)" "$(sha256sum <"$WORK/.e2e/out")"

# ---------------------------------------------------------------- refused before a run is made

refused() { # NAME MESSAGE ARGUMENTS… (of orch): exits 2, says so, makes no run
    local name=$1 message=$2 count
    shift 2
    count=$(runs)
    expect_exit "$name is refused" 2 "$ORCH" "$@"
    expect_stderr "$name: why" "$message"
    expect_equal "$name: no run" "$count" "$(runs)"
}
refused "a program that is nowhere" 'task\.command.*no-such-program' run run.yaml --new 'task.command=[no-such-program]'
refused "a state within the template" 'candidate\.template.*state' run run.yaml state_dir=template/state
refused "to lose every reply" 'no reply would ever arrive' run run.yaml environment.name=loopback-remote environment.loopback-remote.lose=1
rm -rf .state
refused "the state as a grant, before it is there" 'task\.paths\.read.*state' run run.yaml 'task.paths.read=[.state]'
for name in $'tab\there' $'line\nhere' $'byte\xffhere'; do
    mkdir "$WORK/$name" && cp -r "$WORK/tiny/." "$WORK/$name/" && rm -rf "$WORK/$name/.state"
    cd "$WORK/$name" || exit 1
    refused "a path with $(printf %q "$name")" 'control character, or is not UTF-8' run run.yaml
done
long=$WORK/$(printf 'd%.0s' {1..200})/$(printf 'e%.0s' {1..200})
mkdir -p "$long" && cp -r "$WORK/tiny/." "$long/" && cd "$long" || exit 1
refused "a path of over 400 bytes" 'bytes long, at most 400' run run.yaml
cd "$WORK" || exit 1

# ---------------------------------------------------------------- odd names and locked directories

cat >tiny/odd-names <<'SH'
#!/bin/sh
[ -d /w/adapter/notes ] || { mkdir /w/adapter/notes; echo 1 >"/w/adapter/notes/two
lines"; printf x >"/w/adapter/notes/$(printf 'tab\there\001')"; }
ls /w/adapter/notes | wc -l
SH
cd tiny && chmod +x odd-names && cp "$SOURCE/examples/tiny/template/adapter.yaml" template/
sed -i 's/^learnable:.*/learnable: [endings.txt, "notes\/**"]/' template/adapter.yaml
rm -rf .state
expect_exit "an evolver that gives files odd names" 0 "$ORCH" run run.yaml 'evolver.command=[./odd-names]' --json
last=$(tail -n 1 "$WORK/.e2e/out")
outcomes=$(python3 -c 'import json,sys; print([x["outcome"] for x in json.loads(sys.argv[1])["summary"]["steps"]])' "$last")
expect_equal "finds them again" "['root', 'accepted', 'unchanged', 'unchanged']" "$outcomes"
"$ORCH" export latest --format json --normalize >"$WORK/odd.json"
if need root; then
    expect_exit "elsewhere too" 0 "$ORCH" run run.yaml --new 'evolver.command=[./odd-names]' environment.name=loopback-remote
    "$ORCH" export latest --format json --normalize >"$WORK/odd-remote.json"
    check "with the same export" cmp "$WORK/odd.json" "$WORK/odd-remote.json"
fi

# An agent cannot take itself out of the mean, nor an evolver its candidate out of sight (root reads everything anyway).
printf '#!/bin/sh\nmkdir -p /w/output/below; echo x >/w/output/below/file; chmod 000 /w/output/below/file /w/output/below /w/output\n' >locks
printf '#!/bin/sh\necho ed >/w/adapter/endings.txt; chmod 000 /w/adapter/endings.txt /w/adapter /w/state\n' >locks-all
chmod +x locks locks-all
locked() { # TITLE COMMAND…: of orch, run with both
    local title=$1
    shift
    rm -rf .state
    expect_exit "$title: programs that lock what they leave" 0 "$@" run run.yaml --new 'task.command=[./locks]' 'evolver.command=[./locks-all]' --json
    last=$(tail -n 1 "$WORK/.e2e/out")
    outcomes=$(python3 -c 'import json,sys; s=json.loads(sys.argv[1])["summary"]; print([x["outcome"] for x in s["steps"]], s["results"]["train"]["scored"])' "$last")
    expect_equal "$title: are judged and taken over" "['root', 'accepted', 'unchanged', 'unchanged'] 3" "$outcomes"
}
locked "as the caller" "$ORCH"
if need root; then
    # copies of the programs, which that user may not reach where they were built
    mkdir -m 755 "$WORK/programs" "$WORK/programs/orchestrator" "$WORK/programs/backends"
    cp "$ORCH" "$WORK/programs/orchestrator/orch"
    cp "$(dirname "$ORCH")"/../backends/orch-{init,node} "$WORK/programs/backends/"
    chown -R 12345:12345 "$WORK/tiny" "$WORK/home" "$WORK/tmp"
    locked "as an ordinary user" setpriv --reuid=12345 --regid=12345 --clear-groups "$WORK/programs/orchestrator/orch"
fi

# ---------------------------------------------------------------- budgets bind within a step

cd "$WORK" && rm -rf tiny && copy_example tiny
expect_exit "an unbroken run of one step of three" 0 "$ORCH" run run.yaml data.step_size=3
"$ORCH" export latest --format json --normalize >"$WORK/unbroken.json"
rm -rf .state
calls() { "$ORCH" show latest --json | python3 -c 'import json,sys; print([u["calls"] for u in json.load(sys.stdin)["usage"] if u["kind"] == "all"][0])'; }
expect_exit "five calls are not enough" 5 "$ORCH" run run.yaml data.step_size=3 budget.calls=5
expect_equal "two trials ran, and no call over the budget" 4 "$(calls)"
expect_exit "the state says stopped" 0 "$ORCH" runs
expect_stdout "by the budget" 'stopped +budget'
expect_exit "one more is enough for the trials" 5 "$ORCH" run run.yaml data.step_size=3 budget.calls=6
expect_equal "but not for the evolver" 6 "$(calls)"
expect_exit "with more it goes on" 0 "$ORCH" run run.yaml data.step_size=3 budget.calls=100
"$ORCH" export latest --format json --normalize >"$WORK/resumed.json"
check "to the same end" cmp "$WORK/unbroken.json" "$WORK/resumed.json"
expect_exit "an evaluation has one too" 5 "$ORCH" eval run.yaml --adapter none --repeats 3 budget.calls=3
expect_stdout "and says what was not run" 'planned 3, scored 1, .* not run 2'
expect_exit "and goes on" 0 "$ORCH" eval run.yaml --adapter none --repeats 3
printf '#!/bin/sh\nsleep 1\n' >naps && chmod +x naps
expect_exit "time is counted within a step" 5 "$ORCH" run run.yaml --new data.step_size=3 task.concurrency=1 'task.command=[./naps]' budget.wall=1s
expect_stdout "trials that ran are kept" 'planned 3, scored 1, .* not run 2'
expect_exit "time of earlier starts counts" 5 "$ORCH" run run.yaml data.step_size=3 task.concurrency=1 'task.command=[./naps]' budget.wall=1s
expect_stdout "so nothing more ran" 'planned 3, scored 1, .* not run 2'
expect_exit "a larger one goes on" 0 "$ORCH" run run.yaml data.step_size=3 task.concurrency=1 'task.command=[./naps]' budget.wall=1h

# ---------------------------------------------------------------- what did not pass is told

rm -rf .state
printf '#!/bin/sh\nrm /w/adapter/endings.txt; ln -s /etc/passwd /w/adapter/endings.txt\n' >links && chmod +x links
printf '#!/bin/sh\nmkfifo /w/output/pipe; ln -s /etc/passwd /w/output/link\n' >odd-output && chmod +x odd-output
expect_exit "an evolver that puts a link in a file's place" 0 "$ORCH" run run.yaml 'evolver.command=[./links]' 'task.command=[./odd-output]'
expect_stdout "hears of it in the table of steps" 'left out of its candidate: 1, first endings\.txt \(link'
run_cmd "$ORCH" export latest --format json --calls
call=$(json_get '[c["id"] for c in d["calls"] if c["kind"] == "task"][0]')
expect_exit "so does who looks at a task's call" 0 "$ORCH" logs latest --call "$call"
expect_stdout "with the first of them" 'left out of its output: 2, first (link|pipe) \((link|link-out|special)\)'
printf '#!/bin/sh\nexec sleep 30\n' >slow && chmod +x slow
expect_exit "a trial that met its time limit" 0 "$ORCH" eval run.yaml --adapter none 'task.command=[./slow]' task.timeout=1s
trial=$("$ORCH" show latest --trials --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["trials"][0]["task"])')
expect_exit "is shown" 0 "$ORCH" show latest "$trial"
expect_stdout "in seconds" 'reached +[01]\.[0-9]+ s of 1\.00 s'

# ---------------------------------------------------------------- what is the judge's alone

cd "$WORK/tiny" || exit 1
mkdir -p tests parts && echo 1 >tests/expected && echo 2 >parts/open && ln -sfn ../tasks.jsonl parts-link
for grant in . tasks.jsonl train.txt val.txt test.txt judge tests tests/expected parts-link; do
    [ "$grant" = parts-link ] && ln -sfn tasks.jsonl parts-link
    refused "a task that would see $grant" 'task\.paths\.read: .* (would show (data|judge)\.|holds the project.s state)' run run.yaml --new "task.paths.read=[$grant]" 'judge.tests=[tests/]'
done
refused "an evolver that would see the splits" 'evolver\.paths\.read: .* would show data\.' run run.yaml --new 'evolver.paths.read=[test.txt]'
refused "a task_info that holds the data" 'task_info: .* (would show data|holds the project.s state)' run run.yaml --new task_info=.
expect_exit "other parts may be seen" 0 "$ORCH" run run.yaml --new 'task.paths.read=[parts]' 'judge.tests=[tests/]'
