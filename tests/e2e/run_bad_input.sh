#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Input that is not what it should be: exit 2, the place, nothing made. Runs that never began are not seen.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

refused() { # NAME REGEX [ARGUMENT…]: the project of the working directory is refused
    local name=$1 regex=$2
    shift 2
    E2E_TIMEOUT=20 expect_exit "$name" 2 "$ORCH" run run.yaml "$@"
    expect_stderr "${name}_says_why" "$regex"
    check "${name}_makes_nothing" test ! -e .state/runs
    cd "$WORK" && rm -rf tiny && copy_example tiny
}

copy_example tiny
rm train.txt && mkdir train.txt
refused split_is_a_directory 'train.txt'
rm train.txt && mkfifo train.txt
refused split_is_a_pipe 'train.txt'
rm tasks.jsonl && mkfifo tasks.jsonl
refused tasks_are_a_pipe 'tasks.jsonl'
ln -s /etc/hostname template/linked
refused template_with_a_link 'linked \(link'
mkfifo template/pipe
refused template_with_a_pipe 'pipe \(special'
rm -r task-info/README.md
refused task_info_without_readme 'README.md is missing'
chmod -x solve
refused agent_not_executable 'solve.*chmod \+x'
expect_exit config_is_a_directory 2 "$ORCH" run template
printf '{"id": "x"}\nnot json\n' >tasks.jsonl
refused row_that_is_no_json 'tasks.jsonl:2'

if need bwrap; then
    { ORCH_FAULT=record.create:1:kill "$ORCH" run run.yaml >/dev/null 2>&1; } 2>/dev/null
    expect_exit a_run_that_never_began_is_not_latest 2 "$ORCH" export latest
    expect_exit the_next_run_works 0 "$ORCH" run run.yaml
    expect_exit and_is_latest 0 "$ORCH" show latest
    expect_stdout and_is_finished 'finished'
fi
