# SPDX-License-Identifier: Apache-2.0
"""What the lint scripts share: the files of the tree, C text without comments and strings, and reporting."""
import os
import re
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
PRODUCT = ("base", "state", "config", "backends", "roles", "orchestrator")


def files(*suffixes, folders=None):
    """Files of the tree that Git knows or would know, relative, sorted; vendored ones are not ours to judge."""
    out = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "-c", "-o", "--exclude-standard"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if out.returncode == 0:
        names = out.stdout.decode("utf-8", "surrogateescape").split("\0")
    else:  # an unpacked archive
        names = []
        for where, dirs, found in os.walk(ROOT):
            dirs[:] = [d for d in dirs if d not in (".git", "build", ".state")]
            names += [os.path.relpath(os.path.join(where, f), ROOT) for f in found]
    chosen = []
    for name in sorted(set(names)):
        if not name or "third_party/" in name or "/fixtures/" in name or not os.path.isfile(os.path.join(ROOT, name)):
            continue
        if suffixes and not name.endswith(suffixes):
            continue
        if folders and name.split("/")[0] not in folders:
            continue
        chosen.append(name)
    return chosen


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as f:
        return f.read()


def is_text(name):
    with open(os.path.join(ROOT, name), "rb") as f:
        return b"\0" not in f.read(65536)


_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code(name):
    """The text of a C file with comments and the insides of literals blanked; lines keep their numbers."""
    def blank(match):
        text = match.group(0)
        if text[0] in "\"'":
            return text[0] + " " * (len(text) - 2) + text[0]
        return re.sub(r"[^\n]", " ", text)
    return _TOKEN.sub(blank, read(name))


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def report(test, problems):
    """One test line; the problems go to standard error."""
    for problem in problems[:40]:
        print(f"{test}: {problem}", file=sys.stderr)
    if len(problems) > 40:
        print(f"{test}: and {len(problems) - 40} more", file=sys.stderr)
    print(f"{'not ok' if problems else 'ok'} {test}", flush=True)
