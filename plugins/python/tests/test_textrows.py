import json

import pytest

import natgo

xxhash = pytest.importorskip("xxhash")
datasets = pytest.importorskip("datasets")


def tool(name, **properties):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


def call(name, **arguments):
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": name, "arguments": arguments}}]}


ROWS = [
    {"messages": [{"role": "user", "content": "Book."}, call("book", day="2026-03-02", minutes=30)], "tools": [tool("book", day={"type": "string"})]},
    {"messages": [{"role": "user", "content": "Find."}, call("find", people=["ada"]), {"role": "tool", "content": "{}", "tool_call_id": "c"}],
     "tools": [tool("find", people={"type": "array"}), tool("none")]},
]


@pytest.fixture
def run(tmp_path):
    """Makes a run folder with rows as nat-go writes them."""

    def write(rows=ROWS, format="messages", name="train.jsonl", kind="demonstration", text=None):
        path = tmp_path / "dataset" / format / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = (text if text is not None else "".join(json.dumps(r) + "\n" for r in rows)).encode()
        path.write_bytes(data)
        written.append({"format": format, "files": [
            {"path": f"{format}/{name}", "kind": kind, "split": "train", "rows": len(rows), "xxh3": xxhash.xxh3_128(data).hexdigest()}]})
        (tmp_path / "manifest.json").write_text(json.dumps({"dataset": written}))
        return tmp_path

    written = []
    return write


def lean(value):
    """Removes what is None: a struct has the keys of all structs in its column."""
    if isinstance(value, dict):
        return {k: lean(v) for k, v in value.items() if v is not None}
    return [lean(v) for v in value] if isinstance(value, list) else value


def test_rows_come_back_as_they_were_written(run):
    got = natgo.rows(run(), "messages")
    assert [lean(r) for r in got] == [lean(r) for r in ROWS]
    assert got[1]["tools"] == ROWS[1]["tools"]  # no keys of other tools were added
    assert got[0]["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"day": "2026-03-02", "minutes": 30}


def test_features(run):
    message = natgo.rows(run(), "messages").features["messages"].feature
    assert message["role"] == datasets.Value("string")
    assert message["tool_calls"].feature["function"]["arguments"] == datasets.Json()
    kto = natgo.rows(run([{"prompt": "p", "label": True, "score": 1}, {"prompt": "q", "label": False, "score": 0.5}], "kto"), "kto")
    assert kto.features == datasets.Features({"prompt": datasets.Value("string"), "label": datasets.Value("bool"), "score": datasets.Value("float64")})
    assert kto[0]["score"] == 1.0


def test_a_value_of_two_types_is_kept(run):
    rows = [{"x": "text"}, {"x": [1, 2]}, {"x": None}]
    assert list(natgo.rows(run(rows), "messages")) == rows


def test_parquet(run, tmp_path):
    rows = [{"input_ids": [1, 2], "labels": [-100, 2]}]
    datasets.Dataset.from_list(rows).to_parquet(str(tmp_path / "x.parquet"))
    folder = run(text="", format="sft_parquet", name="train.parquet")
    data = (tmp_path / "x.parquet").read_bytes()
    (folder / "dataset" / "sft_parquet" / "train.parquet").write_bytes(data)
    with pytest.raises(natgo.TamperedError):
        natgo.rows(folder, "sft_parquet")
    assert list(natgo.rows(folder, "sft_parquet", verify=False)) == rows


def test_changed_rows_are_refused(run):
    folder = run()
    path = folder / "dataset" / "messages" / "train.jsonl"
    path.write_text(path.read_text().replace("Book", "Look"))
    with pytest.raises(natgo.TamperedError, match=r"train\.jsonl: is not the file"):
        natgo.rows(folder, "messages")
    assert natgo.rows(folder, "messages", verify=False)[0]["messages"][0]["content"] == "Look."


def test_missing_rows(run, tmp_path):
    with pytest.raises(natgo.RowsError, match="when it is completed"):
        natgo.rows(tmp_path, "messages")
    folder = run()
    with pytest.raises(natgo.RowsError, match=r"has no trl/train rows; it has messages/train \(demonstration\)"):
        natgo.rows(folder, "trl")
    run(name="more.jsonl", kind="preference")
    with pytest.raises(natgo.RowsError, match="choose with kind, one of 'demonstration', 'preference'"):
        natgo.rows(folder, "messages")
    assert len(natgo.rows(folder, "messages", kind="preference")) == 2


@pytest.mark.parametrize("text, message", [("{\n", "is not JSON"), ("[]\n", "is not an object"), ("", "has no rows")])
def test_damaged_rows(run, text, message):
    with pytest.raises(natgo.RowsError, match=message):
        natgo.rows(run(text=text), "messages")


def test_a_file_outside_the_folder(run):
    folder = run()
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["dataset"][0]["files"][0]["path"] = "../../x.jsonl"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(natgo.RowsError, match="outside the folder"):
        natgo.rows(folder, "messages")
