#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules about the shape of the tree: who includes whom, names, sizes, leftovers."""
import collections
import os
import re
import subprocess

import lint

# ------------------------------------------------------------------ includes

# Folder → folders it may include. Everybody may include itself.
MAY_INCLUDE = {
    "base": set(),
    "state": {"base"},
    "config": {"base"},
    "backends": {"base"},
    "roles": {"backends", "state", "config", "base"},
    "orchestrator": {"roles", "backends", "state", "config", "base"},
}
# Programs that run elsewhere see base and the confinement library only.
GUEST_FOLDERS = ("backends/guest/", "backends/node/")
GUEST_MAY_INCLUDE = ("base/", "backends/guest/", "backends/node/", "backends/mechanisms/", "backends/spec.h")

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def check_includes():
    problems = []
    for name in lint.files(".c", ".h", folders=lint.PRODUCT):
        folder = name.split("/")[0]
        text = lint.read(name)
        for match in INCLUDE.finditer(text):
            target = match.group(1)
            place = f"{name}:{lint.line_of(text, match.start())}"
            if "/" not in target or ".." in target:
                problems.append(f'{place}: include "{target}" as "folder/name.h"')
                continue
            other = target.split("/")[0]
            if other != folder and other not in MAY_INCLUDE[folder]:
                problems.append(f"{place}: {folder} may not include {target}")
            if name.startswith(GUEST_FOLDERS) and not target.startswith(GUEST_MAY_INCLUDE):
                problems.append(f"{place}: a guest may not include {target}")
    lint.report("includes point one way", problems)


# ------------------------------------------------------------------ names

# What carries "sandbox" in its name is a confinement; each has the reason why it is one.
SANDBOX_NAMES = {
    # what confines, and its description
    "sandbox": "the open sandbox as the host holds it",
    "sandbox_spec": "what is asked of a sandbox: grants, masks, network, limits",
    "sandbox_options": "how one sandbox is opened",
    "sandbox_opened": "what opening one sandbox gave: mechanism, grade, checks",
    "sandbox_open": "the record's row before one is opened",
    "sandbox_row": "one sandbox in the record",
    "sandbox_phase": "open, checked, closed: the life of one sandbox",
    "sandbox_state": "the life of one sandbox, where it is run",
    "sandbox_list": "sandboxes of ours that a place still has",
    "sandbox_each": "goes through the record's sandboxes",
    "node_sandbox": "one sandbox as the node runs it",
    "task_sandbox": "what the sandbox of a task call is given",
    "judge_sandbox": "what the sandbox of a judge call is given",
    "evolver_sandbox": "what the sandbox of an evolver call is given",
    "check_sandbox": "what the sandbox of a template's check is given",
    "sandbox_fixture": "what the self-test of sandboxes needs around one",
    "orchestrator/sandbox_fixture.c": "the same",
    "orchestrator/sandbox_fixture.h": "the same",
    "orchestrator/cmd_sandbox_exec.c": "the verb that runs a command in one",
    "orchestrator/cmd_sandbox_test.c": "the verb that tries to get out of one",
    "backends/environments/env_sandbox.c": "opens, checks and closes sandboxes",
    "backends/node/node_sandbox.c": "starts and ends sandboxes where they run",
    "orchestrator/cmd_sandbox_exec.c": "runs one command in a sandbox",
    "orchestrator/cmd_sandbox_enable.c": "requires that sandboxes confine",
    "orchestrator/cmd_sandbox_disable.c": "no longer requires it",
    "orchestrator/cmd_sandbox_status.c": "what a sandbox has on this machine",
}
TAGGED = re.compile(r"\b(?:struct|enum|union)\s+(\w*sandbox\w*)\s*\{|^\}\s*(\w*sandbox\w*)\s*;", re.I | re.M)


def check_sandbox_names():
    problems = []
    used = set()
    for name in lint.files(folders=lint.PRODUCT):
        if "sandbox" in os.path.basename(name).lower():
            used.add(name)
            if name not in SANDBOX_NAMES:
                problems.append(f"{name}: a file named sandbox; add it to the table with the reason if it confines")
    for name in lint.files(".c", ".h", folders=lint.PRODUCT):
        for match in TAGGED.finditer(lint.code(name)):
            tag = match.group(1) or match.group(2)
            used.add(tag)
            if tag not in SANDBOX_NAMES:
                problems.append(f"{name}: type {tag}; add it to the table with the reason if it is a confinement")
    problems += [f"the table names {name}, which is not there" for name in SANDBOX_NAMES if name not in used]
    lint.report("sandbox names a confinement", problems)


def check_unique_names():
    # Names that a convention of CMake or of a reader wants in every folder.
    everywhere = {"CMakeLists.txt", "README.md"}
    seen = collections.defaultdict(list)
    for name in lint.files(".c", ".h"):
        seen[os.path.basename(name)].append(name)
    problems = [f"{base}: {', '.join(where)}" for base, where in sorted(seen.items())
                if len(where) > 1 and base not in everywhere]
    lint.report("C file names are unique", problems)


def check_heads():
    problems = []
    for name in lint.files(".c", ".h"):
        text = lint.read(name)
        if not text.startswith("/* SPDX-License-Identifier: Apache-2.0 */\n"):
            problems.append(f"{name}: the first line is the licence")
        if name.endswith(".h") and name.split("/")[0] in lint.PRODUCT:
            parts = name[:-2].split("/")
            # The folder's name and the file's; folders in between are optional.
            guards = {"_".join(["ORCH", parts[0], parts[-1]]), "_".join(["ORCH"] + parts)}
            guards = {re.sub(r"\W", "_", g).upper() + "_H" for g in guards}
            found = re.search(r"^#ifndef (\w+)\n#define \1$", text, re.M)
            if not found or found.group(1) not in guards:
                problems.append(f"{name}: include guard {' or '.join(sorted(guards))}")
    for name in lint.files(".sh", ".py", "CMakeLists.txt", ".cmake", "deploy/quickstart", "tests/run"):
        if name.startswith("examples/") or name == "CMakeLists.txt":
            continue
        if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lint.read(name).split("\n")[:4]):
            problems.append(f"{name}: no licence line near the top")
    lint.report("licence lines and include guards", problems)


# ------------------------------------------------------------------ sizes

FILE_MAX = 800
FUNCTION_MAX = 120


def check_sizes():
    problems = []
    names = lint.files(".c", ".h")
    for name in names:
        lines = lint.read(name).count("\n")
        if lines > FILE_MAX:
            problems.append(f"{name}: {lines} lines, more than {FILE_MAX}")
    tags = subprocess.run(["ctags", "--fields=+ne", "--kinds-C=f", "-o", "-", "-L", "-"], cwd=lint.ROOT,
                          input="\n".join(n for n in names if n.endswith(".c")), text=True,
                          stdout=subprocess.PIPE, check=True).stdout
    counted = 0
    for row in tags.splitlines():
        line = re.search(r"\tline:(\d+)", row)
        end = re.search(r"\tend:(\d+)", row)
        if row.startswith("!") or not line or not end:
            continue
        counted += 1
        length = int(end.group(1)) - int(line.group(1)) + 1
        if length > FUNCTION_MAX:
            problems.append(f"{row.split(chr(9))[1]}: {row.split(chr(9))[0]} has {length} lines")
    if counted == 0:
        problems.append("ctags found no function")
    lint.report(f"files up to {FILE_MAX} lines, functions up to {FUNCTION_MAX}", problems)


# ------------------------------------------------------------------ leftovers

MARKERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b(?!-)")
# A path of one machine, a registry's host, and a home of somebody.
MACHINE = re.compile(r"(^|[^A-Za-z0-9._/$}-])/(w[o]rk|f[a]rm|r[o]ot|Us[e]rs)/[A-Za-z.]|"
                     r"(^|[^A-Za-z0-9._/-])/home/(?!user\b|you\b|me\b|someone\b|ada\b|alice\b|agent\b|<)[a-z]|"
                     r"https?://(registry|deb|security|files|mirror)[a-z0-9-]*[.]")
SLEEPS = re.compile(r"\b(sleep|usleep|nanosleep|clock_nanosleep)\s*\(|\btime\.sleep\b")
SHELL_SLEEP = re.compile(r"^\s*sleep\b|[;&|]\s*sleep\b|\bdo sleep\b")


def check_leftovers():
    markers, machine, sleeps = [], [], []
    for name in lint.files():
        if not lint.is_text(name) or name == "tests/lint/structure.py":
            continue
        is_c = name.endswith((".c", ".h"))
        for number, line in enumerate(lint.read(name).split("\n"), 1):
            place = f"{name}:{number}"
            if MARKERS.search(line) and name.endswith((".c", ".h", ".sh", ".py", ".js", ".txt", ".cmake")) \
                    and not re.search(r"X{6}", line):
                markers.append(f"{place}: {line.strip()[:100]}")
            if MACHINE.search(line):
                machine.append(f"{place}: {line.strip()[:100]}")
            if name.startswith("tests/") and "lint: wait" not in line and \
                    (SLEEPS.search(line) if is_c or name.endswith(".py") else SHELL_SLEEP.search(line)
                     if name.endswith(".sh") else None):
                sleeps.append(f"{place}: {line.strip()[:100]}")
    # the runner takes executable files only: a script that lost its bit would be left out without a word
    idle = [name for name in lint.files(".sh", folders=("tests",))
            if name.split("/")[1] in ("e2e", "escape", "fault", "engines") and
            not os.access(os.path.join(lint.ROOT, name), os.X_OK)]
    lint.report("every test script runs", idle)
    lint.report("no markers of unfinished work", markers)
    lint.report("no path of one machine", machine)
    lint.report("no test waits by sleeping", sleeps)


if __name__ == "__main__":
    check_includes()
    check_sandbox_names()
    check_unique_names()
    check_heads()
    check_sizes()
    check_leftovers()
