#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tier: slow
# limit: 1500
"""clang-tidy over the product's sources, cached by content.

The key of a file is a digest of its preprocessed text, its flags and the checks: what did not change is not looked at
again. The cache is below build/, so that removing build/ forgets it.
"""
import concurrent.futures
import hashlib
import json
import os
import shlex
import subprocess

import lint

TIDY = "clang-tidy-14"
CLANG = "clang-14"
# gcc's own switches, which clang does not know
GCC_ONLY = ("-Wduplicated-cond", "-Wlogical-op", "-fsanitize", "-fno-sanitize", "-ftrivial-auto-var-init")
CACHE = os.path.join(lint.ROOT, "build", "tidy-cache")


def commands():
    build = os.environ.get("ORCH_BUILD", os.path.join(lint.ROOT, "build", "dev"))
    subprocess.run(["cmake", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", build], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        rows = json.load(f)
    chosen = {}
    for row in rows:
        name = os.path.relpath(os.path.realpath(row["file"]), lint.ROOT)
        if name.split("/")[0] in lint.PRODUCT and name not in chosen:
            chosen[name] = row
    return chosen


def flags_of(row):
    words = shlex.split(row["command"])[1:]
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-MT", "-MF"):
            skip = True
        elif word not in ("-c", "-MD") and not word.startswith(GCC_ONLY) and not word.endswith(".c"):
            kept.append(word)
    return kept


def look(job):
    name, row, salt = job
    flags = flags_of(row)
    text = subprocess.run([CLANG, *flags, "-E", row["file"]], cwd=row["directory"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False).stdout
    # NOLINT comments are not in the preprocessed text.
    text += lint.read(name).encode()
    key = hashlib.sha256(salt + " ".join(flags).encode() + text).hexdigest()
    mark = os.path.join(CACHE, key)
    if os.path.exists(mark):
        return []
    done = subprocess.run([TIDY, "--quiet", f"--config-file={lint.ROOT}/.clang-tidy", row["file"], "--", *flags], cwd=row["directory"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    found = [line.replace(lint.ROOT + "/", "") for line in done.stdout.splitlines()
             if "warning:" in line or "error:" in line]
    if done.returncode != 0 and not found:
        found = [f"{name}: clang-tidy exits {done.returncode}: {done.stderr.strip()[-300:]}"]
    if not found:
        with open(mark, "w", encoding="utf-8"):
            pass
    return found


def main():
    os.makedirs(CACHE, exist_ok=True)
    version = subprocess.run([TIDY, "--version"], stdout=subprocess.PIPE, check=True).stdout
    salt = version + lint.read(".clang-tidy").encode()
    rows = commands()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = sorted({p for found in pool.map(look, [(n, r, salt) for n, r in rows.items()]) for p in found})
    if not rows:
        problems.append("no source in the compile database")
    lint.report("clang-tidy", problems)


if __name__ == "__main__":
    main()
