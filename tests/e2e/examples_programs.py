#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of the examples by themselves, without orch: their data, their contracts, and that they are
deterministic. Prints "ok NAME" or "not ok NAME"."""
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ZONES = os.path.join(SOURCE, "examples", "zones")
TINY = os.path.join(SOURCE, "examples", "tiny")


def rows(example):
    with open(os.path.join(example, "tasks.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def ids(example, split):
    with open(os.path.join(example, split + ".txt"), encoding="utf-8") as file:
        return file.read().split()


def put(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def run(work, command, context):
    """Runs a program as a run does: with a context file and a bare environment."""
    path = os.path.join(work, "context.json")
    put(path, context)
    subprocess.run(command, env={"PATH": "/usr/bin:/bin", "ORCH_CONTEXT": path}, cwd="/", check=True, timeout=60)


def solve(example, work, task, adapter):
    output = os.path.join(work, "output")
    shutil.rmtree(output, ignore_errors=True)
    os.mkdir(output)
    put(os.path.join(work, "task.json"), task)
    context = {"task": os.path.join(work, "task.json"), "output": output}
    if adapter:
        context["adapter"] = adapter
    run(work, [os.path.join(example, "solve")], context)
    return text_of(os.path.join(output, "answer.txt"))


def judge(example, work, row, *args):
    verdict = os.path.join(work, "verdict.json")
    put(os.path.join(work, "row.json"), row)
    context = {"task": os.path.join(work, "row.json"), "collected": os.path.join(work, "output"), "verdict": verdict}
    run(work, [os.path.join(example, "judge"), *args], context)
    with open(verdict, encoding="utf-8") as file:
        return json.load(file)


def learn(example, work, chosen, name, steps):
    """`steps` evolver calls, each on its share of the rows; the directory of the last candidate."""
    adapter, state = os.path.join(work, name), os.path.join(work, name + "-state")
    shutil.copytree(os.path.join(example, "template"), adapter)
    os.mkdir(state)
    for step in range(steps):
        material = os.path.join(work, "%s-material-%d" % (name, step))
        output = os.path.join(work, "%s-output-%d" % (name, step))
        os.makedirs(os.path.join(material, "tasks"))
        os.mkdir(output)
        for number, row in enumerate(chosen[step::steps], 1):
            entry = {"id": row["id"], "task": row, "result": "scored", "score": 0}
            quoted = json.dumps(row["answer"], ensure_ascii=False) if example == ZONES else row["answer"]
            entry["feedback"] = "expected " + quoted
            with open(os.path.join(material, "tasks", "%04d.json" % number), "w", encoding="utf-8") as file:
                # as in a run: the row as it stands in the data, on one line
                file.write('{\n  "task": %s' % json.dumps(entry.pop("task"), ensure_ascii=False))
                file.write(",\n" + json.dumps(entry, ensure_ascii=False, indent=2)[2:] + "\n")
        context = {"adapter": adapter, "material": material, "state": state, "output": output, "seed": 7, "step": step}
        run(work, [os.path.join(example, "learn")], context)
    return adapter


def test_tasks_are_what_make_tasks_writes(work):
    copy = os.path.join(work, "zones")
    shutil.copytree(ZONES, copy, ignore=shutil.ignore_patterns(".state"))
    subprocess.run(["./make-tasks"], cwd=copy, check=True, stdout=subprocess.DEVNULL)
    for name in ("tasks.jsonl", "train.txt", "val.txt", "test.txt"):
        assert filecmp.cmp(os.path.join(copy, name), os.path.join(ZONES, name), shallow=False), name


def test_splits_are_disjoint_and_complete(work):
    for example in (ZONES, TINY):
        listed = [i for split in ("train", "val", "test") for i in ids(example, split)]
        assert sorted(listed) == sorted(row["id"] for row in rows(example)), example
        assert len(set(listed)) == len(listed), example
    assert len(rows(ZONES)) >= 400 and len(ids(ZONES, "test")) >= 180


def test_no_test_task_is_a_training_task(work):
    by_id = {row["id"]: (row["record"], row["ask"]) for row in rows(ZONES)}
    train = {by_id[i] for i in ids(ZONES, "train")}
    assert not [i for i in ids(ZONES, "test") if by_id[i] in train]


def test_root_and_baseline_answer_nothing(work):
    row = rows(ZONES)[0]
    task = {name: value for name, value in row.items() if name != "answer"}
    for adapter in (os.path.join(ZONES, "template"), None):
        assert solve(ZONES, work, task, adapter) == "\n"
        verdict = judge(ZONES, work, row, "answer")
        assert verdict["score"] == 0 and row["answer"] in verdict["feedback"], verdict


def test_judge_bears_what_an_agent_leaves(work):
    row = rows(ZONES)[0]
    output = os.path.join(work, "output")
    os.mkdir(output)
    answer = os.path.join(output, "answer.txt")
    assert judge(ZONES, work, row, "answer")["score"] == 0  # nothing
    with open(answer, "wb") as file:
        file.write(b"\xff\xfe" * 100000)
    assert judge(ZONES, work, row, "answer")["score"] == 0  # no text, and much of it
    os.remove(answer)
    os.symlink(os.path.join(work, "elsewhere"), answer)
    with open(os.path.join(work, "elsewhere"), "w", encoding="utf-8") as file:
        file.write(row["answer"])
    assert judge(ZONES, work, row, "answer")["score"] == 0  # a link is not followed
    os.remove(answer)
    os.mkfifo(answer)
    assert judge(ZONES, work, row, "answer")["score"] == 0  # nobody is waited for
    os.remove(answer)
    with open(answer, "w", encoding="utf-8") as file:
        file.write(row["answer"] + "\n")
    assert judge(ZONES, work, row, "answer")["score"] == 1


def test_learning_is_deterministic_and_touches_only_the_rules(work):
    chosen = [row for row in rows(ZONES) if row["id"] in set(ids(ZONES, "train"))][:60]
    first = learn(ZONES, work, chosen, "first", 3)
    second = learn(ZONES, work, chosen, "second", 3)
    root = os.path.join(ZONES, "template")
    assert sorted(os.listdir(first)) == sorted(os.listdir(root))
    for name in sorted(os.listdir(root)):
        same = filecmp.cmp(os.path.join(first, name), os.path.join(root, name), shallow=False)
        assert same == (name != "rules.txt"), name
        assert filecmp.cmp(os.path.join(first, name), os.path.join(second, name), shallow=False), name
    learned = [line for line in text_of(os.path.join(first, "rules.txt")).split("\n") if line.startswith('"')]
    assert len(learned) == 6, learned  # two a step


def test_learned_rules_answer_unseen_tasks(work):
    by_id = {row["id"]: row for row in rows(ZONES)}
    chosen = [by_id[i] for i in ids(ZONES, "train")]
    adapter = learn(ZONES, work, chosen, "learned", 8)
    sample = [by_id[i] for i in ids(ZONES, "test")][:40]
    good = 0
    for row in sample:
        task = {name: value for name, value in row.items() if name != "answer"}
        good += solve(ZONES, work, task, adapter) == row["answer"] + "\n"
    assert good > 0.7 * len(sample), good


def test_check_refuses_wrong_rules(work):
    check = [os.path.join(ZONES, "template", "check-rules"), "textrules.py", work]
    cases = (
        ('"a" = split "," 1 | lower\n@text = "t"\n', 0),
        ('"a" = split "" 1\n', 1),
        ('"a" = split "," 0\n', 1),
        ('"a" = eval "x"\n', 1),
        ('"a" = run spaces 1\n', 1),
        ('"a" = lower\n"a" = upper\n', 1),
        ('"a = lower\n', 1),
        ("nonsense\n", 1),
        ('"a" = ' + " | ".join(["lower"] * 13) + "\n", 1),
    )
    for text, wanted in cases:
        with open(os.path.join(work, "rules.txt"), "w", encoding="utf-8") as file:
            file.write(text)
        status = subprocess.run(check, stderr=subprocess.DEVNULL, check=False).returncode
        assert status == wanted, (text, status)


def test_learned_rules_pass_the_check(work):
    chosen = [row for row in rows(ZONES) if row["id"] in set(ids(ZONES, "train"))][:40]
    adapter = learn(ZONES, work, chosen, "checked", 2)
    check = [os.path.join(ZONES, "template", "check-rules"), "textrules.py", adapter]
    assert subprocess.run(check, check=False).returncode == 0


def test_tiny_learns_the_held_out_word(work):
    by_id = {row["id"]: row for row in rows(TINY)}
    (row,) = [by_id[i] for i in ids(TINY, "test")]
    task = {"id": row["id"], "word": row["word"]}
    solve(TINY, work, task, os.path.join(TINY, "template"))
    assert judge(TINY, work, row)["score"] == 0
    adapter = learn(TINY, work, [by_id[i] for i in ids(TINY, "train")], "tiny", 3)
    solve(TINY, work, task, adapter)
    assert judge(TINY, work, row)["score"] == 1
    solve(TINY, work, task, None)
    assert judge(TINY, work, row)["score"] == 0


def test_a_permuted_copy_shares_no_word_with_the_example(work):
    copies = []
    for name, seed in (("one", 3), ("again", 3), ("two", 4)):
        target = os.path.join(work, name)
        script = os.path.join(SOURCE, "tests", "e2e", "examples_permute.py")
        subprocess.run([sys.executable, script, ZONES, target, str(seed)], check=True, stdout=subprocess.DEVNULL)
        copies.append(target)
    one, again, two = copies
    assert text_of(one + "/tasks.jsonl") == text_of(again + "/tasks.jsonl")
    assert text_of(one + "/tasks.jsonl") != text_of(two + "/tasks.jsonl")
    before, after = rows(ZONES), rows(one)
    assert len(before) == len(after)
    assert set(before[0]) & set(after[0]) == {"id"}
    values = {value for row in after for value in row.values()}
    assert not values & {row["ask"] for row in before}
    assert not [v for v in values if "\t" in v]
    for name in ("solve", "learn", "judge", "template/textrules.py", "template/rules.txt"):
        assert filecmp.cmp(os.path.join(ZONES, name), os.path.join(one, name), shallow=False), name


def main():
    tests = [(n, f) for n, f in sorted(globals().items()) if n.startswith("test_")]
    for name, function in tests:
        work = tempfile.mkdtemp(prefix="orch-examples-")
        try:
            function(work)
            print("ok " + name, flush=True)
        except Exception:
            traceback.print_exc()
            print("not ok " + name, flush=True)
        finally:
            shutil.rmtree(work, ignore_errors=True)


main()
