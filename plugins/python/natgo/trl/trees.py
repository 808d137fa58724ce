"""Trainers that forward each token of a step once: its rows as trees, as `natgo.tree` packs them."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from natgo import tree
from natgo.errors import BatchError
from natgo.trl.divergence import at_least_float32
from natgo.trl.scoring import AtPositions

Part = Dict[str, Any]
"""A tree, and tensors of its trained nodes, targets and weights."""


def limit(trainer: str, pack: Optional[str], tree_tokens: int) -> int:
    """The maximum number of tokens in a tree; 0 if trees aren't used."""
    if pack not in (None, "tree"):
        raise ValueError(f"natgo's {trainer}: pack {pack!r} is neither 'tree' nor None")
    if pack and tree_tokens < 1:
        raise ValueError(f"natgo's {trainer}: tree_tokens has to be above 0")
    return tree_tokens if pack else 0


NOT_IN_TREES = {
    "padding_free": "a tree has no rows",
    "label_smoothing_factor": "the loss of a tree is over its targets",
    "neftune_noise_alpha": "rows that share a token would share its noise",
    "use_liger_kernel": "it makes its own loss of rows",
    "compute_loss_func": "a tree has no rows",
    "deepspeed": "a step has as many backward passes as it has trees",
}


def check(model: Any) -> None:
    """Raises an error if a model can't be trained with trees."""
    tree.check(model.config)
    if any(isinstance(m, torch.nn.Dropout) and m.p > 0 for m in model.modules()):
        raise ValueError("trees can't be used with dropout, which would be the same for all rows that share a token: set it to 0, an adapter's (lora_dropout), too")


def at_nodes(model: Any, config: Any, one: tree.Tree, nodes: torch.Tensor) -> torch.Tensor:
    """The logits [N,V] at some nodes; others are not computed."""
    mask = tree.masks(config, one, next(model.parameters()).dtype)
    return AtPositions(model)(one.ids[None], mask, one.depth[None], torch.zeros_like(nodes), nodes)  # type: ignore[no-any-return]


def log_probs(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    logits = at_least_float32(logits)
    return logits.gather(1, targets[:, None])[:, 0] - logits.logsumexp(1)


def finite(trainer: Any, loss: torch.Tensor) -> torch.Tensor:
    """A micro-batch's loss. Raises an error before its gradient reaches the weights if it isn't finite."""
    if not torch.isfinite(loss.detach()):
        raise BatchError(
            f"the loss of step {trainer.state.global_step + 1} is {float(loss.detach())}, and the weights were left as they are: "
            "load a model in float16 as bfloat16 or float32; if it is not, lower learning_rate"
        )
    return loss


def whole_step(trainer: Any, units: Sequence[torch.Tensor], device: Any) -> torch.Tensor:
    """The sum of the units in the step's micro-batches, on all ranks."""
    return trainer.accelerator.gather(sum(units, torch.zeros((), dtype=torch.float64)).to(device)).sum()


class InTrees:
    """Mixin for transformers trainers: with tree_tokens, a step's rows are trees, each with a backward pass of its own.

    To the trainer, micro-batches still determine the number of rows in a step. A trainer defines how its batches become
    parts, the units they count, and the loss of a part.
    """

    tree_tokens = 0

    def units(self, inputs: Dict[str, Any]) -> torch.Tensor:
        """A micro-batch's contribution to the step's denominator."""
        raise NotImplementedError

    def parts(self, batches: List[Dict[str, Any]]) -> List[Part]:
        raise NotImplementedError

    def of_part(self, model: Any, part: Part) -> torch.Tensor:
        """A loss that is summed over the items that units counts."""
        raise NotImplementedError

    def _get_num_items_in_batch(self, batch_samples: List[Any], device: Any) -> Any:
        if not self.tree_tokens:
            return super()._get_num_items_in_batch(batch_samples, device)  # type: ignore[misc]
        return whole_step(self, [self.units(b) for b in batch_samples], device)

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> Tuple[List[Any], Any]:
        batches, whole = super().get_batch_samples(epoch_iterator, num_batches, device)  # type: ignore[misc]
        if not self.tree_tokens or not batches:
            return batches, whole
        parts = self.parts(batches)
        forwarded = sum(len(part["tree"].ids) for part in parts)
        self._metrics["train"]["tokens_a_node"].append(sum(len(x) for part in parts for x in part["tree"].places.values()) / forwarded)  # type: ignore[attr-defined]
        ids = torch.zeros(0, dtype=torch.int64)
        most = int(self.accelerator.gather(torch.tensor([len(parts)], device=device)).max())  # type: ignore[attr-defined]
        idle = {**parts[0], "weight": torch.zeros_like(parts[0]["weight"])}  # what a rank runs while others still have work
        parts = [idle] * (most - len(parts)) + parts
        slots = len(batches)  # the last of them has a part: with its gradients the ranks' are joined
        divided = [parts[slots - 1 - i :: slots] for i in range(slots)]
        return [{"parts": own, "input_ids": torch.cat([ids, *(part["tree"].ids for part in own)])} for own in divided], whole

    def training_step(self, model: Any, inputs: Dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        if "parts" not in inputs:
            return super().training_step(model, inputs, num_items_in_batch)  # type: ignore[misc, no-any-return]
        losses = [super(InTrees, self).training_step(model, part, num_items_in_batch) for part in inputs["parts"]]  # type: ignore[misc]
        return sum(losses, torch.zeros((), device=self.args.device))  # type: ignore[attr-defined]

    def compute_loss(self, model: Any, inputs: Dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        if not self.tree_tokens:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)  # type: ignore[misc]
        parts = [inputs] if "tree" in inputs else self.parts([inputs])
        whole = float(self.units(inputs)) if num_items_in_batch is None else float(num_items_in_batch) / self.accelerator.num_processes  # type: ignore[attr-defined]
        to = self.args.device  # type: ignore[attr-defined]
        loss = sum(self.of_part(model, {name: x.to(to) for name, x in part.items()}) for part in parts) / (whole or 1.0)
        loss = finite(self, loss)
        return (loss, {}) if return_outputs else loss
