#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone, with both compilers."""
import concurrent.futures
import os
import shutil
import subprocess

import lint

FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wstrict-prototypes", "-fsyntax-only",
         "-Wno-unused-function", "-I", lint.ROOT, "-I", os.path.join(lint.ROOT, "tests/support")]
PACKAGES = ["jansson", "libuv", "yaml-0.1", "sqlite3", "libcrypto", "libseccomp", "smartcols", "libutf8proc"]


def compile_one(job):
    compiler, flags, name = job
    done = subprocess.run([compiler, *FLAGS, *flags, "-x", "c", "-"], input=f'#include "{name}"\n', text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return None if done.returncode == 0 else f"{name}: {done.stdout.strip()[:600]}"


def main():
    flags = subprocess.run(["pkg-config", "--cflags", *PACKAGES], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.split()
    names = lint.files(".h", folders=lint.PRODUCT) + ["tests/support/test.h"]
    for compiler in ("gcc", "clang-14"):
        if not shutil.which(compiler):
            lint.report(f"headers compile alone ({compiler})", [f"{compiler} is not installed"])
            continue
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(compile_one, [(compiler, flags, n) for n in names])
        lint.report(f"headers compile alone ({compiler})", [f for f in found if f])


if __name__ == "__main__":
    main()
