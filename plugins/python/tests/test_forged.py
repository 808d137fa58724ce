"""Malicious run folders: reading each ends with one of our errors, soon."""

import json
import os
import threading
from random import Random

import pytest

import natgo
from natgo.runfiles import open_file
from natgo.tensorfile import map_tensors, read_tensors

LINE = {"file": "x.safetensors", "channel": "sft", "split": "train"}
DEEP = b"[" * 200_000


@pytest.fixture(autouse=True)
def soon(request):
    """Ends the whole process if a test hangs: an exception would not interrupt it."""

    def give_up():
        os.write(2, f"\n{request.node.nodeid} did not end\n".encode())
        os._exit(1)

    watch = threading.Timer(300, give_up)
    watch.start()
    yield
    watch.cancel()


def pipe(path):
    os.mkfifo(path)


def device(path):
    os.symlink("/dev/zero", path)


def folder(path):
    os.mkdir(path)


def text(data):
    return lambda path: path.write_bytes(data)


def line(**more):
    return text(json.dumps({**LINE, **more}).encode() + b"\n")


NOT_FILES = [pipe, device, folder]


@pytest.mark.parametrize("make", NOT_FILES)
def test_only_regular_files_are_opened(tmp_path, make):
    make(tmp_path / "x")
    with pytest.raises(OSError):
        open_file(str(tmp_path / "x"))
    with pytest.raises(OSError, match="not the name of a file"):
        open_file("a\0b")


@pytest.mark.parametrize(
    "make",
    [*NOT_FILES, text(DEEP), text(b'{"file": "\xff"}'), text(b'{"file": ' + b"9" * 5000), line(proof=[]), line(row_info={}), line(row_info=[1]),
     line(file="a/../../x"), line(file=1), line(channel=[])],
)
def test_a_forged_index(tmp_path, make):
    make(tmp_path / "index.jsonl")
    with pytest.raises(natgo.BatchError):
        natgo.load(tmp_path, "sft")


def test_an_index_of_one_endless_line(tmp_path, monkeypatch):
    monkeypatch.setattr("natgo.runfiles.MAX_LINE_BYTES", 1000)
    (tmp_path / "index.jsonl").write_bytes(b" " * 5000)
    with pytest.raises(natgo.BatchError, match="line 1 has more than 1000 bytes"):
        natgo.load(tmp_path, "sft")


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("make", NOT_FILES)
def test_batches_that_are_not_files(tmp_path, make, verify):
    line(proof={"sha256": "0"})(tmp_path / "index.jsonl")
    make(tmp_path / "x.safetensors")
    with pytest.raises(natgo.BatchError):
        natgo.load(tmp_path, "sft", verify=verify)[0]


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_batch_whose_name_is_invalid(tmp_path, name):
    line(file=name)(tmp_path / "index.jsonl")
    for verify in (True, False):
        with pytest.raises(natgo.BatchError, match="is not the name of a file"):
            natgo.load(tmp_path, "sft", verify=verify)[0]


@pytest.mark.parametrize(
    "header",
    [
        DEEP,
        b"\xff{}",
        {"x": {"dtype": ["I64"], "shape": [1], "data_offsets": [0, 8]}},
        {"x": {"dtype": {}, "shape": [1], "data_offsets": [0, 8]}},
        {"x": {"dtype": "I64", "shape": [0, 1 << 70], "data_offsets": [0, 0]}},
        {"x": {"dtype": "I64", "shape": [0, -1], "data_offsets": [0, 0]}},
        {"x": {"dtype": "I64", "shape": [1] * 40 + [1], "data_offsets": [0, 8]}},
        {"x": {"dtype": "I64", "shape": [10**4000] * 1000, "data_offsets": [0, 8]}},
        {"x": {"dtype": "I64", "shape": [1], "data_offsets": [1 << 64, (1 << 64) + 8]}},
        {"x": {"dtype": "I64", "shape": [1], "data_offsets": [8, 0]}},
        {"x": {"dtype": "I64", "shape": [1], "data_offsets": [4, 12]}},
        {"x": {"dtype": "I64", "shape": [1], "data_offsets": {"0": 0, "1": 8}}},
        {"x": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8, 8]}},
        {"x": {"dtype": "I64", "shape": None, "data_offsets": [0, 8]}},
        {"x": {"dtype": "I64", "shape": 1, "data_offsets": [0, 8]}},
        {"x": None},
        b"[]",
        b"1",
    ],
)
def test_a_forged_tensor_file(tmp_path, header):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = len(data).to_bytes(8, "little") + data + b"\0" * 16
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(natgo.BatchError):
        map_tensors(str(tmp_path / "x"))
    with pytest.raises(natgo.BatchError):
        read_tensors("x", bytearray(data))


@pytest.mark.parametrize("length", [1 << 24, 1 << 33, (1 << 64) - 1])
def test_a_sparse_file_with_a_long_header(tmp_path, length):
    line()(tmp_path / "index.jsonl")
    with open(tmp_path / "x.safetensors", "wb") as file:
        file.write(length.to_bytes(8, "little"))
        file.truncate(1 << 40)
    with pytest.raises(natgo.BatchError):
        natgo.load(tmp_path, "sft", verify=False)[0]


def manifest(value):
    return text(json.dumps(value).encode())


def listing(**more):
    file = {"path": "trl/train.jsonl", "kind": "", "split": "train", **more}
    return {"dataset": [{"format": "trl", "files": [file]}]}


@pytest.mark.parametrize(
    "make",
    [*NOT_FILES, text(DEEP), text(b"\xff"), text(b"[]"), manifest({"dataset": 1}), manifest({"dataset": [1]}), manifest({"dataset": [{}]}),
     manifest({"dataset": [{"format": "trl", "files": [[]]}]}), manifest({"dataset": [{"format": [], "files": [{}]}]}),
     manifest(listing(path=None)), manifest(listing(path="/etc/passwd")), manifest(listing(path="a/../../x")), manifest(listing(kind={})),
     manifest(listing(split=[])), manifest(listing(path="a\0b")), manifest(listing(path="\ud800"))],
)
def test_a_forged_manifest(tmp_path, make):
    pytest.importorskip("xxhash")
    make(tmp_path / "manifest.json")
    with pytest.raises(natgo.RowsError):
        natgo.rows(tmp_path, "trl")


def test_a_manifest_larger_than_the_limit(tmp_path):
    with open(tmp_path / "manifest.json", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(natgo.RowsError, match="has more than"):
        natgo.rows(tmp_path, "trl")


@pytest.mark.parametrize(
    "make",
    [*NOT_FILES, text(DEEP), text(b'{"a": ' + DEEP), text(b'{"a": "\xff"}'), text(b'{"a": ' + b"9" * 5000 + b"}"), text(b'{"a": 99999999999999999999}'),
     text(json.dumps({str(i): 1 for i in range(2000)}).encode()),
     text(b"".join(json.dumps({str(i): 1}).encode() + b"\n" for i in range(2000)))],
)
def test_forged_rows(tmp_path, make):
    pytest.importorskip("datasets")
    manifest(listing())(tmp_path / "manifest.json")
    (tmp_path / "dataset" / "trl").mkdir(parents=True)
    make(tmp_path / "dataset" / "trl" / "train.jsonl")
    with pytest.raises(natgo.RowsError):
        natgo.rows(tmp_path, "trl", verify=False)


@pytest.mark.parametrize("value", [{str(i): 1 for i in range(2000)}, json.loads("[" * 300 + "1" + "]" * 300)])
def test_values_without_a_column_type_come_back(tmp_path, value):
    pytest.importorskip("datasets")
    manifest(listing())(tmp_path / "manifest.json")
    (tmp_path / "dataset" / "trl").mkdir(parents=True)
    text(json.dumps({"a": value}).encode())(tmp_path / "dataset" / "trl" / "train.jsonl")
    got = natgo.rows(tmp_path, "trl", verify=False)[0]["a"]
    while isinstance(got, list) and isinstance(value, list):
        got, value = got[0], value[0]
    assert got == value


def rows_of(tmp_path, data):
    """Returns a run folder whose rows are a Parquet file, with the hash of the file."""
    xxhash = pytest.importorskip("xxhash")
    place = tmp_path / "dataset" / "trl.parquet"
    place.mkdir(parents=True)
    (place / "train.parquet").write_bytes(data)
    file = {"path": "trl.parquet/train.parquet", "kind": "demonstration", "split": "train"}
    file["xxh3"] = xxhash.xxh3_128(data).hexdigest()
    (tmp_path / "manifest.json").write_text(json.dumps({"dataset": [{"format": "trl.parquet", "files": [file]}]}))
    return tmp_path


@pytest.fixture
def parquet(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    rows = [{"messages": [{"role": "user", "content": str(i % 3)}], "ids": list(range(i % 5))} for i in range(50)]
    datasets.Dataset.from_list(rows).to_parquet(str(tmp_path / "x.parquet"))
    return (tmp_path / "x.parquet").read_bytes()


@pytest.mark.parametrize("seed", range(20))
def test_forged_parquet(tmp_path, parquet, seed):
    random = Random(seed)
    data = bytearray(parquet)
    for _ in range(random.choice([1, 4, 64])):
        data[random.randrange(len(data))] = random.randrange(256)
    if seed % 5 == 0:
        del data[random.randrange(len(data)) :]
    try:
        list(natgo.rows(rows_of(tmp_path / "run", bytes(data)), "trl.parquet"))
    except natgo.RowsError as err:
        assert "train.parquet: " in str(err)


def test_parquet_that_names_files(tmp_path, parquet):
    import pyarrow
    import pyarrow.parquet

    (tmp_path / "secret.png").write_bytes(b"secret")
    file = {"path": str(tmp_path / "secret.png"), "bytes": None}
    typed = {"a": {"dtype": "string", "_type": "Value"}, "b": {"_type": "List", "feature": {"decode": False, "_type": "Image"}}}
    schema = pyarrow.schema(
        [("a", pyarrow.string()), ("b", pyarrow.list_(pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])))],
        metadata={"huggingface": json.dumps({"info": {"features": typed}})},
    )
    table = pyarrow.Table.from_pylist([{"a": "x", "b": [file]}], schema=schema)
    pyarrow.parquet.write_table(table, tmp_path / "images.parquet")
    forged = rows_of(tmp_path / "run", (tmp_path / "images.parquet").read_bytes())
    with pytest.raises(natgo.RowsError, match="the column 'b' has a type that no run writes"):
        natgo.rows(forged, "trl.parquet")
