#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: bwrap
# Entries of the catalogue of escapes that no act of `orch sandbox test` stands for: they take a run, a kill from outside,
# or a machine that changes meanwhile. As who runs this and, as root, as an ordinary user too.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
need bwrap || { skip catalogue "no bubblewrap"; exit 0; }
chmod 755 "$WORK"
own=$ORCH

gone() { ! pgrep -f "$1" >/dev/null; }
trial() { json_get 'd["summary"]["results"]["test"]["'"$1"'"]'; }
last_line() { tail -n 1 "$WORK/.e2e/out" >"$WORK/.e2e/last" && mv "$WORK/.e2e/last" "$WORK/.e2e/out"; }
# evaluates SCRIPT OVERRIDE…: one evaluation of the tiny example whose agent is that script; its summary is in $OUT.
evaluates() {
    local script=$1
    shift
    printf '#!/bin/sh\n%s\n' "$script" >agent && chmod 755 agent
    run_cmd "${as[@]}" "$ORCH" eval run.yaml --adapter none --new --json 'task.command=[./agent]' "$@"
    last_line
}

entries() { # WHO: with the command prefix in as
    local who=$1 mark pid

    # E06 stop itself, E73 time without end and without rest
    evaluates 'kill -STOP $$' task.timeout=1s
    expect_equal "$who: E06 a stopped program meets its time limit" 1 "$(trial limited)"
    evaluates 'exec sleep 1000' task.timeout=1s
    expect_equal "$who: E73 so does one that waits" 1 "$(trial limited)"
    evaluates 'while :; do :; done' task.limits.cpu=1s
    expect_equal "$who: E73 one that does not rest meets that of CPU" 1 "$(trial limited)"

    # E07 an orphan in a session of its own, E08 the supervisor killed from outside
    mark=9$$1
    expect_exit "$who: E07 a program leaves an orphan" 0 "${as[@]}" "$ORCH" sandbox exec '{}' -- \
        sh -c "setsid tail -f /dev/null --pid=$mark & until pgrep -f 'pid=$mark' >/dev/null; do :; done; echo left"
    expect_stdout "$who: E07 which ran" left
    check "$who: E07 nothing of it is left" wait_for 5 gone "^tail -f /dev/null --pid=$mark"
    mark=9$$2
    spawn "${as[@]}" "$ORCH" sandbox exec '{}' -- sh -c "(setsid sleep $mark &) ; exec sleep $mark"
    pid=$SPAWNED
    check "$who: E08 a sandbox works" wait_for 20 pgrep -f "^sleep $mark"
    kill -9 "$pid"
    wait "$pid" 2>/dev/null
    check "$who: E08 with its supervisor it is gone" wait_for 5 gone "^sleep $mark"

    # E14 escape sequences, E25 odd names, in what people look at
    evaluates 'printf "\033]52;c;ZXZpbA==\a\033]0;title\a\n"; touch -- "/w/output/$(printf -- "-rf\n\033[2J")"'
    expect_equal "$who: E25 odd names are scored" 1 "$(trial scored)"
    run_cmd "${as[@]}" "$ORCH" logs latest --call 1
    expect_stdout "$who: E14 the output is shown" 'ZXZpbA=='
    check "$who: E14 without a byte that moves a terminal" sh -c "! grep -q \"\$(printf '\\033')\" '$WORK/.e2e/out'"

    # E18 an alias made before: a residual that is told
    echo secret >secret && mkdir -p shared && ln -f secret shared/alias
    expect_exit "$who: E18 a hard link in a grant" 0 "${as[@]}" "$ORCH" sandbox exec "{\"readable\": [\"$PWD/shared\"]}" \
        --record "$PWD/record.json" -- true
    check "$who: E18 is in the record" grep -q '"hard_links": 1' record.json

    # E22 delayed execution: what a candidate brings does not run when orch commits it
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nmkdir -p "/w/adapter/$1"\nfor h in pre-commit post-commit post-update; do printf "#!/bin/sh\\ntouch %s\\n" >"/w/adapter/$1/$h"; chmod 755 "/w/adapter/$1/$h"; done\necho "* filter=run" >/w/adapter/.gitattributes\n' "$PWD/hook-ran" >hooks
    chmod 755 hooks
    sed -i 's/^learnable:.*/learnable: [endings.txt, "**"]/' template/adapter.yaml
    expect_exit "$who: E22 a candidate with a repository" 0 "${as[@]}" "$ORCH" run run.yaml --new --quiet 'evolver.command=[./hooks, .git/hooks]'
    expect_stdout "$who: E22 is refused" 'rejected .*Git'
    expect_exit "$who: E22 one with hooks" 0 "${as[@]}" "$ORCH" run run.yaml --new --quiet 'evolver.command=[./hooks, hooks]'
    expect_stdout "$who: E22 becomes a version" accepted
    refuse "$who: E22 and nothing of them ran" test -e hook-ran

    # E26 what is swapped while it is taken over: the racer is dead before
    evaluates '(while :; do ln -sfn /etc/passwd /w/output/x; rm -f /w/output/x; echo mine >/w/output/x; done) & i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); done'
    expect_equal "$who: E26 a racer is judged" 1 "$(trial scored)"
    refuse "$who: E26 nothing of the machine's was taken over" grep -rqs '^root:' .state/runs

    # E71 a flood, E70 and E74 giants, E77 rights and dates
    evaluates 'head -c 200000000 /dev/zero | tr "\0" x' task.limits.output=1MiB
    expect_equal "$who: E71 a flood is cut" 1 "$(trial scored)"
    check "$who: E71 and little of it is kept" test "$(du -sk .state/runs | cut -f1)" -lt 30000
    evaluates 'cd /w/output; i=0; while [ $i -lt 3000 ]; do mkdir d && cd d || break; i=$((i + 1)); done; echo $i'
    expect_equal "$who: E74 a tree without end is a limit" 1 "$(trial limited)"
    evaluates 'truncate -s 1T /w/output/f || exit 3' task.limits.file=100MiB
    expect_equal "$who: E70 a sparse giant is refused" 1 "$(json_get 'd["summary"]["failed_calls"]["task"]["failed"]')"
    printf '#!/bin/sh\ncp /bin/true /w/adapter/tool; chmod 6777 /w/adapter/tool; chmod 777 /w/adapter/tool; touch -d 2100-01-01 /w/adapter/tool\n' >rights
    chmod 755 rights
    expect_exit "$who: E77 a candidate with rights and dates" 0 "${as[@]}" "$ORCH" run run.yaml --new --quiet 'evolver.command=[./rights]'
    expect_equal "$who: E77 has neither in its version" "100755 blob tool" \
        "$(git -c safe.directory='*' --git-dir="$(echo .state/runs/"$(sed -n 's/^run //p' "$WORK/.e2e/out")"/versions.git)" ls-tree main tool | awk '{print $1, $2, $4}')"

    # E75 a link and a write through it
    evaluates 'ln -s /tmp /w/output/d; echo x >/w/output/d/through; mkdir /w/output/e; ln -s ../../../../../etc /w/output/e/f'
    expect_equal "$who: E75 links are judged" 1 "$(trial scored)"
    refuse "$who: E75 nothing was written through one" test -e /tmp/through

    # E78 the settings, E81 settings that mean the opposite
    mkdir -p "$HOME/.config/orch" && echo '# mine' >"$HOME/.config/orch/confinement.yaml"
    expect_exit "$who: E78 settings cannot be written" 1 "${as[@]}" "$ORCH" sandbox exec '{}' -- \
        sh -c "(echo 'confinement: {required: false}' >'$HOME/.config/orch/confinement.yaml') || exit 1"
    expect_equal "$who: E78 nor changed" '# mine' "$(cat "$HOME/.config/orch/confinement.yaml")"
    expect_exit "$who: E81 an empty list of variables passes none" 0 env MINE=1 "${as[@]}" "$ORCH" sandbox exec '{"env_allow": []}' -- \
        sh -c 'test -z "$MINE"'
    expect_exit "$who: E81 an empty list of paths shows none" 1 "${as[@]}" "$ORCH" sandbox exec '{"readable": []}' -- test -e "$PWD"
    expect_exit "$who: E81 a key that is not known is refused" 125 "${as[@]}" "$ORCH" sandbox exec '{"deny": ["/"]}' -- true

    # E79 a tool planted earlier in PATH
    mkdir -p planted && printf '#!/bin/sh\ntouch %s\n' "$PWD/planted-ran" >planted/bwrap && cp planted/bwrap planted/git && chmod 755 planted/*
    expect_exit "$who: E79 a planted bwrap" 0 env PATH="$PWD/planted:$PATH" "${as[@]}" "$ORCH" sandbox exec '{}' --mechanism bubblewrap -- /usr/bin/true
    expect_exit "$who: E79 a planted git" 0 env PATH="$PWD/planted:$PATH" "${as[@]}" "$ORCH" eval run.yaml --adapter ./template/ --new --quiet
    refuse "$who: E79 none of them ran" test -e planted-ran
}

copy_example tiny
as=()
entries caller
if need root; then
    mkdir -m 755 "$WORK/programs" "$WORK/programs/orchestrator" "$WORK/programs/backends"
    cp "$own" "$WORK/programs/orchestrator/orch"
    cp "$(dirname "$own")"/../backends/orch-{init,node} "$WORK/programs/backends/"
    ORCH=$WORK/programs/orchestrator/orch
    cd "$WORK" && rm -rf tiny && copy_example tiny
    chown -R 12345:12345 "$WORK/tiny" "$WORK/home" "$WORK/tmp"
    as=(setpriv --reuid=12345 --regid=12345 --clear-groups)
    entries user
    ORCH=$own as=()
    chown -R 0:0 "$WORK/home"

    # E28 a mount that appears later, beneath a grant, on a machine whose mounts are shared
    cd "$WORK" && mkdir late late/place
    cat >late.sh <<'SH'
mount --make-rshared / && mount -t tmpfs late "$WORK/late" && mkdir "$WORK/late/place" && mount --make-shared "$WORK/late"
"$ORCH" sandbox exec "{\"readable\": [\"$WORK/late\"]}" --mechanism "$1" -- \
    sh -c "echo ready; until [ -e '$WORK/late/gate' ]; do :; done; ls '$WORK/late/place'" >"$WORK/late.out" &
until grep -q ready "$WORK/late.out"; do :; done # it is built
mount -t tmpfs later "$WORK/late/place" && echo secret >"$WORK/late/place/appeared" && ls "$WORK/late/place" >&2
touch "$WORK/late/gate"
wait $!
SH
    for mechanism in namespaces bubblewrap; do
        expect_exit "E28 a mount that comes later ($mechanism)" 0 unshare -m --propagation slave bash late.sh "$mechanism"
        expect_stderr "E28 is there outside ($mechanism)" appeared
        expect_equal "E28 and does not come inside ($mechanism)" ready "$(cat "$WORK/late.out")"
    done

    # E80 without what confines nothing runs
    cat >none.sh <<'SH'
mount --bind /dev/null /usr/bin/bwrap
exec "$ORCH" sandbox exec '{}' --mechanism bubblewrap -- touch "$WORK/ran-unconfined"
SH
    expect_exit "E80 without bubblewrap" 125 unshare -m bash none.sh
    refuse "E80 nothing ran" test -e "$WORK/ran-unconfined"
fi

# E29 a mask beneath a link that leads to where bubblewrap keeps the old root
cd "$WORK" && mkdir -p ws victim && ln -sfn "/oldroot$WORK/victim" ws/l
run_cmd "$ORCH" sandbox exec "{\"writable\": [\"$WORK/ws\"], \"hide\": [\"$WORK/ws/l/made\"]}" --mechanism bubblewrap -- true
expect_equal "E29 nothing is made through it" "" "$(ls -A victim)"
