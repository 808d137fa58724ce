import os
import pathlib
import re

import numpy as np
import pytest

import natgo
from natgo import loss

PROGRAM = os.environ.get("NATGO_TEST_PROGRAM", "")
if not PROGRAM:
    pytest.skip("NATGO_TEST_PROGRAM names no nat-go with a tokenizer", allow_module_level=True)
TOKENIZER = pathlib.Path(__file__).parents[3] / "examples" / "hints" / "tokenizer"
V = 640
RNG = np.random.default_rng(1)


def said(question, answer, **more):
    ids = {"token_ids": list(range(40, 46)), "logprobs": [-0.5, -1.0, -0.25, -2.0, -0.75, -1.5]}
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer, **ids}], "task_id": "t", **more}


FAILED = {
    "turns": [
        {"role": "user", "content": "Fix it"},
        {"role": "assistant", "content": "call frob twice", "tool_error": "unknown"},
        {"role": "tool", "content": "no such tool"},
    ]
}
PAIRS = {"dpo_pairs": [{"prompt": "Hi there", "chosen": "Yes, at once", "rejected": "No"}, {"prompt": "Now", "chosen": "So it is", "rejected": "Never"}]}


@pytest.fixture(scope="module")
def batches():
    traces = [said("Hi there", "Hello", reward=1.0), said("Say it again", "It", reward=0.0), FAILED, PAIRS]
    with natgo.Collator(TOKENIZER, ["rl", "sdpo", "dpo", "sft"], hints=lambda kind, meta: "There is edit.", program=PROGRAM) as collate:
        made = collate(traces)
    return {name: made.channel(name) for name in ("rl", "sdpo", "dpo", "sft")}


def random_logits(ids):
    return RNG.normal(size=(*ids.shape, V)).astype(np.float32)


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def token_logps(logits, ids, mask):
    """[R, T - 1]: log p of the tokens from the second on, 0 where the mask is 0."""
    taken = np.take_along_axis(log_softmax(logits[:, :-1]), ids[:, 1:, None], -1)[..., 0]
    return taken * mask[:, 1:]


def check(batch, logits, terms, **options):
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    report = loss.check(batch, logits, terms, program=PROGRAM, **options)
    if os.path.isdir("/dev/shm"):
        left = {name for name in set(os.listdir("/dev/shm")) - before if name.startswith("natgo-check-")}
        assert not left
    assert str(report)
    return report


def test_demonstrations(batches):
    batch = batches["sft"]
    ids, mask = batch["input_ids"], batch["labels"] >= 0
    logits = random_logits(ids)
    terms = -token_logps(logits, ids, mask)
    mean = terms.sum() / mask.sum()
    report = check(batch, logits, {"token_losses": terms, "loss": mean})
    assert report.ok and report.channel == "sft" and report.compared == ["loss", "token_losses"], report
    assert report.entries == ids.size + 1 and report.loss == pytest.approx(mean)

    row, token = map(int, np.argwhere(mask)[-1])  # a wrong mask that leaves out the last trained token
    wrong = terms.copy()
    wrong[row, token - 1] = 0
    report = check(batch, logits, {"token_losses": wrong})
    (found,) = report.differences
    assert (found.row, found.token, found.id) == (row, token, ids[row, token]) and "the script does not" in found.why

    row, token = map(int, np.argwhere(~mask[:, 1:])[3] + [0, 1])  # and one too many
    wrong = terms.copy()
    wrong[row, token - 1] = 2.5
    (found,) = check(batch, logits, {"token_losses": wrong}).differences
    assert (found.row, found.token, found.yours) == (row, token, 2.5) and "the batch does not" in found.why
    assert f"row {row}, token {token} (id {ids[row, token]})" in str(found)

    unshifted = -np.take_along_axis(log_softmax(logits), ids[..., None], -1)[..., 0] * mask
    report = check(batch, logits, {"token_losses": unshifted})
    assert report.causes == ["token_losses: the logits are not shifted: the logits at a token's own position predict the next token"]
    assert (report.differences[0].row, report.differences[0].token) == tuple(np.argwhere(mask)[0])
    assert report.differ == mask.sum()

    late = np.roll(np.pad(terms, ((0, 0), (1, 0))), 1, axis=1)
    assert check(batch, logits, {"token_losses": late}).causes == ["token_losses: each term is one token too late"]
    assert check(batch, logits, {"token_losses": 2 * terms}).causes == ["token_losses: each term is 2 times nat-go's"]
    assert check(batch, logits, {"token_losses": -terms}).causes == ["token_losses: the sign is flipped"]
    report = check(batch, logits, {"token_losses": terms, "loss": terms.sum()})
    assert [d.term for d in report.differences] == ["loss"] and "the denominator" in report.differences[0].why


def policy_losses(batch, logits, epsilon=0.2):
    mask = batch["response_mask"] == 1
    lp = np.pad(token_logps(logits, batch["input_ids"], mask), ((0, 0), (1, 0)))
    ratio, advantage = np.exp(lp - batch["old_logprobs"]), batch["advantage"][:, None]
    return -np.minimum(ratio * advantage, np.clip(ratio, 1 - epsilon, 1 + epsilon) * advantage) * mask


def test_rollouts(batches):
    batch = batches["rl"]
    logits = random_logits(batch["input_ids"])
    terms = policy_losses(batch, logits)
    total = terms.sum() / (batch["response_mask"] == 1).sum()
    assert np.count_nonzero(terms) == 12
    report = check(batch, logits, {"token_losses": terms, "loss": total})
    assert report.ok, report
    report = check(batch, logits, {"token_losses": policy_losses(batch, logits, 0.5)})
    assert not report.ok and batch["response_mask"][report.differences[0].row, report.differences[0].token] == 1
    assert check(batch, logits, {"token_losses": policy_losses(batch, logits, 0.5)}, clip_epsilon=0.5).ok


def softplus(x):
    return np.logaddexp(0, x)


def test_preferences(batches):
    batch = batches["dpo"]
    logits = {f"{side}_logits": random_logits(batch[f"{side}_input_ids"]) for side in ("chosen", "rejected")}
    terms = {f"{side}_logps": token_logps(logits[f"{side}_logits"], batch[f"{side}_input_ids"], batch[f"{side}_labels"] >= 0) for side in ("chosen", "rejected")}
    reference = {"ref_chosen_logps": np.array([-20.0, -22.0], np.float32), "ref_rejected_logps": np.array([-12.0, -25.0], np.float32)}
    margin = terms["chosen_logps"].sum(1) - terms["rejected_logps"].sum(1) - reference["ref_chosen_logps"] + reference["ref_rejected_logps"]
    given = {**logits, **reference}
    right = softplus(-0.1 * margin)
    report = check(batch, given, {**terms, "pair_losses": right, "loss": right.mean()})
    assert report.ok and set(report.compared) == {"loss", "chosen_logps", "rejected_logps", "pair_losses"}, report

    report = check(batch, given, {**terms, "pair_losses": softplus(-0.3 * margin)})
    assert report.causes == ["pair_losses: beta is 0.3, not 0.1"] and {d.row for d in report.differences} == {0, 1}
    assert check(batch, given, {"pair_losses": softplus(-0.3 * margin)}, dpo_beta=0.3).ok
    assert check(batch, given, {"pair_losses": softplus(0.1 * margin)}).causes == ["pair_losses: chosen and rejected are swapped"]
    bare = terms["chosen_logps"].sum(1) - terms["rejected_logps"].sum(1)
    assert check(batch, given, {"pair_losses": softplus(-0.1 * bare)}).causes == ["pair_losses: the reference's log-probs are omitted"]

    wrong = terms["chosen_logps"].copy()
    row, token = map(int, np.argwhere(wrong)[0])
    wrong[row, token] -= 0.5
    (found,) = check(batch, given, {"chosen_logps": wrong, "rejected_logps": terms["rejected_logps"]}).differences
    assert (found.term, found.row, found.token, found.id) == ("chosen_logps", row, token + 1, batch["chosen_input_ids"][row, token + 1])


def jsd(student, teacher, beta):
    a, b = log_softmax(student), log_softmax(teacher)
    m = np.log((1 - beta) * np.exp(a) + beta * np.exp(b))
    return (beta * np.exp(b) * (b - m) + (1 - beta) * np.exp(a) * (a - m)).sum(-1)


def test_hints(batches):
    batch = batches["sdpo"]
    logits = {f"{side}_logits": random_logits(batch[f"{side}_input_ids"]) for side in ("student", "teacher")}
    at = {side: logits[f"{side}_logits"][batch[f"pair_{side}_row"], batch[f"pair_{side}_pos"]] for side in ("student", "teacher")}
    right = jsd(at["student"], at["teacher"], 0.5)
    report = check(batch, logits, {"pair_losses": right, "loss": right.mean()})
    assert report.ok and report.channel == "sdpo", report
    assert check(batch, {f"{side}_logits": x for side, x in at.items()}, {"pair_losses": right}).ok

    report = check(batch, logits, {"pair_losses": jsd(at["student"], at["teacher"], 0.9)})
    assert report.causes == ["pair_losses: beta is 0.9, not 0.5"]
    off = logits["student_logits"][batch["pair_student_row"], batch["pair_student_pos"] + 1]
    wrong = right.copy()
    wrong[2] = jsd(off[2:3], at["teacher"][2:3], 0.5)[0]
    (found,) = check(batch, logits, {"pair_losses": wrong}, tolerance=1e-4).differences
    assert (found.pair, found.token, found.id) == (2, batch["pair_student_pos"][2] + 1, batch["pair_target_id"][2])


@pytest.mark.torch
def test_torch(batches):
    torch = pytest.importorskip("torch")
    batch = {name: torch.from_numpy(x.copy()) for name, x in batches["sft"].items()}
    logits = torch.from_numpy(random_logits(batches["sft"]["input_ids"])).bfloat16().requires_grad_()
    labels = torch.where(batch["labels"] >= 0, batch["input_ids"], -100)
    terms = torch.nn.functional.cross_entropy(logits[:, :-1].float().transpose(1, 2), labels[:, 1:], ignore_index=-100, reduction="none")
    assert check(batch, logits, {"token_losses": terms}).ok


def test_refused(batches, tmp_path):
    batch = batches["sft"]
    logits = random_logits(batch["input_ids"])
    many = {name: np.repeat(x, 65, axis=0) for name, x in batch.items()}
    with pytest.raises(ValueError, match="at most 64"):
        loss.check(many, logits, {}, program=PROGRAM)
    for terms, given, options, what in (
        ({}, logits, {}, "no terms to compare"),
        ({"token_losses": np.zeros((1, 2))}, logits, {}, r"invalid yours.token_losses: got shape \[1 2\], expected"),
        ({"token_losses": np.zeros((1, 2), complex)}, logits, {}, "holds complex128"),
        ({"loss": 1.0}, logits[:, 1:], {}, "logits"),
        ({"loss": 1.0}, logits, {"dpo_beat": 3}, "dpo-beat"),
    ):
        with pytest.raises(loss.CheckError, match=what):
            loss.check(batch, given, terms, program=PROGRAM, **options)
    shifted = {**batch, "labels": np.roll(batch["labels"], 1, axis=1)}
    with pytest.raises(loss.CheckError, match="labels are token-aligned"):
        loss.check(shifted, logits, {"loss": 1.0}, program=PROGRAM)
    with pytest.raises(loss.CheckError, match="No such file"):
        loss.check(batch, logits, {"loss": 1.0}, program=tmp_path / "nothing")


def test_the_snippet_of_the_page(batches, monkeypatch, capsys):
    page = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", page, re.S) if "natgo.loss" in b]
    batch = batches["sft"]
    logits = random_logits(batch["input_ids"])
    losses = -token_logps(logits, batch["input_ids"], batch["labels"] >= 0)
    monkeypatch.setattr("natgo.__main__.find", lambda: PROGRAM)
    exec(block, {"natgo": natgo, "batch": batch, "logits": logits, "token_losses": losses})
    assert f"all {batch['input_ids'].size} entries agree" in capsys.readouterr().out
