"""Tests of stored teachers as axolotl and Tinker read them: at which position each loss reads what, from the gradients.

TestTeachers runs them where axolotl and tinker are; elsewhere those that need one are skipped."""

import os
import pathlib
import random
import re

import pytest

from natgo import teachers
from natgo.batches import Batch
from natgo.errors import BatchError

np = pytest.importorskip("numpy")
VOCAB, K = 23, 4


def entries(rng, k):
    """A teacher's k best tokens of [K], whose probabilities leave something to the rest."""
    p = np.array([rng.random() + 0.01 for _ in range(k)])
    ids = np.concatenate((rng.sample(range(VOCAB), k), np.full(K - k, -1)))
    return ids, np.concatenate((np.log(p / (p.sum() + rng.random())), np.full(K - k, -np.inf))).astype(np.float32)


def grid(rng, rows, width):
    lengths = np.array([rng.randint(6, width) for _ in range(rows - 1)] + [width])
    ids = np.array([[rng.randrange(VOCAB) for _ in range(width)] for _ in range(rows)])
    return ids, (np.arange(width) < lengths[:, None]).astype(np.int64), lengths


def rollouts(rng, rows=3, width=12):
    ids, mask, lengths = grid(rng, rows, width)
    top, logps, trained, want = np.full((rows, width, K), -1), np.full((rows, width, K), -np.inf, np.float32), np.zeros((rows, width), np.int64), []
    for row, n in enumerate(lengths):
        for at in range(1, n):
            top[row, at], logps[row, at] = entries(rng, rng.randint(0, K))
        trained[row, rng.randint(1, 3) : n - rng.randint(0, 2)] = 1
        want.append({at - 1: (top[row, at], logps[row, at]) for at in range(n) if trained[row, at] and (top[row, at] >= 0).any()})
    tensors = {"input_ids": ids, "attention_mask": mask, "response_mask": trained, "row_weight": np.ones(rows), "teacher_topk_ids": top, "teacher_topk_logprobs": logps}
    return Batch(tensors, {"file": "rl", "channel": "rl"}), want


def pairs(rng, rows=3, width=12):
    """Two hints a row, one about tokens of the other's, of which the first is a row of its own: want has those first."""
    ids, mask, lengths = grid(rng, rows, width)
    taught, taught_mask, table, want = [], [], [], []
    for row, n in enumerate(lengths):
        layers = [{}, {}]
        for site in range(2):
            hint = rng.randint(1, 3)
            own = np.concatenate((ids[row, :1], [rng.randrange(VOCAB)] * hint, ids[row, 1:n]))
            taught.append(np.pad(own, (0, width + 3 - len(own))))
            taught_mask.append(np.arange(width + 3) < len(own))
            for pos in range(2 + site, n - 1):
                weight, (top, logps) = rng.choice([0.0, 1.0]), entries(rng, rng.randint(0, K))
                table.append((row, pos, len(taught) - 1, pos + hint, ids[row, pos + 1], weight, top, logps))
                if weight and (top >= 0).any():
                    layers[1 if site and pos >= 2 + site else 0][pos] = top, logps
        want += [layer for layer in layers if layer]
    names = ("student_row", "student_pos", "teacher_row", "teacher_pos", "target_id", "weight", "teacher_topk_ids", "teacher_topk_logprobs")
    tensors = {"student_input_ids": ids, "student_attention_mask": mask, "teacher_input_ids": np.array(taught), "teacher_attention_mask": np.array(taught_mask).astype(int)}
    tensors |= {"pair_" + name: np.array(column) for name, column in zip(names, zip(*table))}
    return Batch(tensors, {"file": "sdpo", "channel": "sdpo"}), want


MADE = pytest.mark.parametrize("make", [rollouts, pairs])


def scaled(top, logps):
    """The teacher's distribution over the vocabulary."""
    p = np.zeros(VOCAB)
    p[top[top >= 0]] = np.exp(logps[top >= 0].astype(float))
    return p / p.sum()


def beside(grad, logits, want):
    """The gradient of sum -p log q is q - p where something is learnt, and 0 elsewhere."""
    import torch

    for row, layer in enumerate(want):
        assert set(np.flatnonzero((grad[row].abs() > 1e-7).any(1))) == set(layer)
        for pos, (top, logps) in layer.items():
            q = torch.softmax(logits[row, pos].detach().double(), 0).numpy()
            assert np.abs(grad[row, pos].numpy() - (q - scaled(top, logps))).max() < 1e-5, (row, pos)


@MADE
def test_axolotl(make):
    torch = pytest.importorskip("torch")
    pytest.importorskip("axolotl")
    from axolotl.integrations.kd.collator import DataCollatorForKD
    from axolotl.integrations.kd.kernels.liger import LigerFusedLinearKLTopKLogprobLoss
    from axolotl.integrations.kd.topk_logprob.forward_kl import loss
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    batch, want = make(random.Random(3))
    made = list(teachers.axolotl([batch]))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"<pad>": 0}, unk_token="<pad>")), pad_token="<pad>")
    columns = DataCollatorForKD(tokenizer)(made)
    logits = torch.randn(len(made), columns["input_ids"].shape[1], VOCAB, generator=torch.Generator().manual_seed(1), requires_grad=True)
    given = [columns["target_" + name] for name in ("token_ids", "logprobs", "mask")]
    loss(logits, *given, num_items_in_batch=1).backward()
    beside(logits.grad, logits, want)
    # What its trainer uses, on hidden states: the head is the identity. It scales the student's share of the top-k, too.
    hidden = logits.detach().clone().requires_grad_(True)
    LigerFusedLinearKLTopKLogprobLoss(0.0, 1.0, 1.0, 0.0, compiled=False, compute_ce_loss=False)(torch.eye(VOCAB), hidden, *given, true_labels=columns["labels"]).backward()
    for row, layer in enumerate(want):
        several = {pos for pos, (top, _) in layer.items() if (top >= 0).sum() > 1}  # of one token the share is always 1
        assert several <= set(np.flatnonzero((hidden.grad[row].abs() > 1e-7).any(1))) <= set(layer)
        # Its loss on the tokens themselves shifts: the label of the logits at t stands at t + 1.
        assert {at - 1 for at in np.flatnonzero(columns["labels"][row] != -100)} == set(layer)


@MADE
def test_tinker(make):
    torch = pytest.importorskip("torch")
    tinker = pytest.importorskip("tinker")

    batch, want = make(random.Random(4))
    for datum, layer in zip(teachers.tinker([batch]), want):
        assert isinstance(datum, tinker.Datum)
        target, weights = (datum.loss_fn_inputs[name].to_torch() for name in ("target_tokens", "weights"))
        assert target.shape == weights.shape == (datum.model_input.length, K)
        logits = torch.randn(1, len(target), VOCAB, generator=torch.Generator().manual_seed(1), requires_grad=True)
        # cross_entropy, as tinker documents it: sum of -weights * logprobs, [N,K], of target_tokens under the logits at N.
        (-weights * logits[0].log_softmax(1).gather(1, target)).sum().backward()
        beside(logits.grad, logits, [layer])


@MADE
def test_positions(make):
    batch, want = make(random.Random(5))
    made = list(teachers.axolotl([batch]))
    assert len(made) == len(want)
    for row, layer in zip(made, want):
        assert len({len(x) for x in row.values()}) == 1
        for pos, (mask, ids, logps) in enumerate(zip(row["target_mask"], row["target_token_ids"], row["target_logprobs"])):
            if pos in layer:
                top = layer[pos][0]
                assert [i for i, on in zip(ids, mask) if on] == top[top >= 0].tolist()
                assert abs(sum(np.exp(x) for x, on in zip(logps, mask) if on) - 1) < 1e-9
                assert row["labels"][pos + 1] == row["input_ids"][pos + 1]
            else:
                assert not any(mask) and (pos + 1 == len(ids) or pos + 1 == len(row["labels"]) or row["labels"][pos + 1] == -100)


def test_refused():
    batch, want = pairs(random.Random(6))
    with pytest.raises(BatchError, match="unequal ones: set collator.weight: token"):
        list(teachers.axolotl([Batch({**batch, "pair_weight": batch["pair_weight"] * np.arange(len(batch["pair_weight"]))}, batch.line)]))
    with pytest.raises(BatchError, match="not at temperature 1"):
        list(teachers.axolotl([Batch({**batch, "pair_teacher_temperature": np.array([0.7])}, batch.line)]))
    with pytest.raises(BatchError, match="sdpo: has no stored teacher: set collator.teacher"):
        list(teachers.axolotl([Batch({k: v for k, v in batch.items() if "topk" not in k}, batch.line)]))
    with pytest.warns(UserWarning, match=f"{len(want)} rows are left out"):
        assert not list(teachers.axolotl([Batch({**batch, "pair_teacher_topk_ids": np.full_like(batch["pair_teacher_topk_ids"], -1)}, batch.line)]))


def test_what_the_top_k_leave():
    near = np.log1p(-1e-12)
    logps = np.log(np.array([[0.5, 0.25, 0.125], [1, 0, 0], [0, 0, 0], [0.5, 0.5, 0]]) + 1e-300)
    logps = np.where(logps < -600, -np.inf, logps)
    logps = np.vstack((logps, [[near, -np.inf, -np.inf]]))
    rest, entropy = teachers.spread(logps)
    assert np.allclose(rest, [0.125, 0, 1, 0, 1e-12], rtol=1e-9, atol=0)
    assert np.allclose(entropy, [1.75 * np.log(2), 0, 0, np.log(2), 1e-12 * (1 + np.log(1e12))], rtol=1e-6, atol=0)


def test_the_rows_of_hints_say_it():
    rows = pytest.importorskip("natgo.trl.rows")
    batch, _ = pairs(random.Random(8))
    batch = Batch({**batch, "pair_site": batch["pair_teacher_row"]}, batch.line)
    row = next(rows._hint_rows([batch], (*rows.STORED, *rows.SPREAD)))
    assert len(row["pair_teacher_entropy"]) == len(row["pair_teacher_rest_mass"]) == len(row["pair_pos"])
    assert (row["pair_teacher_rest_mass"] >= 0).all() and set(rows.SPREAD) <= set(row)


def test_the_snippet_runs(tmp_path, monkeypatch):
    """README.md's, on a run whose teacher answered: its data sets are read back as axolotl and Tinker would read them."""
    tinker, datasets = pytest.importorskip("tinker"), pytest.importorskip("datasets")
    if "NATGO_TEST_TAUGHT" not in os.environ:
        pytest.skip("TestTeachers makes the run")
    page = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
    (code,) = [b for b in re.findall(r"```python\n(.*?)```", page, re.S) if "teachers" in b]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "first").symlink_to(os.environ["NATGO_TEST_TAUGHT"])
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code, names)
    prepared = datasets.load_from_disk("prepared")
    assert set(prepared.column_names) == {"input_ids", "attention_mask", "labels", "target_token_ids", "target_logprobs", "target_mask"}
    assert len(prepared) > 0 and all(any(map(any, mask)) for mask in prepared["target_mask"])
    assert names["data"] and all(isinstance(datum, tinker.Datum) and datum.loss_fn_inputs["weights"].to_numpy().any() for datum in names["data"])
