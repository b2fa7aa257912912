# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Functions for the end-to-end scripts (tests/e2e/*.sh). A script starts with
#
#   #!/usr/bin/env bash
#   # needs: bwrap                     (words tests/run may check: see need below)
#   . "$(dirname "$0")/../support/e2e.sh"
#
# and prints one line a test: "ok NAME", "not ok NAME", "skip NAME REASON". It exits 0 when it ran to its end,
# whatever the tests said; any other status counts as one more failure. What it finds:
#
#   $ORCH         the program under test          $SOURCE  the source tree
#   $WORK         a directory of this script's own, removed at the end, and the current directory
#   $HOME $TMPDIR private to this script
#
# A program started in the background goes through `spawn`, so that nothing outlives the script.
set -u

SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
ORCH=${ORCH:-$SOURCE/build/dev/orchestrator/orch}
[ -x "$ORCH" ] || {
    echo "not ok $(basename "$0") no program at ORCH=$ORCH"
    exit 1
}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/orch-e2e-XXXXXX") || exit 1
mkdir "$WORK/home" "$WORK/tmp" "$WORK/.e2e"
HOME=$WORK/home
TMPDIR=$WORK/tmp
# Git as a user without a config finds it.
GIT_CONFIG_GLOBAL=$WORK/home/.gitconfig GIT_CONFIG_SYSTEM=/dev/null
LC_ALL=C.UTF-8
TZ=UTC
export ORCH SOURCE WORK HOME TMPDIR GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM LC_ALL TZ
unset XDG_CONFIG_HOME XDG_STATE_HOME XDG_CACHE_HOME XDG_RUNTIME_DIR ORCH_AGENT_SANDBOX ORCH_AGENT_SANDBOX_ALLOW
cd "$WORK" || exit 1

E2E_CHILDREN=()

# Ends what was spawned, then removes $WORK. Runs by itself at the end of the script.
cleanup() {
    local pid
    for pid in "${E2E_CHILDREN[@]}"; do
        kill -TERM -- "-$pid" 2>/dev/null || kill -TERM "$pid" 2>/dev/null
    done
    for pid in "${E2E_CHILDREN[@]}"; do
        # A child that does not end by itself is killed; `timeout` bounds the wait.
        timeout 10 tail --pid="$pid" -f /dev/null 2>/dev/null || kill -KILL -- "-$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    cd /
    chmod -R u+rwX "$WORK" 2>/dev/null
    rm -rf "$WORK"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

ok() { echo "ok $1"; }
# not_ok NAME [WHY…]: WHY goes to standard error, line by line.
not_ok() {
    echo "not ok $1"
    shift
    [ $# -eq 0 ] || printf '#   %s\n' "$*" | sed '2,$s/^/#   /' >&2
}

# skip NAME REASON: with CI=true a skipped test is a failure, so that a missing capability cannot hide.
skip() {
    local name=$1
    shift
    if [ "${CI:-}" = true ]; then
        not_ok "$name" "would be skipped, but CI=true: $*"
    else
        echo "skip $name $*"
    fi
}

# check NAME COMMAND…: ok if the command succeeds. Its output is shown only when it fails.
check() {
    local name=$1
    shift
    if "$@" >"$WORK/.e2e/check" 2>&1; then
        ok "$name"
    else
        not_ok "$name" "status $? of: $*" "$(tail -n 20 "$WORK/.e2e/check")"
        return 1
    fi
}
# refuse NAME COMMAND…: ok if the command fails (with a status, not by a signal).
refuse() {
    local name=$1 status=0
    shift
    "$@" >"$WORK/.e2e/check" 2>&1 || status=$?
    if [ $status -ne 0 ] && [ $status -lt 128 ]; then
        ok "$name"
    else
        not_ok "$name" "status $status of: $*" "$(tail -n 20 "$WORK/.e2e/check")"
        return 1
    fi
}

# run_cmd COMMAND…: keeps $STATUS, $OUT (standard output) and $ERR (standard error). Bounded: E2E_TIMEOUT seconds (120).
# shellcheck disable=SC2034 # OUT and ERR are for the scripts
run_cmd() {
    STATUS=0
    timeout --foreground -k 5 "${E2E_TIMEOUT:-120}" "$@" >"$WORK/.e2e/out" 2>"$WORK/.e2e/err" </dev/null || STATUS=$?
    OUT=$(cat "$WORK/.e2e/out")
    ERR=$(cat "$WORK/.e2e/err")
}
# expect_exit NAME STATUS COMMAND…: ok if the command exits with that status; leaves $STATUS, $OUT and $ERR.
expect_exit() {
    local name=$1 want=$2
    shift 2
    run_cmd "$@"
    if [ "$STATUS" -eq "$want" ]; then
        ok "$name"
    else
        not_ok "$name" "wanted status $want, got $STATUS of: $*" "$(tail -n 20 "$WORK/.e2e/out" "$WORK/.e2e/err")"
        return 1
    fi
}
# expect_stdout NAME REGEX / expect_stderr NAME REGEX: about the last run_cmd or expect_exit (extended regex).
expect_stdout() { expect_text "$1" "$2" "$WORK/.e2e/out"; }
expect_stderr() { expect_text "$1" "$2" "$WORK/.e2e/err"; }
expect_text() { # NAME REGEX FILE
    if grep -Eq -- "$2" "$3"; then
        ok "$1"
    else
        not_ok "$1" "no match for: $2 in:" "$(tail -n 20 "$3")"
        return 1
    fi
}
# expect_equal NAME WANTED GOT
expect_equal() {
    if [ "$2" = "$3" ]; then
        ok "$1"
    else
        not_ok "$1" "wanted: $2" "got:    $3"
        return 1
    fi
}
# json_get EXPRESSION: a value of the last standard output as JSON; EXPRESSION is Python over `d`, as d["a"][0].
json_get() {
    python3 -c 'import json,sys
d=json.load(open(sys.argv[1]))
v=eval(sys.argv[2])
print(v if isinstance(v,str) else json.dumps(v,sort_keys=True))' "$WORK/.e2e/out" "$1"
}

# spawn COMMAND…: starts it in the background in a process group of its own; $SPAWNED is its pid. Ended by cleanup.
spawn() {
    setsid "$@" &
    SPAWNED=$!
    E2E_CHILDREN+=("$SPAWNED")
}
# wait_for SECONDS COMMAND…: polls until the command succeeds; fails when the time is over.
wait_for() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        read -rt 0.05 <> <(:) || true
    done
}

# need bwrap | userns | root | user | PROGRAM: status 0 if it is there.
#   need bwrap || { skip my_test "no bubblewrap"; exit 0; }
need() {
    case $1 in
    bwrap) bwrap --unshare-all --ro-bind / / true 2>/dev/null ;;
    userns) unshare -U true 2>/dev/null ;;
    root) [ "$(id -u)" -eq 0 ] ;;
    user) [ "$(id -u)" -ne 0 ] ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# workdir NAME: a new directory $WORK/NAME, and goes there.
workdir() {
    mkdir -p "$WORK/$1" && cd "$WORK/$1" || exit 1
}
# copy_example NAME: examples/NAME copied to $WORK/NAME (without state of earlier runs), and goes there.
copy_example() {
    mkdir -p "$WORK/$1" && tar -C "$SOURCE/examples/$1" --exclude=.state -cf - . | tar -C "$WORK/$1" -xf - &&
        cd "$WORK/$1" || exit 1
}
