#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: bwrap
# The acts of `orch sandbox test` (most entries of the catalogue of escapes), under each mechanism, as who runs this and,
# as root, as an ordinary user too. One layer left out must turn its checks red.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
need bwrap || { skip self_test "no bubblewrap"; exit 0; }
workdir self_test

# As nobody, from copies of the programs, which that user may not reach where they were built.
as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$WORK/nobody" TMPDIR="$WORK/nobody")

verified() { # WHO COMMAND…
    local who=$1
    shift
    for mechanism in namespaces bubblewrap; do
        expect_exit "$who: $mechanism holds" 0 "$@" sandbox test --json --mechanism "$mechanism"
        expect_equal "$who: $mechanism: it says so" true "$(json_get 'd["verified"]')"
        check "$who: $mechanism: at least 80 checks" test "$(json_get 'd["counts"]["pass"]')" -ge 80
        expect_equal "$who: $mechanism: no way out" 0 "$(json_get 'd["counts"]["FAIL"]')"
        expect_equal "$who: $mechanism: residuals are not promised" '["file_lock", "memory_program"]' \
            "$(json_get '[c["id"] for c in d["checks"] if c["status"] == "not promised"]')"
    done
}
verified caller "$ORCH"

red() { # LAYER ID…: these FAIL without it, and only checks of it
    local layer=$1
    shift
    expect_exit "without $layer" 1 "$ORCH" sandbox test --json --without "$layer"
    for id in "$@"; do
        expect_equal "without $layer: $id is red" FAIL "$(json_get "[c['status'] for c in d['checks'] if c['id'] == '$id'][0]")"
    done
    expect_equal "without $layer: not verified" false "$(json_get 'd["verified"]')"
}
red seccomp chmod_setuid create_setuid openat2_call io_uring userfault terminal_input terminal_input_high vm_socket \
    audit_socket high_family make_key take_descriptor
red landlock first_signal
red network host_loopback outside_datagram
red limits fork_bomb big_file sparse_file many_descriptors
expect_exit "a layer that is none" 2 "$ORCH" sandbox test --without everything

if need root; then
    mkdir -m 755 "$WORK/programs" && mkdir "$WORK/nobody" && chown 65534:65534 "$WORK/nobody"
    chmod 755 "$WORK"
    for guest in orch-node orch-init orch-probe; do
        cp "$(dirname "$ORCH")/../backends/$guest" "$WORK/programs/"
    done
    cp "$ORCH" "$WORK/programs/orch"
    verified user "${as_user[@]}" "$WORK/programs/orch"
else
    skip self_test_as_user "not started as root, so the caller was one"
fi

check "nothing is left" test -z "$(find /tmp /dev/shm "$HOME" -maxdepth 1 -name '.orch-marker-*' -newer "$WORK" 2>/dev/null)"
