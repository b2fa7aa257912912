#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Format of C, shell scripts, spelling."""
import os
import subprocess

import lint

# Words that are right here although a dictionary thinks otherwise.
WORDS = "ans,crate,nd,ot,te,fo,ba,hist,inout,claus,statics,als,ro,ue,wit,fpr,shwo"


def run(test, command, names):
    if not names:
        lint.report(test, [])
        return
    done = subprocess.run(command + names, cwd=lint.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    lint.report(test, lines if lines or done.returncode == 0 else [f"{command[0]} exits {done.returncode}"])


def is_shell(name):
    if name.endswith(".sh"):
        return True
    if "." in os.path.basename(name) or not lint.is_text(name):
        return False
    first = lint.read(name)[:80].split("\n")[0]
    return first.startswith("#!") and ("bash" in first or first.rstrip().endswith("/sh") or " sh" in first)


def main():
    run("C is formatted", ["clang-format-14", "--dry-run", "-Werror"], lint.files(".c", ".h"))
    run("shell scripts are clean", ["shellcheck", "-x", "-S", "warning", "-P", "SCRIPTDIR"],
        [n for n in lint.files() if is_shell(n)])
    texts = [n for n in lint.files() if lint.is_text(n) and not n.startswith("examples/") and
             not n.endswith((".jsonl", ".lock")) and not n.startswith(("tests/unit/", "tests/fuzz/corpus"))]
    run("spelling", ["codespell", "-L", WORDS], texts)


if __name__ == "__main__":
    main()
