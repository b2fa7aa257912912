#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: bwrap
#
# show, logs, diff and export on a real, tiny run, and on one that is interrupted.
# shellcheck disable=SC2016 # the quoted backquotes and variables are meant so
. "$(dirname "$0")/../support/e2e.sh"

need bwrap || {
    skip looking_run "no bubblewrap"
    exit 0
}
is_json() { python3 -m json.tool <"$WORK/.e2e/out" >/dev/null; }
without_control() { ! grep -q "[$(printf '\001-\010\013-\037')]" "$WORK/.e2e/out"; }

copy_example tiny
expect_exit "the run" 0 "$ORCH" run run.yaml || exit 0
expect_stdout "its summary names what was not run" 'not run 0'

# ---- runs and show
expect_exit "runs" 0 "$ORCH" runs
expect_stdout "the run is finished" '^tiny-.* finished'
expect_exit "runs --json" 0 "$ORCH" runs --json
run=$(json_get 'd["runs"][0]["id"]')
expect_equal "every trial is counted" true "$(json_get 'd["runs"][0]["trials"]["not_run"] == 0')"
expect_exit "show" 0 "$ORCH" show
expect_stdout "the kinds of result are named" 'planned [0-9]+, scored [0-9]+, limited 0, infrastructure 0, judge errors 0'
expect_stdout "the grade is shown" '^grades .*confined'
expect_stdout "steps have outcomes" 'accepted|unchanged|rejected'
for selector in latest tiny "$run" "${run%??}"; do
    expect_exit "show by $selector" 0 "$ORCH" show "$selector"
    expect_stdout "finds the run" "^run +$run\$"
done
expect_exit "show --json" 0 "$ORCH" show "$run" --json
check "is JSON" is_json
expect_equal "three steps and the root, or three" true "$(json_get 'len(d["steps"]) >= 3')"
expect_equal "finished" finished "$(json_get 'd["run"]["state"]')"
expect_exit "the list of trials" 0 "$ORCH" show "$run" --trials --json
trial=$(json_get 'd["trials"][0]["id"]')
task=$(json_get 'd["trials"][0]["task"]')
expect_exit "one trial" 0 "$ORCH" show "$run" "$trial"
expect_stdout "with its task" "^task +$task\$"
expect_stdout "and its calls" '^ *[0-9]+ task '
expect_exit "one trial as JSON" 0 "$ORCH" show "$run" "$trial" --json
check "is JSON" is_json
expect_equal "with the grade of its call" true "$(json_get '"confined" in d["calls"][0]["grade"]')"
expect_exit "a table on a narrow terminal" 0 script -qec "stty cols 80; $ORCH show $run --trials" /dev/null
longest=$(tr -d '\r' <"$WORK/.e2e/out" | awk '{ if (length($0) > n) n = length($0) } END { print n + 0 }')
check "fits it" test "$longest" -le 80
expect_exit "colours are for terminals" 0 "$ORCH" diff
check "no escape elsewhere" without_control
expect_exit "diff on a terminal" 0 script -qec "TERM=xterm $ORCH diff" /dev/null
expect_stdout "has colours" $'\e\\['
expect_exit "NO_COLOR" 0 script -qec "NO_COLOR=1 TERM=xterm $ORCH diff" /dev/null
refuse "has none" grep -q $'\e' "$WORK/.e2e/out"

# ---- logs
expect_exit "logs" 0 "$ORCH" logs
expect_stdout "events are told" 'trial\.settled trial:'
expect_exit "logs --json" 0 "$ORCH" logs --json
check "is JSON" is_json
expect_exit "logs --follow of a finished run ends" 0 "$ORCH" logs --follow --json
check "one JSON document a line" python3 -c 'import json,sys
for line in open(sys.argv[1]): assert json.loads(line)["version"] == 1' "$WORK/.e2e/out"
expect_exit "logs of a trial" 0 "$ORCH" logs "$run" "$trial"
expect_stdout "name its calls" '^=== call [0-9]+: task'
expect_exit "raw bytes are not for a terminal" 2 script -qec "$ORCH logs $run $trial --raw" /dev/null

# ---- diff and export
expect_exit "diff of two versions" 0 "$ORCH" diff "$run" 0 1
expect_exit "diff as JSON" 0 "$ORCH" diff "$run" --json
check "is JSON" is_json
expect_exit "export" 0 "$ORCH" export "$run" --format json
check "is JSON" is_json
expect_exit "export --normalize" 0 "$ORCH" export "$run" --normalize
check "is JSON" is_json
refuse "names no run" grep -q "$run" "$WORK/.e2e/out"
refuse "and no place" grep -q "$WORK" "$WORK/.e2e/out"
normal=$OUT
expect_exit "the same run again" 0 "$ORCH" run run.yaml --new
expect_exit "exports" 0 "$ORCH" export latest --normalize
expect_equal "the same bytes" "$normal" "$OUT"

# ---- an evaluation looks at its source
expect_exit "eval" 0 "$ORCH" eval run.yaml --run "$run"
expect_exit "show of it" 0 "$ORCH" show
expect_stdout "names its source" "^source +$run\$"
expect_stdout "has the split" '^test +planned'
expect_exit "diff of it" 0 "$ORCH" diff --json
expect_equal "is its source's" "$run" "$(json_get 'd["run"]')"

# ---- a run that works, then is killed
printf '#!/bin/sh\nmkdir -p output\nprintf "\\033]0;stolen\\007 \\377 text\\n"\nsleep 300\n' >slow
chmod +x slow
spawn "$ORCH" run run.yaml --new name=slow 'task.command=[./slow]' task.timeout=5m
owner=$SPAWNED
running() { "$ORCH" show slow 2>/dev/null | grep -q '^state *running (process '; }
started() { "$ORCH" logs slow 2>/dev/null | grep -q 'trial\.started'; }
if wait_for 30 running && wait_for 30 started; then
    ok "a run that works says so"
    spawn "$ORCH" logs slow --follow --json >"$WORK/followed"
    follower=$SPAWNED
    following() { grep -q trial.started "$WORK/followed"; }
    check "the follower sees events" wait_for 20 following
    kill -KILL "$owner"
    ended() { ! kill -0 "$follower" 2>/dev/null; }
    check "following ends with the owner" wait_for 20 ended
    expect_exit "an owner that is gone" 0 "$ORCH" show slow
    expect_stdout "leaves an interrupted run" '^state *interrupted'
    expect_exit "runs says so too" 0 "$ORCH" runs --name slow
    expect_stdout "interrupted" 'interrupted'
else
    not_ok "a run that works says so" "$("$ORCH" show slow 2>&1)"
fi
