#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No mutable variable outlives a function below main: looks at the objects that were built ($ORCH_BUILD)."""
import os
import re
import subprocess

import lint

# symbol → why it may be there
ALLOWED = {
    "installed": "state/durable.c: fault points; one atomic pointer, set once by main before any thread",
}
SECTIONS = re.compile(r"^(\.data|\.bss|\.tdata|\.tbss|COMMON|\*COM\*)(?!\.rel\.ro)")


def main():
    build = os.environ.get("ORCH_BUILD", os.path.join(lint.ROOT, "build", "dev"))
    archives = []
    for folder in lint.PRODUCT:
        for where, _, names in os.walk(os.path.join(build, folder)):
            archives += [os.path.join(where, n) for n in names if n.endswith(".c.o")]
    problems = []
    for path in sorted(archives):
        out = subprocess.run(["objdump", "-t", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        for line in out.splitlines():
            # address, flags, section, size, name
            row = re.match(r"^[0-9a-f]+ (.{7}) (\S+)\s+([0-9a-f]+)\s+(?:\.hidden )?(\S+)$", line)
            if not row or int(row.group(3), 16) == 0 or row.group(1)[-1] != "O":
                continue
            if SECTIONS.match(row.group(2)) and not row.group(2).startswith(".data.rel.ro"):
                name = re.sub(r"\.\d+$", "", row.group(4))
                if name not in ALLOWED:
                    problems.append(f"{os.path.relpath(path, build)}: {name} ({row.group(2)})")
    if not archives:
        problems.append(f"no object file below {build}")
    lint.report("no mutable variable at file scope", problems)


if __name__ == "__main__":
    main()
