#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: bwrap
# `orch sandbox exec`: specs written by hand, what passes through, what is refused.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
need bwrap || { skip sandbox_exec "no bubblewrap"; exit 0; }
workdir data
here=$WORK/data
chmod 755 "$WORK" "$here"
mkdir sub out
echo public >sub/public
echo hidden >sub/.env
echo secret >secret
chmod 755 sub && chmod 644 sub/* sub/.env secret

expect_exit "the status passes" 7 "$ORCH" sandbox exec '{}' -- sh -c 'echo out; echo err >&2; exit 7'
expect_equal "the output passes" out "$OUT"
expect_equal "standard error passes, alone" err "$ERR"
expect_equal "standard input passes" hello "$(echo hello | "$ORCH" sandbox exec '{}' -- cat)"
expect_exit "a signal is 128 and more" 137 "$ORCH" sandbox exec '{}' -- sh -c 'kill -9 $$'
expect_exit "not found is 127" 127 "$ORCH" sandbox exec '{}' -- no-such-program
expect_stderr "and says so" 'no-such-program: not found'
expect_exit "not executable is 126" 126 "$ORCH" sandbox exec '{}' -- "$here/secret"

# the seed's keys
spec=$(printf '{"readable": ["%s/sub"], "writable": ["%s/out"], "hide": ["%s/sub/.env"], "network": "isolated", "env_allow": ["KEEP_*"], "chdir": "%s/sub"}' \
    "$here" "$here" "$here" "$here")
echo "$spec" >"$WORK/spec.json"
export KEEP_THIS=kept DROP_THIS=dropped
expect_exit "a spec in a file" 0 "$ORCH" sandbox exec "$WORK/spec.json" -- sh -c \
    'cat public; pwd; cat .env; echo $KEEP_THIS; env | grep -c DROP_THIS; ls ../secret 2>&1 | wc -l; echo x >../out/made; echo $HOME'
expect_equal "what it sees" "public $here/sub kept 0 1 /home/agent" "$(echo $OUT)"
check "what it wrote is the caller's" test -O out/made
expect_equal "the same from standard input" public "$(echo "$spec" | "$ORCH" sandbox exec - -- cat public)"
expect_exit "all variables pass without env_allow" 0 "$ORCH" sandbox exec '{}' -- sh -c 'echo $DROP_THIS'
expect_equal "they did" dropped "$OUT"
expect_exit "isolated: nothing but loopback" 0 "$ORCH" sandbox exec '{}' -- sh -c "tail -n +3 /proc/net/dev | cut -d: -f1"
expect_equal "lo alone" lo "$(echo $OUT)"
printf '#!/bin/sh\necho job "$@"\n' >job && chmod 755 job
expect_exit "a program by its path brings itself" 0 "$ORCH" sandbox exec '{}' -- "$here/job" a b
expect_equal "with its arguments" "job a b" "$OUT"

# a full spec, and its record
cat >"$WORK/full.json" <<JSON
{"version": 1, "name": "by-hand", "grants": [{"source": "$here/sub", "target": "/w/data", "mode": "ro", "kind": "dir"}],
 "env": {"PATH": "/usr/bin:/bin"}, "cwd": "/w/data", "limits": {"file": 1000, "processes": 20}, "absent": ["/root"]}
JSON
expect_exit "a full spec" 0 "$ORCH" sandbox exec "$WORK/full.json" --record "$WORK/record.json" -- cat public
expect_equal "its command ran" public "$OUT"
check "its record says what was enforced" python3 - "$WORK/record.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
e = d["enforced"]
assert e["seccomp"] == "filter" and e["capabilities"] == 0 and e["no_new_privileges"], e
assert all(c["ok"] for c in d["checks"]) and len(d["checks"]) >= 5, d["checks"]
PY
expect_exit "a limit has a name" 153 "$ORCH" sandbox exec "$WORK/full.json" -- dd if=/dev/zero of=/tmp/x bs=5000 count=1
expect_stderr "which is told" 'limit "file"'

# A socket in a grant: a read-only bind does not stop connect, so AF_UNIX is refused; pairs go on. Without one: allowed.
mkdir -m 755 with-socket
python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.bind("with-socket/agent.sock"); s.listen(); s.setblocking(True); s.accept()' &
E2E_CHILDREN+=($!)
wait_for 10 test -S with-socket/agent.sock
chmod 777 with-socket/agent.sock
dial='import socket,sys; socket.socketpair(); s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])'
expect_exit "a socket in a grant cannot be reached" 1 "$ORCH" sandbox exec "{\"readable\": [\"$here/with-socket\"]}" \
    --record "$WORK/record.json" -- python3 -c "$dial" "$here/with-socket/agent.sock"
expect_stderr "for the right reason" 'Address family not supported'
check "and the record says so" grep -q '"sockets": 1' "$WORK/record.json"
expect_exit "without one Unix sockets work" 0 "$ORCH" sandbox exec '{}' -- python3 -c \
    'import socket; s=socket.socket(socket.AF_UNIX); s.bind("/tmp/x"); s.listen(); socket.socket(socket.AF_UNIX).connect("/tmp/x")'
ln secret sub/other-name
expect_exit "a hard link in a grant" 0 "$ORCH" sandbox exec "{\"readable\": [\"$here/sub\"]}" --record "$WORK/record.json" -- true
check "is reported" grep -q '"hard_links": 1' "$WORK/record.json"

# bytes that are not UTF-8 arrive as they are; a variable that could not be named does not
bad=$(printf 'a\xff')
expect_exit "odd bytes in arguments and values" 0 env "$(printf 'N\xff=1')" VALUE="$bad" "$ORCH" sandbox exec '{}' -- \
    sh -c 'printf %s "$VALUE$1" | od -An -tx1; env | LC_ALL=C grep -ac "^N[^A-Za-z_]" || true' sh "$bad"
expect_equal "pass unchanged" " 61 ff 61 ff 0" "$(tr '\n' ' ' <"$WORK/.e2e/out" | sed 's/ *$//')"

mkdir "$here/sub/d$bad" && cd "$here/sub/d$bad" || exit 1
expect_exit "a directory whose name is not UTF-8 is refused" 125 "$ORCH" sandbox exec "{\"readable\": [\"$here/sub\"]}" -- pwd
expect_stderr "by its name" 'cwd: .*not UTF-8'
cd "$here" && rmdir "sub/d$bad"

# a program that copes with a limit has its own exit status
expect_exit "a limit that was met" 5 "$ORCH" sandbox exec '{"limits": {"processes": 1}}' -- python3 -c \
    'import os,sys
try: os.fork()
except OSError: sys.exit(5)'
# process limits alone do not tell that they were met; a control group does
[ -z "$ERR" ] || expect_stderr "is named" '^orch: it met the limit "processes"$'

# what a killed one leaves goes with a later one; what is held stays (bubblewrap: in TMPDIR, which is this script's)
places() { find "$TMPDIR" -maxdepth 1 -name 'orch-exec-*'; }
spawn "$ORCH" sandbox exec '{}' --mechanism bubblewrap -- sleep 60
held=$SPAWNED
wait_for 10 sh -c "find '$TMPDIR'/orch-exec-*/node-*/roots/0 | grep -q ."
place=$(places)
touch -d '2 minutes ago' "$place"
expect_exit "one runs beside another" 0 "$ORCH" sandbox exec '{}' --mechanism bubblewrap -- true
expect_equal "and leaves its directory, however old" "$place" "$(places)"
kill -KILL "$held"
wait "$held" 2>/dev/null
touch "$place"
expect_exit "one runs after a killed one" 0 "$ORCH" sandbox exec '{}' --mechanism bubblewrap -- true
expect_equal "what is young may be somebody's who was just born" "$place" "$(places)"
touch -d '2 minutes ago' "$place"
expect_exit "and one later" 0 "$ORCH" sandbox exec '{}' --mechanism bubblewrap -- true
expect_equal "removes what that left" "" "$(places)"

# stop and go on: the command stands still with us
spawn "$ORCH" sandbox exec "{\"writable\": [\"$here/out\"]}" -- sh -c "while :; do date +%N >$here/out/tick; done"
states() { ps -o stat= -p "$SPAWNED" -p "$(pgrep -d, -f "sh -c while :; do date [+]%N >$here")"; }
all_stopped() { states | grep -q T && ! states | grep -qv T; }
wait_for 10 test -s out/tick
kill -TSTP "$SPAWNED"
check "SIGTSTP stops the verb and the command" wait_for 10 all_stopped
kill -CONT "$SPAWNED"
: >out/tick
check "SIGCONT lets it go on" wait_for 10 test -s out/tick
kill -TERM "$SPAWNED"
wait "$SPAWNED"
expect_equal "and then it ends as usual" 143 "$?"

# refusals: 125, and nothing ran
refused() { # NAME REGEX SPEC COMMAND…
    local name=$1 regex=$2 spec=$3
    shift 3
    expect_exit "$name" 125 "$ORCH" sandbox exec "$spec" -- "$@" && expect_stderr "$name: why" "$regex"
}
refused "a directory that is not there" 'chdir: /nonexistent' '{"chdir": "/nonexistent"}' pwd
expect_exit "a directory of the sandbox's own is there" 0 "$ORCH" sandbox exec '{"chdir": "/home"}' -- pwd
expect_equal "and entered" /home "$OUT"
refused "a directory of the machine is not" "chdir: $here: No such file" "{\"chdir\": \"$here\"}" touch "$here/out/ran"
sed 's|"/w/data", "limits"|"/w/data/none", "limits"|' "$WORK/full.json" >"$WORK/no-cwd.json"
refused "nor one that a full spec invents" 'chdir: /w/data/none: No such file' "$WORK/no-cwd.json" true
refused "memory for nothing" 'memory: at least 1048576' '{"limits": {"memory": 1}}' true
refused "not JSON" 'SPEC' '{' true
refused "an unknown member" 'unknown member "reads"' '{"reads": []}' true
refused "a wrong network" 'isolated' '{"network": "none"}' true
refused "a relative path" 'not absolute' '{"readable": ["sub"]}' true
refused "an absent path" 'readable' "{\"readable\": [\"$here/nothing\"]}" true
refused "a whole home" 'home' "{\"readable\": [\"$HOME\"]}" true
refused "the root" 'system root|home' '{"readable": ["/"]}' true
mkdir -p "$HOME/.ssh"
refused "a credential store" 'credential' "{\"readable\": [\"$HOME/.ssh\"]}" true
ln -s secret link
refused "a link" 'leads to' "{\"readable\": [\"$here/link\"]}" true
