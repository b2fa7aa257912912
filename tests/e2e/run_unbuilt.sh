#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What this version cannot do is refused before anything is made, with exit 3 and the key's name.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
copy_example tiny
for pair in environment.name=docker:docker environment.name=slurm:slurm environment.name=modal:modal \
    environment.name=skypilot:skypilot judge.mode=shared:judge.mode task.network=public:network \
    task.devices.gpu=1:devices.gpu 'evolver.method=./m:evolver.method'; do
    override=${pair%:*} word=${pair##*:}
    expect_exit "refuses_$override" 3 "$ORCH" run run.yaml "$override"
    expect_stderr "refuses_${override}_by_name" "$word.*not built yet"
done
check nothing_was_made test ! -e .state/runs
expect_exit the_same_without_it_is_accepted 0 "$ORCH" check run.yaml --no-probe
