"""Measures how fast stacks prepare conversations. referee.py calls measure.

Each stack runs in its own process: python speed.py STACK WORK. referee.yml says what it does there. Processor time is
that of the process and its children; memory is the peak of their anonymous and shared pages.
"""

import itertools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

import stacks

TEMPLATE = "qwen2.5"


def say(phase):
    print(json.dumps([phase, time.time(), sum(os.times()[:4])]), flush=True)


class Loaded(stacks.Work):
    def each(self, make, rows=None):
        """What a stack makes one by one comes from PyTorch's loader with two workers; a data set is ready here."""
        import numpy
        import torch.utils.data
        if not isinstance(items := self.rows if rows is None else rows, (list, range)):
            return
        made = lambda item: [list(map(numpy.asarray, row[:2], ("i4", "i1"))) for row in make(item)]
        for _ in torch.utils.data.DataLoader(items, batch_size=1, num_workers=2, collate_fn=lambda one: made(*one)):
            pass


def main(stack, folder):
    """Prepares conversations in this process: few, cold and once more, then many, then those from what was kept."""
    speed = stacks.STACKS[stack]["speed"]
    list(map(__import__, speed["imports"].split()))
    say("imports")
    for phase in ("cold", "again", "warm", "kept")[:4 if speed.get("keeps") else 3]:
        work = Loaded(folder, stack, TEMPLATE, folder / "speed" / stack / phase.replace("kept", "warm"))
        config = json.dumps(work.stack.get("config", {}) | speed.get("config", {})).replace("OUT", str(work.out))
        work.stack = work.stack | speed | {"config": json.loads(config)}
        work.name = speed.get("template", work.name)
        work.file, work.rows = work.file, []  # written before the clock starts
        del work.rows
        say("file")
        getattr(stacks, speed.get("as", stack))(work)
        say(phase)


def conversations(runs, turns, count):
    """Conversations of so many answers: runs one after another under one system message, in each other digits, and
    other words for about every fourth."""
    words = sorted({word for run in runs for word in json.dumps(run).split(" ") if word.isalpha()})
    for n in range(count):
        dice, out = random.Random(f"{turns} {n}"), []
        endless = (m for at in itertools.count(n) for m in runs[at % len(runs)][1:])
        while sum(m["role"] == "assistant" for m in out) < turns:
            out.append(next(endless))
        digits = str.maketrans("123456789", "".join(dice.sample("123456789", 9)))
        parts = json.dumps(out, ensure_ascii=False).translate(digits).split(" ")
        for at in range(dice.randrange(4), len(parts), 4):
            parts[at] = dice.choice(words) if parts[at].isalpha() else parts[at]
        yield runs[0][:1] + json.loads(" ".join(parts))


def own(pid):
    """The memory that a process and its children have for themselves, in KiB."""
    try:
        rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        tree = " ".join(task.read_text() for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"))
        return sum(map(int, re.findall(r"Pss_(?:Anon|Shmem): +(\d+)", rollup))) + sum(map(own, tree.split()))
    except (OSError, ValueError):  # it ended meanwhile
        return 0


def measured(work, stack, data, few, many):
    """A stack's run over the first conversations of a file: [wall, processor] seconds of each phase, and the peak."""
    folder, peak = work / "speed" / stack, 0
    shutil.rmtree(folder, ignore_errors=True)
    for phase, count in ("cold", few), ("again", few), ("warm", many):
        (folder / phase).mkdir(parents=True)
        with open(data) as rows, open(folder / phase / "conversations.jsonl", "w") as out:
            out.writelines(itertools.islice(rows, count))
    env, begin = stacks.environment(work, stack) | {"HF_HOME": str(folder)}, time.time()
    with open(folder / "printed", "w+") as printed, open(folder / "log", "w") as log:
        process = subprocess.Popen([sys.executable, __file__, stack, work], env=env, stdout=printed, stderr=log)
        while process.poll() is None:
            peak = max(peak, own(process.pid))
            time.sleep(0.5)
        printed.seek(0)
        spent, before = {"peak": peak / 1024, "few": few, "many": many}, [begin, 0]
        for phase, *at in (json.loads(line) for line in printed if line.startswith('["')):
            spent[phase], before = [a - b for a, b in zip(at, before)], at
    return spent


def measure(work, names):
    """Adds a measurement to the cells of stacks; what the page shows is their median."""
    kept = work / "speed.json"
    cells = json.loads(kept.read_text()) if kept.exists() else {}
    rows = list(map(json.loads, open(work / "data" / (TEMPLATE + ".jsonl"))))
    for turns, stack in itertools.product((8, 128), names):
        few, many = stacks.STACKS[stack]["speed"]["counts"][turns]
        data = work / "data" / f"speed-{turns}.jsonl"
        if not data.exists() or sum(1 for _ in open(data)) < many:
            with open(data, "w") as out:
                for messages in conversations([row["messages"] for row in rows], turns, many):
                    out.write(json.dumps(rows[0] | {"messages": messages}, ensure_ascii=False) + "\n")
        spent = measured(work, stack, data, few, many)
        if "warm" in spent:  # else its log says why
            cells.setdefault(f"{stack} {turns}", []).append(spent)
            kept.write_text(json.dumps(cells, indent=1))
    return cells


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
