#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: bwrap
# A task program that looks for what it must not see finds nothing, and does see what it was given.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
need bwrap || { skip run_isolation "no bubblewrap"; exit 0; }

make_project() {
    mkdir -p template task-info
    printf 'template: look@1.0\nlearnable: [rules.txt]\n' >template/adapter.yaml
    echo 'PUBLIC-RULES' >template/rules.txt
    echo 'about' >task-info/README.md
    printf '{"id": "a", "question": "PUBLIC-QUESTION", "answer": "SECRET-ANSWER-a"}\n' >tasks.jsonl
    printf '{"id": "b", "question": "PUBLIC-QUESTION", "answer": "SECRET-ANSWER-b"}\n' >>tasks.jsonl
    printf '{"id": "c", "question": "PUBLIC-QUESTION", "answer": "SECRET-ANSWER-c"}\n' >>tasks.jsonl
    echo a >train.txt
    printf 'b\nc\n' >test.txt
    echo 'SECRET-HOME' >"$HOME/.netrc"
    chmod 600 "$HOME/.netrc"
    cat >look <<'LOOK'
#!/bin/sh
# Everything readable on every file system, by name and by content; what is found goes to the output.
out=/w/output/found.txt
{
    id -u
    cat /w/task.json /w/adapter/rules.txt 2>/dev/null
    find / -xdev \( -path /proc -o -path /usr -o -path /sys -o -path /dev \) -prune -o -print 2>/dev/null
    find / \( -path /proc -o -path /usr -o -path /sys -o -path /dev \) -prune -o -type f -size -64k -print0 2>/dev/null |
        xargs -0 cat 2>/dev/null
    env
    cat /proc/1/environ /proc/1/cmdline 2>/dev/null
    ls -l /proc/self/fd /proc/*/cwd /proc/*/root 2>/dev/null
} >"$out"
LOOK
    cat >judge <<'JUDGE'
#!/usr/bin/python3
import json, os
c = json.load(open(os.environ["ORCH_CONTEXT"]))
text = open(os.path.join(c["collected"], "found.txt"), "rb").read().decode("utf-8", "replace")
place = os.path.dirname(c["verdict"])
controls = ["PUBLIC-QUESTION", "PUBLIC-RULES", "/w/output"]
forbidden = ["SECRET", "tasks.jsonl", "train.txt", "test.txt", ".state", "record.db", ".netrc", "judge", os.environ["LOOK_ROOT"]]
seen = [w for w in forbidden if w in text]
missing = [w for w in controls if w not in text]
if text.split("\n")[0] == "0":
    seen.append("uid 0")
score = 1 if not seen and not missing else 0
json.dump({"score": score, "feedback": "seen %s, missing %s" % (seen, missing)}, open(c["verdict"], "w"))
JUDGE
    chmod +x look judge
    cat >run.yaml <<'YAML'
version: 1
name: look
data: {tasks: tasks.jsonl, train: train.txt, test: test.txt, step_size: 1}
task_info: task-info/
candidate: {template: template/}
environment: {name: host}
task: {agent: command, command: [./look], timeout: 1m, concurrency: 2}
judge: {mode: host, command: [./judge], timeout: 1m, env: [LOOK_ROOT]}
evolver: {agent: command, command: ["true"]}
YAML
}

finds_nothing() { # NAME COMMAND-PREFIX…
    local name=$1
    shift
    run_cmd "$@" "$ORCH" eval run.yaml --adapter ./template/ --json --new
    local score
    score=$(tail -n 1 "$WORK/.e2e/out" | python3 -c 'import json,sys; print(json.load(sys.stdin)["summary"]["results"]["test"]["mean"])' 2>/dev/null)
    expect_equal "$name" "1.0" "$score" || { "$ORCH" show latest --json | python3 -c 'import json,sys; d=json.load(sys.stdin); print(json.dumps(d)[:3000])' >&2; cat "$WORK/.e2e/err" >&2; }
}

workdir look
export LOOK_ROOT=$WORK
make_project
finds_nothing looks_as_caller
# The controls can fail: the same program with the project granted is told to be seeing.
run_cmd "$ORCH" eval run.yaml --adapter ./template/ --json --new "task.paths.read=[$WORK/look]"
if [ "$STATUS" -ne 0 ] || [ "$(tail -n 1 "$WORK/.e2e/out" | python3 -c 'import json,sys; print(json.load(sys.stdin)["summary"]["results"]["test"]["mean"])')" = 0.0 ]; then
    ok looking_is_able_to_find
else
    not_ok looking_is_able_to_find "a granted project was not seen"
fi
if need root && need setpriv; then
    chmod 755 "$WORK" "$WORK/home"
    rm -rf .state
    # The tree may be where that user cannot go: a copy, laid out as the build is.
    built=$(dirname "$(dirname "$ORCH")")
    mkdir -p "$WORK/built/orchestrator" "$WORK/built/backends"
    cp "$ORCH" "$WORK/built/orchestrator/"
    cp "$built"/backends/orch-* "$WORK/built/backends/"
    ORCH=$WORK/built/orchestrator/orch
    chown -R 65534:65534 "$WORK/look" "$WORK/home" "$WORK/tmp"
    finds_nothing looks_as_user setpriv --reuid=65534 --regid=65534 --clear-groups
else
    skip looks_as_user "not started as root, so looks_as_caller was this test"
fi
