#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The command line of orch: help, errors, exit codes, JSON, the state the process is started in.
# shellcheck disable=SC2016 # the quoted backquotes and variables are meant so
. "$(dirname "$0")/../support/e2e.sh"

is_json() { python3 -m json.tool <"$WORK/.e2e/out" >/dev/null; }

# ---- help
expect_exit "no verb is a usage error" 2 "$ORCH"
expect_stderr "no verb shows the verbs" '^  runs  +Lists'
expect_exit "help" 0 "$ORCH" help
expect_stdout "help lists the exit codes" '130 interrupted'
expect_equal "help writes nothing on standard error" "" "$ERR"
expect_exit "--help alone" 0 "$ORCH" --help
expect_exit "-h alone" 0 "$ORCH" -h
expect_exit "help of a group" 0 "$ORCH" help config
expect_stdout "help of a group lists its verbs" 'config explain'
expect_exit "--help of a group" 0 "$ORCH" config --help

"$ORCH" help --json >"$WORK/verbs.json"
python3 -c 'import json,sys
for v in json.load(open(sys.argv[1]))["verbs"]: print(v["name"])' "$WORK/verbs.json" >"$WORK/verbs"
check "help --json lists verbs" test "$(wc -l <"$WORK/verbs")" -ge 12
while read -r verb; do
    # shellcheck disable=SC2086 # a verb of two words
    expect_exit "help $verb" 0 "$ORCH" help $verb
    expect_stdout "help $verb has examples" '^Examples:'
    by_help=$OUT
    # shellcheck disable=SC2086
    expect_exit "$verb --help" 0 "$ORCH" $verb --help
    expect_equal "$verb --help is help $verb" "$by_help" "$OUT"
done <"$WORK/verbs"

# ---- what is not known
expect_exit "unknown verb" 2 "$ORCH" exporrt
expect_stderr "the nearest verb is told" 'did you mean `orch export`'
expect_equal "an error leaves standard output empty" "" "$OUT"
expect_exit "unknown second word" 2 "$ORCH" config sho
expect_stderr "the nearest second word is told" 'did you mean `orch config show`'
expect_exit "a group alone" 2 "$ORCH" config
expect_stderr "a group alone says what there is" 'show, explain, schema, reference'
expect_exit "unknown option" 2 "$ORCH" runs --jsno
expect_stderr "the nearest option is told" 'did you mean --json'
expect_exit "unknown verb for help" 2 "$ORCH" help sho
expect_stderr "help tells the nearest" 'did you mean `orch help show`'
expect_exit "too many words" 2 "$ORCH" runs one
expect_exit "too few words" 2 "$ORCH" export
expect_exit "a flag with a value" 2 "$ORCH" runs --json=yes
expect_exit "an option without its value" 2 "$ORCH" runs --name
expect_exit "a number that is none" 2 "$ORCH" runs --limit many
expect_exit "a number out of bounds" 2 "$ORCH" runs --limit 0
expect_exit "a control character in a verb" 2 "$ORCH" $'ru\e[2Jns'
refuse "what was typed is shown escaped" grep -q $'\e' "$WORK/.e2e/err"

# ---- JSON of errors
expect_exit "an error as JSON" 2 "$ORCH" rusn --json
check "it is JSON" is_json
expect_equal "with an id" usage "$(json_get 'd["error"]["id"]')"
expect_equal "and a version" 1 "$(json_get 'd["version"]')"
expect_equal "and nothing on standard error" "" "$ERR"
mkdir "$WORK/project"
expect_exit "JSON of an unknown run" 2 "$ORCH" show nothing --json --project "$WORK/project"
expect_equal "not-found has its id" not-found "$(json_get 'd["error"]["id"]')"

# ---- version
expect_exit "version" 0 "$ORCH" version
expect_exit "--version" 0 "$ORCH" --version
expect_stdout "the version is shown" '^orch [0-9]+\.[0-9]+\.[0-9]+'
expect_exit "version --json" 0 "$ORCH" version --json
check "version --json is JSON" is_json
expect_equal "it has the record's schema" 1 "$(json_get 'd["schemas"]["record"]')"
check "it has SQLite's version" test -n "$(json_get 'd["libraries"]["sqlite"]')"
expect_exit "version --quiet is the number alone" 0 "$ORCH" version --quiet
expect_stdout "a number" '^[0-9]+\.[0-9]+\.[0-9]+$'

# ---- what the process starts with
expect_exit "a broken fault plan is refused" 2 env ORCH_FAULT=nonsense:1:kill "$ORCH" version
expect_stderr "and named" 'ORCH_FAULT'
expect_exit "closed descriptors do no harm" 0 bash -c '"$ORCH" version <&- 2>&-'
expect_exit "a closed output does no harm" 0 bash -c '"$ORCH" version >&-'
expect_exit "a reader that goes away is no failure" 0 bash -c 'set -o pipefail; "$ORCH" config reference | head -n 1'
if [ -e /dev/full ]; then
    expect_exit "output that is lost is a failure" 1 bash -c '"$ORCH" version >/dev/full'
    expect_stderr "and told" 'standard output could not be written'
    expect_exit "much output that is lost, too" 1 bash -c '"$ORCH" config reference >/dev/full'
fi
expect_exit "no environment at all" 0 env -i "$ORCH" version
