#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# orch sandbox status: exit status, where each key comes from, layers, the last record, the matrix.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
mkdir -p "$HOME/.config/orch" "$WORK/empty"
chmod 755 "$WORK"
config=$HOME/.config/orch/a.yaml
cd "$WORK/empty" || exit 1
layer() { json_get "[l for l in d['layers'] if l['id'] == '$1'][0]['$2']"; }
source_of() { json_get "[k for k in d['keys'] if k['key'] == '$1'][0]['source']"; }

expect_exit "enforced as configured" 0 "$ORCH" sandbox status --json
expect_equal "its state" enforced "$(json_get 'd["state"]')"
expect_equal "required by default" default "$(source_of confinement.required)"
expect_equal "the mechanism's name" '["namespaces", "bubblewrap"]' \
    "$(json_get 'sorted([d["mechanism"]["name"]] + [m for m in ("namespaces", "bubblewrap") if m != d["mechanism"]["name"]], reverse=True)')"
check "the mechanism has a version" test -n "$(json_get 'd["mechanism"]["version"]')"
for id in user-namespace mount-namespace pid-namespace network-namespace privileges seccomp; do
    expect_equal "$id is on" true "$(layer $id on)"
done
for id in landlock cgroup identity-range; do
    check "$id says why" test -n "$(layer $id reason)"
done
need user || expect_equal "as root each sandbox has a uid" true "$(layer identity-range on)"
expect_equal "no run, no record" null "$(json_get 'd["last"]')"
check "nothing is left" test -z "$(ls -A "$TMPDIR")"
check "nothing is made in the project" test -z "$(ls -A .)"
expect_exit "for people" 0 "$ORCH" sandbox status
expect_stdout "it says so" '^Status +confinement is enforced'
expect_stdout "layers are listed" '^  seccomp +on '

printf '# mine\nconfinement:\n  required: true\n' >"$config"
expect_exit "a key of a file" 0 "$ORCH" sandbox status --json
check "names file and line" grep -q 'a.yaml:3$' <<<"$(source_of confinement.required)"
echo 'confinement: {mechanism: seatbelt}' >"$config"
expect_exit "what cannot be had" 3 "$ORCH" sandbox status --json
expect_equal "is told as a state" unenforceable "$(json_get 'd["state"]')"
check "with the problem" grep -q 'needs macOS' <<<"$(json_get 'd["problem"]')"
expect_equal "and no layer is on" 0 "$(json_get 'sum(l["on"] for l in d["layers"])')"
rm "$config"
expect_exit "off while it is required" 3 env ORCH_AGENT_SANDBOX=off "$ORCH" sandbox status
echo 'confinement: {required: false}' >"$config"
expect_exit "off where it is not" 7 env ORCH_AGENT_SANDBOX=off "$ORCH" sandbox status --json
expect_equal "is told" disabled "$(json_get 'd["state"]')"
expect_exit "not required, but there" 0 "$ORCH" sandbox status
echo 'confinement: {requiredx: false}' >"$config"
expect_exit "a config with a fault" 2 "$ORCH" sandbox status
expect_stderr "the nearest key" 'required'
rm "$config"
expect_exit "a bad variable" 2 env ORCH_AGENT_SANDBOX=perhaps "$ORCH" sandbox status --json
expect_equal "as JSON" config "$(json_get 'd["error"]["id"]')"

# ---- the record of the last run
copy_example tiny
expect_exit "a run" 0 "$ORCH" run run.yaml --quiet
expect_exit "its last sandbox" 0 "$ORCH" sandbox status --json
expect_equal "is shown with its run" "$(basename .state/runs/tiny-*)" "$(json_get 'd["last"]["run"]')"
expect_equal "and what was enforced" filter "$(json_get 'd["last"]["enforced"]["seccomp"]')"
expect_exit "from elsewhere" 0 "$ORCH" sandbox status --project "$PWD"
expect_stdout "by --project" '^  run +tiny-'

# ---- the matrix
expect_exit "the matrix" 0 "$ORCH" sandbox status --matrix
expect_stdout "for people" '^allowlist +refused \[no-proxy\]'
expect_exit "as JSON" 0 "$ORCH" sandbox status --matrix --json
expect_equal "with codes" no-proxy \
    "$(json_get '[r for r in d["matrix"] if r["property"] == "allowlist" and r["environment"] == "host"][0]["code"]')"
expect_exit "as Markdown" 0 "$ORCH" sandbox status --matrix --markdown
check "which the docs hold" cmp "$WORK/.e2e/out" "$SOURCE/docs/sandbox-matrix.md"
