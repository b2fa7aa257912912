#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: bwrap
# No value of a key is kept, whoever leaves it where; two starts at once are one run.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
need bwrap || { skip run_keys_and_races "no bubblewrap"; exit 0; }

export PLANTED_API_KEY=zq8planted0value0zq8
kept() { grep -rlaF "$PLANTED_API_KEY" .state 2>/dev/null; }

# A control: the same search finds what is there.
copy_example tiny
mkdir -p .state && echo "$PLANTED_API_KEY" >.state/control
expect_equal search_is_able_to_find .state/control "$(kept)"
rm -r .state

# The acting agent prints and writes it; the evolver puts it into the candidate, or into its state.
# shellcheck disable=SC2016 # the programs expand it
{
    printf '#!/bin/sh\necho "$PLANTED_API_KEY"\necho "$PLANTED_API_KEY" >&2\necho "$PLANTED_API_KEY" >/w/output/answer.txt\n' >leak-agent
    printf '#!/bin/sh\necho "$PLANTED_API_KEY" >>/w/adapter/endings.txt\n' >leak-candidate
    printf '#!/bin/sh\necho "$PLANTED_API_KEY" >/w/state/x\necho more >>/w/adapter/endings.txt\n' >leak-state
}
chmod +x leak-agent leak-candidate leak-state
for evolver in leak-candidate leak-state; do
    expect_exit "${evolver}_runs" 0 "$ORCH" run run.yaml --new 'task.command=[./leak-agent]' \
        "evolver.command=[./$evolver]" 'task.env=[PLANTED_API_KEY]' 'evolver.env=[PLANTED_API_KEY]'
    expect_stdout "${evolver}_is_refused_by_name" 'failed.*PLANTED_API_KEY'
    expect_equal "${evolver}_leaves_no_key" "" "$(kept)"
done

# Four at once: one run, one owner; the others say so and exit 4, or find it complete.
cd "$WORK" && rm -rf tiny && copy_example tiny
pids=()
for i in 1 2 3 4; do
    "$ORCH" run run.yaml >"out.$i" 2>&1 &
    pids+=($!)
done
codes=""
for pid in "${pids[@]}"; do
    wait "$pid"
    codes="$codes $?"
done
expect_equal four_at_once_make_one_run 1 "$(find .state/runs -mindepth 1 -maxdepth 1 -type d | wc -l)"
check others_exit_4_or_find_it_complete sh -c 'for c in '"$codes"'; do [ "$c" = 0 ] || [ "$c" = 4 ] || exit 1; done'
expect_exit and_it_is_whole 0 "$ORCH" show latest
expect_stdout and_it_is_finished finished

# A second runner is refused and takes nothing from the first, which ends as if it had been alone.
cd "$WORK" && rm -rf tiny && copy_example tiny
"$ORCH" run run.yaml >/dev/null 2>&1
"$ORCH" export latest --format json --normalize >"$WORK/alone.json"
rm -rf .state
mkfifo gate
# The agent waits inside; the gate lies outside, so it cannot be used: it waits for a file that the test makes.
printf '#!/bin/sh\nuntil [ -e "%s/open" ]; do :; done\nexec /w/program/solve "$@"\n' "$WORK/outside" >held
rm gate
mkdir "$WORK/outside"
chmod 755 "$WORK" "$WORK/outside"
chmod +x held
spawn "$ORCH" run run.yaml 'task.command=[./held, ./solve]' "task.paths.read=[$WORK/outside]" task.timeout=1m
check the_first_runs wait_for 20 sh -c 'ls .state/runs/*/sandbox/ 2>/dev/null | grep -q . || ls -d .state/local/*/node/*/s/* 2>/dev/null | grep -q .'
for i in 1 2 3; do
    expect_exit "second_runner_$i" 4 "$ORCH" run run.yaml 'task.command=[./held, ./solve]' "task.paths.read=[$WORK/outside]" task.timeout=1m
done
touch "$WORK/outside/open"
wait "$SPAWNED"
expect_equal the_first_ends_well 0 $?
expect_exit the_first_is_whole 0 "$ORCH" show latest
expect_stdout the_first_is_finished 'planned 3, scored 3'

# State is granted to nobody, whatever a config asks for.
for key in task.paths.read evolver.paths.read; do
    expect_exit "state_is_not_granted_by_$key" 2 "$ORCH" run run.yaml --new "$key=[.]"
    expect_stderr "state_is_not_granted_by_${key}_says_why" "holds the project's state"
done

# Locks of a killed git are no reason to stop for ever.
{ ORCH_FAULT=step.settled:2:kill "$ORCH" run run.yaml --new >/dev/null 2>&1; } 2>/dev/null
for repository in .state/runs/*/versions.git; do
    touch "$repository/refs/heads/main.lock" "$repository/packed-refs.lock"
done
expect_exit goes_on_over_stale_git_locks 0 "$ORCH" run run.yaml

# A node that is killed costs no attempt: the run stops, and the same command goes on to the same end.
cd "$WORK" && rm -rf tiny && copy_example tiny
printf '#!/bin/sh\n[ -e "%s/open" ] || { touch /w/output/x; until [ -e "%s/open" ]; do :; done; }\nexec /w/program/solve\n' "$WORK/outside" "$WORK/outside" >held
chmod +x held
rm "$WORK/outside/open"
spawn "$ORCH" run run.yaml 'task.command=[./held, ./solve]' "task.paths.read=[$WORK/outside]" task.timeout=1m
check a_sandbox_is_open wait_for 20 sh -c 'pgrep -P '"$SPAWNED"' >/dev/null && ls -d .state/local/*/node/*/s/*/output/x'
kill -9 "$(pgrep -P "$SPAWNED" | head -n 1)"
wait "$SPAWNED"
check a_dead_node_stops_the_run test $? -ne 0
touch "$WORK/outside/open"
expect_exit it_goes_on_after_a_dead_node 0 "$ORCH" run run.yaml 'task.command=[./held, ./solve]' "task.paths.read=[$WORK/outside]" task.timeout=1m
expect_stdout no_trial_was_poisoned 'scored 3, limited 0, infrastructure errors 0'
