"""A run's rows as data sets for the trainers: its own ids, and which of them are trained."""

import hashlib
import warnings
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from natgo.batches import Batch, BatchSet, Path, load
from natgo.errors import BatchError, missing
from natgo.teachers import check_pairs, spread

try:
    import datasets
    import numpy as np
except ModuleNotFoundError as err:
    raise missing("natgo.trl", err.name or "datasets", "numpy 'trl>=1.9,<2'") from None

IGNORED = -100
SIDES = ("chosen", "rejected")
REFERENCE = ("ref_chosen_logps", "ref_rejected_logps")
WEIGHT = "row_weight"
STORED = ("pair_teacher_topk_ids", "pair_teacher_topk_logprobs")
SPREAD = ("pair_teacher_rest_mass", "pair_teacher_entropy")
CONTRAST = ("contrast_input_ids", "pair_contrast_pos")
HINTS = ("student_input_ids", "teacher_input_ids", "pair_pos", "pair_teacher", "pair_teacher_pos", "pair_target_id", "pair_site", "pair_weight")
_IDS, _MASK = datasets.List(datasets.Value("int32")), datasets.List(datasets.Value("bool"))


def pairs(run: Path, split: str = "train", *, reference: bool = False, weights: str = "use", verify: bool = True) -> "datasets.Dataset":
    """A run's preference pairs, for `DPOTrainer`.

    Each side has `<side>_input_ids`, and `<side>_mask`, true at the tokens that are trained. `reference=True` adds the
    reference model's log-probs, `ref_chosen_logps` and `ref_rejected_logps`, which the run has if `collator.reference`
    is set. If weights are unequal, rows have a `row_weight`, with which the trainer computes the step's loss as sum(w
    l) / sum(w); `weights="ignore"` trains all rows alike.
    """
    batches = _batches(run, "dpo", split, reference, weights, verify)
    features = {f"{side}_{name}": kind for side in SIDES for name, kind in (("input_ids", _IDS), ("mask", _MASK))}
    return _dataset(_pair_rows, batches, features, [*(REFERENCE if reference else ()), *_unequal(batches, weights)])


def answers(run: Path, split: str = "train", *, reference: bool = False, weights: str = "use", verify: bool = True) -> "datasets.Dataset":
    """Both sides of each pair as separate answers, for `KTOTrainer`: `input_ids`, `mask`, and `label`, true for the
    chosen one.

    `reference` (which adds `ref_logps`), `weights` and `verify` are as in `pairs`.
    """
    batches = _batches(run, "dpo", split, reference, weights, verify)
    features = {"input_ids": _IDS, "mask": _MASK, "label": datasets.Value("bool")}
    return _dataset(_answer_rows, batches, features, [*(("ref_logps",) if reference else ()), *_unequal(batches, weights)])


def rollouts(run: Path, split: str = "train", *, good_from: Optional[float] = None, weights: str = "use", verify: bool = True) -> "datasets.Dataset":
    """A run's scored rollouts as separate answers, for `KTOTrainer`: `input_ids`, `mask`, and `label`, true for good
    ones.

    A rollout is good if its reward is at least `good_from`. By default, it is good if its reward is 1, provided that
    every reward is 0 or 1, and otherwise if it is above its task's mean. A rollout without a reward or, in the latter
    case, in a task whose rewards are all equal, is neither: it is dropped, and counted in a warning. The mask is true
    only at the turns that the model sampled. Traces without token ids need `collator.rl.ids: rendered`. `weights` and
    `verify` are as in `pairs`.
    """
    batches = _batches(run, "rl", split, False, weights, verify)
    labels, unlabelled = _labels(batches, good_from)
    if unlabelled:
        warnings.warn(f"{unlabelled} of {unlabelled + len(labels)} rollouts are neither good nor bad and left out: they have no reward, or their tasks have one reward only (good_from=...)", stacklevel=2)
    if not labels:
        raise BatchError("no rollout is good or bad: none has a reward, or each task has one reward only; pass good_from")
    features = {"input_ids": _IDS, "mask": _MASK, "label": datasets.Value("bool")}
    return _dataset(_rollout_rows, batches, features, _unequal(batches, weights), labels=labels)


def demonstrations(run: Path, split: str = "train", *, weights: str = "use", verify: bool = True) -> "datasets.Dataset":
    """A run's demonstrations, for `SFTTrainer`: `input_ids`, and `labels`, -100 where a token is not trained.

    Sequences packed into one row (`collator.layout: packed`) are separate rows here. `weights` and `verify` are as
    in `pairs`.
    """
    batches = _batches(run, "sft", split, False, weights, verify)
    return _dataset(_demonstration_rows, batches, {"input_ids": _IDS, "labels": _IDS}, _unequal(batches, weights))


def _batches(run: Path, channel: str, split: str, reference: bool, weights: str, verify: bool) -> BatchSet:
    if weights not in ("use", "ignore"):
        raise ValueError(f"weights {weights!r} is neither 'use' nor 'ignore'")
    batches = load(run, channel, split, verify=verify, rendered=True)
    for batch in batches:
        where = batch.line["file"]
        if batch.line.get("layout") == "composer":
            raise BatchError(f"{where}: is in the composer layout, whose tensors have other names: remove collator.format from the configuration")
        if reference and not all(name in batch for name in REFERENCE):
            raise BatchError(f"{where}: has no reference log-probs for its pairs: set collator.reference, or omit reference=True")
    return batches


def _unequal(batches: BatchSet, weights: str) -> Tuple[str, ...]:
    """The weight column, if there are unequal weights to use."""
    seen = {float(w) for batch in batches for w in batch["row_weight"]} if weights == "use" else ()
    if seen == {0.0}:
        raise BatchError("every row has weight 0, so that nothing is trained: weigh some of them higher, or train all alike with weights='ignore'")
    return (WEIGHT,) if len(seen) > 1 else ()


def _dataset(
    rows: Any, batches: BatchSet, features: Dict[str, Any], numbers: Sequence[str], labels: Optional[Dict[Any, bool]] = None
) -> "datasets.Dataset":
    features = {**{name: datasets.Value("float32") for name in numbers}, **features}
    key = f"{batches.fingerprint()[:32]}{batches.changes()}-{rows.__name__}-{'-'.join(numbers)}"
    given: Dict[str, Any] = {"batches": batches, "numbers": tuple(numbers)}
    if labels is not None:
        given["labels"] = labels
        key += "-" + hashlib.sha256(repr(sorted(labels.items())).encode()).hexdigest()[:16]
    # Rows made before from the same batches come from datasets' cache; datasets would mistake a list for shards.
    try:
        return datasets.Dataset.from_generator(rows, features=datasets.Features(features), gen_kwargs=given, fingerprint=key)
    except datasets.exceptions.DatasetGenerationError as err:
        raise err.__cause__ if isinstance(err.__cause__, BatchError) else err from None


def _sequences(batch: Batch, side: str) -> Iterator[Tuple[Any, Any]]:
    """The ids of each sequence of a side, and which of them are trained, without padding."""
    ids, labels = batch[side + "input_ids"], batch[side + "labels"]
    trained = labels != (batch.line.get("ignore_index") or IGNORED)
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
        for at, both in enumerate(zip(*(_sequences(batch, side + "_") for side in SIDES))):
            row = {name: float(batch[name][at]) for name in numbers}
            for side, (ids, trained) in zip(SIDES, both):
                row.update({f"{side}_input_ids": ids, f"{side}_mask": trained})
            yield row


def _answer_rows(batches: BatchSet, numbers: Sequence[str]) -> Iterator[Dict[str, Any]]:
    weighted, referred = WEIGHT in numbers, "ref_logps" in numbers
    for row in _pair_rows(batches, [*(REFERENCE if referred else ()), *((WEIGHT,) if weighted else ())]):
        for side in SIDES:
            answer = {"input_ids": row[f"{side}_input_ids"], "mask": row[f"{side}_mask"], "label": side == "chosen"}
            if referred:
                answer["ref_logps"] = row[f"ref_{side}_logps"]
            yield {**answer, WEIGHT: row[WEIGHT]} if weighted else answer


def _rollouts(batch: Batch) -> Iterator[Tuple[int, Any]]:
    """The rows of a batch, each with its rollout's name."""
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
                yield {"input_ids": ids[row, :length], "mask": mask, "label": labels[name], **{n: float(batch[n][row]) for n in numbers}}


def _demonstration_rows(batches: BatchSet, numbers: Sequence[str]) -> Iterator[Dict[str, Any]]:
    for batch in batches:
        for at, (ids, trained) in enumerate(_sequences(batch, "")):
            yield {"input_ids": ids, "labels": np.where(trained, ids, IGNORED), **{name: float(batch[name][at]) for name in numbers}}


def hints(run: Path, split: str = "train", *, stored: bool = False, contrast: bool = False, verify: bool = True) -> "datasets.Dataset":
    """A run's rollouts with their hints, for `HintTrainer`, one row per rollout.

    `student_input_ids` is the rollout, `teacher_input_ids` a list of its rows with hints. Pair i compares the student's
    logits at `pair_pos[i]` with those of teacher `pair_teacher[i]` at `pair_teacher_pos[i]`: both predict
    `pair_target_id[i]`, for the site `pair_site[i]` of its batch, with `pair_weight[i]` (`collator.weight`: token, site
    or rollout). `stored=True` adds the teacher's top-k that the run fetched (`collator.teacher`): `pair_teacher_topk_ids`
    and `pair_teacher_topk_logprobs`, [pairs, k], the former -1 where the teacher named fewer; and for each pair the
    mass left to other tokens, `pair_teacher_rest_mass`, and `pair_teacher_entropy`, which counts it as one more token.
    `contrast=True` adds the teachers' rows under wrong hints (`collator.contrast`), `contrast_input_ids`, in which pair i
    is at `pair_contrast_pos[i]`.
    """
    batches = load(run, "sdpo", split, verify=verify)
    for batch in batches:
        where = batch.line["file"]
        if batch.line.get("layout") == "composer":
            raise BatchError(f"{where}: is in the composer layout, whose tensors have other names: remove collator.format from the configuration")
        if stored and "pair_teacher_topk_ids" not in batch:
            raise BatchError(f"{where}: has no stored teacher: set collator.teacher.endpoint, or omit stored=True")
        if stored and float(batch.get("pair_teacher_temperature", [1.0])[0]) != 1:
            raise BatchError(f"{where}: its teacher's log-probs are not at temperature 1")
        if contrast and any("contrast" not in site and site["mode"] != "none" for site in _sites(batch)):
            raise BatchError(f"{where}: has no wrong hints: set collator.contrast, or omit contrast=True")
    if not any((batch["pair_weight"] > 0).any() for batch in batches):
        raise BatchError(f"{run}: no hint's pair has a weight above 0, so that nothing is trained: change collator.weight or the weights of the hints' rows")
    ints, floats = datasets.List(datasets.Value("int32")), datasets.List(datasets.Value("float32"))
    features = {"student_input_ids": ints, "teacher_input_ids": datasets.List(ints), "pair_weight": floats, **{name: ints for name in _PAIR.values()}}
    if stored:
        features.update(zip((*STORED, *SPREAD), (datasets.List(ints), datasets.List(floats), floats, floats)))
    if contrast:
        features.update(zip(CONTRAST, (datasets.List(ints), ints)))
    return _dataset(_hint_rows, batches, features, (*((*STORED, *SPREAD) if stored else ()), *(CONTRAST if contrast else ())))


def _contrasts(row: Dict[str, Any], sites: List[Dict[str, Any]]) -> Tuple[List[Any], Any]:
    """A row's teachers with wrong hints in place of their own, and the resulting positions of its pairs."""
    out, pos = [], row["pair_teacher_pos"].copy()
    for k, teacher in enumerate(sorted({site["teacher"] for site in sites if site["pairs"]})):
        ids, by = row["teacher_input_ids"][k].tolist(), 0
        for site in sorted((site for site in sites if site["teacher"] == teacher), key=lambda site: int(site["at"])):
            wrong, start = site.get("contrast", []), site["at"] + by
            ids[start : start + site["hint"]] = wrong
            pos[(row["pair_teacher"] == k) & (row["pair_pos"] + 1 >= site["at"])] += len(wrong) - site["hint"]
            by += len(wrong)
        out.append(ids)
    return out, pos


def _sites(batch: Batch, row: Optional[int] = None) -> List[Dict[str, Any]]:
    """The batch line's entries for a row's sites, or for all sites."""
    about = batch.line["row_info"]
    return [site for one in (about if row is None else about[row : row + 1]) for site in one["sites"]]


# The columns of the pair table, and their names in a row of hints.
_PAIR = {name: name for name in ("pair_teacher_pos", "pair_target_id", "pair_site")} | {"pair_teacher_row": "pair_teacher", "pair_student_pos": "pair_pos"}


def _hint_rows(batches: BatchSet, numbers: Sequence[str]) -> Iterator[Dict[str, Any]]:
    for batch in batches:
        check_pairs(batch)
        lengths = {side: batch[f"{side}_attention_mask"].sum(1) for side in ("student", "teacher")}
        for row, ids in enumerate(batch["student_input_ids"]):
            pairs = batch["pair_student_row"] == row
            teachers, own = np.unique(batch["pair_teacher_row"][pairs], return_inverse=True)
            out = {name: batch[column][pairs] for column, name in _PAIR.items()}
            out.update({name: batch[name][pairs] for name in numbers if name in STORED})
            if STORED[1] in numbers:
                out.update(zip(SPREAD, spread(out[STORED[1]])))
            out.update(pair_teacher=own, pair_weight=batch["pair_weight"][pairs], student_input_ids=ids[: lengths["student"][row]])
            out["teacher_input_ids"] = [batch["teacher_input_ids"][t, : lengths["teacher"][t]] for t in teachers]
            if CONTRAST[0] in numbers:
                out.update(zip(CONTRAST, _contrasts(out, _sites(batch, row))))
            yield out
