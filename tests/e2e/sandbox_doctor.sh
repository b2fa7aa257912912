#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# orch doctor: its checks, exit status, and the first failing step on machines that cannot confine.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
mkdir "$WORK/empty"
cd "$WORK/empty" || exit 1
check_of() { json_get "[c for c in d['checks'] if c['id'] == '$1'][0]['$2']"; }

expect_exit "a machine that is well" 0 "$ORCH" doctor --json
expect_equal "says so" true "$(json_get 'd["ok"]')"
expect_equal "has no failing step" null "$(json_get 'd["first_failure"]')"
expect_equal "a check has these members" "category details duration_ms id remedy status summary" \
    "$(json_get '" ".join(sorted(d["checks"][0]))')"
expect_equal "the walk is in its order" "bubblewrap bubblewrap-version user-namespace uid-map mount mount-calls proc network no-user-namespaces seccomp landlock cgroup identity-range sandbox" \
    "$(json_get '" ".join(c["id"] for c in d["checks"] if c["category"] == "confinement")')"
for id in user-namespace uid-map mount proc network no-user-namespaces seccomp sandbox git guests; do
    expect_equal "$id works" ok "$(check_of $id status)"
done
expect_equal "counts are what is listed" true \
    "$(json_get 'all(n == sum(c["status"] == s for c in d["checks"]) for s, n in d["counts"].items())')"
check "nothing is left" test -z "$(ls -A "$TMPDIR")"
check "nothing is made in the project" test -z "$(ls -A .)"
expect_exit "for people" 0 "$ORCH" doctor
expect_stdout "with the counts" '^[0-9]+ ok, [0-9]+ warnings, 0 errors'
expect_exit "a word is too much" 2 "$ORCH" doctor now

# ---- keys: names, never values
expect_exit "a key with a line end" 0 env OPENAI_API_KEY=$'sk-secret\n' "$ORCH" doctor --json
expect_equal "is a warning" warning "$(check_of keys status)"
refuse "and is not shown" grep -q sk-secret "$WORK/.e2e/out"
expect_exit "a good key" 0 env OPENAI_API_KEY=sk-secret "$ORCH" doctor --json
expect_equal "is fine" ok "$(check_of keys status)"
refuse "and is not shown either" grep -q sk-secret "$WORK/.e2e/out"

# ---- what the operator and the caller say
expect_exit "a refused variable" 1 env ORCH_AGENT_SANDBOX=off "$ORCH" doctor --json
expect_equal "is its own check" error "$(check_of variables status)"
mkdir -p "$HOME/.config/orch"
echo 'confinement: {mechanism: seatbelt}' >"$HOME/.config/orch/a.yaml"
expect_exit "a mechanism that is not built" 1 "$ORCH" doctor --json
expect_equal "is an error of the sandbox" error "$(check_of sandbox status)"
expect_equal "while each step works" ok "$(check_of user-namespace status)"
echo 'confinement: [' >"$HOME/.config/orch/a.yaml"
expect_exit "a broken operator config" 1 "$ORCH" doctor --json
expect_equal "is told" error "$(check_of operator-config status)"
expect_equal "and the walk is left out" skipped "$(check_of user-namespace status)"
rm "$HOME/.config/orch/a.yaml"
expect_exit "few descriptors" 1 bash -c 'ulimit -n 100; "$ORCH" doctor --json'
expect_equal "are an error" error "$(check_of descriptors status)"

# ---- machines that cannot: made with a user namespace of the test's own
if ! unshare --user --map-root-user --mount true 2>/dev/null; then
    skip "machines that cannot" "no user namespaces here"
    exit 0
fi
inside() { # SETUP: then doctor, in a user namespace
    run_cmd unshare --user --map-root-user --mount sh -c "$1; exec \"\$ORCH\" doctor --json"
}
inside 'echo 0 >/proc/sys/user/max_user_namespaces'
expect_equal "max_user_namespaces 0: exit 1" 1 "$STATUS"
expect_equal "the step" user-namespace "$(json_get 'd["first_failure"]["step"]')"
expect_equal "its errno" ENOSPC "$(json_get 'd["first_failure"]["errno_name"]')"
expect_equal "its cause" max-user-namespaces "$(json_get 'd["first_failure"]["id"]')"
check "its remedy" grep -q 'sysctl -w user.max_user_namespaces' <<<"$(json_get 'd["first_failure"]["remedy"]')"
expect_equal "what needs it is not tried" skipped "$(check_of network status)"
expect_equal "what does not is" ok "$(check_of seccomp status)"
inside 'mount -t tmpfs none /proc/bus'
expect_equal "a covered /proc: exit 1" 1 "$STATUS"
expect_equal "the step is" proc "$(json_get 'd["first_failure"]["step"]')"
expect_equal "with the cause" proc-masked "$(json_get 'd["first_failure"]["id"]')"
expect_equal "the steps around it work" ok "$(check_of network status)"
expect_equal "ids that are not mapped" error "$(check_of identity-range status)"
