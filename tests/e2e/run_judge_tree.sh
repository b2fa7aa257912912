#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: bwrap
# Nothing that a host judge starts outlives it: not after its end, not after its time limit, not after kill -9 of orch.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
need bwrap || { skip run_judge_tree "no bubblewrap"; exit 0; }

copy_example tiny
mark=$WORK/followed.$$ # what a tail follows that nobody else has
touch "$mark"
left() { pgrep -f "^tail -f $mark" >/dev/null; }
gone() { ! left; }
cat >judge <<JUDGE
#!/bin/sh
# in a session of its own, its parent gone, no pipe of the judge's held
setsid sh -c 'tail -f $mark & tail -f $mark' >/dev/null 2>&1 </dev/null &
until pgrep -f "^tail -f $mark" >/dev/null; do :; done
touch "$WORK/started"
[ "\$1" = stay ] && exec tail -f $mark
place=\$(sed -n 's/.*"verdict": "\(.*\)".*/\1/p' "\$ORCH_CONTEXT")
echo 1 >"\$place"
JUDGE
chmod +x judge

expect_exit a_judge_that_leaves_a_daemon_scores 0 "$ORCH" eval run.yaml --adapter none 'judge.command=[./judge]'
check it_was_there test -e "$WORK/started"
check and_is_gone wait_for 30 gone

rm "$WORK/started"
expect_exit a_judge_past_its_limit_is_an_error 1 "$ORCH" eval run.yaml --adapter none --json \
    'judge.command=[./judge, stay]' judge.timeout=2s
expect_stdout it_says_so 'judge-timeout|"judge": *[1-9]|judge errors [1-9]'
check it_was_there_too test -e "$WORK/started"
check and_its_tree_is_gone wait_for 30 gone

rm "$WORK/started"
"$ORCH" eval run.yaml --adapter none --new 'judge.command=[./judge, stay]' >/dev/null 2>&1 &
pid=$!
until [ -e "$WORK/started" ]; do kill -0 $pid || break; done
check the_judge_runs left
kill -9 $pid
wait $pid 2>/dev/null
check a_killed_orch_leaves_nothing_of_it wait_for 30 gone
