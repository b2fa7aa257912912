#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The mechanism landlock, as who runs this and, as root, as an ordinary user too: what it denies, each with the same act
# done outside; that nothing outlives it; what it refuses, and that nothing comes to it unasked.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
command -v python3 >/dev/null || { skip sandbox_landlock "no python3"; exit 0; }

# What lies in /tmp is refused, so everything is in a directory elsewhere.
PLACE=$(mktemp -d /var/tmp/orch-landlock-XXXXXX) || exit 1
trap 'rm -rf "$PLACE"; cleanup' EXIT
chmod 755 "$PLACE" "$WORK" "$WORK/tmp"
mkdir "$PLACE/programs"
for guest in orch-node orch-init orch-probe; do
    cp "$(dirname "$ORCH")/../backends/$guest" "$PLACE/programs/"
done
cp "$ORCH" "$PLACE/programs/orch"
if ! "$PLACE/programs/orch" sandbox exec '{}' --mechanism landlock -- true 2>"$WORK/why"; then
    if grep -q 'Landlock cannot be used' "$WORK/why"; then
        skip sandbox_landlock "$(head -n 1 "$WORK/why")"
        exit 0
    fi
    not_ok "an empty sandbox" "$(cat "$WORK/why")"
fi

cat >"$PLACE/acts.py" <<'PY'
"""One act: exit status 0 when it can be done, else the errno."""
import ctypes, os, signal, socket, sys
name, data = sys.argv[1], sys.argv[2:]
def tcp(port): socket.create_connection(("127.0.0.1", int(port)), 5)
def bind(): socket.socket().bind(("127.0.0.1", 0))
def udp(port): socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(port)))
def unix(address): socket.socket(socket.AF_UNIX).connect(address.replace("@", "\0"))
def tree(pid_file):
    """A process in a session of its own, that closed everything and whose parents are gone."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(pid_file + ".new", "w") as f:
                f.write(str(os.getpid()))
            os.rename(pid_file + ".new", pid_file)
            os.closerange(0, 100)
            signal.pause()
        os._exit(0)
    os.wait()
def prlimit(pid):
    import resource
    resource.prlimit(int(pid), resource.RLIMIT_NOFILE)
acts = {
    "read": lambda path: open(path).read(), "write": lambda path: open(path, "a").write("x"),
    "create": lambda path: open(path, "x"), "truncate": lambda path: os.truncate(path, 0), "remove": os.remove,
    "list": os.listdir, "link": os.link, "rename": os.rename, "run": lambda path: os.execv(path, [path]),
    "tcp": tcp, "bind": bind, "udp": udp, "unix": unix, "signal": lambda pid: os.kill(int(pid), 0),
    "environ": lambda pid: open("/proc/%s/environ" % pid).read(), "tree": tree, "prlimit": prlimit,
    "queue": lambda: ctypes.CDLL(None, use_errno=True).shmget(0, 4096, 0o1600) < 0 and sys.exit(ctypes.get_errno()),
}
try:
    acts[name](*data)
except OSError as e:
    sys.exit(e.errno)
PY
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
case $python in
/usr/*) ;;
*) [ -x /usr/bin/python3 ] && python=/usr/bin/python3 || { skip sandbox_landlock "python3 is not in /usr"; exit 0; } ;;
esac

EPERM=1 EACCES=13 EXDEV=18 EAFNOSUPPORT=97

# both WHO WANT ACT [DATA…]: the act can be done outside, and fails inside with this errno (a comma between two).
both() {
    local who=$1 want=$2
    shift 2
    reset
    if ! "${outside[@]}" "$python" "$PLACE/acts.py" "$@" >/dev/null 2>"$WORK/why"; then
        not_ok "$who: $1: the control outside" "$* $(cat "$WORK/why")"
        return
    fi
    reset
    run_cmd "${inside[@]}" sandbox exec "$spec" --mechanism landlock -- "$python" "$PLACE/acts.py" "$@"
    case ,$want, in
    *,$STATUS,*) ok "$who: $1 is denied inside" ;;
    *) not_ok "$who: $1 is denied inside" "wanted $want, got $STATUS of $*" "$ERR" ;;
    esac
}
# What acts may have changed.
reset() {
    rm -f "$data/open/new" "$data/in/new" "$data/out/linked" "$data/open/moved"
    echo secret >"$data/open/secret"
    echo public >"$data/in/public"
    echo '#!/bin/sh' >"$data/open/program"
    chmod 755 "$data/open/program"
    chmod 666 "$data/open/secret" "$data/in/public"
    chmod 777 "$data/open" "$data/in"
    chown -R "$owner" "$data"
}

gone() { # PID: no process, or a zombie that nobody has reaped yet
    [ ! -d "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null
}

suite() { # WHO
    local who=$1 victim port
    data=$PLACE/$who
    mkdir "$data" "$data/in" "$data/out" "$data/open"
    reset
    spec="{\"readable\": [\"$data/in\", \"$PLACE/acts.py\"], \"writable\": [\"$data/out\"], \"chdir\": \"$data/in\"}"

    # ---- what it gives
    expect_exit "$who: a command" 7 "${inside[@]}" sandbox exec "$spec" --mechanism landlock --record "$data/record" -- sh -c \
        'cat public; echo x >../out/made; mkdir ../out/a; mv ../out/made ../out/a/; cat ../out/a/made; pwd
         touch $HOME/h $TMPDIR/t && echo scratch; case $TMPDIR in /tmp) ;; *) echo own; esac; exit 7'
    expect_equal "$who: reads, writes, moves, has its own temporary directory" "public x $data/in scratch own" "$(echo $OUT)"
    expect_stderr "$who: each tier that is not enforced is told" 'not enforced: read-only \[rights-only-grow\]'
    expect_stderr "$who: hidden paths too" 'not enforced: hidden \[rights-only-grow\]'
    check "$who: and all are in the record" python3 - "$data/record" <<'PY'
import json, sys
e = json.load(open(sys.argv[1]))["enforced"]
assert e["mechanism"] == "landlock" and e["landlock_abi"] >= 6 and e["seccomp"] == "filter", e
assert e["capabilities"] == 0 and e["no_new_privileges"], e
names = {t["property"] for t in e["not_enforced"]}
assert {"read-only", "hidden", "own-paths", "private-tmp", "absent", "own-processes"} <= names, names
PY
    check "$who: what it wrote belongs to the owner" test "$(stat -c %U "$data/out/a/made")" = "$(stat -c %U "$data/out")"
    expect_exit "$who: not root" 0 "${inside[@]}" sandbox exec '{}' --mechanism landlock -- sh -c '[ "$(id -u)" != 0 ]'
    expect_exit "$who: a limit binds" 153 "${inside[@]}" sandbox exec '{"limits": {"file": 1000}}' --mechanism landlock -- \
        sh -c 'dd if=/dev/zero of=$TMPDIR/x bs=5000 count=1 2>/dev/null; exit $?'

    # ---- what it denies
    spawn "${outside[@]}" "$python" -c '
import os, socket, sys, time
tcp = socket.create_server(("127.0.0.1", 0))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("127.0.0.1", tcp.getsockname()[1]))
names = [socket.socket(socket.AF_UNIX) for i in (0, 1)]
names[0].bind("\0orch-landlock-%d" % os.getpid()); names[1].bind(sys.argv[1] + "/open/socket")
for s in names: s.listen(100)
os.chmod(sys.argv[1] + "/open/socket", 0o777)
os.rename(sys.argv[1] + "/open/socket", sys.argv[1] + "/in/socket")
with open(sys.argv[1] + "/open/port.new", "w") as f: f.write("%d %d" % (os.getpid(), tcp.getsockname()[1]))
os.rename(sys.argv[1] + "/open/port.new", sys.argv[1] + "/open/port")
while True: time.sleep(100)' "$data"
    wait_for 10 test -s "$data/open/port" || { not_ok "$who: the listener outside"; return; }
    read -r victim port <"$data/open/port"
    both "$who" $EACCES read "$data/open/secret"
    both "$who" $EACCES list "$data/open"
    both "$who" $EACCES list /
    both "$who" $EACCES run "$data/open/program"
    both "$who" $EACCES write "$data/open/secret"
    both "$who" $EACCES create "$data/open/new"
    both "$who" $EACCES truncate "$data/open/secret"
    both "$who" $EACCES remove "$data/open/secret"
    both "$who" $EXDEV,$EPERM,$EACCES link "$data/open/secret" "$data/out/linked"
    both "$who" $EACCES write "$data/in/public"
    both "$who" $EACCES create "$data/in/new"
    both "$who" $EACCES truncate "$data/in/public"
    both "$who" $EACCES remove "$data/in/public"
    both "$who" $EXDEV,$EACCES rename "$data/in/public" "$data/out/linked"
    both "$who" $EAFNOSUPPORT tcp "$port"
    both "$who" $EAFNOSUPPORT bind
    both "$who" $EAFNOSUPPORT udp "$port"
    both "$who" $EAFNOSUPPORT unix "@orch-landlock-$victim"
    both "$who" $EAFNOSUPPORT unix "$data/in/socket"
    both "$who" $EPERM signal "$victim"
    both "$who" $EPERM prlimit "$victim"
    both "$who" $EACCES environ "$victim"
    both "$who" $EPERM queue
    expect_exit "$who: with a network, TCP is what it was" 0 "${inside[@]}" sandbox exec "${spec%\}}, \"network\": \"public\"}" \
        --mechanism landlock -- "$python" "$PLACE/acts.py" tcp "$port"
    expect_exit "$who: but no socket file" $EAFNOSUPPORT "${inside[@]}" sandbox exec "${spec%\}}, \"network\": \"public\"}" \
        --mechanism landlock -- "$python" "$PLACE/acts.py" unix "$data/in/socket"
    expect_exit "$who: the acts of the self-test" 0 "${inside[@]}" sandbox test --mechanism landlock --json
    check "$who: at least 80 hold" test "$(json_get 'd["counts"]["pass"]')" -ge 80
    expect_equal "$who: none is a way out" 0 "$(json_get 'd["counts"]["FAIL"]')"
    expect_equal "$who: what it does not promise is told" '["not promised"]' \
        "$(json_get 'sorted({c["status"] for c in d["checks"] if c["id"] in ("see_process", "read_hidden", "write_tmp", "see_var")})')"
    expect_exit "$who: a left out filter is red" 1 "${inside[@]}" sandbox test --mechanism landlock --without seccomp
    expect_exit "$who: it cannot be left out itself" 2 "${inside[@]}" sandbox test --mechanism landlock --without landlock

    # ---- the end of every process
    local end pid
    for end in itself host node init; do
        rm -f "$data/out/pid"
        "${inside[@]}" sandbox exec "$spec" --mechanism landlock -- sh -c \
            "$python $PLACE/acts.py tree $data/out/pid; [ $end = itself ] || tail -f /dev/null" 2>/dev/null &
        local host=$!
        E2E_CHILDREN+=("$host")
        wait_for 10 test -s "$data/out/pid" || { not_ok "$who: ended by $end: it began"; continue; }
        pid=$(cat "$data/out/pid")
        [ "$end" = itself ] || check "$who: ended by $end: it lives on by itself" test -d "/proc/$pid"
        local node init
        node=$(pgrep -P "$host" -f orch-node)
        init=$(pgrep -P "$(pgrep -P "${node:-0}" -f in-place || echo 0)")
        case $end in
        host) kill -9 "$host" ;;
        node) kill -9 "$node" ;;
        init) kill -9 "$init" ;;
        esac
        wait "$host" 2>/dev/null
        check "$who: ended by $end: nothing is left" wait_for 10 gone "$pid"
    done

    # ---- refusals: 125, nothing ran
    refused() { # NAME REGEX SPEC
        expect_exit "$who: refused: $1" 125 "${inside[@]}" sandbox exec "$3" --mechanism landlock -- touch "$data/out/ran"
        expect_stderr "$who: refused: $1: why" "$2"
        expect_stderr "$who: refused: $1: the remedy" 'mechanism namespaces or bubblewrap'
    }
    mkdir "$data/out/fixed" && mkdir -p "$TMPDIR/project" && chmod 755 "$TMPDIR/project"
    local full="{\"version\": 1, \"name\": \"x\", \"env\": {\"PATH\": \"/usr/bin\"}"
    refused "a project in /tmp" 'private-tmp.*shared-tmp' "{\"writable\": [\"$TMPDIR/project\"]}"
    refused "a hidden path" '`hidden`.*rights-only-grow' "{\"writable\": [\"$data/out\"], \"hide\": [\"$data/out/fixed\"]}"
    refused "read-only in writable" '`read-only`.*rights-only-grow' \
        "{\"writable\": [\"$data/out\"], \"readable\": [\"$data/out/fixed\"]}"
    refused "a sized /tmp" 'private-tmp' '{"limits": {"tmp": 1000000}}'
    refused "another path" 'own-paths.*host-paths' \
        "$full, \"grants\": [{\"source\": \"$data/in\", \"target\": \"/w/in\", \"mode\": \"ro\", \"kind\": \"dir\"}]}"
    refused "a file of its own" 'own-paths.*/w' "$full, \"files\": [{\"path\": \"/w/a\", \"text\": \"\", \"mode\": 292}]}"
    refused "what must not exist" '`absent`.*names-seen' "$full, \"absent\": [\"/root\"]}"
    refused "a port" '`meter`.*shared-loopback' "$full, \"ports\": [8080]}"
    check "$who: none of them ran" test ! -e "$data/out/ran"
}

owner=$(id -u):$(id -g)
outside=(env) inside=("$PLACE/programs/orch")
if need root; then
    # its sandboxes have other uids: the control outside is theirs to do with what everybody may
    suite root
    mkdir "$PLACE/home" && chown 65534:65534 "$PLACE/home"
    owner=65534:65534
    outside=(setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$PLACE/home" TMPDIR="$PLACE/home")
    inside=("${outside[@]}" "$PLACE/programs/orch")
    suite user
else
    suite user
fi

# ---- never unasked
copy_example tiny
expect_exit "by the variable" 0 env ORCH_AGENT_SANDBOX=landlock "$ORCH" sandbox exec '{}' --record "$WORK/record.json" -- true
cp "$WORK/record.json" "$WORK/.e2e/out"
expect_equal "it is had" landlock "$(json_get 'd["enforced"]["mechanism"]')"
expect_exit "auto" 0 "$ORCH" sandbox exec '{}' --record "$WORK/record.json" -- true
cp "$WORK/record.json" "$WORK/.e2e/out"
refuse "takes another" test "$(json_get 'd["enforced"]["mechanism"]')" = landlock
expect_exit "a run is refused" 3 "$ORCH" run run.yaml sandbox.mechanism=landlock
expect_stderr "with code and reason" 'own-paths.*\[host-paths\].*/w'
check "before anything is made" test ! -e .state/runs
mkdir -p "$HOME/.config/orch"
echo 'confinement: {mechanism: landlock}' >"$HOME/.config/orch/a.yaml"
expect_exit "the operator's config" 0 "$ORCH" sandbox status --json
expect_equal "is obeyed" landlock "$(json_get 'd["mechanism"]["name"]')"
expect_equal "no namespace is claimed" '[false, false, false]' \
    "$(json_get '[l["on"] for l in d["layers"] if l["id"] in ("mount-namespace", "pid-namespace", "network-namespace")]')"

# A machine without user namespaces and without bubblewrap, which takes root to make: auto has nothing, landlock works.
if ! need root; then
    skip "a machine that gives nothing else" "not started as root"
    exit 0
fi
cat >"$PLACE/closed.py" <<'PY'
"""Runs a command as uid 65534 where no user namespace can be made and bubblewrap is not there."""
import ctypes, os, subprocess, sys
NEWNS, NEWUSER = 0x20000, 0x10000000
made_read, made = os.pipe()
mapped, mapped_write = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(mapped_write)
    assert ctypes.CDLL(None).unshare(NEWUSER | NEWNS) == 0
    os.write(made, b"x")
    os.read(mapped, 1)
    open("/proc/sys/user/max_user_namespaces", "w").write("0")
    for path in ("/usr/bin/bwrap", "/usr/local/bin/bwrap"):
        if os.path.exists(path):
            subprocess.run(["mount", "--bind", "/dev/null", path], check=True)
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    os.execvp(sys.argv[1], sys.argv[1:])
os.read(made_read, 1)
for kind in ("uid_map", "gid_map"):
    with open("/proc/%d/%s" % (pid, kind), "w") as f:
        f.write("0 0 1\n65534 65534 1\n")
os.close(mapped_write)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
closed=(env HOME="$PLACE/home" TMPDIR="$PLACE/home" python3 "$PLACE/closed.py" "$PLACE/programs/orch")
rm "$HOME/.config/orch/a.yaml"
expect_exit "where nothing else can be had, auto is refused" 125 "${closed[@]}" sandbox exec '{}' -- true
expect_stderr "and says why" 'namespaces cannot be used.*bubblewrap cannot be used'
expect_exit "landlock is not refused" 0 "${closed[@]}" sandbox exec "{\"readable\": [\"$PLACE/user/in\"]}" \
    --mechanism landlock -- cat "$PLACE/user/in/public"
expect_equal "and reads" public "$OUT"
expect_exit "and confines" 1 "${closed[@]}" sandbox exec '{}' --mechanism landlock -- cat "$PLACE/user/in/public"
expect_stderr "for the right reason" 'Permission denied'
