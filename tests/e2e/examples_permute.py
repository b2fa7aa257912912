# SPDX-License-Identifier: Apache-2.0
"""Writes a copy of examples/zones whose data have another format: examples_permute.py EXAMPLE OUT SEED.

Separators, the order of the fields, the punctuation, the names of the questions and of the JSON fields are
drawn anew (for a seed always the same), a field that means nothing is added, and the tasks are dealt to the splits
in another order. Every answer can still be had from its text in the same way. The programs of the copy are
those of the example: if the score still rises, what they do was learned from the examples.
"""
import json
import os
import random
import shutil
import sys

PUNCTUATION = "/_,()+-"
SPARE = "~^#=%&*@!$<>[]{}"
COLUMN_MARKS = "|\\`"


def word(rng, taken):
    """A pronounceable word that was not drawn before."""
    while True:
        drawn = "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(rng.randint(2, 4)))
        if drawn not in taken:
            taken.add(drawn)
            return drawn


def other_order(rng, count):
    """An order of the columns that is not the one they have."""
    order = list(range(count))
    while order == list(range(count)):
        rng.shuffle(order)
    return order


class Format:
    def __init__(self, rng, tasks):
        taken = {"id"}
        self.fields = {name: word(rng, taken) for name in ("record", "ask", "answer", "decoy")}
        self.asks = {ask: word(rng, taken) for ask in sorted({t["ask"] for t in tasks})}
        present = set("".join(t["record"] for t in tasks))
        spare = [c for c in SPARE if c not in present]
        images = rng.sample(sorted(set(PUNCTUATION) | set(spare)), len(PUNCTUATION))
        self.marks = str.maketrans(dict(zip(PUNCTUATION, images)))
        mark = rng.choice([c for c in COLUMN_MARKS if c not in present])
        self.separator = rng.choice((mark, mark * 2, " " + mark + " "))
        self.orders = {count: other_order(rng, count) for count in (2, 4)}

    def record(self, line):
        columns = line.translate(self.marks).split("\t")
        count = 2 if len(columns) == 2 else 4  # the comment may be absent; a place is kept for it
        columns += [""] * (count - len(columns))
        return self.separator.join(columns[i] for i in self.orders[count])

    def task(self, rng, number, task):
        values = {
            "record": self.record(task["record"]),
            "ask": self.asks[task["ask"]],
            "answer": task["answer"].translate(self.marks),
            "decoy": word(rng, set()),
        }
        names = sorted(values, key=lambda name: self.fields[name])
        return {"id": "p%03d" % number, **{self.fields[name]: values[name] for name in names}}


def must_replace(text, old, new):
    if old not in text:
        sys.exit("examples_permute: run.yaml has no %r any more" % old)
    return text.replace(old, new)


def main():
    source, target, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rng = random.Random(seed)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".state", "source", "make-tasks", "__pycache__"))
    with open(os.path.join(source, "tasks.jsonl"), encoding="utf-8") as file:
        tasks = [json.loads(line) for line in file]
    form = Format(rng, tasks)
    rng.shuffle(tasks)
    with open(os.path.join(target, "tasks.jsonl"), "w", encoding="utf-8") as file:
        for number, task in enumerate(tasks, 1):
            file.write(json.dumps(form.task(rng, number, task), ensure_ascii=False) + "\n")
    at = 0
    for split in ("train", "val", "test"):
        with open(os.path.join(source, split + ".txt"), encoding="utf-8") as file:
            count = len(file.read().split())
        with open(os.path.join(target, split + ".txt"), "w", encoding="utf-8") as file:
            file.write("".join("p%03d\n" % i for i in range(at + 1, at + count + 1)))
        at += count
    path = os.path.join(target, "run.yaml")
    with open(path, encoding="utf-8") as file:
        config = file.read()
    config = must_replace(config, "answers: [answer]", "answers: [%s]" % form.fields["answer"])
    config = must_replace(config, "[./judge, answer]", "[./judge, %s]" % form.fields["answer"])
    with open(path, "w", encoding="utf-8") as file:
        file.write(config)
    print(form.fields["answer"])


main()
