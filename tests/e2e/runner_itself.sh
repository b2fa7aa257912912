#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The runner and lint catch what they are there for: each is given something broken.
. "$(dirname "$0")/../support/e2e.sh"

# ---------------------------------------------------------------- tests/support/script

mkdir results
counts() { # WANTED "passed failed skipped" of a script whose text is $2
    printf '#!/usr/bin/env bash\n%s\n' "$2" >one
    chmod +x one
    "$SOURCE/tests/support/script" results one "$WORK/one" >text 2>&1
    [ "$(cat results/one.count)" = "$1" ] || {
        cat results/one.count text
        return 1
    }
}
check "a script's lines are counted" counts "2 1 1" 'echo ok a; echo not ok b; echo skip c why; echo ok d; echo okay'
check "a failing status counts" counts "1 1 0" 'echo ok a; exit 3'
check "silence is a failure" counts "0 1 0" 'true'
check "a left file is a failure" counts "1 1 0" 'echo ok a; echo x >"$TMPDIR/left"'
check "a sanitizer report is a failure, whatever the status" counts "1 1 0" \
    'echo ok a; p=${ASAN_OPTIONS##*log_path=}; echo "SUMMARY: bad" >"${p%%:*}.7"'
check "HOME and TMPDIR are private" counts "1 0 0" '[ -z "$(ls -A "$HOME" "$TMPDIR" | grep -v :)" ] && echo ok a'
check "a script that hangs is ended" counts "1 1 0" '# limit: 1
echo ok a; exec tail -f /dev/null'

# ---------------------------------------------------------------- leaks that Criterion hides

if command -v gcc >/dev/null && [ -e /usr/include/criterion/criterion.h ]; then
    cat >leak.c <<'C'
#include <criterion/criterion.h>
#include <stdlib.h>
static void *volatile kept;
Test(leak, passes)
{
    kept = malloc(77);
    kept = NULL;
}
C
    check "a leaking test is built" gcc -g -fsanitize=address leak.c -o leak -lcriterion
    env -u ASAN_OPTIONS ./leak >/dev/null 2>&1 && ok "Criterion alone lets a leak pass" || not_ok "Criterion alone lets a leak pass"
    refuse "tests/support/unit does not" "$SOURCE/tests/support/unit" "$WORK/leak"
else
    skip "leaks of unit tests" "gcc or Criterion is not installed"
fi

# ---------------------------------------------------------------- lint

tree=$WORK/tree
mkdir -p "$tree/tests" "$tree/base" "$tree/backends/guest" "$tree/config" "$tree/tests/e2e"
cp -r "$SOURCE/tests/lint" "$tree/tests/lint"
cp "$SOURCE/.clang-format" "$tree/"
head='/* SPDX-License-Identifier: Apache-2.0 */'
# bad CHECK FILE TEXT: with that file CHECK of the lint script $script says "not ok" and names it.
bad() {
    local what=$1 file=$2
    mkdir -p "$(dirname "$tree/$file")"
    printf '%b' "$3" >"$tree/$file"
    python3 "$tree/tests/lint/$script" >out 2>err
    if grep -qxF "not ok $what" out && grep -F "$what: " err | grep -qF "$file"; then
        ok "lint: $what ($file)"
    else
        not_ok "lint: $what ($file)" "$(cat out err)"
    fi
    rm "$tree/$file"
}
script=structure.py
bad "includes point one way" base/x.c "$head\n#include \"config/schema.h\"\n"
bad "includes point one way" backends/guest/x.c "$head\n#include \"backends/environment.h\"\n"
bad "includes point one way" base/y.c "$head\n#include \"y.h\"\n"
bad "sandbox names a confinement" config/my_sandbox.c "$head\n"
bad "sandbox names a confinement" config/x.h "$head\nstruct sandbox_thing {\n};\n"
bad "sandbox names a confinement" config/x.h "$head\ntypedef struct {\n    int a;\n} my_sandbox;\n"
bad "licence lines and include guards" base/x.c "int x;\n"
bad "licence lines and include guards" base/x.h "$head\n#ifndef WRONG_H\n#define WRONG_H\n#endif\n"
bad "files up to 800 lines, functions up to 120" base/x.c "$head\n$(printf '\\n%.0s' {1..900})"
bad "files up to 800 lines, functions up to 120" base/x.c "$head\nint f(void)\n{\n$(printf '\\n%.0s' {1..130})return 0;\n}\n"
bad "no markers of unfinished work" base/x.c "$head\n/* TO""DO: later */\n"
bad "no path of one machine" base/x.c "$head\n/* see /ro""ot/notes */\n"
bad "no test waits by sleeping" tests/e2e/x.sh "sle""ep 1\n"
cp "$tree/tests/lint/lint.py" "$tree/base/same.c" && printf '%b' "$head\n" >"$tree/base/same.c"
bad "C file names are unique" config/same.c "$head\n"
rm "$tree/base/same.c"
script=calls.py
bad "no banned function" base/x.c "$head\nvoid f(char *a)\n{\n    strcpy(a, \"x\");\n}\n"
bad "nobody prints or exits below orchestrator" base/x.c "$head\nvoid f(void)\n{\n    printf(\"x\");\n}\n"
bad "descriptors are close-on-exec from birth" base/x.c "$head\nint f(void)\n{\n    return open(\"x\", O_RDONLY);\n}\n"
bad "descriptors are close-on-exec from birth" base/x.c "$head\nint f(int a)\n{\n    return dup(a);\n}\n"
bad "descriptors are close-on-exec from birth" base/x.c "$head\nint f(int a)\n{\n    return fcntl(a, F_DUPFD, 3);\n}\n"
