#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Functions that are not called here, and descriptors that are close-on-exec from birth."""
import re

import lint

# function → what to use. Only calls in the product's code count.
BANNED = {
    "strcpy": "xstrdup, memcpy", "strcat": "buf_str", "strncpy": "memcpy", "strncat": "buf_add", "stpcpy": "memcpy",
    "sprintf": "snprintf, buf_fmt", "vsprintf": "vsnprintf", "gets": "fd_read_all", "scanf": "a parser",
    "fscanf": "a parser", "atoi": "a bounded parser", "atol": "a bounded parser",
    "atoll": "a bounded parser", "atof": "strtod with its end", "strtok": "strcspn", "strtok_r": "strcspn",
    "system": "command_run", "popen": "command_run", "mktemp": "mkdtemp, random_name", "tmpnam": "random_name",
    "tempnam": "random_name", "tmpfile": "fd_memfd", "rand": "rng_next", "srand": "rng_seeded",
    "random": "rng_next", "srandom": "rng_seeded", "drand48": "rng_next", "alloca": "xmalloc", "strdupa": "xstrdup",
    "vfork": "process_spawn", "strerror": "err_errno, strerrordesc_np", "localtime": "clock_iso", "gmtime": "clock_iso",
    "ctime": "clock_iso", "asctime": "clock_iso", "sleep": "a timer", "usleep": "a timer", "nanosleep": "a timer",
    "readdir_r": "readdir", "basename": "path_base", "dirname": "path_dir", "getwd": "getcwd",
    "creat": "fd_open", "execvp": "execve", "execlp": "execve",
    "malloc": "xmalloc", "calloc": "xcalloc", "realloc": "xrealloc", "strdup": "xstrdup", "strndup": "xmemdup0",
    "asprintf": "xasprintf",
}
# (file, function) → why it is right there.
ALLOWED = {
    ("base/mem.c", "malloc"): "this is what xmalloc is made of",
    ("base/mem.c", "calloc"): "this is what xcalloc is made of",
    ("base/mem.c", "realloc"): "this is what xrealloc is made of",
    ("base/mem.c", "strdup"): "this is what xstrdup is made of",
    ("backends/guest/init_call.c", "execvp"): "the program is looked for on the PATH inside the sandbox",
}
# A guest that runs out of memory reports it to the host instead of aborting: it may use the plain functions.
PLAIN_MEMORY = ("malloc", "calloc", "realloc", "strdup", "strndup")
GUESTS = ("backends/guest/", "backends/node/")
# Nobody prints or exits below orchestrator/; guests are programs of their own.
SILENT = {"printf": 0, "puts": 0, "putchar": 0, "perror": 0, "exit": 0, "err": 0, "errx": 0, "warn": 0, "warnx": 0,
          "fprintf": 0, "fputs": 0}
MAY_SPEAK = ("orchestrator/", "backends/guest/", "backends/node/")
SPEAK_ALLOWED = {
    ("base/mem.c", "fprintf"): "out of memory: the one line before abort",
    ("base/mem.c", "fputs"): "out of memory: the one line before abort",
}

# call → flag that must stand among its arguments
CLOEXEC = {
    "open": "O_CLOEXEC", "openat": "O_CLOEXEC", "open_by_handle_at": "O_CLOEXEC", "socket": "SOCK_CLOEXEC",
    "socketpair": "SOCK_CLOEXEC", "accept4": "SOCK_CLOEXEC", "pipe2": "O_CLOEXEC", "memfd_create": "MFD_CLOEXEC",
    "epoll_create1": "EPOLL_CLOEXEC", "eventfd": "EFD_CLOEXEC", "signalfd": "SFD_CLOEXEC",
    "timerfd_create": "TFD_CLOEXEC", "inotify_init1": "IN_CLOEXEC", "dup3": "O_CLOEXEC", "fopen": '"e"',
}
# These have no such flag: another call is to be used.
NO_CLOEXEC = {"pipe": "pipe2", "accept": "accept4", "dup": "fcntl with F_DUPFD_CLOEXEC", "epoll_create": "epoll_create1",
              "inotify_init": "inotify_init1", "tmpfile": "fd_memfd", "F_DUPFD": "F_DUPFD_CLOEXEC"}
CLOEXEC_ALLOWED = {
    ("orchestrator/main.c", "open"): "fills a closed 0, 1 or 2, which children inherit",
}

CALL = re.compile(r"(?<![\w.>])(\w+)\s*\(")


def arguments(text, start):
    """The text between the parenthesis at `start` and its partner."""
    depth = 0
    for i in range(start, min(len(text), start + 4000)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return text[start + 1:i]
    return ""


def is_declaration(text, start):
    """`int open(` declares or defines; `return open(`, `= open(` call."""
    before = text[max(0, start - 60):start].rstrip()
    word = re.search(r"(\w+)[\s*]*$", before)
    return bool(word) and word.group(1) not in ("return", "else", "do", "case", "void_") and not before.endswith(")")


def main():
    banned, silent, cloexec = [], [], []
    used = set()
    for name in lint.files(".c", ".h", folders=lint.PRODUCT):
        text = lint.code(name)
        raw = lint.read(name)
        for match in CALL.finditer(text):
            call = match.group(1)
            if call not in BANNED and call not in SILENT and call not in CLOEXEC and call not in NO_CLOEXEC:
                continue
            if is_declaration(text, match.start()):
                continue
            place = f"{name}:{lint.line_of(text, match.start())}"
            used.add((name, call))
            plain = call in PLAIN_MEMORY and name.startswith(GUESTS)
            if call in BANNED and (name, call) not in ALLOWED and not plain:
                banned.append(f"{place}: {call}: use {BANNED[call]}")
            if call in SILENT and not name.startswith(MAY_SPEAK) and (name, call) not in SPEAK_ALLOWED:
                silent.append(f"{place}: {call}")
            if call in NO_CLOEXEC:
                cloexec.append(f"{place}: {call}: use {NO_CLOEXEC[call]}")
            if call in CLOEXEC and (name, call) not in CLOEXEC_ALLOWED:
                open_at = match.end() - 1
                inside = arguments(raw if call == "fopen" else text, open_at)
                wanted = re.compile(r'"[a-z+]*e[a-z+]*"') if call == "fopen" else re.compile(CLOEXEC[call])
                if not wanted.search(inside):
                    cloexec.append(f"{place}: {call} without {CLOEXEC[call]}")
        for match in re.finditer(r"\bF_DUPFD\b", text):
            cloexec.append(f"{name}:{lint.line_of(text, match.start())}: F_DUPFD: use F_DUPFD_CLOEXEC")
    stale = [f"{name}: {call} is allowed but not used" for name, call in list(ALLOWED) + list(CLOEXEC_ALLOWED)
             if (name, call) not in used and name.split("/")[0] != "base"]
    lint.report("no banned function", banned)
    lint.report("nobody prints or exits below orchestrator", silent)
    lint.report("descriptors are close-on-exec from birth", cloexec)
    lint.report("no exception without a use", stale)


if __name__ == "__main__":
    main()
