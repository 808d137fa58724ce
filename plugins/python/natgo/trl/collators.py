"""Rows as tensors, padded on the right."""

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from natgo.trl.rows import CONTRAST, REFERENCE, SIDES, STORED, WEIGHT


def weights(examples: Sequence[Dict[str, Any]]) -> Dict[str, torch.Tensor]:
    """The rows' weights, if they have any."""
    return {WEIGHT: torch.tensor([x[WEIGHT] for x in examples])} if WEIGHT in examples[0] else {}


class _Collator:
    """Puts sequences with their masks into tensors, padded on the right."""

    def __init__(self, pad_id: int, multiple: Optional[int]):
        self.pad_id, self.multiple = pad_id, multiple
        self.vocabulary = 0  # number of the model's embeddings, once known

    def padded(self, rows: Sequence[Tuple[List[int], List[bool]]], prefix: str = "") -> Dict[str, torch.Tensor]:
        wide = max(len(ids) for ids, _ in rows)
        if self.multiple:
            wide += -wide % int(self.multiple)
        pad = self.pad_id if not self.vocabulary or self.pad_id < self.vocabulary else 0  # it needs an embedding
        ids = torch.full((len(rows), wide), pad, dtype=torch.int64)
        here, trained = torch.zeros_like(ids), torch.zeros_like(ids)
        for row, (sequence, mask) in enumerate(rows):
            ids[row, : len(sequence)] = torch.as_tensor(sequence)
            here[row, : len(sequence)] = 1
            trained[row, : len(sequence)] = torch.as_tensor(mask, dtype=torch.int64)
        return {prefix + "input_ids": ids, prefix + "attention_mask": here, prefix + "completion_mask": trained}


class PairCollator(_Collator):
    """Rows of `pairs` as TRL's DPO loss expects them: chosen rows, then rejected ones, with a `completion_mask` that
    has holes."""

    def __call__(self, examples: Sequence[Dict[str, Any]]) -> Dict[str, torch.Tensor]:
        out = self.padded([(x[f"{side}_input_ids"], x[f"{side}_mask"]) for side in SIDES for x in examples])
        for name in REFERENCE:
            if name in examples[0]:
                out[name] = torch.tensor([x[name] for x in examples])
        return {**out, **weights(examples)}


class AnswerCollator(_Collator):
    """Rows of `answers` or `rollouts` as TRL's KTO loss expects them.

    With `mismatched`, each prompt is also paired with the answer of the row before it (`KL_`), as TRL does within a
    batch. A row's prompt is everything before its first trained token.
    """

    mismatched = True

    def __call__(self, examples: Sequence[Dict[str, Any]]) -> Dict[str, torch.Tensor]:
        out = self.padded([(x["input_ids"], x["mask"]) for x in examples])
        out["label"] = torch.tensor([x["label"] for x in examples])
        if "ref_logps" in examples[0]:
            out["ref_logps"] = torch.tensor([x["ref_logps"] for x in examples])
        if self.mismatched:
            starts = [list(x["mask"]).index(True) for x in examples]
            mixed = []
            for at, (x, start) in enumerate(zip(examples, starts)):
                other, from_ = examples[at - 1], starts[at - 1]
                answer, mask = list(other["input_ids"][from_:]), list(other["mask"][from_:])
                mixed.append((list(x["input_ids"][:start]) + answer, [False] * start + mask))
            out.update(self.padded(mixed, "KL_"))
        return {**out, **weights(examples)}


class HintCollator(_Collator):
    """Rows of `hints` as a batch of the channel `sdpo`, under its names: `student_` rows, `teacher_` rows, the pair table."""

    def __call__(self, examples: Sequence[Dict[str, Any]]) -> Dict[str, torch.Tensor]:
        out = self.side("student_", [x["student_input_ids"] for x in examples])
        teachers = [t for x in examples for t in x["teacher_input_ids"]]
        out.update(self.side("teacher_", teachers or [[0]]))
        first = 0  # of the row's teachers
        columns: Dict[str, List[Any]] = {name: [] for name in ("student_row", "student_pos", "teacher_row", "teacher_pos", "target_id", "site", "weight")}
        for row, x in enumerate(examples):
            columns["student_row"] += [row] * len(x["pair_pos"])
            columns["teacher_row"] += [first + t for t in x["pair_teacher"]]
            for name, key in (("student_pos", "pair_pos"), *((n, f"pair_{n}") for n in ("teacher_pos", "target_id", "site", "weight"))):
                columns[name] += x[key]
            first += len(x["teacher_input_ids"])
        if CONTRAST[0] in examples[0]:
            out.update(self.side("contrast_", [t for x in examples for t in x[CONTRAST[0]]] or [[0]]))
            columns["contrast_pos"] = [at for x in examples for at in x[CONTRAST[1]]]
        for name, values in columns.items():
            out[f"pair_{name}"] = torch.tensor(values, dtype=torch.float32 if name == "weight" else torch.int64)
        if STORED[0] in examples[0]:
            k = max((len(ids) for x in examples for ids in x[STORED[0]]), default=1)
            for name, fill, kind in zip(STORED, (-1, -math.inf), (torch.int64, torch.float32)):
                top = [list(one) + [fill] * (k - len(one)) for x in examples for one in x[name]]
                out[name] = torch.tensor(top, dtype=kind).reshape(-1, k)
            out["pair_weight"] *= (out[STORED[0]] >= 0).any(1)  # where the teacher gave no answer
        return out

    def side(self, prefix: str, rows: Sequence[List[int]]) -> Dict[str, torch.Tensor]:
        out = self.padded([(ids, [False] * len(ids)) for ids in rows], prefix)
        del out[prefix + "completion_mask"]
        ids = out[prefix + "input_ids"]
        return {**out, prefix + "position_ids": torch.arange(ids.shape[1]).repeat(len(ids), 1)}


class Weighing:
    """Another collator's batch, with the rows' weights added if they have any."""

    def __init__(self, collator: Any):
        self.collator = collator

    def __call__(self, examples: Sequence[Dict[str, Any]]) -> Dict[str, torch.Tensor]:
        return {**self.collator([{k: v for k, v in x.items() if k != WEIGHT} for x in examples]), **weights(examples)}
