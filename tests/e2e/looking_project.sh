#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A project without a run, `orch init`, and `orch config …`.
# shellcheck disable=SC2016 # the quoted backquotes and variables are meant so
. "$(dirname "$0")/../support/e2e.sh"

is_json() { python3 -m json.tool <"$WORK/.e2e/out" >/dev/null; }

# ---- a project without runs
workdir empty
expect_exit "runs of an empty project" 0 "$ORCH" runs
expect_equal "nothing is listed" "" "$OUT"
expect_stderr "and that is said" 'no runs in'
expect_exit "runs --quiet" 0 "$ORCH" runs --quiet
expect_equal "says nothing" "" "$OUT$ERR"
expect_exit "runs --json" 0 "$ORCH" runs --json
check "is JSON" is_json
expect_equal "an empty list" "[]" "$(json_get 'd["runs"]')"
expect_equal "looking makes nothing" "" "$(ls -A)"
for verb in show logs diff; do
    expect_exit "$verb without a run" 2 "$ORCH" $verb
    expect_exit "$verb of an unknown run" 2 "$ORCH" $verb nothing
done
expect_exit "export of an unknown run" 2 "$ORCH" export nothing
expect_equal "exports nothing" "" "$OUT"
expect_exit "export in an unknown format" 2 "$ORCH" export nothing --format xml
expect_stderr "the formats are told" 'known: json'
expect_exit "a selector that leaves the project" 2 "$ORCH" show ../../etc
expect_exit "a project that is not there" 2 "$ORCH" runs --project "$WORK/absent"

# ---- init
cd "$WORK" || exit 1
expect_exit "init" 0 "$ORCH" init first
expect_stdout "the next commands are told" 'orch run first/run.yaml'
check "a config is there" test -f first/run.yaml
expect_exit "init never overwrites" 2 "$ORCH" init first
expect_stderr "what exists is listed" 'run\.yaml'
echo mine >"$WORK/mine"
mkdir second && cp mine second/run.yaml
expect_exit "one file is enough to refuse" 2 "$ORCH" init second
expect_equal "and nothing was written" "run.yaml" "$(ls -A second)"
check "and it is as it was" cmp mine second/run.yaml
mkdir third && ln -s /nonexistent third/run.yaml
expect_exit "a dangling link is there too" 2 "$ORCH" init third
expect_exit "there is no --force" 2 "$ORCH" init second --force
expect_exit "init --json" 0 "$ORCH" init fourth --name other --json
check "init --json is JSON" is_json
expect_equal "it has the name" other "$(json_get 'd["name"]')"
expect_exit "a bad name" 2 "$ORCH" init fifth --name 'Not A Name'
expect_exit "a name from the directory" 0 "$ORCH" init "My Project" --json
expect_equal "is made fit" my-project "$(json_get 'd["name"]')"
expect_exit "tasks that are not there" 2 "$ORCH" init sixth --tasks absent.jsonl

mkdir seventh
for i in 1 2 3 4 5 6 7 8 9 10; do echo "{\"id\":\"t$i\",\"question\":\"$i\",\"answer\":\"$i\"}"; done >seventh/own.jsonl
expect_exit "init with tasks inside" 0 "$ORCH" init seventh --tasks seventh/own.jsonl --seed 7 --name dates
check "they are named as a neighbour" grep -q 'own\.jsonl' seventh/run.yaml
refuse "and not by an absolute path" grep -q "$WORK" seventh/run.yaml
split() { cat "$1/train.txt" "$1/val.txt" "$1/test.txt" 2>/dev/null; }
expect_equal "every task is in one split" 10 "$(split seventh | grep -c '^t[0-9]')"
cp -r seventh again && rm -r again/* && cp seventh/own.jsonl again/
expect_exit "the same seed" 0 "$ORCH" init again --tasks again/own.jsonl --seed 7 --name dates
check "gives the same files" diff -r seventh again

# ---- config
expect_exit "config show of what init wrote" 0 "$ORCH" config show first/run.yaml
expect_stdout "a default is marked" 'default'
expect_stdout "a line of the file is marked" 'run\.yaml:[0-9]+'
expect_exit "config show with an override" 0 "$ORCH" config show first/run.yaml task.timeout=77s
expect_stdout "the override is marked" '(77s|1m17s).*override'
expect_exit "config show of the split tasks" 0 "$ORCH" config show seventh/run.yaml
expect_exit "config show --json" 0 "$ORCH" config show first/run.yaml --json
check "config show --json is JSON" is_json
expect_equal "it has the name" first "$(json_get 'd["config"]["name"]')"
"$ORCH" config show first/run.yaml >first/shown.yaml
expect_exit "what it shows reads back" 0 "$ORCH" config show first/shown.yaml --json

printf 'version: 1\nname: x\ntaks: {}\ntask: {timeout: soon}\n' >broken.yaml
expect_exit "a broken config" 2 "$ORCH" config show broken.yaml
expect_stderr "has its place" 'broken\.yaml:3:1'
expect_stderr "and the nearest key" 'nearest: *task'
expect_stderr "all findings are shown" 'broken\.yaml:4'
expect_exit "a broken config as JSON" 2 "$ORCH" config show broken.yaml --json
check "is JSON" is_json
check "with its findings" test "$(json_get 'len(d["error"]["findings"])')" -ge 2
expect_exit "a config that is not there" 2 "$ORCH" config show absent.yaml
expect_exit "config explain" 0 "$ORCH" config explain task.timeout
expect_stdout "has the default" 'default'
expect_exit "config explain of a group" 0 "$ORCH" config explain judge
expect_exit "config explain of the operator's" 0 "$ORCH" config explain confinement.required --operator
expect_exit "config explain of an unknown key" 2 "$ORCH" config explain task.timeuot
expect_stderr "tells the nearest" 'task\.timeout'
expect_exit "config schema" 0 "$ORCH" config schema
check "is JSON" is_json
expect_equal "of the right draft" 'https://json-schema.org/draft/2020-12/schema' "$(json_get 'd["$schema"]')"
expect_exit "config schema --json" 0 "$ORCH" config schema --json
expect_equal "has a version" 1 "$(json_get 'd["version"]')"
expect_exit "config reference" 0 "$ORCH" config reference
expect_stdout "is Markdown" '^#'
expect_exit "config reference --operator" 0 "$ORCH" config reference --operator
