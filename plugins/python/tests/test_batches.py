import json
import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

import natgo
from natgo.tensorfile import map_tensors

BATCHES = os.environ["NATGO_TEST_BATCHES"]


def names(batches):
    return [b.line["file"] for b in batches]


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(BATCHES, tmp_path / "batches")
    return tmp_path


@pytest.mark.parametrize("channel", ["sft", "dpo"])
def test_values_are_those_of_the_files(channel):
    batches = natgo.load(BATCHES, channel)
    assert len(batches) > 4
    for batch in batches:
        want = load_file(os.path.join(BATCHES, batch.line["file"]))
        assert set(batch) == set(want)
        for name, x in want.items():
            assert batch[name].dtype == x.dtype
            np.testing.assert_array_equal(batch[name], x)
        assert batch.channel == channel and batch.split == "train"


def test_rollouts_made_of_text_are_refused(folder):
    index = folder / "batches" / "index.jsonl"
    lines = [json.loads(text) for text in index.read_text().splitlines()]
    for line in lines:
        line["channel"] = "rl"
        line["row_info"][0]["ids"] = "rendered"
    index.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(natgo.BatchError, match="made from text"):
        natgo.load(folder, "rl")
    assert len(natgo.load(folder, "rl", rendered=True)) == len(lines)


def test_tensors_are_in_the_mapping():
    path = os.path.join(BATCHES, natgo.load(BATCHES, "sft")[0].line["file"])
    tensors, mapping = map_tensors(path)
    whole = np.frombuffer(mapping, dtype=np.uint8)
    begin = whole.__array_interface__["data"][0]
    for x in tensors.values():
        at = x.__array_interface__["data"][0]
        assert begin < at and at + x.nbytes <= begin + len(mapping)


def test_writing_to_a_tensor_changes_no_file():
    natgo.load(BATCHES, "sft")[0]["input_ids"][:] = 7
    assert not (natgo.load(BATCHES, "sft")[0]["input_ids"] == 7).all()


def test_no_torch_unless_asked_for():
    code = "import sys, natgo; natgo.load(sys.argv[1], 'sft')[0]; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, BATCHES], check=True)


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
import natgo
batches = natgo.load(sys.argv[1], "dpo")
x = batches[0]["chosen_input_ids"]
assert isinstance(x, memoryview) and list(x.shape) == [len(x.tolist()), len(x.tolist()[0])]
print(x.tolist())
"""


def test_without_numpy_values_are_memoryviews():
    got = subprocess.run([sys.executable, "-c", WITHOUT_NUMPY, BATCHES], check=True, capture_output=True, text=True).stdout
    assert json.loads(got) == natgo.load(BATCHES, "dpo")[0]["chosen_input_ids"].tolist()


@pytest.mark.torch
def test_torch_shares_the_memory():
    torch = pytest.importorskip("torch")
    batch = natgo.load(BATCHES, "dpo")[0]
    tensors = batch.torch()
    assert tensors["chosen_input_ids"].dtype == torch.int64
    assert tensors["chosen_input_ids"].data_ptr() == batch["chosen_input_ids"].__array_interface__["data"][0]
    assert isinstance(natgo.load(BATCHES, "dpo", torch=True)[0]["row_weight"], torch.Tensor)


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_joined_ranks_are_all_batches_in_order(world):
    every = natgo.load(BATCHES, "sft")
    ranks = [names(every.rank(r, world)) for r in range(world)]
    joined = [ranks[i % world][i // world] for i in range(len(every))]
    assert joined == names(every)
    assert sum(map(len, ranks)) == len(every)


def test_rank_outside_the_world():
    with pytest.raises(ValueError, match="rank 2 is not one of 2"):
        natgo.load(BATCHES, "sft").rank(2, 2)


def test_epochs():
    first = natgo.load(BATCHES, "sft")
    second = natgo.load(BATCHES, "sft", epoch=1)
    assert names(second) != names(first) and sorted(names(second)) == sorted(names(first))
    assert names(natgo.load(BATCHES, "sft", epoch=1)) == names(second)
    assert names(second.epoch(0)) == names(first)


@pytest.mark.parametrize("stop", [0, 1, 3])
def test_a_stream_continues_where_it_stopped(stop):
    batches = natgo.load(BATCHES, "sft", epoch=2).rank(1, 2)
    stream = batches.stream()
    got = [b.line["file"] for _, b in zip(range(stop), stream)]
    state = json.loads(json.dumps(stream.state_dict()))
    rest = natgo.load(BATCHES, "sft", epoch=2).rank(1, 2).stream()
    rest.load_state_dict(state)
    assert len(rest) == len(batches) - stop
    assert got + names(rest) == names(batches)


def test_the_state_of_other_batches_is_refused():
    state = natgo.load(BATCHES, "sft").stream().state_dict()
    with pytest.raises(natgo.BatchError, match="other batches"):
        natgo.load(BATCHES, "sft", epoch=1).stream().load_state_dict(state)


@pytest.mark.torch
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_give_the_same_batches_and_can_be_stopped(context):
    pytest.importorskip("torch")
    batches = natgo.load(BATCHES, "sft", torch=True)
    stream = batches.stream(num_workers=4, context=context)
    got = [b.line["file"] for _, b in zip(range(3), stream)]
    rest = natgo.load(BATCHES, "sft", torch=True).stream(num_workers=4, context=context)
    rest.load_state_dict(stream.state_dict())
    assert got + names(rest) == names(batches)


def test_batches_can_be_pickled():
    batches = natgo.load(BATCHES, "sft")
    batches[0]
    assert names(pickle.loads(pickle.dumps(batches))) == names(batches)


def test_a_pickle_holds_no_lines_of_the_index(folder):
    index = folder / "batches" / "index.jsonl"
    lines = [json.loads(text) for text in index.read_text().splitlines()]
    for line in lines:
        line["padding"] = "x" * 10_000
    index.write_text("".join(json.dumps(line) + "\n" for line in lines))
    batches = natgo.load(folder, "sft")
    packed = pickle.dumps(batches)
    assert len(packed) < 2_000
    assert names(pickle.loads(packed)) == names(batches)
    assert names(pickle.loads(pickle.dumps(batches.epoch(3).rank(1, 2)))) == names(batches.epoch(3).rank(1, 2))
    index.write_text(index.read_text().replace("x" * 10_000, "y"))
    with pytest.raises(natgo.BatchError, match="written anew"):
        pickle.loads(packed)[0]


def test_the_only_channel_needs_no_name(folder):
    with pytest.raises(natgo.BatchError, match="has batches for dpo, .*: say which"):
        natgo.load(folder)
    index = folder / "batches" / "index.jsonl"
    kept = [text for text in index.read_text().splitlines() if json.loads(text)["channel"] == "dpo"]
    index.write_text("".join(text + "\n" for text in kept))
    assert names(natgo.load(folder)) == names(natgo.load(folder, "dpo"))


def test_a_changed_file_is_refused(folder):
    batches = natgo.load(folder, "sft")
    path = folder / "batches" / batches[0].line["file"]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(natgo.TamperedError, match=r"00000\.safetensors: is not the file"):
        batches[0]
    assert natgo.load(folder, "sft", verify=False)[0]
    assert batches[1]


def test_a_file_changed_after_it_was_read_is_refused(folder):
    batches = natgo.load(folder, "sft")
    path = folder / "batches" / batches[0].line["file"]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))
    with pytest.raises(natgo.TamperedError):
        batches[0]


def test_a_file_is_hashed_once(folder, monkeypatch):
    import hashlib

    batches, made = natgo.load(folder, "sft"), []
    real = hashlib.sha256
    monkeypatch.setattr(hashlib, "sha256", lambda *a: made.append(1) or real(*a))
    batches[0], batches[0]
    assert len(made) == 1


def test_a_missing_file(folder):
    batches = natgo.load(folder, "sft")
    os.remove(folder / "batches" / batches[0].line["file"])
    with pytest.raises(natgo.BatchError, match="the index lists it"):
        batches[0]


def test_no_batches_of_a_channel():
    with pytest.raises(natgo.BatchError, match=r"no rl batches for train; it has dpo/train, sft/train"):
        natgo.load(BATCHES, "rl")
    with pytest.raises(ValueError, match="channel 'ppo' is not one of"):
        natgo.load(BATCHES, "ppo")


def test_no_index(tmp_path):
    with pytest.raises(natgo.BatchError, match="has a collator with a tokenizer"):
        natgo.load(tmp_path, "sft")


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", "is not JSON"),
        ("[]", "has no file"),
        ('{"file": "../x", "channel": "sft", "split": "train"}', "outside the folder"),
        ('{"file": "/x", "channel": "sft", "split": "train"}', "outside the folder"),
        (r'{"file": "..\\x", "channel": "sft", "split": "train"}', "outside the folder"),
    ],
)
def test_a_bad_index(tmp_path, line, message):
    (tmp_path / "index.jsonl").write_text(line + "\n")
    with pytest.raises(natgo.BatchError, match=message):
        natgo.load(tmp_path, "sft")


def tensor_file(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # as writers do, to align the tensors
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return str(path)


@pytest.mark.parametrize(
    "header",
    [
        b"nonsense",
        [],
        {"x": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}},
        {"x": {"dtype": "I64", "shape": [2], "data_offsets": [0, 8]}},
        {"x": {"dtype": "I64", "shape": [-1, -1], "data_offsets": [0, 8]}},
        {"x": {"dtype": "I64", "shape": [1], "data_offsets": [16, 24]}},  # after the end
        {"x": {"dtype": "I64", "shape": [1], "data_offsets": [4, 12]}},  # not aligned
        {"x": {"dtype": "I64", "shape": [True], "data_offsets": [0, 8]}},
        {"x": {"dtype": "I64", "shape": [1 << 62, 4], "data_offsets": [0, 8]}},
        {"x": {"dtype": "I64"}},
        {"x": 1},
    ],
)
def test_a_bad_tensor_file(tmp_path, header):
    with pytest.raises(natgo.BatchError):
        map_tensors(tensor_file(tmp_path / "x", header, b"\0" * 16))


def test_a_truncated_tensor_file(tmp_path):
    (tmp_path / "x").write_bytes(b"\xff" * 9)
    with pytest.raises(natgo.BatchError, match="header of"):
        map_tensors(str(tmp_path / "x"))
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(natgo.BatchError, match="too short"):
        map_tensors(str(tmp_path / "x"))
