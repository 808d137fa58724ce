"""Distils a hinted model into the model without the hint, at the tokens that a hint is about."""

import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from natgo.errors import BatchError, missing
from natgo.tree import Row, pack as packed
from natgo.trl.collators import HintCollator
from natgo.trl.divergence import divergence
from natgo.trl.exact import data_sets, embeddings, fits, has_columns, pad_id, refuse
from natgo.trl.losses import Objective, sdpo_loss, units
from natgo.trl.microbatch import Batch
from natgo.trl.rows import CONTRAST, HINTS, STORED
from natgo.trl.scoring import TEACHERS, AtPositions, Teacher
from natgo.trl.trees import NOT_IN_TREES, InTrees, Part, at_nodes, check, finite, limit, whole_step

try:
    import torch
    import trl
    from transformers import TrainerCallback
except ModuleNotFoundError as err:
    raise missing("natgo.trl", err.name or "trl", "numpy 'trl>=1.9,<2'") from None


@dataclass
class HintConfig(trl.SFTConfig):  # type: ignore[misc]  # TRL has no types
    """SFTConfig plus the divergence. Rows are not cut, so max_length is None."""

    max_length: Optional[int] = field(default=None, metadata={"help": "Rollouts longer than this, without their hints, are an error."})
    teacher: str = field(
        default="live",
        metadata={"help": "What scores the hinted rows: live, the current model; frozen, the initial model, or the model with its adapter off; "
                          "ema, a copy that trails the current model; stored, the run's top-k."},
    )
    ema_decay: float = field(default=0.95, metadata={"help": "What is left of the ema teacher after each step."})
    jsd_beta: float = field(default=0.5, metadata={"help": "0: KL(teacher||student), 1: KL(student||teacher)."})
    temperature: float = field(default=1.0, metadata={"help": "Divisor of both sides' logits."})
    token_clip: Optional[float] = field(default=None, metadata={"help": "Upper limit of a position's divergence."})
    top_k: Optional[int] = field(default=None, metadata={"help": "Compare the student's best, and everything else as one more entry."})

    contrast: float = field(
        default=0.0, metadata={"help": "Above 0: learn from p_right^(1 + contrast) / p_wrong^contrast, p_wrong being the teacher's under a wrong hint."}
    )

    def objective(self) -> Objective:
        return Objective(contrast=self.contrast, jsd_beta=self.jsd_beta, temperature=self.temperature, jsd_clip=self.token_clip or 0.0, top_k=self.top_k or 0)


class UpdateTeacher(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Updates an ema teacher and stores it in checkpoints, so that a resumed run continues with the same teacher."""

    def __init__(self, teacher: Teacher):
        self.teacher = teacher

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.teacher.update()

    def on_save(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        if self.teacher.kind == "ema" and state.is_world_process_zero:
            torch.save(self.teacher.model.state_dict(), saved(args, state))

    def on_train_begin(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        if self.teacher.kind == "ema" and state.global_step:
            try:
                self.teacher.model.load_state_dict(torch.load(saved(args, state), map_location="cpu", weights_only=True))
            except OSError as err:
                raise BatchError(f"{err.filename}: {err.strerror}; a resumed run with teacher='ema' needs the teacher that it stopped with") from None


def saved(args: Any, state: Any) -> str:
    """The path of an ema teacher in a step's checkpoint."""
    return os.path.join(args.output_dir, f"checkpoint-{state.global_step}", "ema_teacher.pt")


class HintTrainer(InTrees, trl.SFTTrainer):  # type: ignore[misc]  # TRL has no types
    """Trains on rows of `hints`: the generalised JSD between the model's predictions without and with the hint.

    A step's loss is sum(w l) / sum(w) over its pairs, on all micro-batches and ranks, where w is `pair_weight`; a step
    without pairs changes nothing. Logits are computed only at the pairs. `teacher_model` replaces the frozen teacher.
    With `pack="tree"`, rollouts and hinted rows are trees of up to `tree_tokens` tokens, in which each token is
    forwarded once, for student and live teacher alike.
    """

    def __init__(
        self, model: Any, args: Optional[HintConfig] = None, teacher_model: Any = None, pack: Optional[str] = None, tree_tokens: int = 32768, **more: Any
    ):
        args = args or HintConfig("hints")
        self.tree_tokens = limit("HintTrainer", pack, tree_tokens)
        if self.tree_tokens:
            refuse("HintTrainer", args, more, NOT_IN_TREES)
            if args.teacher != "live":
                raise ValueError(f"natgo's HintTrainer: teacher={args.teacher!r} can't be used with trees, in which a live one has read the rows already")
        refuse("HintTrainer", args, more, {
            "data_collator": "natgo's own collator makes the pairs",
            "packing": "a row has its own teachers",
            "padding_free": "a row has its own teachers",
            "assistant_only_loss": "the rows say which tokens are trained",
            "formatting_func": "the rows are tokens",
            "compute_loss_func": "the loss is the divergence",
            "use_liger_kernel": "the loss is the divergence",
        })
        if args.teacher not in (*TEACHERS, "stored"):
            raise ValueError(f"teacher {args.teacher!r} is not one of {', '.join(TEACHERS)} and stored")
        if teacher_model is not None and args.teacher != "frozen":
            raise ValueError(f"teacher_model goes with teacher='frozen', not {args.teacher!r}")
        if isinstance(teacher_model, str):
            raise ValueError(f"teacher_model: expected a model, got {teacher_model!r}: load it with AutoModelForCausalLM.from_pretrained")
        if args.contrast and (self.tree_tokens or args.teacher == "stored"):
            raise ValueError("contrast can't be used with trees or a stored teacher, which have no rows with wrong hints")
        option, columns = ("stored=True", STORED) if args.teacher == "stored" else ("contrast=True", CONTRAST) if args.contrast else ("", ())
        for one in data_sets(more.get("train_dataset"), more.get("eval_dataset")):
            has_columns(one, [*HINTS, *columns], f"hints({option})")
            fits(one, ["student_input_ids"], args.max_length)
        args.dataset_kwargs = {**(args.dataset_kwargs or {}), "skip_prepare_dataset": True}
        collator = HintCollator(pad_id(more.get("processing_class")), args.pad_to_multiple_of)
        self.objective = args.objective()
        super().__init__(model, args, data_collator=collator, **more)
        collator.vocabulary = embeddings(self, ["student_input_ids", "teacher_input_ids", *(CONTRAST[:1] if args.contrast else ())])
        self.loss_is_scaled_for_ga, self.model_accepts_loss_kwargs = True, True  # by the step's weights
        if self.tree_tokens:
            check(self.model)
        self.teacher = None if args.teacher == "stored" else self._teacher(teacher_model)

    def _teacher(self, given: Any) -> Teacher:
        sharded = self.is_deepspeed_enabled or self.is_fsdp_enabled
        if sharded and (self.args.teacher == "ema" or given is not None):
            raise ValueError("a teacher of its own can't be used with sharded parameters: use teacher='live', or 'frozen' with an adapter")
        if given is not None:
            embeddings(self, ["teacher_input_ids"], given)
        start = AtPositions(given.to(self.args.device).requires_grad_(False)) if given is not None else None
        teacher = Teacher(AtPositions(self.model), self.args.teacher, self.args.ema_decay, start)
        if sharded and self.args.teacher == "frozen" and teacher.adapter is None:
            raise ValueError("a frozen copy can't be made of sharded parameters: train an adapter (peft_config=...), or use teacher='live'")
        self.add_callback(UpdateTeacher(teacher))
        return teacher

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = [*HINTS, *STORED, *CONTRAST]

    def _micro_batch(self, inputs: Dict[str, Any]) -> Batch:
        return Batch("sdpo", {"vocab_size": len(self.processing_class)}, inputs)

    def units(self, inputs: Dict[str, Any]) -> torch.Tensor:
        return units(self._micro_batch(inputs), self.objective)

    def _get_num_items_in_batch(self, batch_samples: List[Any], device: Any) -> Any:
        return whole_step(self, [self.units(b) for b in batch_samples], device)

    def parts(self, batches: List[Dict[str, Any]]) -> List[Part]:
        """Trees in which a rollout shares a tree with its hinted rows; a pair is two nodes."""
        rows: List[Row] = []
        example: List[Any] = []
        pairs = []  # of rows, positions, target and weight
        for number, b in enumerate(batches):
            first = {side: len(rows) + (len(b["student_input_ids"]) if side == "teacher" else 0) for side in ("student", "teacher")}
            owner = dict(zip(b["pair_teacher_row"].tolist(), b["pair_student_row"].tolist()))
            for side in first:
                for n, (ids, here) in enumerate(zip(b[f"{side}_input_ids"].cpu(), b[f"{side}_attention_mask"].cpu())):
                    if side == "student" or n in owner:
                        example.append((number, n if side == "student" else owner[n]))
                        rows.append(Row(ids[: int(here.sum())].numpy(), [False] * int(here.sum())))
            columns = (b["pair_" + name].tolist() for name in ("student_row", "student_pos", "teacher_row", "teacher_pos", "target_id", "weight"))
            pairs += [(s + first["student"], p, t + first["teacher"], q, target, w) for s, p, t, q, target, w in zip(*columns)]
        parts = []
        for one in packed(rows, self.tree_tokens, example):
            own = [pair for pair in pairs if pair[0] in one.places]
            student, teacher = ([int(one.places[pair[at]][pair[at + 1]]) for pair in own] for at in (0, 2))
            ints = {"position": student, "teacher": teacher, "target": [pair[4] for pair in own]}
            tensors = {name: torch.tensor(x, dtype=torch.int64) for name, x in ints.items()}
            parts.append({"tree": one, **tensors, "weight": torch.tensor([pair[5] for pair in own], dtype=torch.float64)})
        return parts

    def of_part(self, model: Any, part: Part) -> torch.Tensor:
        nodes, own = torch.cat((part["position"], part["teacher"])).unique(return_inverse=True)
        logits = at_nodes(model, self.model.config, part["tree"], nodes)
        student, teacher = (logits[x] for x in own.chunk(2))
        weight = part["weight"].to(torch.promote_types(logits.dtype, torch.float32))
        loss = (weight * divergence(student, teacher.detach(), self.objective.divergence())).sum()
        if float(weight.sum()):
            self._metrics["train" if self.model.training else "eval"]["jsd"].append(float(loss.detach() / weight.sum()))
        return loss

    def compute_loss(self, model: Any, inputs: Dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        if self.tree_tokens:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        batch = self._micro_batch({name: x for name, x in inputs.items() if torch.is_tensor(x)})
        loss, parts = sdpo_loss(AtPositions(model), batch, self.objective, teacher=self.teacher)
        weight = float(parts["pairs"])
        total = weight if num_items_in_batch is None else float(num_items_in_batch) / self.accelerator.num_processes
        mode = self._metrics["train" if self.model.training else "eval"]
        mode["pairs"].append(len(batch.t["pair_weight"]))
        if weight > 0:
            mode["jsd"].append(float(loss.detach()) / weight)
            mode["target_logp"].append(float(parts["target_logp"]) / weight)
        loss = finite(self, loss / (total or 1.0))
        return (loss, {}) if return_outputs else loss

    def prediction_step(self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: Optional[List[str]] = None) -> Tuple[Any, None, None]:
        with torch.no_grad():
            return self.compute_loss(model, self._prepare_inputs(inputs)).detach(), None, None
