#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: bwrap
# What one call printed, whoever made it; runs of one second in order; large numbers; scripts that nothing can start.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
need bwrap || { skip looking_calls "no bubblewrap"; exit 0; }
copy_example tiny
chmod 755 "$WORK" .

# the evolver's call belongs to no trial
printf '#!/bin/sh\necho evolver says this\necho and this >&2\n' >talker && chmod +x talker
expect_exit "a run whose evolver talks" 0 "$ORCH" run run.yaml --new 'evolver.command=[./talker]' trainer.epochs=1
run_cmd "$ORCH" export latest --format json --calls
call=$(json_get '[c["id"] for c in d["calls"] if c["kind"] == "evolver"][0]')
expect_exit "its call is shown" 0 "$ORCH" logs latest --call "$call"
expect_stdout "what it said" 'evolver says this'
expect_stdout "and complained" 'and this'
expect_exit "as JSON too" 0 "$ORCH" logs latest --call "$call" --json
expect_equal "one call" 1 "$(json_get 'len(d["calls"])')"
expect_exit "a call that is none" 2 "$ORCH" logs latest --call 999999
expect_stderr "is named" 'no call 999999'
expect_exit "an option for calls, without one" 2 "$ORCH" logs latest --stdout

# runs made within a second are listed in the order in which they were made
rm -rf .state
ids=()
for _ in 1 2 3 4 5; do
    run_cmd "$ORCH" eval run.yaml --adapter none --new --quiet --json
    ids=("$(tail -n 1 "$WORK/.e2e/out" | python3 -c 'import json,sys; print(json.load(sys.stdin)["summary"]["run"])')" "${ids[@]}")
done
run_cmd "$ORCH" runs --json
expect_equal "newest first" "${ids[*]}" "$(json_get '" ".join(r["id"] for r in d["runs"])')"
expect_exit "latest is the last" 0 "$ORCH" show latest --json
expect_equal "by name" "${ids[0]}" "$(json_get 'd["run"]["id"] if isinstance(d["run"], dict) else d["run"]')"

# any finite number is a score; three hundred digits are no cell of a table
cat >huge <<'JUDGE'
#!/bin/sh
place=$(sed -n 's/.*"verdict": "\(.*\)".*/\1/p' "$ORCH_CONTEXT")
echo 1e90 >"$place"
JUDGE
chmod +x huge
expect_exit "a huge score" 0 "$ORCH" eval run.yaml --adapter none --new 'judge.command=[./huge]'
expect_exit "is shown" 0 "$ORCH" show latest --trials
expect_stdout "in few characters" '1e\+90'

# beyond what can be summed it is the judge's error
sed 's/1e90/1.7e308/' huge >endless && chmod +x endless
expect_exit "a score that cannot be summed" 1 "$ORCH" eval run.yaml --adapter none --new 'judge.command=[./endless]'
expect_exit "leaves a run that can be shown" 0 "$ORCH" show latest --trials
expect_stdout "as a judge error" 'judge-error'

# scripts whose interpreter is not there
printf '#!/no/such/shell\n' >bad-path && chmod +x bad-path
printf '#!/usr/bin/env no-such-program\n' >bad-env && chmod +x bad-env
printf '#!/bin/sh\r\necho\r\n' >bad-lines && chmod +x bad-lines
for bad in bad-path bad-env bad-lines; do
    expect_exit "$bad is refused" 2 "$ORCH" eval run.yaml --adapter none --new "judge.command=[./$bad]"
    expect_stderr "$bad: by name" "program .*$bad\""
done
expect_equal "and left no run" 7 "$(find .state/runs -mindepth 1 -maxdepth 1 -type d | wc -l)"

# a candidate of more files than any may have is refused as a violation is; the run goes on
sed -i 's/learnable: \[/learnable: ["notes\/**", /' template/adapter.yaml
printf '#!/bin/sh\nmkdir /w/adapter/notes && cd /w/adapter/notes && seq 20001 | xargs touch\n' >crowd && chmod +x crowd
expect_exit "a crowded candidate" 0 "$ORCH" run run.yaml --new 'evolver.command=[./crowd]' trainer.steps=1
expect_stdout "is refused with the reason" 'rejected .*more than 20000 entries'
