"""GRPO plus the divergence from a hinted model and DPO, on a run's batches."""

import warnings
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Optional, Sequence

from natgo.errors import BatchError, missing
from natgo.trl.hint_trainer import UpdateTeacher
from natgo.trl.losses import LOSSES, TERMS, Objective, ShapeMismatch, has_reference, row_weights, units
from natgo.trl.microbatch import SIDES, Batch, select, split, trained, without_cut_off
from natgo.trl.scoring import AtPositions, Teacher, frozen
from natgo.trl.divergence import at_least_float32
from natgo.trl.trees import at_nodes, check, finite, limit
from natgo.tree import Row, Tree, pack as packed

try:
    import torch
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from torch.utils.data import DataLoader
    from transformers import PreTrainedTokenizerFast, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer
except ModuleNotFoundError as err:
    raise missing("natgo.trl", err.name or "trl", "numpy 'trl>=1.9,<2'") from None

CHANNELS = ("rl", "sdpo", "dpo")


@dataclass
class CompositeConfig(GRPOConfig):  # type: ignore[misc]  # TRL has no types
    """GRPOConfig and the weights of the other terms. Both are 0 by default: plain GRPO.

    Nothing is generated, so the values of two rows per device and two generations don't matter.
    """

    per_device_train_batch_size: int = field(default=2, metadata={"help": "Not used: see micro_rows."})
    num_generations: Optional[int] = field(default=2, metadata={"help": "Not used: rollouts are the run's."})
    logging_steps: float = field(default=50, metadata={"help": "A line every so many steps, and for the first."})
    logging_first_step: bool = field(default=True, metadata={"help": "Whether the first step is logged."})
    alpha_sdpo: float = field(default=0.0, metadata={"help": "Weight of the JSD between a turn and its hinted self."})
    beta_replay: float = field(default=0.0, metadata={"help": "Weight of DPO over the pairs."})
    sdpo_jsd_beta: float = field(default=0.5, metadata={"help": "0: KL(teacher||student), 1: KL(student||teacher)."})
    sdpo_temperature: float = field(default=1.0, metadata={"help": "Of both sides' logits in the JSD."})
    sdpo_token_clip: Optional[float] = field(default=None, metadata={"help": "Upper limit of a position's JSD."})
    sdpo_top_k: Optional[int] = field(default=None, metadata={"help": "Compare the student's best, and everything else as one more entry."})
    replay_dpo_beta: float = field(default=0.1, metadata={"help": "DPO's beta."})
    reference: str = field(default="", metadata={"help": "Fingerprint that ref_ columns must have to be used."})
    micro_rows: int = field(default=8, metadata={"help": "Rows of each channel in a micro-batch; gradient_accumulation_steps of them are a step."})

    def objective(self) -> Objective:
        return Objective(
            alpha_sdpo=self.alpha_sdpo, beta_replay=self.beta_replay, jsd_beta=self.sdpo_jsd_beta, temperature=self.sdpo_temperature,
            jsd_clip=self.sdpo_token_clip or 0.0, top_k=self.sdpo_top_k or 0, dpo_beta=self.replay_dpo_beta, clip_epsilon=self.epsilon,
            clip_epsilon_high=self.epsilon_high, reference=self.reference,
        )


class CompositeTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL has no types
    """TRL's GRPOTrainer on the batches of `microbatch.read`: grpo + alpha_sdpo * jsd + beta_replay * dpo.

    It never generates and never computes a reward: the GRPO term uses the ids, log-probs and advantages of the batches'
    own rollouts, and TRL computes its loss from them as it would from its own rollouts. A step has
    gradient_accumulation_steps micro-batches for each channel with a weight, and each term is sum(w l) / sum(w) over
    all of them; a step without error sites or pairs omits their terms. `teacher` is live, frozen, ema or stored, as in
    HintTrainer. With `pack="tree"` a micro-batch's rollouts are trees of up to `tree_tokens` tokens, in which each
    token is forwarded once; TRL's loss keeps a ratio for each token in each row. It runs in one process.
    """

    def __init__(
        self, model: Any, args: CompositeConfig, batches: Iterable[Batch], teacher: str = "live", pack: Optional[str] = None, tree_tokens: int = 32768,
        **more: Any,
    ):
        self.tree_tokens = limit("CompositeTrainer", pack, tree_tokens)
        self.tree: Optional[Tree] = None  # of the rows whose loss TRL computes
        if args.loss_type not in ("dapo", "cispo") or args.beta:
            raise ValueError("CompositeTrainer: loss_type must be dapo or cispo, whose mean is over the step's tokens, and beta 0: the run has no reference")
        if isinstance(model, str):
            raise ValueError(f"CompositeTrainer: expected a model, got {model!r}: load it with AutoModelForCausalLM.from_pretrained")
        batches = list(batches)  # of a generator, as microbatch.read is
        if not all(isinstance(b, Batch) for b in batches):
            raise ValueError("CompositeTrainer: expected batches of natgo.trl.microbatch, as microbatch.read(run) makes them")
        if args.mask_truncated_completions:
            batches = [without_cut_off(b) for b in batches]
        if teacher == "stored":
            batches = [answered(b) for b in batches]
        self.objective = args.objective()
        pools = {c: [m for b in batches if b.channel == c for m in split(b, args.micro_rows)] for c in CHANNELS if self.objective.weight(c)}
        self.pools = {c: [m for m in pool if float(units(m, self.objective)) > 0] for c, pool in pools.items()}
        self.pools = {c: pool for c, pool in self.pools.items() if pool}
        if not self.pools:
            there = ", ".join(sorted({b.channel for b in batches})) or "no channel"
            raise ValueError(f"nothing to train on: no batch of a channel with a weight above 0 has a row with one; there are batches of {there}")
        known = model.get_input_embeddings().weight.shape[0]
        last = max(int(m.t[side + "input_ids"].max()) for c, pool in self.pools.items() for m in pool for side in SIDES[c])
        if last >= known:
            raise BatchError(f"a row has the id {last}, but the model has only {known} embeddings: the run was made for another model")
        args.temperature = sampled_at(self.pools.get("rl", []))
        args.steps_per_generation = args.gradient_accumulation_steps
        self.scored = AtPositions(model)
        self.start = frozen(self.scored) if args.beta_replay else None  # before TRL gives the model a head of its own
        self.teacher = None if teacher == "stored" else Teacher(self.scored, teacher, start=self.start)
        self.whole: Dict[str, float] = {}  # the step's denominators
        n, pad = max(len(pool) for pool in self.pools.values()), batches[0].line["pad_id"]
        steps = Dataset.from_dict({"prompt": [""] * (n + -n % args.gradient_accumulation_steps)})
        super().__init__(model=model, args=args, train_dataset=steps, processing_class=pad_only(max(pad, 0)), reward_funcs=no_reward, **more)
        if self.accelerator.num_processes > 1:
            raise ValueError("CompositeTrainer is for one process")
        self.add_callback(Continue(self))
        if self.teacher is not None:
            self.add_callback(UpdateTeacher(self.teacher))
        if self.tree_tokens:
            check(self.model)

    def get_train_dataloader(self) -> Any:
        return DataLoader(range(len(self.train_dataset)), batch_size=1, collate_fn=list)  # type: ignore[arg-type]

    def micro_batches(self, number: int) -> Dict[str, Batch]:
        """A micro-batch for each channel."""
        return {c: pool[number % len(pool)] for c, pool in self.pools.items()}

    def _get_num_items_in_batch(self, batch_samples: List[Any], device: Any) -> None:
        step = [self.micro_batches(self._step + i) for i in range(len(batch_samples))]
        self.whole = {c: sum(float(units(m[c], self.objective)) for m in step) for c in self.pools}

    def _prepare_inputs(self, inputs: Any) -> Dict[str, Batch]:
        """The step's micro-batches by channel: their number takes the place of a prompt."""
        to = self.accelerator.device
        return {c: b._replace(t={n: x.to(to) for n, x in b.t.items()}) for c, b in self.micro_batches(self._step).items()}

    def compute_loss(self, model: Any, inputs: Dict[str, Batch], return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        terms = {}
        for channel, b in inputs.items():
            whole = self.whole.get(channel) or float(units(b, self.objective))
            if channel == "rl":
                terms[channel] = self._in_trees(model, b, whole) if self.tree_tokens else super().compute_loss(model, as_trl(b, whole))
            else:
                terms[channel] = self._beside(channel, b) / whole
        total = finite(self, sum(self.objective.weight(c) * loss for c, loss in terms.items()))
        # Logged values are means over micro-batches, but the terms are parts of a sum.
        parts = self.current_gradient_accumulation_steps if self.whole else 1
        logged = {"loss/total": total, **{TERMS[c]: loss for c, loss in terms.items()}}
        seen = {name: float(value.detach()) * parts for name, value in logged.items()}
        seen.update({"loss/alpha_sdpo": self.args.alpha_sdpo, "loss/beta_replay": self.args.beta_replay})
        for name, value in seen.items():
            self._metrics["train" if self.model.training else "eval"][name].append(value)
        return total

    def _in_trees(self, model: Any, b: Batch, whole: float) -> torch.Tensor:
        """TRL's loss over one tree's rows after another. All but the last run backward here, so one is in memory."""
        ids, old = b.t["input_ids"].cpu().numpy(), trained(b, "").cpu().numpy()
        rows = [Row(ids[row, :n], old[row, :n]) for row, n in enumerate(b.t["attention_mask"].sum(1).tolist())]
        loss, before = torch.zeros(()), 0.0
        for number, one in enumerate(packed(rows, self.tree_tokens)):
            if number:
                before += float(loss.detach())
                self.accelerator.backward(loss)
            self.tree = one.to(b.t["input_ids"].device)
            loss = super().compute_loss(model, as_trl(select(b, list(one.places)), whole))
        self.tree = None
        return loss + before

    def _get_per_token_logps_and_entropies(self, model: Any, input_ids: torch.Tensor, *args: Any, **more: Any) -> Any:
        if self.tree is None:
            return super()._get_per_token_logps_and_entropies(model, input_ids, *args, **more)
        terms, keep = self.tree.terms, more["logits_to_keep"] if "logits_to_keep" in more else args[1]
        nodes, own = terms.position.unique(return_inverse=True)
        logits = at_least_float32(at_nodes(model, self.model.config, self.tree, nodes) / self.temperature)
        whole = logits.logsumexp(1)
        entropy = whole - (logits.softmax(1) * logits).sum(1)
        number = {row: n for n, row in enumerate(self.tree.places)}
        row = torch.tensor([number[r] for r in terms.row.tolist()], device=input_ids.device)
        at = row, self.tree.depth[terms.position] + 1 + keep - input_ids.shape[1]
        grids = [x.new_zeros(len(input_ids), keep).index_put(at, x) for x in (logits[own, terms.target] - whole[own], entropy[own])]
        return (*grids, None) if "compute_aux_loss" in more else tuple(grids)

    def _beside(self, channel: str, b: Batch) -> torch.Tensor:
        """The sum of a term that isn't TRL's."""
        try:
            given = has_reference(b, self.objective)
            return LOSSES[channel](self.scored, b, self.objective, teacher=self.teacher, reference=self.start, ref_given=given)[0]
        except ShapeMismatch as err:  # a teacher with another vocabulary
            warnings.warn(f"the {channel} term of this step counts as 0: {err}", stacklevel=2)
            return torch.zeros((), device=self.accelerator.device, requires_grad=True)


class Continue(TrainerCallback):  # type: ignore[misc]
    """Makes a resumed run continue with the micro-batch that it stopped before: TRL counts from 0 again."""

    def __init__(self, trainer: CompositeTrainer):
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        self.trainer._step = state.global_step * args.gradient_accumulation_steps


def no_reward(**_: Any) -> List[float]:
    raise AssertionError("the batches hold the rewards: nothing is scored here")


def answered(b: Batch) -> Batch:
    """A batch whose pairs have weight 0 where the stored teacher didn't answer."""
    if b.channel != "sdpo":
        return b
    if "pair_teacher_topk_ids" not in b.t:
        raise ValueError(f"{b.line.get('file', 'an sdpo batch')}: has no stored teacher: set collator.teacher.endpoint")
    return b._replace(t={**b.t, "pair_weight": b.t["pair_weight"] * (b.t["pair_teacher_topk_ids"] >= 0).any(1)})


def as_trl(b: Batch, whole: Optional[float] = None) -> Dict[str, torch.Tensor]:
    """An rl micro-batch under the names that TRL's loss expects.

    The prompt is everything before the first token that any row trains; the rest is the completion, in which
    tool_mask is 1 where the policy sampled. So a multi-turn rollout is one row, prompts have the same length, and
    nothing is padded on the left. A row's weight and the step's denominator go into its advantage, so that with
    loss_type dapo the step's loss is the mean over its tokens weighted by row_weight.
    """
    t, on = b.t, trained(b, "")
    start = int(on.int().argmax(1).masked_fill(~on.any(1), on.shape[1] - 1).min())
    weight = row_weights(b)
    whole = float((weight * on.sum(1)).sum()) if whole is None else whole
    out = {
        "prompt_ids": t["input_ids"][:, :start], "prompt_mask": t["attention_mask"][:, :start],
        "completion_ids": t["input_ids"][:, start:], "completion_mask": t["attention_mask"][:, start:],
        "tool_mask": on[:, start:].long(), "advantages": (weight / whole * t["advantage"]).float(),
        "num_items_in_batch": torch.ones((), device=on.device),
    }
    if "old_logprobs" in t:
        out["old_per_token_logps"] = t["old_logprobs"][:, start:]
    return out


def sampled_at(pool: Sequence[Batch]) -> float:
    """The temperature of the rollouts' log-probs, which must be the same for all: TRL divides all logits by it."""
    found = {float(x) for b in pool for x in b.t.get("temperature", torch.ones(1))}
    if len(found) > 1:
        raise ValueError(f"rollouts sampled at several temperatures ({sorted(found)}): TRL's loss takes one")
    return found.pop() if found else 1.0


def pad_only(pad: int) -> Any:
    """TRL requires a tokenizer. The batches hold ids, so this one only defines the padding token."""
    tokenizer = Tokenizer(WordLevel({"<pad>": pad}, unk_token="<pad>"))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<pad>")
