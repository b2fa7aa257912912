#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: bwrap
# The main job on the smallest example: once, twice, killed at every place, stopped, on another environment.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
need bwrap || { skip run_tiny "no bubblewrap"; exit 0; }

export_of() { "$ORCH" export latest --format json --normalize; }

copy_example tiny
expect_exit tiny_runs 0 "$ORCH" run run.yaml
expect_stdout tiny_prints_every_result_kind 'planned 3, scored 3, limited 0, infrastructure errors 0, judge errors 0, not run 0'
export_of >"$WORK/unbroken.json"
check export_is_json python3 -m json.tool "$WORK/unbroken.json"
calls_before=$("$ORCH" show latest --json | python3 -c 'import json,sys; print(sum(u["calls"] for u in json.load(sys.stdin)["usage"]))')
expect_exit second_run_is_complete 0 "$ORCH" run run.yaml
expect_stdout second_run_says_so 'is complete; nothing was run'
calls_after=$("$ORCH" show latest --json | python3 -c 'import json,sys; print(sum(u["calls"] for u in json.load(sys.stdin)["usage"]))')
expect_equal second_run_runs_nothing "$calls_before" "$calls_after"
expect_equal one_run_exists 1 "$(find .state/runs -mindepth 1 -maxdepth 1 -type d | wc -l)"

# The score rises, and what was learned can be read.
expect_exit eval_root 0 "$ORCH" eval run.yaml --adapter root --json
root=$(tail -n 1 "$WORK/.e2e/out" | python3 -c 'import json,sys; print(json.load(sys.stdin)["summary"]["results"]["test"]["mean"])')
expect_exit eval_final 0 "$ORCH" eval run.yaml --adapter final --json
final=$(tail -n 1 "$WORK/.e2e/out" | python3 -c 'import json,sys; print(json.load(sys.stdin)["summary"]["results"]["test"]["mean"])')
check score_rises python3 -c "import sys; sys.exit(not float('$final') > float('$root'))"
expect_exit eval_none 0 "$ORCH" eval run.yaml --adapter none
expect_exit eval_again_is_complete 0 "$ORCH" eval run.yaml --adapter final
expect_stdout eval_again_says_so 'is complete; nothing was run'
expect_exit eval_of_a_directory 0 "$ORCH" eval run.yaml --adapter ./template/ --repeats 2
expect_stdout eval_of_a_directory_repeats 'test: planned 2,'
run=$("$ORCH" runs --json | python3 -c 'import json,sys; print([r["id"] for r in json.load(sys.stdin)["runs"] if r["kind"]=="run"][0])')
expect_exit diff_shows_what_was_learned 0 "$ORCH" diff "$run" root final
expect_stdout diff_has_lines '^\+[^+]'
check plain_git_reads_the_versions git --git-dir=".state/runs/$run/versions.git" log --oneline main
check summary_is_there test -s ".state/runs/$run/summary.json"
check card_is_there test -s ".state/runs/$run/CARD.md"
check sandbox_records_are_there test -s ".state/runs/$run/sandbox/task-1.json"

# A changed meaning is refused with the field; nothing is deleted; --new starts another.
expect_exit drift_is_refused 2 "$ORCH" run run.yaml seed=99
expect_stderr drift_names_the_field 'config\.seed: 1 -> 99'
expect_exit volatile_fields_may_change 0 "$ORCH" run run.yaml task.concurrency=1
expect_stdout volatile_is_complete 'is complete'
expect_exit new_starts_another 0 "$ORCH" run run.yaml --new

# kill -9 at named places, then the same command: byte-equal to an unbroken run's export.
for point in trial.intent:2 trial.started:2 trial.exited:2 trial.collected:2 trial.settled:2 call.intent:3 \
    call.started:3 call.settled:3 sandbox.closed:2 record.commit.before:9 record.commit.after:9 step.planned:2 \
    step.material:2 step.evolver:2 step.checked:2 step.version:3 step.settled:2 run.summary:1 run.finished:1; do
    cd "$WORK" && rm -rf tiny && copy_example tiny
    { ORCH_FAULT="$point:kill" "$ORCH" run run.yaml >/dev/null 2>&1; } 2>/dev/null
    killed=$?
    expect_equal "killed_at_$point" 137 "$killed"
    "$ORCH" run run.yaml >/dev/null 2>"$WORK/resume.err" || cat "$WORK/resume.err" >&2
    export_of >"$WORK/resumed.json"
    if cmp -s "$WORK/unbroken.json" "$WORK/resumed.json"; then
        ok "resume_after_kill_at_$point"
    else
        not_ok "resume_after_kill_at_$point" "$(diff "$WORK/unbroken.json" "$WORK/resumed.json" | head -20)"
    fi
done

# Ctrl-C stops and keeps; the same command goes on.
cd "$WORK" && rm -rf tiny && copy_example tiny
printf '#!/bin/sh\ntouch "%s"\nexec sleep 98765\n' "/w/output/began" >slow
chmod +x slow
spawn "$ORCH" run run.yaml 'task.command=[./slow]' task.timeout=1h
check a_call_runs wait_for 20 sh -c 'pgrep -f "^sleep 98765$" >/dev/null'
kill -INT "$SPAWNED"
wait "$SPAWNED"
expect_equal interrupt_exits_130 130 $?
check interrupt_kills_the_call wait_for 5 sh -c '! pgrep -f "^sleep 98765$" >/dev/null'

# The same with trials that are prepared and wait for a free slot.
spawn "$ORCH" run run.yaml --new 'task.command=[./slow]' task.timeout=1h data.step_size=3 task.concurrency=1
check a_call_runs_and_others_wait wait_for 20 sh -c 'pgrep -f "^sleep 98765$" >/dev/null'
kill -INT "$SPAWNED"
check interrupt_ends_it_with_trials_waiting wait_for 20 sh -c "! kill -0 $SPAWNED"
wait "$SPAWNED"
expect_equal interrupt_with_trials_waiting_exits_130 130 $?
expect_exit stopped_run_is_shown 0 "$ORCH" runs
expect_stdout stopped_run_is_stopped 'stopped'

# A second runner of a run that is owned exits 4 at once.
spawn "$ORCH" run run.yaml 'task.command=[./slow]' task.timeout=1h
check the_owner_works wait_for 20 sh -c 'pgrep -f "^sleep 98765$" >/dev/null'
expect_exit second_runner_exits_4 4 "$ORCH" run run.yaml 'task.command=[./slow]' task.timeout=1h
expect_stderr second_runner_names_the_owner "$SPAWNED"
# shellcheck disable=SC2016
ask='import json,glob,socket,sys
s=socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect(glob.glob(".state/local/run/*.sock")[0])
s.sendall(sys.argv[1].encode()+b"\n"); d=b""
while True:
    b=s.recv(65536)
    if not b: break
    d+=b
print(json.dumps([json.loads(x) for x in d.splitlines()][-1]))'
expect_exit control_socket_answers 0 python3 -c "$ask" '{"op":"status"}'
expect_stdout control_socket_names_the_owner "\"pid\": $SPAWNED"
expect_exit control_socket_gives_events 0 python3 -c "$ask" '{"op":"events","since":0}'
expect_stdout control_socket_counts_events '"next": [1-9]'
expect_exit control_socket_refuses_nonsense 0 python3 -c "$ask" '{"op":"dance"}'
expect_stdout control_socket_says_why '"ok": false'
kill -9 "$SPAWNED"
wait "$SPAWNED" 2>/dev/null
check kill_9_kills_the_calls wait_for 5 sh -c '! pgrep -f "^sleep 98765$" >/dev/null'

# What the killed runner left on this machine goes with the next start; the record stays.
expect_exit another_run_after_the_kill 0 "$ORCH" run run.yaml --new
expect_equal nothing_is_left_in_local "" "$(find .state/local -mindepth 1 -not -name run -not -name '*.lock')"
expect_exit the_killed_run_is_still_there 0 "$ORCH" runs
expect_stdout the_killed_run_can_go_on 'interrupted|stopped'

# The test environment shares no path and loses replies; the export is the same.
if need root; then
    cd "$WORK" && rm -rf tiny && copy_example tiny
    expect_exit loopback_remote_runs 0 "$ORCH" run run.yaml environment.name=loopback-remote environment.loopback-remote.lose=3
    export_of >"$WORK/remote.json"
    if cmp -s "$WORK/unbroken.json" "$WORK/remote.json"; then
        ok loopback_remote_exports_the_same
    else
        not_ok loopback_remote_exports_the_same "$(diff "$WORK/unbroken.json" "$WORK/remote.json" | head -20)"
    fi
else
    skip loopback_remote "it mounts, which needs root"
fi
