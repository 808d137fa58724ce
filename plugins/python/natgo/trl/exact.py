"""TRL's trainers for demonstrations, pairs and answers, with a loss over exactly the tokens that a run trains."""

from typing import Any, Dict, Iterator, List, Optional, Sequence

from natgo.errors import BatchError, missing
from natgo.trl.collators import AnswerCollator, PairCollator, Weighing
from natgo.tree import Row, pack as packed
from natgo.trl.rows import IGNORED, REFERENCE, SIDES, WEIGHT
from natgo.trl.trees import NOT_IN_TREES, InTrees, Part, at_nodes, check, limit, log_probs, whole_step

try:
    import datasets
    import pyarrow.compute as pc
    import torch
    import trl
except ModuleNotFoundError as err:
    raise missing("natgo.trl", err.name or "trl", "numpy 'trl>=1.9,<2'") from None


def refuse(trainer: str, args: Any, given: Dict[str, Any], options: Dict[str, str]) -> None:
    """Raises an error if an option is set that would change what is trained."""
    for name, why in options.items():
        if given.get(name) or getattr(args, name, None):
            raise ValueError(f"natgo's {trainer}: {name} can't be used: {why}")
    parallel = getattr(args, "parallelism_config", None)
    if parallel is not None and (getattr(parallel, "cp_size", 1) > 1 or getattr(parallel, "sp_size", 1) > 1):
        raise ValueError(f"natgo's {trainer}: context and sequence parallelism cut rows: not supported")


_OWN_COLLATOR = "natgo's own collator makes the masks"


def has_columns(data: Any, needed: Sequence[str], made_by: str) -> None:
    """Raises an error unless data has the columns that a natgo.trl function creates."""
    lacking = [name for name in needed if name not in (data.column_names or ())]
    if lacking:
        raise ValueError(f"the data set has no column {lacking[0]!r}: make it with natgo.trl.{made_by}")
    if isinstance(data, datasets.Dataset) and not len(data):
        raise ValueError("the data set has no rows: nothing could be trained")


def _highest(data: Any, column: str, of: Any) -> int:
    """The maximum of a number that `of` computes from an Arrow column; 0 for rows generated as they are read."""
    parts = data.with_format("arrow").iter(1000) if isinstance(data, datasets.Dataset) else ()
    return max((pc.max(of(part[column])).as_py() or 0 for part in parts), default=0)


def fits(data: Any, columns: Sequence[str], limit: Optional[int], name: str = "max_length") -> None:
    """Raises an error if a row is longer than the trainer's limit: cutting it would change its loss."""
    longest = max(_highest(data, column, pc.list_value_length) for column in columns) if limit else 0
    if limit and longest > limit:
        raise ValueError(
            f"a row has {longest} tokens, and {name} is {limit}: rows are not cut here. "
            f"Set {name}={'None' if name == 'max_length' else longest}, or collator.max_length in the run's configuration"
        )


def embeddings(trainer: Any, columns: Sequence[str], model: Any = None) -> int:
    """The number of embeddings in a trainer's model, or in another model that reads its rows. Raises an error, before
    training starts, if a row has an id without an embedding."""
    known = int((trainer.model if model is None else model).get_input_embeddings().weight.shape[0])  # 0 where parameters are sharded
    for data in data_sets(trainer.train_dataset, trainer.eval_dataset):
        last = max(_highest(data, column, lambda x: pc.list_flatten(x, recursive=True)) for column in columns)
        if known and last >= known:
            raise BatchError(
                f"a row has the id {last}, but the model has only {known} embeddings: the run was made for another model. "
                "Train that one, or make the run with this model's folder as collator.tokenizer"
            )
    return known


def pad_id(processing_class: Any) -> int:
    pad = getattr(getattr(processing_class, "tokenizer", processing_class), "pad_token_id", None)
    return 0 if pad is None else int(pad)  # the model never sees padding, but its id needs an embedding


class _Weighted:
    """Mixin for TRL's trainers: rows with a `row_weight` have the loss sum(w l) / sum(w) over the whole step.

    TRL takes means over a micro-batch, so it is given one row at a time, and the row's loss is weighted here; without a
    weight column nothing changes. Either data set, for training or for evaluation, may have one.
    """

    weighted = False  # the rows for training

    def weigh(self) -> bool:
        """Whether any rows have weights."""
        of_train, of_eval = (any(WEIGHT in (d.column_names or ()) for d in data_sets(one)) for one in (self.train_dataset, self.eval_dataset))  # type: ignore[attr-defined]
        self.weighted = of_train
        if of_train:  # transformers has not to divide by the number of micro-batches
            self.loss_is_scaled_for_ga, self.model_accepts_loss_kwargs = True, True
        return of_train or of_eval

    def units(self, inputs: Dict[str, Any]) -> torch.Tensor:
        """A micro-batch's contribution to the step's denominator."""
        return inputs[WEIGHT].double().sum()  # type: ignore[no-any-return]

    def split(self, inputs: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
        """The rows of a micro-batch, each as a micro-batch of its own."""
        n = len(inputs["input_ids"])
        for row in range(n):
            yield {name: x[row : row + 1] if torch.is_tensor(x) and x.dim() and len(x) == n else x for name, x in inputs.items()}

    def of_row(self, model: Any, inputs: Dict[str, Any]) -> torch.Tensor:
        """A row's loss: a sum over the items that units counts."""
        return super().compute_loss(model, inputs)  # type: ignore[misc, no-any-return]

    def _get_num_items_in_batch(self, batch_samples: List[Any], device: Any) -> Any:
        if not (WEIGHT in batch_samples[0] if batch_samples else self.weighted):
            return super()._get_num_items_in_batch(batch_samples, device)  # type: ignore[misc]
        return whole_step(self, [self.units(b) for b in batch_samples], device)

    def compute_loss(self, model: Any, inputs: Dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        if WEIGHT not in inputs:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)  # type: ignore[misc]
        total = self.units(inputs) if num_items_in_batch is None else num_items_in_batch
        weights, inputs = inputs[WEIGHT], {k: v for k, v in inputs.items() if k != WEIGHT}
        scale = weights * (1 if num_items_in_batch is None else self.accelerator.num_processes) / max(float(total), 1e-30)  # type: ignore[attr-defined]
        loss = torch.stack([w * self.of_row(model, row) for w, row in zip(scale, self.split(inputs))]).sum()
        return (loss, {}) if return_outputs else loss  # outputs go to metrics, of which rows of unequal weight have none


def data_sets(*given: Any) -> List[Any]:
    """The data sets that a trainer is given, possibly including several for evaluation."""
    sets = [one for data in given if data is not None for one in (data.values() if isinstance(data, dict) else [data])]
    for one in sets:
        if not hasattr(one, "column_names"):
            raise ValueError(f"expected a datasets.Dataset of rows, got {type(one).__name__}: make it of a run with natgo.trl's functions, as in hints(run)")
    return sets


class DPOTrainer(_Weighted, trl.DPOTrainer):  # type: ignore[misc]  # TRL has no types
    """TRL's DPOTrainer on rows of `pairs`: its losses, over exactly the tokens that the run trains.

    Reference log-probs are TRL's own (a reference model, the adapter switched off, or `precompute_ref_log_probs=True`)
    or, if the rows have them, the run's: `precompute_ref_log_probs=True` then uses those, and no reference model is
    needed.
    """

    def __init__(self, model: Any, ref_model: Any = None, args: Any = None, **more: Any):
        refuse("DPOTrainer", args, more, {
            "data_collator": _OWN_COLLATOR,
            "padding_free": "TRL 1.16 falls back to padding with it; leave it out",
        })
        args = args or trl.DPOConfig(max_length=None)
        for one in data_sets(more.get("train_dataset"), more.get("eval_dataset")):
            if REFERENCE[0] in (one.column_names or ()) and not args.precompute_ref_log_probs:
                raise ValueError(
                    "the rows have reference log-probs: set precompute_ref_log_probs=True to use them, or make the rows "
                    "without reference=True"
                )
        collator = PairCollator(pad_id(more.get("processing_class")), args.pad_to_multiple_of)
        super().__init__(model, ref_model, args, data_collator=collator, **more)
        collator.vocabulary = embeddings(self, [f"{side}_input_ids" for side in SIDES])
        if self.weigh() and {"aot", "aot_unpaired"} & set(self.loss_types):
            raise ValueError("natgo's DPOTrainer: loss_type aot compares the rows of a batch: it can't be used with rows of unequal weight")

    def split(self, inputs: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
        n = len(inputs["input_ids"]) // 2  # chosen rows, then rejected ones
        for row in range(n):
            yield {name: x[row :: n] if len(x) == 2 * n else x[row : row + 1] for name, x in inputs.items()}

    def _prepare_dataset(self, dataset: Any, processing_class: Any, args: Any, dataset_name: str) -> Any:
        ids = [f"{side}_input_ids" for side in SIDES]
        has_columns(dataset, [*ids, *(f"{side}_mask" for side in SIDES)], "pairs")
        fits(dataset, ids, args.max_length)
        return dataset

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = [f"{side}_{name}" for side in SIDES for name in ("input_ids", "mask")] + [*REFERENCE, WEIGHT]

    def _precompute_ref_logps(self, dataset: Any, name: str, batch_size: int) -> Any:
        return dataset if REFERENCE[0] in dataset.column_names else super()._precompute_ref_logps(dataset, name, batch_size)


class KTOTrainer(_Weighted, trl.KTOTrainer):  # type: ignore[misc]  # TRL has no types
    """TRL's KTOTrainer on rows of `answers` or `rollouts`: its losses, over exactly the tokens that the run trains.

    Reference log-probs come from a reference model, or from the model with the adapter switched off. Only the loss
    `apo_zero_unpaired` can use the run's, or precomputed ones (`precompute_ref_log_probs=True`): the others also need
    log-probs for the mismatched answers, which are formed batch by batch.
    """

    def __init__(self, model: Any, ref_model: Any = None, args: Any = None, **more: Any):
        options = {"data_collator": _OWN_COLLATOR}
        args = args or trl.KTOConfig(max_length=None)
        mismatched = args.loss_type != "apo_zero_unpaired"
        if mismatched:
            options["precompute_ref_log_probs"] = f"the mismatched answers of loss_type={args.loss_type!r} are made batch by batch"
        refuse("KTOTrainer", args, more, options)
        sets = data_sets(more.get("train_dataset"), more.get("eval_dataset"))
        if any("ref_logps" in (one.column_names or ()) for one in sets) and not args.precompute_ref_log_probs:
            raise ValueError("the rows have reference log-probs, which are used only with precompute_ref_log_probs=True: make the rows without reference=True")
        collator = AnswerCollator(pad_id(more.get("processing_class")), args.pad_to_multiple_of)
        collator.mismatched = mismatched
        super().__init__(model, ref_model, args, data_collator=collator, **more)
        collator.vocabulary = embeddings(self, ["input_ids"])
        self.weigh()

    def compute_loss(self, model: Any, inputs: Dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        """The mismatched answers depend on the batch, so it is not split: the weights multiply TRL's own for good and
        bad answers."""
        if WEIGHT not in inputs:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        total = self.units(inputs) if num_items_in_batch is None else num_items_in_batch
        weights, good = inputs[WEIGHT], inputs["label"].bool()
        scale = weights * (len(weights) * (1 if num_items_in_batch is None else self.accelerator.num_processes) / max(float(total), 1e-30))
        own = self.desirable_weight, self.undesirable_weight  # type: ignore[has-type]
        self.desirable_weight, self.undesirable_weight = own[0] * scale[good], own[1] * scale[~good]
        try:
            return trl.KTOTrainer.compute_loss(self, model, {k: v for k, v in inputs.items() if k != WEIGHT}, return_outputs)
        finally:
            self.desirable_weight, self.undesirable_weight = own

    def _prepare_dataset(self, dataset: Any, processing_class: Any, args: Any, dataset_name: str) -> Any:
        has_columns(dataset, ["input_ids", "mask", "label"], "answers or natgo.trl.rollouts")
        fits(dataset, ["input_ids"], args.max_length)
        return dataset

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = ["input_ids", "mask", "label", "ref_logps", WEIGHT]

    def _precompute_ref_logps(self, dataset: Any, name: str, batch_size: int) -> Any:
        return dataset if "ref_logps" in dataset.column_names else super()._precompute_ref_logps(dataset, name, batch_size)


class SFTTrainer(InTrees, _Weighted, trl.SFTTrainer):  # type: ignore[misc]  # TRL has no types
    """TRL's SFTTrainer on rows of `demonstrations`: its losses, over exactly the tokens that the run trains.

    `padding_free=True` trains the same tokens. So does `pack="tree"`, with a step's rows as trees of up to
    `tree_tokens` tokens, in which each token is forwarded once; the loss is then the NLL.
    """

    def __init__(self, model: Any, args: Any = None, pack: Optional[str] = None, tree_tokens: int = 32768, **more: Any):
        self.tree_tokens = limit("SFTTrainer", pack, tree_tokens)
        if self.tree_tokens:
            refuse("SFTTrainer", args, more, NOT_IN_TREES)
            if getattr(args, "loss_type", "nll") not in ("nll", "chunked_nll"):
                raise ValueError(f"natgo's SFTTrainer: loss_type {args.loss_type!r} can't be used: the loss of a tree is the NLL")
        refuse("SFTTrainer", args, more, {
            "data_collator": "TRL's own collator pads the rows and takes their labels",
            "packing": "TRL cuts rows to pack them; a run packs whole rows (collator.layout: packed), and padding_free=True trains them that way",
            "assistant_only_loss": "the rows say which tokens are trained",
            "formatting_func": "the rows are tokens",
        })
        args = args or trl.SFTConfig(max_length=None)
        weighted = False
        for one in data_sets(more.get("train_dataset"), more.get("eval_dataset")):
            has_columns(one, ["input_ids", "labels"], "demonstrations")
            fits(one, ["input_ids"], args.max_length)
            fits(one, ["input_ids"], self.tree_tokens, "tree_tokens")
            weighted = weighted or WEIGHT in one.column_names
        if weighted and args.padding_free:
            raise ValueError("natgo's SFTTrainer: padding_free can't be used with rows of unequal weight: it makes one row of them")
        args.dataset_kwargs = {**(args.dataset_kwargs or {}), "skip_prepare_dataset": True}
        super().__init__(model, args, **more)
        embeddings(self, ["input_ids"])
        if self.weigh():
            self.data_collator = Weighing(self.data_collator)  # type: ignore[has-type]
        if self.tree_tokens:
            check(self.model)
            self.loss_is_scaled_for_ga, self.model_accepts_loss_kwargs = True, True

    def units(self, inputs: Dict[str, Any]) -> torch.Tensor:
        n = (inputs["labels"][:, 1:] != -100).sum(1).double()
        return (inputs.get(WEIGHT, torch.ones_like(n)) * n).sum()

    def parts(self, batches: List[Dict[str, Any]]) -> List[Part]:
        rows = []
        for b in batches:
            weights = b.get(WEIGHT, torch.ones(len(b["input_ids"]))).tolist()
            for ids, labels, here, weight in zip(*(b[name].cpu().numpy() for name in ("input_ids", "labels", "attention_mask")), weights):
                n = int(here.sum())
                rows.append(Row(ids[:n], labels[:n] != IGNORED, weight))
        trees = packed(rows, self.tree_tokens)
        return [{"tree": one, **one.terms.merged()._asdict()} for one in trees]

    def of_part(self, model: Any, part: Part) -> torch.Tensor:
        logp = log_probs(at_nodes(model, self.model.config, part["tree"], part["position"]), part["target"])
        return -(part["weight"].to(logp) * logp).sum()

    def of_row(self, model: Any, inputs: Dict[str, Any]) -> torch.Tensor:
        loss = trl.SFTTrainer.compute_loss(self, model, inputs, num_items_in_batch=torch.ones((), device=self.args.device))
        return loss / (self.accelerator.num_processes if self.args.average_tokens_across_devices else 1)

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        self._signature_columns = [*self._signature_columns, WEIGHT]  # type: ignore[has-type]
