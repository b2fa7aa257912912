#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ORCH_AGENT_SANDBOX and ORCH_AGENT_SANDBOX_ALLOW: run, eval, check and sandbox exec obey them, or refuse.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
mkdir -p "$WORK/shared/data" "$HOME/.config/orch"
chmod 755 "$WORK" "$WORK/shared" "$WORK/shared/data"
echo EXTRA >"$WORK/shared/data/words"
copy_example tiny
config=$HOME/.config/orch/a.yaml

# ---- values
for verb in run eval check; do
    expect_exit "$verb refuses another value" 2 env ORCH_AGENT_SANDBOX=maybe "$ORCH" $verb run.yaml
    expect_stderr "$verb lists the values" 'auto, bwrap, namespaces, landlock'
    expect_exit "$verb refuses landlock" 3 env ORCH_AGENT_SANDBOX=landlock "$ORCH" $verb run.yaml
    expect_stderr "$verb says why" 'mechanism landlock, cannot give `own-paths` \[host-paths\].*roles need /w'
    expect_exit "$verb refuses off" 3 env ORCH_AGENT_SANDBOX=off "$ORCH" $verb run.yaml
    expect_stderr "$verb says who requires confinement" 'confinement.required, default'
done
check "nothing was made" test ! -e .state/runs
expect_exit "exec refuses off" 125 env ORCH_AGENT_SANDBOX=off "$ORCH" sandbox exec '{}' -- true
expect_exit "exec refuses another value" 125 env ORCH_AGENT_SANDBOX=maybe "$ORCH" sandbox exec '{}' -- true
echo 'confinement: {required: true}' >"$config"
expect_exit "off against the operator" 3 env ORCH_AGENT_SANDBOX=0 "$ORCH" run run.yaml
expect_stderr "names the file" 'a.yaml:1'
echo 'confinement: {required: false}' >"$config"
expect_exit "off is not pretended" 3 env ORCH_AGENT_SANDBOX=off "$ORCH" run run.yaml
expect_stderr "and says so" 'without confinement is not built yet'
rm "$config"

# ---- the mechanism
for pair in namespaces:namespaces bwrap:bubblewrap; do
    word=${pair%:*} name=${pair#*:}
    [ "$word" != bwrap ] || need bwrap || { skip "exec takes $word" "no bubblewrap"; continue; }
    expect_exit "exec takes $word" 0 env ORCH_AGENT_SANDBOX="$word" \
        "$ORCH" sandbox exec '{}' --record "$WORK/record.json" -- true
    cp "$WORK/record.json" "$WORK/.e2e/out"
    expect_equal "exec had $name" "$name" "$(json_get 'd["enforced"]["mechanism"]')"
    expect_exit "check takes $word" 0 env ORCH_AGENT_SANDBOX="$word" "$ORCH" check run.yaml
    expect_stdout "check had $name" "mechanism $name"
done
echo 'confinement: {mechanism: namespaces}' >"$config"
expect_exit "not what the operator requires" 2 env ORCH_AGENT_SANDBOX=bwrap "$ORCH" check run.yaml
expect_stderr "which is said" 'not what the operator requires'
rm "$config"

# ---- readable paths
words=$WORK/shared/data/words
expect_exit "without the variable the file is not there" 1 "$ORCH" sandbox exec '{}' -- cat "$words"
expect_exit "with it exec reads" 0 env ORCH_AGENT_SANDBOX_ALLOW="$WORK/shared/data" \
    "$ORCH" sandbox exec '{}' -- cat "$words"
expect_equal "what is there" EXTRA "$OUT"
expect_exit "and does not write" 2 env ORCH_AGENT_SANDBOX_ALLOW="$WORK/shared/data" \
    "$ORCH" sandbox exec '{}' -- sh -c "echo x >>$words"
expect_exit "a single file" 0 env ORCH_AGENT_SANDBOX_ALLOW="$words" "$ORCH" sandbox exec '{}' -- cat "$words"
for bad in / "$HOME" /etc /usr relative "$WORK/absent" "$WORK/shared::$WORK/shared"; do
    expect_exit "not granted: ${bad//$WORK/W}" 2 env ORCH_AGENT_SANDBOX_ALLOW="$bad" "$ORCH" check run.yaml --no-probe
done
expect_exit "nor the project's state" 2 env ORCH_AGENT_SANDBOX_ALLOW="$WORK/tiny" "$ORCH" check run.yaml --no-probe
expect_stderr "which is said, too" "project's state"

# ---- a run: the agent reads what the variable grants, and its record says so
expect_exit "a run with a readable path" 0 env ORCH_AGENT_SANDBOX_ALLOW="$WORK/shared/data" \
    "$ORCH" run run.yaml --quiet
# shellcheck disable=SC2016 # Python
seen=$(python3 - "$WORK/shared/data" .state/runs/*/sandbox/*.json <<'PY'
import json, sys
for name in sys.argv[2:]:
    grants = json.load(open(name))["asked"]["grants"]
    mine = [g for g in grants if g["target"] == sys.argv[1]]
    print(name.split("/")[-1].split("-")[0], [(g["mode"], g["source"] == sys.argv[1]) for g in mine])
PY
)
expect_equal "every sandbox of the run has it" "" "$(grep -v "\[('ro', True)\]" <<<"$seen")"
check "and there were some" grep -q '^task ' <<<"$seen"
