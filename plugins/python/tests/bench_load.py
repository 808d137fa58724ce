"""Rows per second of natgo.load and of `datasets` in torch format, on the same batches: python3 bench_load.py FOLDER

Each pass reads every token, by summing input_ids. Files are hashed before the first pass. datasets holds the rows as lists in Arrow and pads them to a
batch.
"""

import json
import sys
import tempfile
import time

import datasets
import torch

import natgo


def ours(batches):
    rows, total = 0, 0
    for batch in batches:
        rows += batch["input_ids"].shape[0]
        total += int(batch["input_ids"].sum()) + int((batch["labels"] >= 0).sum())
    return rows, total


def theirs(made, sizes):
    rows, total, at = 0, 0, 0
    for size in sizes:
        chunk = made[at : at + size]
        at += size
        ids, labels = (torch.nn.utils.rnn.pad_sequence(list(chunk[k]), batch_first=True, padding_value=p) for k, p in (("input_ids", 0), ("labels", -100)))
        rows += size
        total += int(ids.sum()) + int((labels >= 0).sum())
    return rows, total


def main():
    folder = sys.argv[1]
    batches = natgo.load(folder, "sft")
    rows = [
        {"input_ids": ids[mask == 1].tolist(), "labels": labels[mask == 1].tolist()}
        for b in batches
        for ids, labels, mask in zip(b["input_ids"], b["labels"], b["attention_mask"])
    ]
    sizes = [b["input_ids"].shape[0] for b in batches]
    with tempfile.TemporaryDirectory() as cache:
        datasets.Dataset.from_list(rows).save_to_disk(cache)
        made = datasets.load_from_disk(cache).with_format("torch")
        loaded = natgo.load(folder, "sft", torch=True)
        _, want = ours(loaded)  # the first pass checks the files' hashes
        best = {"ours": 0.0, "theirs": 0.0}
        for _ in range(5):
            for name, run in (("ours", lambda: ours(loaded)), ("theirs", lambda: theirs(made, sizes))):
                start = time.perf_counter()
                n, total = run()
                best[name] = max(best[name], n / (time.perf_counter() - start))
                assert n == len(rows) and total == want
    print(json.dumps({"rows": len(rows), **best}))


main()
