"""Stored teachers (`collator.teacher`) as other trainers read them: the top-k of `sdpo` and `rl` batches.

Row t of every column here refers to the logits at t, which predict token t + 1: neither loss shifts. Neither loss keeps
the mass outside the top-k: the k probabilities are scaled to 1, so any mass that the student gives to other tokens
counts against it, even if the teacher likes them. `natgo.trl` keeps that mass, as one more entry.
"""

import warnings
from typing import Any, Dict, Iterable, Iterator, Tuple

from natgo.batches import Batch
from natgo.errors import BatchError, missing

try:
    import numpy as np
except ModuleNotFoundError:
    raise missing("natgo.teachers", "numpy") from None

IGNORED = -100
_Row = Tuple[Any, Any, Any, Any]
"""Ids [T], and for the logits at each of them but the last: the teacher's tokens [T-1,K], their probabilities, 0 where
there are fewer, and the row's weight [T-1], 0 where nothing is learnt."""


def axolotl(batches: Iterable[Batch]) -> Iterator[Dict[str, Any]]:
    """Rows as axolotl's KD plugin prepares its own: `input_ids`, `attention_mask`, `labels`, `target_token_ids`,
    `target_logprobs`, `target_mask`.

    `labels` hold the learnt tokens at their own positions; the `target_` columns are one position earlier, at the
    logits. The rows don't have weights, so batches with unequal weights are refused. `kd_ce_alpha` above 0 would train
    on the tokens in `labels`, which in `sdpo` batches are the failed turn's.
    """
    seen = set()
    for ids, top, p, weight in _rows(batches):
        seen |= set(weight[weight > 0].tolist())
        if len(seen) > 1:
            raise BatchError("axolotl's loss has no weights, and the batches have unequal ones: set collator.weight: token, or the rows' weights to 1")
        here = p > 0
        with np.errstate(divide="ignore"):
            logps = np.where(here, np.log(p), -1e9)
        last = ((0, 1), (0, 0))  # the last token's logits predict nothing that is there
        yield {
            "input_ids": ids.tolist(),
            "attention_mask": [1] * len(ids),
            "labels": [IGNORED, *np.where(weight > 0, ids[1:], IGNORED).tolist()],
            "target_token_ids": np.pad(top, last).tolist(),
            "target_logprobs": np.pad(logps, last, constant_values=-1e9).tolist(),
            "target_mask": np.pad(here.astype(int), last).tolist(),
        }


def tinker(batches: Iterable[Batch]) -> Iterator[Any]:
    """One `tinker.Datum` per row, for its loss `cross_entropy`: `target_tokens` and `weights` [N,K], the latter
    probability times the row's weight."""
    try:
        from tinker import Datum, ModelInput
    except ModuleNotFoundError as err:
        raise missing("natgo.teachers.tinker", err.name or "tinker", "tinker") from None
    for ids, top, p, weight in _rows(batches):
        inputs = {"target_tokens": top.astype(np.int64), "weights": (p * weight[:, None]).astype(np.float32)}
        yield Datum(model_input=ModelInput.from_ints(ids[:-1].tolist()), loss_fn_inputs=inputs)


def _rows(batches: Iterable[Batch]) -> Iterator[_Row]:
    untaught = 0
    for batch in batches:
        if "pair_teacher_topk_ids" not in batch and "teacher_topk_ids" not in batch:
            raise BatchError(f"{batch.line['file']}: has no stored teacher: set collator.teacher, with rollouts: true for rl batches")
        for ids, top, logps, weight in _of_pairs(batch) if "pair_student_row" in batch else _of_rollouts(batch):
            p = np.where((top >= 0) & (weight > 0)[:, None], np.exp(logps.astype(np.float64)), 0)
            mass = p.sum(1)
            if mass.any():
                yield ids, np.where(p > 0, top, 0), p / np.where(mass > 0, mass, 1)[:, None], np.where(mass > 0, weight, 0)
            else:
                untaught += 1
    if untaught:
        warnings.warn(f"{untaught} rows are left out: the teacher said nothing about what they train", stacklevel=3)


def _of_rollouts(batch: Batch) -> Iterator[_Row]:
    lengths = batch["attention_mask"].sum(1)
    for row, n in enumerate(lengths):
        at = (row, slice(1, n))  # the teacher's columns stand at the token itself
        trained = (batch["response_mask"][at] != 0) * batch["row_weight"][row]
        yield batch["input_ids"][row, :n], batch["teacher_topk_ids"][at], batch["teacher_topk_logprobs"][at], trained


def _of_pairs(batch: Batch) -> Iterator[_Row]:
    """A rollout with all its pairs; an extra row where two hints concern the same token."""
    check_pairs(batch)
    if float(batch.get("pair_teacher_temperature", [1.0])[0]) != 1:
        raise BatchError(f"{batch.line['file']}: its teacher's log-probs are not at temperature 1")
    pos, lengths = batch["pair_student_pos"], batch["student_attention_mask"].sum(1)
    for row, n in enumerate(lengths):
        left = np.flatnonzero(batch["pair_student_row"] == row)
        while len(left):
            _, first = np.unique(pos[left], return_index=True)
            own, left = left[first], np.delete(left, first)
            top = np.full((n - 1, batch["pair_teacher_topk_ids"].shape[1]), -1, np.int64)
            logps, weight = np.full(top.shape, -np.inf), np.zeros(n - 1)
            top[pos[own]], logps[pos[own]] = batch["pair_teacher_topk_ids"][own], batch["pair_teacher_topk_logprobs"][own]
            weight[pos[own]] = batch["pair_weight"][own]
            yield batch["student_input_ids"][row, :n], top, logps, weight


def spread(logprobs: Any) -> Tuple[Any, Any]:
    """The mass that top-k log-probs [N,K] leave to all other tokens, exact where one token has nearly all, and the
    entropy in nats, [N] each.

    The entropy counts the rest as one more token, so it is a lower bound.
    """
    p = np.exp(np.sort(np.minimum(logprobs.astype(np.float64), 0), 1))
    rest = np.maximum(-np.expm1(np.minimum(logprobs.astype(np.float64), 0).max(1)) - p[:, :-1].sum(1), 0)
    p = np.column_stack((p, rest))
    return rest, -(p * np.log(np.where(p > 0, p, 1))).sum(1)


def check_pairs(batch: Batch) -> None:
    """Raises an error unless the logits of each pair predict its target on both sides."""
    where = batch.line["file"]
    for side in ("student", "teacher"):
        ids, length = batch[f"{side}_input_ids"], batch[f"{side}_attention_mask"].sum(1)
        row, pos = batch[f"pair_{side}_row"], batch[f"pair_{side}_pos"]
        if (row < 0).any() or (row >= len(ids)).any() or (pos < 0).any() or (pos + 1 >= length[row]).any():
            raise BatchError(f"{where}: pair_{side}_pos: outside its row")
        wrong = np.flatnonzero(ids[row, pos + 1] != batch["pair_target_id"])
        if len(wrong):
            raise BatchError(f"{where}: pair {wrong[0]}: {side}_input_ids[row, pos+1] is not the target id")
    weight = batch["pair_weight"]
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise BatchError(f"{where}: pair_weight: not finite, or negative")
