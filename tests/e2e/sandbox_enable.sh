#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# orch sandbox enable and disable: the file, its comments, what is refused, exit statuses.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
if [ -e /etc/orch ]; then
    skip sandbox_enable "this machine has a config in /etc/orch"
    exit 0
fi
file=$HOME/.config/orch/confinement.yaml
mkdir -p "$WORK/data/corpus"

# ---- a fresh user
expect_exit "disable asks" 2 "$ORCH" sandbox disable
expect_stdout "and shows what it would do" '^\+  required: false'
expect_stderr "and how" 'add --yes'
check "nothing was written" test ! -e "$file"
expect_exit "disable --yes" 0 "$ORCH" sandbox disable --yes
check "wrote the file" grep -q 'required: false' "$file"
expect_exit "again there is nothing to do" 0 "$ORCH" sandbox disable
expect_stdout "which is said" 'nothing to change'
expect_exit "status names the file" 0 "$ORCH" sandbox status
expect_stdout "as the source" 'confinement.required +false .*confinement.yaml:2'

# ---- enable keeps what is there
printf '# ours\nreadable: []   # none yet\nconfinement:\n  # for now\n  required: false\n  on_unavailable: warn\n' >"$file"
expect_exit "enable" 0 "$ORCH" sandbox enable --network no-network --network public --allow "$WORK/data/corpus"
expect_stdout "prints a diff" '^-  required: false'
expect_stdout "with both sides" '^\+  required: true'
want="# ours
readable: [$WORK/data/corpus]   # none yet
confinement:
  # for now
  required: true
  on_unavailable: refuse
network:
  permitted: [no-network, public]"
expect_equal "comments and order stay" "$want" "$(cat "$file")"
expect_exit "enable again" 0 "$ORCH" sandbox enable --network no-network,public --allow "$WORK/data/corpus/" --json
expect_equal "changes nothing" false "$(json_get 'd["changed"]')"
expect_equal "and says what can be had" true "$(json_get 'd["enforceable"]')"
expect_equal "the file is the same" "$want" "$(cat "$file")"
expect_exit "another path is added" 0 "$ORCH" sandbox enable --allow "$WORK/data"
check "to the others" grep -q "^readable: \[$WORK/data/corpus, $WORK/data\]" "$file"
echo hello >"$WORK/data/corpus/word"
chmod 755 "$WORK" "$WORK/data" "$WORK/data/corpus"
expect_exit "a sandbox reads it" 0 "$ORCH" sandbox exec '{}' -- cat "$WORK/data/corpus/word"
mkdir "$HOME/code"
expect_exit "a directory below home is fine" 0 "$ORCH" sandbox enable --allow "$HOME/code"

# ---- what is refused
cp "$file" "$WORK/before"
for path in / /home /etc /etc/ssh /usr /usr/share /proc/1 /run /var /tmp "$HOME" "$HOME/.ssh" "$HOME/.config" relative \
    "$WORK/absent"; do
    expect_exit "not allowed: ${path//$WORK/W}" 2 "$ORCH" sandbox enable --allow "$path"
done
expect_exit "an unknown mode" 2 "$ORCH" sandbox enable --network everything
expect_stderr "lists the modes" 'no-network, allowlist, public'
expect_exit "an empty mode" 2 "$ORCH" sandbox enable --network no-network,
expect_exit "an unknown mechanism" 2 "$ORCH" sandbox enable --mechanism jail
expect_exit "an unknown answer" 2 "$ORCH" sandbox enable --on-unavailable maybe
expect_exit "an answer that enable contradicts" 2 "$ORCH" sandbox enable --on-unavailable warn
expect_stderr "which is explained" 'required: false'
expect_exit "a word too many" 2 "$ORCH" sandbox enable now
expect_exit "what cannot be had" 3 "$ORCH" sandbox enable --mechanism seatbelt
expect_stderr "is not written" 'nothing was written'
expect_exit "not as JSON either" 3 "$ORCH" sandbox enable --mechanism seatbelt --json
expect_equal "with an error" unavailable "$(json_get 'd["error"]["id"]')"
check "the file is as it was" cmp "$file" "$WORK/before"
expect_exit "forced it is still 3" 3 "$ORCH" sandbox enable --mechanism seatbelt --force
check "but written" grep -q 'mechanism: seatbelt' "$file"
expect_exit "and can be taken back" 0 "$ORCH" sandbox enable --mechanism auto
printf 'confinement: {required: true}\n' >"$HOME/.config/orch/z.yaml"
expect_exit "a later file decides" 2 "$ORCH" sandbox disable --yes
expect_stderr "and is named" 'z.yaml:1 decides'
rm "$HOME/.config/orch/z.yaml"
printf 'confinement: {\n' >"$file"
expect_exit "a broken file" 2 "$ORCH" sandbox enable
expect_equal "is left alone" 'confinement: {' "$(cat "$file")"
rm "$file"
expect_exit "without a home" 2 env -u HOME "$ORCH" sandbox enable
