import json
import os
import pathlib
import re
import shutil

import pytest

PAGE = pathlib.Path(__file__).parents[1] / "README.md"


def test_the_snippets_run(tmp_path, monkeypatch):
    """Runs the snippets of README.md, except natgo.trl and natgo.tree (tests/trl), natgo.Collator, natgo.loss and natgo.teachers (tests of their own)."""
    xxhash = pytest.importorskip("xxhash")
    pytest.importorskip("datasets")
    run = tmp_path / "out" / "first"
    shutil.copytree(os.environ["NATGO_TEST_BATCHES"], run / "batches")
    row = {"messages": [{"role": "user", "content": "Book."}], "tools": [{"type": "function", "function": {"name": "book", "parameters": {}}}]}
    data = (json.dumps(row) + "\n").encode()
    (run / "dataset" / "messages").mkdir(parents=True)
    (run / "dataset" / "messages" / "train.jsonl").write_bytes(data)
    file = {"path": "messages/train.jsonl", "kind": "demonstration", "split": "train", "xxh3": xxhash.xxh3_128(data).hexdigest()}
    (run / "manifest.json").write_text(json.dumps({"dataset": [{"format": "messages", "files": [file]}]}))
    monkeypatch.chdir(tmp_path)
    blocks = [b for b in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S) if not re.search("natgo([.](trl|Collator|loss)| import (tree|teachers))|HintTrainer", b)]
    assert len(blocks) == 2
    names = {}
    for block in blocks:
        exec(block, names)
    assert names["batch"]["chosen_input_ids"].ndim == 2
    assert names["rows"][0]["tools"] == row["tools"]
