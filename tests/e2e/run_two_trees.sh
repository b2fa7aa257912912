#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: bwrap
# Runs in different PID namespaces share one tree of control groups: neither takes the other's for a dead one's.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
need root || { skip run_two_trees "other PID namespaces need root"; exit 0; }
need bwrap || { skip run_two_trees "no bubblewrap"; exit 0; }
copy_example tiny
cp -a "$WORK/tiny" "$WORK/other"
chmod 755 "$WORK"
# holds its sandbox until the other one has come and gone
printf '#!/bin/sh\nuntil [ -e %s/open/gate ]; do :; done\n' "$WORK" >"$WORK/other/held"
mkdir "$WORK/open" && chmod 755 "$WORK/open" "$WORK/other/held"
spawn unshare -p -f --kill-child --mount-proc env -C "$WORK/other" "$ORCH" eval run.yaml --adapter none \
    'task.command=[./held]' "task.paths.read=[$WORK/open]" task.timeout=5m >"$WORK/other.out" 2>&1
held=$SPAWNED
check "the other one runs" wait_for 30 pgrep -f "/w/program/held"
for _ in 1 2 3; do
    expect_exit "one comes and goes" 0 "$ORCH" eval run.yaml --adapter none --new
done
touch "$WORK/open/gate"
check "the other one ends well" wait "$held"
check "its limits were those of a group, if anybody's are" python3 - "$WORK/other" "$WORK/tiny" <<'PY'
import glob, json, sys
kinds = [json.load(open(sorted(glob.glob(d + "/.state/runs/*/sandbox/task-*.json"))[0]))["enforced"]["enforced"]["memory"]
         for d in sys.argv[1:]]
assert kinds[0] == kinds[1], kinds
PY

# PID 1 may be a program that waits for its own child alone, as in many containers: nothing dead is left to it.
cat >"$WORK/first.py" <<'PY'
import subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, timeout=100).returncode
dead = subprocess.run(["ps", "-eo", "stat,comm"], capture_output=True, text=True).stdout
print(status, sum(line.startswith("Z") for line in dead.splitlines()))
PY
for mechanism in namespaces bubblewrap; do
    expect_exit "a run under such a PID 1 ($mechanism)" 0 unshare -p -f --kill-child --mount-proc \
        python3 "$WORK/first.py" "$ORCH" run run.yaml --new --quiet "sandbox.mechanism=$mechanism"
    expect_equal "leaves no zombie ($mechanism)" "0 0" "$(cat "$WORK/.e2e/out")"
done
