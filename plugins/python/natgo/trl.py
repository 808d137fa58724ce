"""TRL's trainers on the tokens of a run: its own ids, and a loss over exactly the tokens that nat-go marked as trained.

    from natgo.trl import DPOTrainer, pairs
    from trl import DPOConfig

    DPOTrainer("path/to/model", args=DPOConfig("out", max_length=None), train_dataset=pairs("out/first")).train()

By itself, TRL tokenises the texts again and trains the whole answer, tool results included. Here nothing is tokenised,
cut or masked anew; an option of TRL's that would change what is trained is refused by name. Written for TRL 1.16.
"""

import hashlib
import warnings
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from natgo.batches import Batch, BatchSet, Path, load
from natgo.errors import BatchError, missing

try:
    import datasets
    import numpy as np
    import torch
    import trl
except ModuleNotFoundError as err:
    raise missing("natgo.trl", err.name or "trl", "numpy 'trl>=1.16,<2'") from None

_IGNORED = -100
_SIDES = ("chosen", "rejected")
_REFERENCE = ("ref_chosen_logps", "ref_rejected_logps")
_IDS, _MASK = datasets.List(datasets.Value("int32")), datasets.List(datasets.Value("bool"))


def pairs(run: Path, split: str = "train", *, reference: bool = False, weights: str = "refuse", verify: bool = True) -> "datasets.Dataset":
    """The preference pairs of a run, for `DPOTrainer`.

    Each side has `<side>_input_ids`, and `<side>_mask`, true at the tokens that are trained. `reference=True` adds the
    log-probs of the reference model, `ref_chosen_logps` and `ref_rejected_logps`, which the run has if
    `collator.reference` is set. TRL has no row weights: rows that differ in weight are an error, unless
    `weights="ignore"`.
    """
    batches = _batches(run, "dpo", split, reference, weights, verify)
    features = {f"{side}_{name}": kind for side in _SIDES for name, kind in (("input_ids", _IDS), ("mask", _MASK))}
    return _dataset(_pair_rows, batches, features, _REFERENCE if reference else ())


def answers(run: Path, split: str = "train", *, reference: bool = False, weights: str = "refuse", verify: bool = True) -> "datasets.Dataset":
    """Both sides of each pair as answers by themselves, for `KTOTrainer`: `input_ids`, `mask`, and `label`, true for the chosen.

    `reference` (which adds `ref_logps`), `weights` and `verify` are as in `pairs`.
    """
    batches = _batches(run, "dpo", split, reference, weights, verify)
    features = {"input_ids": _IDS, "mask": _MASK, "label": datasets.Value("bool")}
    return _dataset(_answer_rows, batches, features, ("ref_logps",) if reference else ())


def rollouts(run: Path, split: str = "train", *, good_from: Optional[float] = None, weights: str = "refuse", verify: bool = True) -> "datasets.Dataset":
    """The scored rollouts of a run as answers by themselves, for `KTOTrainer`: `input_ids`, `mask`, and `label`, true for the good.

    A rollout is good if its reward is at least `good_from`; by default if it is 1, where every reward is 0 or 1, otherwise
    if it is above the mean of its task. One without a reward, or whose task has one reward only, is neither: it is left
    out, and counted in a warning. The mask is true at the turns that the model sampled, and nowhere else. Traces without token
    ids need `collator.rl.ids: rendered`. `weights` and `verify` are as in `pairs`.
    """
    batches = _batches(run, "rl", split, False, weights, verify)
    labels, unlabelled = _labels(batches, good_from)
    if unlabelled:
        warnings.warn(f"{unlabelled} of {unlabelled + len(labels)} rollouts are neither good nor bad and left out: they have no reward, or their tasks have one reward only (good_from=...)", stacklevel=2)
    if not labels:
        raise BatchError("no rollout is good or bad: none has a reward, or each task has one reward only; pass good_from")
    features = {"input_ids": _IDS, "mask": _MASK, "label": datasets.Value("bool")}
    return _dataset(_rollout_rows, batches, features, (), labels=labels)


def demonstrations(run: Path, split: str = "train", *, weights: str = "refuse", verify: bool = True) -> "datasets.Dataset":
    """The demonstrations of a run, for `SFTTrainer`: `input_ids`, and `labels`, -100 where a token is not trained.

    Sequences packed into one row (`collator.layout: packed`) are rows of their own here. `weights` and `verify` are as
    in `pairs`.
    """
    batches = _batches(run, "sft", split, False, weights, verify)
    return _dataset(_demonstration_rows, batches, {"input_ids": _IDS, "labels": _IDS}, ())


def _batches(run: Path, channel: str, split: str, reference: bool, weights: str, verify: bool) -> BatchSet:
    if weights not in ("refuse", "ignore"):
        raise ValueError(f"weights {weights!r} is neither 'refuse' nor 'ignore'")
    batches = load(run, channel, split, verify=verify, rendered=True)
    seen: List[float] = []
    for batch in batches:
        where = batch.line["file"]
        if batch.line.get("layout") == "composer":
            raise BatchError(f"{where}: is in the composer layout, whose tensors have other names: remove collator.format from the configuration")
        if reference and not all(name in batch for name in _REFERENCE):
            raise BatchError(f"{where}: has no reference log-probs for its pairs: set collator.reference, or omit reference=True")
        row_weight = batch["row_weight"]
        seen = [min(seen[:1] + [float(row_weight.min())]), max(seen[1:] + [float(row_weight.max())])]
    if weights == "refuse" and seen[0] != seen[1]:
        raise BatchError(f"row weights range from {seen[0]:g} to {seen[1]:g}, and TRL has no row weights: weights='ignore' trains all rows alike")
    return batches


def _dataset(
    rows: Any, batches: BatchSet, features: Dict[str, Any], numbers: Sequence[str], labels: Optional[Dict[Any, bool]] = None
) -> "datasets.Dataset":
    features = {**features, **{name: datasets.Value("float32") for name in numbers}}
    key = f"{batches.fingerprint()[:32]}-{rows.__name__}-{len(numbers)}"
    given: Dict[str, Any] = {"batches": batches, "numbers": tuple(numbers)}
    if labels is not None:
        given["labels"] = labels
        key += "-" + hashlib.sha256(repr(sorted(labels.items())).encode()).hexdigest()[:16]
    # Rows made from the same batches before come from the cache of datasets, which would take a list for shards.
    return datasets.Dataset.from_generator(rows, features=datasets.Features(features), gen_kwargs=given, fingerprint=key)


def _sequences(batch: Batch, side: str) -> Iterator[Tuple[Any, Any]]:
    """The ids of each sequence of a side, and which of them are trained, without padding."""
    ids, labels = batch[side + "input_ids"], batch[side + "labels"]
    trained = labels != (batch.line.get("ignore_index") or _IGNORED)
    where = f"{batch.line['file']}: {side}"
    if (labels[trained] != ids[trained]).any():
        raise BatchError(f"{where}labels: differ from the ids at their positions")
    if "seq_lengths" in batch:
        ends = np.cumsum(batch["seq_lengths"])
        places = [(0, slice(start, end)) for start, end in zip([0, *ends[:-1]], ends)]
    else:
        mask = batch[side + "attention_mask"]
        lengths = mask.sum(1)
        if (mask != (np.arange(mask.shape[1]) < lengths[:, None])).any() or (trained & (mask == 0)).any():
            raise BatchError(f"{where}attention_mask: is not 1 up to each row's end, or padding is trained")
        places = [(row, slice(0, length)) for row, length in enumerate(lengths)]
    for row, place in places:
        if trained[row, place][0] or not trained[row, place].any():
            raise BatchError(f"{where}labels: a row trains its first token, which nothing predicts, or none at all")
        yield ids[row, place], trained[row, place]


def _pair_rows(batches: BatchSet, numbers: Sequence[str]) -> Iterator[Dict[str, Any]]:
    for batch in batches:
        for at, both in enumerate(zip(*(_sequences(batch, side + "_") for side in _SIDES))):
            row = {name: float(batch[name][at]) for name in numbers}
            for side, (ids, trained) in zip(_SIDES, both):
                row.update({f"{side}_input_ids": ids, f"{side}_mask": trained})
            yield row


def _answer_rows(batches: BatchSet, numbers: Sequence[str]) -> Iterator[Dict[str, Any]]:
    for row in _pair_rows(batches, _REFERENCE if numbers else ()):
        for side in _SIDES:
            answer = {"input_ids": row[f"{side}_input_ids"], "mask": row[f"{side}_mask"], "label": side == "chosen"}
            yield {**answer, "ref_logps": row[f"ref_{side}_logps"]} if numbers else answer


def _rollouts(batch: Batch) -> Iterator[Tuple[int, Any]]:
    """The rows of a batch, each with what names its rollout."""
    names = batch.line["rollouts"]
    for row, rollout in enumerate(batch["row_rollout"]):
        yield row, names[int(rollout)]


def _labels(batches: BatchSet, good_from: Optional[float]) -> Tuple[Dict[Any, bool], int]:
    """Whether each rollout is good, by its name, and the number of those that are neither good nor bad."""
    tasks: Dict[int, Dict[Any, Optional[float]]] = {}
    for batch in batches:
        for row, name in _rollouts(batch):
            reward = None if batch["reward_null"][row] else float(batch["reward"][row])
            tasks.setdefault(int(batch["group"][row]), {})[name] = reward
    if good_from is None and all(r in (None, 0.0, 1.0) for task in tasks.values() for r in task.values()):
        good_from = 1.0
    labels, unlabelled = {}, 0
    for task in tasks.values():
        scored = {name: reward for name, reward in task.items() if reward is not None}
        if good_from is None and len(set(scored.values())) < 2:
            scored = {}
        unlabelled += len(task) - len(scored)
        limit = sum(scored.values()) / max(1, len(scored))
        for name, reward in scored.items():
            labels[name] = reward > limit if good_from is None else reward >= good_from
    return labels, unlabelled


def _rollout_rows(batches: BatchSet, numbers: Sequence[str], labels: Dict[Any, bool]) -> Iterator[Dict[str, Any]]:
    for batch in batches:
        ids, here, trained = batch["input_ids"], batch["attention_mask"], batch["response_mask"] != 0
        for row, name in _rollouts(batch):
            length = int(here[row].sum())
            mask = trained[row, :length]
            if not here[row, :length].all() or trained[row, length:].any() or mask[0] or not mask.any():
                raise BatchError(f"{batch.line['file']}: response_mask: row {row} trains padding, its first token, which nothing predicts, or none at all")
            if name in labels:
                yield {"input_ids": ids[row, :length], "mask": mask, "label": labels[name]}


def _demonstration_rows(batches: BatchSet, numbers: Sequence[str]) -> Iterator[Dict[str, Any]]:
    for batch in batches:
        for ids, trained in _sequences(batch, ""):
            yield {"input_ids": ids, "labels": np.where(trained, ids, _IGNORED)}


class _Collator:
    """Puts sequences with their masks into tensors, padded on the right."""

    def __init__(self, pad_id: int, multiple: Optional[int]):
        self.pad_id, self.multiple = pad_id, multiple
        self.vocabulary = 0  # number of the model's embeddings, once known

    def padded(self, rows: Sequence[Tuple[List[int], List[bool]]], prefix: str = "") -> Dict[str, torch.Tensor]:
        wide = max(len(ids) for ids, _ in rows)
        if self.multiple:
            wide += -wide % int(self.multiple)
        ids = torch.full((len(rows), wide), self.pad_id, dtype=torch.int64)
        here, trained = torch.zeros_like(ids), torch.zeros_like(ids)
        for row, (sequence, mask) in enumerate(rows):
            ids[row, : len(sequence)] = torch.as_tensor(sequence)
            here[row, : len(sequence)] = 1
            trained[row, : len(sequence)] = torch.as_tensor(mask, dtype=torch.int64)
        if self.vocabulary and int(ids.max()) >= self.vocabulary:
            raise BatchError(f"a row has the id {int(ids.max())}, but the model has only {self.vocabulary} embeddings: the run was made for another model")
        return {prefix + "input_ids": ids, prefix + "attention_mask": here, prefix + "completion_mask": trained}


class PairCollator(_Collator):
    """Rows of `pairs` as TRL's DPO loss takes them: chosen rows, then rejected ones, with a `completion_mask` that has holes."""

    def __call__(self, examples: Sequence[Dict[str, Any]]) -> Dict[str, torch.Tensor]:
        out = self.padded([(x[f"{side}_input_ids"], x[f"{side}_mask"]) for side in _SIDES for x in examples])
        for name in _REFERENCE:
            if name in examples[0]:
                out[name] = torch.tensor([x[name] for x in examples])
        return out


class AnswerCollator(_Collator):
    """Rows of `answers` or `rollouts` as TRL's KTO loss takes them.

    With `mismatched`, each prompt is also paired with the answer of the row before it (`KL_`), as TRL does within a
    batch. A row's prompt is what comes before its first trained token.
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
        return out


def _refuse(trainer: str, args: Any, given: Dict[str, Any], options: Dict[str, str]) -> None:
    """Raises an error if an option is set that would change what is trained."""
    for name, why in options.items():
        if given.get(name) or getattr(args, name, None):
            raise ValueError(f"natgo's {trainer}: {name} can't be used: {why}")
    parallel = getattr(args, "parallelism_config", None)
    if parallel is not None and (getattr(parallel, "cp_size", 1) > 1 or getattr(parallel, "sp_size", 1) > 1):
        raise ValueError(f"natgo's {trainer}: context and sequence parallelism cut rows: not supported")


_OWN_COLLATOR = "natgo's own collator makes the masks"


def _columns(data: Any, needed: Sequence[str], made_by: str) -> None:
    missing = [name for name in needed if name not in (data.column_names or ())]
    if missing:
        raise ValueError(f"the data set has no column {missing[0]!r}: make it with natgo.trl.{made_by}")


def _fits(data: Any, columns: Sequence[str], limit: Optional[int]) -> None:
    """Raises an error if a row is longer than the trainer's limit: cutting it would change its loss."""
    if limit is None or not isinstance(data, datasets.Dataset):
        return
    for part in data.with_format("arrow").iter(1000):
        for name in columns:
            longest = max(len(x) for x in part[name])
            if longest > limit:
                raise ValueError(
                    f"a row has {longest} tokens, and max_length is {limit}: rows are not cut here. "
                    "Set max_length=None, or collator.max_length in the run's configuration"
                )


def _pad_id(processing_class: Any) -> int:
    pad = getattr(getattr(processing_class, "tokenizer", processing_class), "pad_token_id", None)
    return 0 if pad is None else int(pad)  # the model never sees padding, but its id needs an embedding


class DPOTrainer(trl.DPOTrainer):  # type: ignore[misc]  # TRL has no types
    """TRL's DPOTrainer on rows of `pairs`: its losses, over exactly the tokens that the run trains.

    Reference log-probs are TRL's own (a reference model, the adapter switched off, or `precompute_ref_log_probs=True`)
    or, if the rows have them, the run's: `precompute_ref_log_probs=True` then uses those, and no reference model is
    needed.
    """

    def __init__(self, model: Any, ref_model: Any = None, args: Any = None, **more: Any):
        _refuse("DPOTrainer", args, more, {
            "data_collator": _OWN_COLLATOR,
            "padding_free": "TRL 1.16 falls back to padding with it; leave it out",
        })
        args = args or trl.DPOConfig(max_length=None)
        for data in filter(None, (more.get("train_dataset"), more.get("eval_dataset"))):
            for one in data.values() if isinstance(data, dict) else [data]:
                if _REFERENCE[0] in (one.column_names or ()) and not args.precompute_ref_log_probs:
                    raise ValueError(
                        "the rows have reference log-probs: set precompute_ref_log_probs=True to use them, or make the rows "
                        "without reference=True"
                    )
        collator = PairCollator(_pad_id(more.get("processing_class")), args.pad_to_multiple_of)
        super().__init__(model, ref_model, args, data_collator=collator, **more)
        collator.vocabulary = self.model.get_input_embeddings().weight.shape[0]

    def _prepare_dataset(self, dataset: Any, processing_class: Any, args: Any, dataset_name: str) -> Any:
        ids = [f"{side}_input_ids" for side in _SIDES]
        _columns(dataset, [*ids, *(f"{side}_mask" for side in _SIDES)], "pairs")
        _fits(dataset, ids, args.max_length)
        return dataset

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = [f"{side}_{name}" for side in _SIDES for name in ("input_ids", "mask")] + list(_REFERENCE)

    def _precompute_ref_logps(self, dataset: Any, name: str, batch_size: int) -> Any:
        return dataset if _REFERENCE[0] in dataset.column_names else super()._precompute_ref_logps(dataset, name, batch_size)


class KTOTrainer(trl.KTOTrainer):  # type: ignore[misc]  # TRL has no types
    """TRL's KTOTrainer on rows of `answers` or `rollouts`: its losses, over exactly the tokens that the run trains.

    Reference log-probs come from a reference model, or from the model with the adapter switched off. Only the loss
    `apo_zero_unpaired` can use the run's, or precomputed ones (`precompute_ref_log_probs=True`): the others also need
    those of the mismatched answers, which are made batch by batch.
    """

    def __init__(self, model: Any, ref_model: Any = None, args: Any = None, **more: Any):
        options = {"data_collator": _OWN_COLLATOR}
        args = args or trl.KTOConfig(max_length=None)
        mismatched = args.loss_type != "apo_zero_unpaired"
        if mismatched:
            options["precompute_ref_log_probs"] = f"the mismatched answers of loss_type={args.loss_type!r} are made batch by batch"
        _refuse("KTOTrainer", args, more, options)
        data = more.get("train_dataset")
        if data is not None and "ref_logps" in (data.column_names or ()) and not args.precompute_ref_log_probs:
            raise ValueError("the rows have reference log-probs, which are used only with precompute_ref_log_probs=True: make the rows without reference=True")
        collator = AnswerCollator(_pad_id(more.get("processing_class")), args.pad_to_multiple_of)
        collator.mismatched = mismatched
        super().__init__(model, ref_model, args, data_collator=collator, **more)
        collator.vocabulary = self.model.get_input_embeddings().weight.shape[0]

    def _prepare_dataset(self, dataset: Any, processing_class: Any, args: Any, dataset_name: str) -> Any:
        _columns(dataset, ["input_ids", "mask", "label"], "answers or natgo.trl.rollouts")
        _fits(dataset, ["input_ids"], args.max_length)
        return dataset

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = ["input_ids", "mask", "label", "ref_logps"]

    def _precompute_ref_logps(self, dataset: Any, name: str, batch_size: int) -> Any:
        return dataset if "ref_logps" in dataset.column_names else super()._precompute_ref_logps(dataset, name, batch_size)


class SFTTrainer(trl.SFTTrainer):  # type: ignore[misc]  # TRL has no types
    """TRL's SFTTrainer on rows of `demonstrations`: its losses, over exactly the tokens that the run trains.

    `padding_free=True` trains the same tokens.
    """

    def __init__(self, model: Any, args: Any = None, **more: Any):
        _refuse("SFTTrainer", args, more, {
            "data_collator": "TRL's own collator pads the rows and takes their labels",
            "packing": "TRL cuts rows to pack them; a run packs whole rows (collator.layout: packed), and padding_free=True trains them that way",
            "assistant_only_loss": "the rows say which tokens are trained",
            "formatting_func": "the rows are tokens",
        })
        args = args or trl.SFTConfig(max_length=None)
        for data in filter(None, (more.get("train_dataset"), more.get("eval_dataset"))):
            for one in data.values() if isinstance(data, dict) else [data]:
                _columns(one, ["input_ids", "labels"], "demonstrations")
                _fits(one, ["input_ids"], args.max_length)
        args.dataset_kwargs = {**(args.dataset_kwargs or {}), "skip_prepare_dataset": True}
        super().__init__(model, args, **more)
