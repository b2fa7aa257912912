#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tier: engines
# limit: 3600
#
# A machine that has nothing: a new Debian 12 root, in which a clean clone runs deploy/quickstart (twice) and
# tests/run --quick, as root and as an ordinary user with sudo.
#
# The root becomes the root of a mount namespace with pivot_root: inside a plain chroot the kernel refuses user
# namespaces (EPERM), and confinement with them. A PID namespace ends everything with the script.
# FRESH_MACHINE_CACHE=DIR keeps the bare root (debootstrap) and its downloaded packages for the next time.
# FRESH_MACHINE_MIRROR: where packages come from; default: what this machine's apt uses.
# FRESH_MACHINE_AS="root user": who tries.
. "$(dirname "$0")/../support/e2e.sh"

need root || {
    skip fresh_machine "building a machine needs root"
    exit 0
}
need debootstrap || {
    skip fresh_machine "debootstrap is not installed"
    exit 0
}
unshare -m -p -f true 2>/dev/null || {
    skip fresh_machine "no mount namespace may be made here"
    exit 0
}

mirror=${FRESH_MACHINE_MIRROR:-$(sed -nE 's/^(URIs: *|deb (\[[^]]*\] )?)(https?:[^ ]*).*/\3/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -v security | head -n 1)}
cache=${FRESH_MACHINE_CACHE:-$WORK/cache}
mkdir -p "$cache"
chmod 755 "$WORK"

# The bare machine, as debootstrap leaves it, plus what a user would have: sudo, and an ordinary account with it.
bare() {
    [ -e "$cache/bare.tar" ] && return 0
    debootstrap --variant=minbase --include=ca-certificates,sudo bookworm "$WORK/bare" "$mirror" &&
        tar -C "$WORK/bare" --numeric-owner -cf "$cache/bare.tar.part" . &&
        mv "$cache/bare.tar.part" "$cache/bare.tar" && rm -rf "$WORK/bare"
}
check "a bare Debian 12 is made" bare || exit 0

# A clean clone, of what is committed.
git -c safe.directory="$SOURCE" clone -q --no-hardlinks "$SOURCE" "$WORK/clone" 2>/dev/null ||
    cp -a "$SOURCE" "$WORK/clone"
rm -rf "$WORK/clone/build"

# enter ROOT COMMAND…: runs it there as root, in namespaces of its own.
cat >"$WORK/enter" <<'SCRIPT'
#!/bin/sh
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 ${FRESH_CI:+CI="$FRESH_CI"} \
    unshare -m -p -f --kill-child --propagation private sh -ec '
    root=$1
    shift
    mount --bind "$root" "$root"
    mount --make-private "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    cat /etc/resolv.conf >"$root/etc/resolv.conf"
    cd "$root"
    pivot_root . mnt
    umount -l /mnt
    # not exec: the shell stays as PID 1 and takes what is orphaned, as the first process of a machine does
    "$@"' enter "$@"
SCRIPT
chmod +x "$WORK/enter"
enter() { "$WORK/enter" "$@"; }

# try WHO: everything, on a machine of its own.
try() {
    local who=$1 root=$WORK/machine-$1 home as began
    mkdir "$root" && tar -C "$root" --numeric-owner -xf "$cache/bare.tar" || return 1
    # An ordinary user may skip what needs root; root has no excuse.
    export FRESH_CI=
    if [ "$who" = root ]; then
        FRESH_CI=${CI:-}
        home=/root as=(sh -c)
    else
        home=/home/someone as=(su someone -s /bin/sh -c)
        enter "$root" sh -c 'useradd -m -s /bin/bash someone &&
            echo "someone ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/someone' || return 1
    fi
    cp -a "$WORK/clone" "$root$home/orch" &&
        enter "$root" chown -R "$([ "$who" = root ] && echo root:root || echo someone:someone)" "$home/orch"
    if [ -d "$cache/archives" ]; then
        cp "$cache"/archives/*.deb "$root/var/cache/apt/archives/" 2>/dev/null
    fi
    echo 'Binary::apt-get::APT::Keep-Downloaded-Packages "true";APT::Keep-Downloaded-Packages "true";' \
        >"$root/etc/apt/apt.conf.d/90keep"

    E2E_TIMEOUT=1500
    expect_exit "$who: deploy/quickstart on a bare machine" 0 "$WORK/enter" "$root" "${as[@]}" "cd $home/orch && deploy/quickstart"
    expect_stdout "$who: it ends with the score before" 'held-out score before +0\.'
    expect_stdout "$who: and after, which rose" 'held-out score after +(0\.[5-9]|1\.0)'
    began=$SECONDS
    expect_exit "$who: deploy/quickstart again" 0 "$WORK/enter" "$root" "${as[@]}" "cd $home/orch && deploy/quickstart"
    check "$who: the second time takes seconds ($((SECONDS - began)) s)" test $((SECONDS - began)) -lt 60
    expect_exit "$who: tests/run --quick" 0 "$WORK/enter" "$root" "${as[@]}" "cd $home/orch && tests/run --quick"
    cp "$WORK/.e2e/out" "$cache/tests-$who.log"
    grep -A8 '^ *not ok' "$cache/tests-$who.log" | sed 's/^/# there: /' >&2 # what failed, of all that was said
    expect_stdout "$who: which counts" '^[1-9][0-9]* passed, 0 failed, [0-9]+ skipped$'
    check "$who: nothing is left in /tmp" test -z "$(ls -A "$root/tmp")"
    mkdir -p "$cache/archives"
    cp "$root"/var/cache/apt/archives/*.deb "$cache/archives/" 2>/dev/null
    rm -rf --one-file-system "$root"
}

for who in ${FRESH_MACHINE_AS:-root user}; do
    try "$who"
done
