"""Loads each file of rows with datasets and compares the values with those of the lines it was made of.

Standard input has a line for each: {"file", "lines", "otherwise", "old", "nulls"}: a file of rows, the file of lines whose
values it has, whether it is said that the reader changes or refuses it - today's reader, or one before datasets 4.7 - and
whether the trainer treats a key with null as missing. The answer is a line with a text: what is not as said, or nothing. What datasets caches of a file is removed before the next one."""

import json
import os
import sys
import tempfile

import datasets

datasets.disable_progress_bars()
modern = tuple(int(x) for x in datasets.__version__.split(".")[:2]) >= (4, 7)


def present(value):
    """An object without the keys whose values are null."""
    return {k: v for k, v in value.items() if v is not None}


def same(want, got, nulls):
    """Whether a value came back. A row's key that was read as null was not there."""
    if isinstance(got, str) and not isinstance(want, str):
        got = json.loads(got)  # a table's column of JSON as text
    if nulls and isinstance(want, dict) and isinstance(got, dict):
        want, got = present(want), present(got)
    if isinstance(want, dict):
        return isinstance(got, dict) and set(want) == set(got) and all(same(want[k], got[k], nulls) for k in want)
    if isinstance(want, list):
        return isinstance(got, list) and len(want) == len(got) and all(same(a, b, nulls) for a, b in zip(want, got))
    return want == got and type(want) in (type(got), int, float)


def row(want, got, nulls):
    got = {k: v for k, v in got.items() if v is not None or k in want}
    if isinstance(got.get("messages"), list):  # ms_swift declares loss as a key that may be null
        got["messages"] = [
            {k: v for k, v in m.items() if v is not None or k != "loss"} if isinstance(m, dict) else m
            for m in got["messages"]
        ]
    for key in ("input",):  # an object within a row, where it has one
        if isinstance(got.get(key), dict):
            got[key] = {k: v for k, v in got[key].items() if v is not None or k in want[key]}
    return same(want, got, nulls)


def load(path, cache):
    kind = "parquet" if path.endswith(".parquet") else "json"
    return list(datasets.load_dataset(kind, data_files=path, split="train", cache_dir=cache))


def check(case, cache):
    with open(case["lines"]) as f:
        want = [json.loads(line) for line in f]
    said = bool(case["otherwise"]) or (bool(case["old"]) and not modern)
    try:
        got, why = load(case["file"], cache), ""
    except Exception as e:
        got, why = None, f"load_dataset fails: {e.__cause__ or e}"[:300]
    if got is not None:
        if len(got) != len(want):
            why = f"{len(got)} rows of {len(want)}"
        for i, (a, b) in enumerate(zip(want, got)):
            if not why and not row(a, b, case["nulls"]):
                why = f"row {i + 1} is {str(b)[:300]}, not {str(a)[:300]}"
    if bool(why) == said:
        return ""
    return f"{why or 'it came back as it was'}; said: {case['otherwise']} {case['old']}"


answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever a library prints is no answer
for case in map(json.loads, sys.stdin):
    with tempfile.TemporaryDirectory() as cache:
        wrong = check(case, cache)
    print(json.dumps(wrong), file=answers, flush=True)
