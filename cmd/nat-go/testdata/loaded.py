"""Loads each file of rows with datasets and compares the values with those of the lines it was made of.

loaded.py FILE: FILE has lines of {"file", "lines", "otherwise", "old"}: a file of rows, the file of lines whose values it has,
and whether it is said that the reader changes or refuses it - today's reader, or one before datasets 4.7. Prints what was
not as said; the last line is the number of files that were compared."""

import json
import sys

import datasets

datasets.disable_progress_bars()
modern = tuple(int(x) for x in datasets.__version__.split(".")[:2]) >= (4, 7)


def same(want, got):
    """Whether a value came back. A row's key that was read as null was not there."""
    if isinstance(got, str) and not isinstance(want, str):
        got = json.loads(got)  # a table's column of JSON as text
    if isinstance(want, dict):
        return isinstance(got, dict) and set(want) == set(got) and all(same(want[k], got[k]) for k in want)
    if isinstance(want, list):
        return isinstance(got, list) and len(want) == len(got) and all(map(same, want, got))
    return want == got and type(want) in (type(got), int, float)


def row(want, got):
    got = {k: v for k, v in got.items() if v is not None or k in want}
    for key in ("input",):  # an object within a row, where it has one
        if isinstance(got.get(key), dict):
            got[key] = {k: v for k, v in got[key].items() if v is not None or k in want[key]}
    return same(want, got)


def load(path):
    kind = "parquet" if path.endswith(".parquet") else "json"
    return list(datasets.load_dataset(kind, data_files=path, split="train", cache_dir=sys.argv[1] + ".cache"))


bad = count = 0
for case in map(json.loads, open(sys.argv[1])):
    want = [json.loads(line) for line in open(case["lines"])]
    said = bool(case["otherwise"]) or (bool(case["old"]) and not modern)
    try:
        got, why = load(case["file"]), ""
    except Exception as e:
        got, why = None, f"load_dataset fails: {e.__cause__ or e}"[:300]
    if got is not None:
        if len(got) != len(want):
            why = f"{len(got)} rows of {len(want)}"
        for i, (a, b) in enumerate(zip(want, got)):
            if not why and not row(a, b):
                why = f"row {i + 1} is {str(b)[:300]}, not {str(a)[:300]}"
    count += 1
    if bool(why) != said:
        bad += 1
        print(f"{case['file']}: {why or 'it came back as it was'}; said: {case['otherwise']} {case['old']}")
print(count)
sys.exit(bad > 0)
