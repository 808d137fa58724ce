"""Holds what was read off the pages of nat-go view against the run's files: compare.py RUN SEEN.json

Rows, pairs and drops are read with json, tokens and masks with safetensors, and scores out of the input that the run was
made of; nothing of nat-go takes part."""

import collections
import json
import pathlib
import re
import sys

from safetensors.numpy import load_file

run = pathlib.Path(sys.argv[1])
seen = json.loads(pathlib.Path(sys.argv[2]).read_text())
wrong, compared = [], collections.Counter()


def check(what, got, want):
    compared[what.split()[0]] += 1
    if got != want:
        wrong.append(f"{what}: on the page {got!r}, in the file {want!r}")


def lines(path):
    return [line for line in path.read_text().split("\n") if line]


index = [json.loads(line) for line in lines(run / "batches/index.jsonl")]
record = {}  # hash by ordinal
for batch in index:
    for row in batch["row_info"]:
        record[row["ordinal"]] = row["record"]
files, origin = {}, collections.defaultdict(list)
for folder in sorted((run / "dataset").iterdir()):
    for line in lines(folder / "rows.jsonl"):
        o = json.loads(line)
        path = f"{folder.name}/{o['file']}"
        files.setdefault(path, lines(folder / o["file"]))
        origin[o["record"]].append((folder.name, path, o))


def trl(ordinal):
    """The row of format trl that a record was written as, and where it comes from."""
    for name, path, o in origin[record[ordinal]]:
        if name == "trl":
            return json.loads(files[path][o["row"]]), path, o
    raise KeyError(ordinal)


scores = {}  # by example, turn and answer
source = run.parents[1] / "workflow_output.json"
for example in json.loads(source.read_text()) if source.exists() else []:
    for step in example["intermediate_steps"]:
        data = step["payload"]["data"]
        if step["payload"]["event_type"] == "TTC_END" and data["score"] is not None:
            scores.setdefault((str(example["id"]), data["turn_id"], data["output"]), data["score"])


def scored(row, origin):
    """The scores of a pair's answers."""
    return [scores[origin["example"], origin["turn"], "\n".join(said(row[side]))] for side in ("chosen", "rejected")]


def shown(x):
    """A number as the pages show it: four digits."""
    return f"{x:.4g}"


def said(messages):
    return messages if isinstance(messages, str) else [m["content"] for m in messages]


for r in seen["rows"] or []:
    n = int(r["record"]) - 1
    row, path, o = trl(n)
    texts = [t for side in ("prompt", "chosen", "rejected") for t in said(row[side])]
    check(f"row {n} example", r["example"], f"{o['example']}, {o['turn']}")
    check(f"row {n} builder", r["builder"], o["builder"])
    check(f"row {n} fate", r["fate"], "train" if "train" in path else "validation")
    check(f"row {n} length", int(r["length"].replace(",", "")), sum(map(len, texts)))
    chosen, rejected = scored(row, o)
    check(f"row-score {n}", float(r["score"]), float(shown(chosen - rejected)))
    check(f"row {n} beginning", r["beginning"], " ".join(said(row["prompt"])[-1].split())[:160])

for p in seen["pairs"] or []:
    n = p["record"] - 1
    row, _, o = trl(n)
    check(f"pair {n} prompt", p["prompt"], said(row["prompt"]))
    check(f"pair {n} chosen", p["chosen"], "\n".join(said(row["chosen"])))
    check(f"pair {n} rejected", p["rejected"], "\n".join(said(row["rejected"])))
    facts = re.search(r"chosen (\S+), rejected (\S+), margin (\S+) \(", "\n".join(p["facts"]))
    chosen, rejected = scored(row, o)
    check(f"pair-scores {n}", [float(shown(float(x))) for x in facts.groups()],
          [float(shown(x)) for x in (chosen, rejected, chosen - rejected)])
    want = {f"{name}: {path}:{o['row'] + 1}": files[path][o["row"]] for name, path, o in origin[record[n]]}
    check(f"pair {n} written", p["written"], want)

tensors = {b["file"]: load_file(run / "batches" / b["file"]) for b in index}
for t in seen["tokens"] or []:
    name, row = t["ref"].rsplit(":", 1)
    row, data = int(row) - 1, tensors[name]
    for side, tokens in zip(t["sides"], t["tokens"]):
        ids = data[f"{side}_input_ids"][row][data[f"{side}_attention_mask"][row] == 1].tolist()
        if f"{side}_labels" in data:
            trained = [label != -100 for label in data[f"{side}_labels"][row][: len(ids)].tolist()]
        else:
            mine = data[f"pair_{side}_row"] == row
            at = set((data[f"pair_{side}_pos"][mine] + 1).tolist())
            trained = [i in at for i in range(len(ids))]
        check(f"row-of-tokens {t['ref']} {side} positions", [x[0] for x in tokens], list(range(len(ids))))
        for (at, token, kind), want, mask in zip(tokens, ids, trained):
            check(f"token {t['ref']} {side} {at}", (token, kind == "trained"), (want, mask))

drops = collections.Counter()
for line in lines(run / "dropped.jsonl"):
    d = json.loads(line)
    drops[d["stage"], d["reason"], d["unit"]] += d.get("count") or 1
check("drops", sorted(map(tuple, seen["drops"])), sorted((s, r, f"{n:,} {u}") for (s, r, u), n in drops.items()))
check("losses", sorted(map(tuple, seen["losses"])), sorted((s, r, f"{n:,}", u) for (s, r, u), n in drops.items()))

print(json.dumps(compared))
for line in wrong[:20]:
    print(line)
sys.exit(bool(wrong))
