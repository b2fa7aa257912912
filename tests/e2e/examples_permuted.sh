#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: bwrap
# tier: slow
#
# Copies of examples/zones in other formats, for three seeds: the programs learn those too. If they knew anything of the
# data, they would fail here.
. "$(dirname "$0")/../support/e2e.sh"
need bwrap || {
    skip examples_permuted "no bubblewrap"
    exit 0
}
export E2E_TIMEOUT=300

rises() { # the two evaluations' means
    python3 -c 'import sys; root, final = map(float, sys.argv[1:]); sys.exit(not (root < 0.2 and final > 0.7))' "$@"
}
mean_of() {
    "$ORCH" eval run.yaml --adapter "$1" --json 2>"$WORK/.e2e/err" | tail -n 1 |
        python3 -c 'import json,sys; print(json.load(sys.stdin)["summary"]["results"]["test"]["mean"])'
}

for seed in 1 3 4; do
    cd "$WORK" || exit 1
    check "seed $seed: a copy" \
        python3 "$SOURCE/tests/e2e/examples_permute.py" "$SOURCE/examples/zones" "$WORK/copy-$seed" "$seed" || continue
    cd "copy-$seed" || exit 1
    head -n 60 test.txt >few && mv few test.txt # enough to tell 0.7 from 0.2
    expect_exit "seed $seed: run" 0 "$ORCH" run run.yaml || continue
    root=$(mean_of root)
    final=$(mean_of final)
    echo "# seed $seed: root $root, final $final" >&2
    check "seed $seed: the score rises" rises "$root" "$final"
    cd "$WORK" && rm -rf "copy-$seed"
done
