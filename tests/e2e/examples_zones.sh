#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: bwrap
# tier: slow
#
# examples/zones as a user runs it: the score on the held-out split rises, each step's rules can be read, a second
# run learns the same, and a candidate with rules that cannot be read does not become a version.
. "$(dirname "$0")/../support/e2e.sh"
need bwrap || {
    skip examples_zones "no bubblewrap"
    exit 0
}
export E2E_TIMEOUT=300

# test_mean SELECTOR: the mean over the test split, into $MEAN; every test task must have a score.
test_mean() {
    expect_exit "eval of $1" 0 "$ORCH" eval run.yaml --adapter "$1" --json || return
    MEAN=$(tail -n 1 "$WORK/.e2e/out" | python3 -c 'import json,sys
test = json.load(sys.stdin)["summary"]["results"]["test"]
print(test["mean"] if test["planned"] == test["scores"] == int(sys.argv[1]) else "incomplete: %s" % test)' \
        "$(wc -l <test.txt)")
}
compare() { python3 -c 'import sys; sys.exit(not eval(sys.argv[1]))' "$1"; } # EXPRESSION

copy_example zones
began=$SECONDS
expect_exit "check" 0 "$ORCH" check run.yaml
expect_exit "run" 0 "$ORCH" run run.yaml || exit 0
expect_stdout "every training task has a score" 'train: planned 160, scored 160,'
test_mean root
root=$MEAN
test_mean final
final=$MEAN
echo "# root $root, final $final, $((SECONDS - began)) s" >&2
check "root is below 0.2" compare "$root < 0.2"
check "final is above 0.9" compare "$final > 0.9"

run=$("$ORCH" runs --json | python3 -c 'import json,sys
print([r["id"] for r in json.load(sys.stdin)["runs"] if r["kind"] == "run"][0])')
expect_exit "diff" 0 "$ORCH" diff "$run" root final
expect_stdout "what was learned can be read" '^\+"city" = split '
expect_equal "only the rules differ" rules.txt \
    "$(git --git-dir=".state/runs/$run/versions.git" diff --name-only root final)"
expect_equal "each step became a version" 8 \
    "$(git --git-dir=".state/runs/$run/versions.git" rev-list --count root..final)"
rules() { git --git-dir=".state/runs/$1/versions.git" show final:rules.txt; }

# ---- again, from the same seed
expect_exit "another run" 0 "$ORCH" run run.yaml --new
again=$("$ORCH" runs --json | python3 -c 'import json,sys
print([r["id"] for r in json.load(sys.stdin)["runs"] if r["kind"] == "run" and r["id"] != sys.argv[1]][0])' "$run")
expect_equal "the same seed learns the same" "$(rules "$run")" "$(rules "$again")"

# ---- a candidate whose rules cannot be read
workdir broken
cp -R "$SOURCE/examples/zones/." . && rm -rf .state
cat >learn <<'LEARN'
#!/bin/sh
echo '"city" = eval "x"' >>/w/adapter/rules.txt
LEARN
expect_exit "a run with a broken evolver ends" 0 "$ORCH" run run.yaml trainer.steps=1
run=$("$ORCH" runs --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["runs"][0]["id"])')
expect_equal "its candidate is no version" "$(cat template/rules.txt)" "$(rules "$run")"
