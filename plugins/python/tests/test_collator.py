import json
import multiprocessing
import os
import pathlib
import pickle
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import natgo

PROGRAM = os.environ.get("NATGO_TEST_PROGRAM", "")
if not PROGRAM:
    pytest.skip("NATGO_TEST_PROGRAM names no nat-go with a tokenizer", allow_module_level=True)
EXAMPLES = pathlib.Path(__file__).parents[3] / "examples" / "hints"
TOKENIZER = EXAMPLES / "tokenizer"
TRACES = [json.loads(line) for line in (EXAMPLES / "traces.jsonl").read_text().splitlines()]
CALLS = int(os.environ.get("NATGO_TEST_CALLS", "300"))

FAILED = {
    "turns": [
        {"role": "user", "content": "Fix it"},
        {"role": "assistant", "content": "call frob", "tool_error": "unknown_tool", "error_meta": {"tool": "frob"}},
        {"role": "tool", "content": "no such tool"},
        {"role": "assistant", "content": "done"},
    ],
    "final_reward": 1.5,
}
SAID = {"messages": [{"role": "user", "content": "Say it"}, {"role": "assistant", "content": "It"}]}


def collator(channels=("sft",), **options):
    return natgo.Collator(TOKENIZER, channels, program=PROGRAM, **options)


def same(a, b):
    assert set(a) == set(b)
    for name, x in a.items():
        np.testing.assert_array_equal(x, b[name])
    assert a.books == b.books


def test_tensors_and_books():
    with collator(["sdpo", "sft"], settings={"policy": "booker-1"}) as collate:
        batch = collate(TRACES)
        assert batch["sft.labels"].shape == batch["sft.input_ids"].shape == (2, 434)
        assert batch["sdpo.pair_target_id"].dtype == np.int64 and batch["sft.row_weight"].dtype == np.float32
        assert set(batch.channel("sft")) == {k[4:] for k in batch if k.startswith("sft.")}
        assert [made["examples"] for made in batch.channels if made["channel"] == "sdpo"] == [["video-0", "video-1", "small-0", "small-1"]]
        assert batch.dropped["failed_task"] + batch.dropped["not_best"] == 4
        assert any(drop["reason"] == "not_best" for drop in batch.drops)
        for account in batch.books:
            assert account["in"] == account["out"] + sum(account.get("dropped", {}).values())
        same(batch, collate(TRACES))
        batch["sft.labels"][:] = 0  # they are the caller's own
        assert collate([]) == {} and collate([]).dropped == {}


def test_one_channel_has_plain_names():
    with collator() as collate:
        batch = collate([SAID, SAID])
        assert batch["input_ids"].shape[0] == 2, "identical rollouts must both be there"
        trained = batch["labels"] >= 0
        np.testing.assert_array_equal(batch["labels"][trained], batch["input_ids"][trained])
        assert batch.channel("sft").keys() == batch.keys()


def test_names_of_the_reference_collator():
    asked = []

    def hints(kind, meta):
        asked.append((kind, meta))
        return "There is a tool edit."

    pair = {"state_messages": [{"role": "user", "content": "Hi"}], "chosen": "Yes", "rejected": "No"}
    with collator(["rl", "sdpo", "dpo"], names="composer", hints=hints) as collate:
        batch = collate([FAILED, {**SAID, "reward": 0.5, "dpo_pairs": [pair]}])
    assert asked == [("unknown_tool", {"tool": "frob"})]
    assert {
        "input_ids", "attention_mask", "response_mask", "rewards", "ctx_teacher_input_ids", "sdpo_loss_mask",
        "dpo_chosen_input_ids", "dpo_chosen_response_mask", "dpo_rejected_input_ids", "dpo_rejected_response_mask",
    } <= set(batch)  # fmt: skip
    assert batch["rewards"].tolist() == [1.5, 0.5, 0.0] and batch["row_channel"].tolist() == [0, 0, 1]
    assert batch["input_ids"].shape == batch["sdpo_loss_mask"].shape == batch["ctx_teacher_input_ids"].shape
    assert set(batch["sdpo_loss_mask"].ravel().tolist()) == {1, -100}
    row = list(batch["row_channel"]).index(1)
    on = batch["sdpo_loss_mask"][row] == 1  # the logits there predict the next token, the same on both sides
    after = np.roll(on, 1)
    np.testing.assert_array_equal(batch["input_ids"][row][after], batch["ctx_teacher_input_ids"][row][after])


def test_a_hint_of_none_leaves_the_site_out():
    with collator(["sdpo"], hints=lambda kind, meta: None) as collate:
        batch = collate([FAILED])
        assert batch == {} and sum(batch.dropped.values()) > 0


def test_sampled_rollouts_have_advantages():
    def rollout(reward):
        messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "token_ids": np.array([40, 41]), "logprobs": [-0.5, -0.25]}]
        return {"messages": messages, "reward": np.float32(reward), "task_id": "t"}

    with collator(["rl"]) as collate:
        batch = collate([rollout(0), rollout(1)])
        assert batch["old_logprobs"][batch["response_mask"] == 1].tolist() == [-0.5, -0.25] * 2
        assert batch["group"].tolist() == [0, 0] and batch["advantage"].sum() == pytest.approx(0)
        assert collate([SAID]).dropped == {"no_sampled_ids": 2}  # a record and its turn


def test_log_probs_of_some():
    def rollout(**more):
        return {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "token_ids": [40, 41], **more}], "reward": 1.0}

    known, unknown = {**rollout(logprobs=[-0.5, -0.25]), "id": "known"}, {**rollout(), "id": "unknown"}
    with collator(["rl"]) as collate:
        for traces in ([known, unknown], [unknown, known]):
            with pytest.raises(natgo.RequestError, match="rl rows of .known. and .unknown. cannot share a batch") as caught:
                collate(traces)
            assert (caught.value.code, caught.value.where) == ("bad_request", "traces")
        assert "old_logprobs" not in collate([unknown, unknown])
        assert collate([known, known])["old_logprobs"].sum() == -1.5


def test_strict():
    with collator(["rl"], strict=True) as collate, pytest.raises(natgo.DroppedError, match="no_sampled_ids 2; the first is") as caught:
        collate([SAID])
    assert caught.value.dropped == {"no_sampled_ids": 2}
    assert pickle.loads(pickle.dumps(caught.value)).dropped == caught.value.dropped


@pytest.mark.parametrize(
    "traces, code, where, what",
    [
        ([SAID, {"messages": [object()]}], "bad_request", "traces[1]", "a object can't be written as JSON"),
        ([{"messages": "\ud800"}], None, None, None),  # JSON can hold it, so the trace is left out
        ([SAID] * 3000, "too_large", "traces", "the budget is 20000"),
    ],
)
def test_bad_requests(traces, code, where, what):
    with collator(settings={"batch_tokens": 20000}) as collate:
        good = collate([SAID])
        pid = collate.pid
        if code is None:
            assert collate(traces).dropped == {"bad_example": 1}
        else:
            with pytest.raises(natgo.RequestError, match=what) as caught:
                collate(traces)
            assert (caught.value.code, caught.value.where) == (code, where)
            again = pickle.loads(pickle.dumps(caught.value))  # as a DataLoader's worker sends it
            assert (str(again), again.code) == (str(caught.value), code)
        assert collate.pid == pid, "the process ended"
        same(collate([SAID]), good)


def test_a_hint_function_that_raises():
    with collator(["sdpo"], hints=lambda kind, meta: 1 / 0) as collate, pytest.raises(natgo.RequestError, match=r"traces\[0\].turns\[1\]: hints raised"):
        collate([FAILED])


@pytest.mark.parametrize(
    "change, where",
    [
        ({"settings": {"max_tokens": 3}}, "/collator/max_tokens"),
        ({"source": {"reward_kye": "r"}}, "/sources/traces/reward_kye"),
        ({"builders": {"sft": {"n": 0}}}, "/trajectory_builders/sft/n"),
    ],
)
def test_wrong_settings(change, where):
    collate = collator(**change)
    for _ in range(2):  # each call reports it
        with pytest.raises(natgo.SettingsError) as caught:
            collate([SAID])
        assert caught.value.where == where
    assert collate.pid is None


def test_arguments():
    for wrong in ({"channels": "rl"}, {"channels": ["grpo"]}, {"names": "x"}, {"channels": ["rl"], "hints": print}):
        with pytest.raises(ValueError):
            collator(**wrong)
    with pytest.raises(TypeError, match="neither a path nor a tokenizer"):
        natgo.Collator(7)
    with pytest.raises(natgo.SettingsError, match="no tokenizer at"):
        natgo.Collator("/nothing", ["rl"], program=PROGRAM)([])
    with pytest.raises(natgo.ProcessError, match="No such file"):
        natgo.Collator(TOKENIZER, ["rl"], program="/nothing")([])


def test_a_tokenizer_object():
    class Tokenizer:
        def save_pretrained(self, folder):
            for file in TOKENIZER.iterdir():
                pathlib.Path(folder, file.name).write_bytes(file.read_bytes())

    collate = natgo.Collator(Tokenizer(), ["sft"], program=PROGRAM)
    folder = json.loads(collate._settings)["tokenizer"]
    assert "input_ids" in collate([SAID])
    collate.close()
    del collate
    assert not os.path.exists(folder)


def script(tmp_path, text):
    path = tmp_path / "nat-go"
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


READY = """
import struct, sys, time
def frame(head, body=b""):
    sys.stdout.buffer.write(struct.pack("<IQ", len(head), len(body)) + head + body)
    sys.stdout.flush()
def take():
    n = sys.stdin.buffer.read(4)
    if len(n) < 4: sys.exit(0)
    return sys.stdin.buffer.read(struct.unpack("<I", n)[0])
take()
frame(b'{"ready": {}}')
"""


@pytest.mark.parametrize(
    "answer, error, what",
    [
        ("take(); sys.exit('no disk')", natgo.ProcessError, "ended on each of 3 tries; the last time: it ended with 1: no disk"),
        ("take(); sys.stdout.buffer.write(b'panic: what\\n'); sys.stdout.flush(); time.sleep(60)", natgo.ProcessError, "the limit is"),
        ("take(); frame(b'{')", natgo.ProcessError, "not JSON"),
        ("take(); frame(b'[]')", natgo.ProcessError, "not an object"),
        ("take(); import os; os.write(1, b'abc'); os.close(1); time.sleep(60)", natgo.ProcessError, "closed its output"),
        ("take(); time.sleep(60)", natgo.DeadlineError, "within 2 s"),
        ("time.sleep(60)", natgo.DeadlineError, "within 2 s"),
        ("take(); import os; os.kill(os.getpid(), 9)", natgo.ProcessError, "killed by signal 9"),
    ],
)
def test_hostile_processes(tmp_path, answer, error, what):
    collate = natgo.Collator(TOKENIZER, ["sft"], program=script(tmp_path, READY + answer), timeout=2, max_answer_bytes=1 << 20)
    if "panic" in answer or "closed" in what:
        collate._retries = 0
    big = [SAID] * 20000 if answer.startswith("time.sleep") else [SAID]  # more than a pipe holds, since writing has a deadline, too
    with pytest.raises(error, match=what):
        collate(big)
    assert collate.pid is None, "the process is still there"


def test_a_process_that_is_slow_to_start(tmp_path):
    with pytest.raises(natgo.DeadlineError):
        natgo.Collator(TOKENIZER, ["sft"], program=script(tmp_path, "import time; time.sleep(60)"), start_timeout=1)([SAID])


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def open_files():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_faults():
    """Kills the process before and during NATGO_TEST_CALLS calls, with bad input between: every answer is right, or an exception says why."""
    rng = random.Random(7)
    requests = [[SAID], [FAILED, SAID], TRACES, TRACES[:2] * 3, [{"messages": [{"role": "user", "content": "x" * 3000}, {"role": "assistant", "content": "y"}]}]]
    with collator(["sdpo", "sft"], settings={"policy": "booker-1"}) as sound:
        want = [sound(r) for r in requests]
    collate = collator(["sdpo", "sft"], settings={"policy": "booker-1"}, retries=3)
    counts = {"right": 0, "killed": 0, "bad": 0}
    files = None
    for call in range(CALLS):
        fault = rng.random()
        if fault < 0.04 and collate.pid is not None:
            os.kill(collate.pid, rng.choice([signal.SIGKILL, signal.SIGTERM]))
            counts["killed"] += 1
        elif fault < 0.07 and collate.pid is not None:
            timer = threading.Timer(rng.random() * 0.02, _kill, [collate.pid])
            timer.start()
            counts["killed"] += 1
        elif fault < 0.12:
            with pytest.raises(natgo.RequestError):
                collate([{"x": object()}] if fault < 0.1 else [{"messages": [{"role": "user", "content": {1, 2}}]}])
            counts["bad"] += 1
        at = rng.randrange(len(requests))
        same(collate(requests[at]), want[at])
        counts["right"] += 1
        if call == CALLS // 2:
            files = open_files()
    assert counts["right"] == CALLS and counts["killed"] > 0 and counts["bad"] > 0
    assert open_files() <= files + 4
    collate.close()


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_memory_is_flat():
    """Each request has new text, and neither side keeps it."""
    with collator() as collate:
        def calls(n, first):
            for i in range(first, first + n):
                word = f"{i:06d}"
                collate([{"messages": [{"role": "user", "content": (word + " ") * 200}, {"role": "assistant", "content": word * 50}]}])

        warm = max(200, CALLS // 5)
        calls(warm, 0)
        pid, ours, theirs = collate.pid, resident("self"), resident(collate.pid)
        calls(CALLS, warm)
        assert collate.pid == pid
        # The segment cache fills up to its limit of 64 MiB.
        assert resident("self") < ours + (20 << 10), "Python grew"
        assert resident(pid) < theirs + (120 << 10), "nat-go grew"


def test_a_signal_ends_it_cleanly():
    process = subprocess.Popen([PROGRAM, "collate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    settings = json.dumps({"tokenizer": str(TOKENIZER), "channels": ["sft"]}).encode()
    process.stdin.write(len(settings).to_bytes(4, "little") + settings)
    process.stdin.flush()
    head = process.stdout.read(12)
    assert b"ready" in process.stdout.read(int.from_bytes(head[:4], "little"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0 and process.stderr.read() == b""
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()


def _in_child(collate, pipe):
    pipe.send((collate([SAID])["input_ids"].tolist(), collate.pid, os.getpid()))
    pipe.close()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_process_has_its_own_collator(method):
    context = multiprocessing.get_context(method)
    with collator() as collate:
        want = collate([SAID])["input_ids"].tolist()
        mine, seen = collate.pid, set()
        for _ in range(2):
            ours, theirs = context.Pipe()
            child = context.Process(target=_in_child, args=(collate, theirs))
            child.start()
            theirs.close()
            ids, pid, _ = ours.recv()
            child.join(60)
            assert ids == want and child.exitcode == 0
            seen.add(pid)
        assert mine not in seen and len(seen) == 2
        assert collate.pid == mine and collate([SAID])["input_ids"].tolist() == want
        deadline = time.monotonic() + 60
        for pid in seen:  # they end with the processes that started them
            while _alive(pid) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not _alive(pid)


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:  # may be a zombie, in a container without an init
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_child_that_outlives_its_parent_does_not_hold_its_process():
    """A forked child closes its copies of the pipes; otherwise the process would not see the end of its input."""
    collate = collator()
    collate([SAID])
    pid = collate.pid
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=theirs.recv)
    child.start()
    process = collate._process._process
    process._process.stdin.close()  # as if this process were killed
    assert process._process.wait(60) == 0
    ours.send(None)
    child.join(60)
    collate.close()
    assert not _alive(pid)


def test_threads_share_it():
    with collator() as collate:
        want, got = collate([SAID]), []

        def work():
            got.extend(collate([SAID]) for _ in range(20))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(got) == 80
        for batch in got:
            same(batch, want)


@pytest.mark.torch
@pytest.mark.parametrize("workers, method", [(0, None), (4, "fork"), (4, "spawn")])
def test_data_loader(workers, method):
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    collate = collator(torch=True)
    loader = DataLoader([SAID, FAILED] * 6, batch_size=3, collate_fn=collate, num_workers=workers, multiprocessing_context=method)
    batches = list(loader)
    assert len(batches) == 4
    want = [collate(([SAID, FAILED] * 6)[at : at + 3]) for at in range(0, 12, 3)]
    for got, expected in zip(batches, want):
        assert isinstance(got["input_ids"], torch.Tensor) and got["input_ids"].dtype == torch.int64
        assert set(got) == set(expected) and all(torch.equal(got[k], expected[k]) for k in got)
        assert got.books == expected.books
    collate.close()


def test_without_numpy_and_torch():
    code = f"""
import sys
sys.modules["numpy"] = sys.modules["torch"] = None
import natgo
batch = natgo.Collator({str(TOKENIZER)!r}, ["sft"], program={PROGRAM!r})([{SAID!r}])
assert isinstance(batch["input_ids"], memoryview) and batch["labels"].shape == batch["input_ids"].shape
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_snippet_of_the_page(tmp_path, monkeypatch):
    page = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", page, re.S) if "natgo.Collator" in b]
    shutil.copytree(TOKENIZER, tmp_path / "models" / "qwen")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("natgo.__main__.find", lambda: PROGRAM)
    names = {"natgo": natgo}
    exec(block, names)
    batch = names["batch"]
    names["collate"].close()
    assert batch["rl.old_logprobs"][batch["rl.response_mask"] == 1].tolist() == pytest.approx([-0.1, -0.2])
    assert batch.dropped == {} and "sft.labels" in batch
