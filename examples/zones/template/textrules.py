# SPDX-License-Identifier: Apache-2.0
"""The rule language: what one line of rules.txt means. Fixed; only the rules are learned.

    "question" = step | step | ...      how to get the answer from the text
    @question = "field"                 which field of a task names the question
    @text = "field"                     which field holds the text

Each step takes a text and gives one. Strings are written as in JSON; positions count from 1,
or from the end with -1; what is not there is the empty text.

    split SEP N       the N-th part between separators
    between A B       what follows the first A, up to the next B
    run CLASS N       the N-th longest-possible run of digits, letters, upper, lower or marks
    chars A B         the characters from A to B, both included
    replace A B       every A becomes B
    strip, lower, upper, title
"""
import json
import re

CLASSES = {
    "digits": re.compile(r"[0-9]+"),
    "letters": re.compile(r"[^\W\d_]+"),
    "upper": re.compile(r"[A-Z]+"),
    "lower": re.compile(r"[a-z]+"),
    "marks": re.compile(r"(?:[^\w\s]|_)+"),
}
MAX_LINES, MAX_STEPS = 1000, 12


def nth(parts, n):
    """The n-th of a list, counted from 1 or from the end; the empty text where there is none."""
    n = n - 1 if n > 0 else len(parts) + n
    return parts[n] if 0 <= n < len(parts) else ""


def between(text, left, right):
    rest = text.partition(left)[2]
    middle, found, _ = rest.partition(right)
    return middle if found else ""


def chars(text, first, last):
    size = len(text)
    first = first - 1 if first > 0 else max(size + first, 0)
    last = last if last > 0 else size + last + 1
    return text[first:last] if last > 0 else ""


# name: (function, types of its arguments)
STEPS = {
    "split": (lambda s, sep, n: nth(s.split(sep), n), (str, int)),
    "between": (between, (str, str)),
    "run": (lambda s, cls, n: nth(CLASSES[cls].findall(s), n), ("class", int)),
    "chars": (chars, (int, int)),
    "replace": (lambda s, old, new: s.replace(old, new), (str, str)),
    "strip": (lambda s: s.strip(), ()),
    "lower": (lambda s: s.lower(), ()),
    "upper": (lambda s: s.upper(), ()),
    "title": (lambda s: s.title(), ()),
}


def run(program, text):
    for name, args in program:
        text = STEPS[name][0](text, *args)
    return text


def show(program):
    return " | ".join(
        " ".join([name] + [a if a in CLASSES and name == "run" else json.dumps(a, ensure_ascii=False) for a in args])
        for name, args in program
    )


def tokens(line):
    """Words, numbers and JSON strings of a line; ValueError where a string is not closed."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(line):
        if line[at] in " \t":
            at += 1
        elif line[at] == '"':
            value, at = decoder.raw_decode(line, at)
            found.append(("string", value))
        else:
            end = at
            while end < len(line) and line[end] not in ' \t"':
                end += 1
            found.append(("word", line[at:end]))
            at = end
    return found


def argument(token, kind):
    form, value = token
    if kind is str and form == "string":
        return value
    if kind is int and form == "word":
        number = int(value)
        if number != 0:
            return number
    if kind == "class" and form == "word" and value in CLASSES:
        return value
    raise ValueError("%r is not what the step takes" % value)


def step(words):
    if not words or words[0][0] != "word" or words[0][1] not in STEPS:
        raise ValueError("no such step")
    name = words[0][1]
    kinds = STEPS[name][1]
    if len(words) - 1 != len(kinds):
        raise ValueError("%s takes %d arguments" % (name, len(kinds)))
    args = tuple(argument(w, k) for w, k in zip(words[1:], kinds))
    if name in ("split", "between", "replace") and "" in args[: 2 if name == "between" else 1]:
        raise ValueError("%s needs a text to look for" % name)
    return name, args


def parse_line(line):
    """(kind, name, value): ("role", "text", field) or ("rule", question, program)."""
    found = tokens(line)
    if len(found) < 3 or found[1] != ("word", "="):
        raise ValueError("expected: name = value")
    (form, name), rest = found[0], found[2:]
    if form == "word" and name in ("@question", "@text"):
        if len(rest) != 1 or rest[0][0] != "string":
            raise ValueError("expected the name of a field")
        return "role", name[1:], rest[0][1]
    if form != "string":
        raise ValueError("a question is written in quotes")
    steps, part = [], []
    for token in rest + [("word", "|")]:
        if token == ("word", "|"):
            steps.append(step(part))
            part = []
        else:
            part.append(token)
    if len(steps) > MAX_STEPS:
        raise ValueError("more than %d steps" % MAX_STEPS)
    return "rule", name, steps


def load(text):
    """roles, rules, and what is wrong: {"text": field, ...}, {question: program}, [message]."""
    roles, rules, wrong = {}, {}, []
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        return roles, rules, ["more than %d lines" % MAX_LINES]
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            kind, name, value = parse_line(line)
            table = roles if kind == "role" else rules
            if name in table:
                raise ValueError("said twice: " + name)
            table[name] = value
        except ValueError as error:
            wrong.append("line %d: %s" % (number, error))
    return roles, rules, wrong
