"""TRL's GRPOTrainer on nat-go's batches: grpo + alpha_sdpo * jsd + beta_replay * dpo.

It never generates and never computes a reward: the GRPO term takes the ids, log-probs and advantages of the batches'
own rollouts, and TRL computes its loss from them as it would from rollouts of its own. The two other terms are
composite_loss.py's.

    python3 trl_trainer.py --run RUN --steps 20                                         # tiny: shows that the data trains
    python3 trl_trainer.py --run RUN --model PATH/TO/HF --lr 1e-6 --alpha-sdpo 0.5 --beta-replay 0.1

Needs trl 1.16 or newer. One process: train.py is the one for torchrun.
"""

import argparse
import csv
import json
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import torch
from torch.utils.data import DataLoader

try:
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, PrinterCallback, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer
    missing = None
except ImportError as err:
    missing, GRPOConfig, GRPOTrainer, TrainerCallback = err, object, object, object

from batches import Batch, read, split, trained, without_cut_off
from composite_loss import LOSSES, TERMS, Objective, ShapeMismatch, Teacher, frozen, has_reference, row_weights, units
from train import HuggingFace, fit, load_model

CHANNELS = ("rl", "sdpo", "dpo")


def need_trl():
    if missing:
        raise ImportError("trl_trainer.py needs TRL: pip install 'trl>=1.16,<2' peft") from missing


@dataclass
class CompositeConfig(GRPOConfig):
    """GRPOConfig and the weights of the other terms. Both are 0 by default: plain GRPO."""

    alpha_sdpo: float = field(default=0.0, metadata={"help": "Weight of the JSD between a turn and its hinted self."})
    beta_replay: float = field(default=0.0, metadata={"help": "Weight of DPO over the pairs."})
    sdpo_jsd_beta: float = field(default=0.5, metadata={"help": "0: KL(teacher||student), 1: KL(student||teacher)."})
    sdpo_temperature: float = field(default=1.0, metadata={"help": "Of both sides' logits in the JSD."})
    sdpo_token_clip: Optional[float] = field(default=None, metadata={"help": "Upper limit of a position's JSD."})
    replay_dpo_beta: float = field(default=0.1, metadata={"help": "DPO's beta."})
    reference: str = field(default="", metadata={"help": "Fingerprint that ref_ columns must have to be used."})
    micro_rows: int = field(default=8, metadata={"help": "Rows of each channel per step."})

    def objective(self):
        return Objective(jsd_beta=self.sdpo_jsd_beta, temperature=self.sdpo_temperature, jsd_clip=self.sdpo_token_clip or 0.0,
                         dpo_beta=self.replay_dpo_beta, clip_epsilon=self.epsilon, clip_epsilon_high=self.epsilon_high, reference=self.reference)


class CompositeGRPOTrainer(GRPOTrainer):
    """GRPOTrainer whose steps are micro-batches of a run's folder: one of each channel that has a weight.

    `batches` are those of batches.read; `teacher` is live, frozen or ema, as in composite_loss.Teacher. A step without error
    sites or pairs leaves their terms out.
    """

    def __init__(self, model, args: CompositeConfig, batches, teacher="live", **kwargs):
        need_trl()
        if args.mask_truncated_completions:
            batches = [without_cut_off(b) for b in batches]
        self.pools = {c: [m for b in batches if b.channel == c for m in split(b, args.micro_rows)] for c in CHANNELS}
        weight = {"rl": 1.0, "sdpo": args.alpha_sdpo, "dpo": args.beta_replay}
        self.pools = {c: [m for m in pool if float(units(m, args.objective())) > 0] for c, pool in self.pools.items() if pool and weight[c]}
        self.weights, self.objective = {c: weight[c] for c in CHANNELS}, args.objective()
        if not any(self.pools.values()):
            raise ValueError("nothing to train on: no batch of a channel with a weight above 0")
        args.temperature = sampled_at(self.pools.get("rl", []))
        self.scored = HuggingFace(model)
        self.start = frozen(self.scored) if args.beta_replay else None  # before TRL gives the model a head of its own
        self.teacher = Teacher(self.scored, teacher, start=self.start)
        steps = Dataset.from_dict({"prompt": [""] * max(len(p) for p in self.pools.values())})
        pad = batches[0].line["pad_id"]
        super().__init__(model=model, args=args, train_dataset=steps, processing_class=pad_only(pad if pad >= 0 else 0), reward_funcs=no_reward, **kwargs)
        if self.accelerator.num_processes > 1:
            raise ValueError("one process only: train.py is the trainer for torchrun")
        self.add_callback(UpdateTeacher(self.teacher))

    def get_train_dataloader(self):
        return DataLoader(range(len(self.train_dataset)), batch_size=1, collate_fn=list)

    def _prepare_inputs(self, inputs):
        """The step's micro-batches by channel: its number takes the place of a prompt."""
        step = self._step
        return {c: pool[step % len(pool)] for c, pool in self.pools.items() if pool}

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        terms = {}
        if "rl" in inputs:
            terms["rl"] = super().compute_loss(model, as_trl(inputs["rl"]))
        for channel in ("sdpo", "dpo"):
            if channel in inputs:
                b = inputs[channel]
                try:
                    loss, _ = LOSSES[channel](self.scored, b, self.objective, teacher=self.teacher, reference=self.start, ref_given=has_reference(b, self.objective))
                except ShapeMismatch as err:  # a teacher of another vocabulary
                    warnings.warn(f"the {channel} term of this step counts as 0: {err}", stacklevel=2)
                    loss = torch.zeros((), device=self.accelerator.device, requires_grad=True)
                terms[channel] = loss / units(b, self.objective).to(loss)
        total = sum(self.weights[c] * loss for c, loss in terms.items())
        logged = {"loss/total": total, **{TERMS[c]: loss for c, loss in terms.items()}}
        for name, value in {**logged, "loss/alpha_sdpo": self.args.alpha_sdpo, "loss/beta_replay": self.args.beta_replay}.items():
            self._metrics["train" if self.model.training else "eval"][name].append(torch.as_tensor(value).detach().item())
        return total


def no_reward(**_):
    raise AssertionError("the batches hold the rewards: nothing is scored here")


class UpdateTeacher(TrainerCallback):
    def __init__(self, teacher):
        self.teacher = teacher

    def on_step_end(self, *_, **__):
        self.teacher.update()


def as_trl(b: Batch):
    """An rl micro-batch under the names of TRL's loss.

    The prompt is what comes before the first token that any row trains; everything after it is the completion, in which
    tool_mask is 1 where the policy sampled. So a rollout of many turns is one row, prompts have one length, and nothing
    is padded on the left. A row's weight goes into its advantage and into the number of tokens, which with loss_type
    dapo gives the mean over tokens weighted by row_weight.
    """
    t, on = b.t, trained(b, "")
    start = int(on.int().argmax(1).masked_fill(~on.any(1), on.shape[1] - 1).min())
    weight = row_weights(b)
    out = {
        "prompt_ids": t["input_ids"][:, :start], "prompt_mask": t["attention_mask"][:, :start],
        "completion_ids": t["input_ids"][:, start:], "completion_mask": t["attention_mask"][:, start:],
        "tool_mask": on[:, start:].long(), "advantages": (weight * t["advantage"]).float(),
        "num_items_in_batch": (weight * on.sum(1)).sum().float(),
    }
    if "old_logprobs" in t:
        out["old_per_token_logps"] = t["old_logprobs"][:, start:]
    return out


def sampled_at(pool):
    """The temperature that the rollouts' log-probs were taken at, one for all: TRL divides all logits by it."""
    found = {float(x) for b in pool for x in b.t.get("temperature", torch.ones(1))}
    if len(found) > 1:
        raise ValueError(f"rollouts sampled at several temperatures ({sorted(found)}): TRL's loss takes one; train.py takes several")
    return found.pop() if found else 1.0


def pad_only(pad):
    """TRL wants a tokenizer. The batches hold ids, so this one knows only how a row is padded."""
    tokenizer = Tokenizer(WordLevel({"<pad>": pad}, unk_token="<pad>"))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<pad>")


def tiny(vocab):
    """A decoder of transformers small enough for a test."""
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocab, hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32768))


def warm_up(model, batches, steps, lr=1e-3):
    """Supervised steps on a run's sft batches before the others: a hint has no effect on a model that has learnt
    nothing."""
    scored, demonstrations = HuggingFace(model), [b for b in batches if b.channel == "sft"]
    if steps and not demonstrations:
        raise ValueError("nothing to warm up on: the run has no sft batches")
    if steps:
        fit(scored, demonstrations, Objective(), steps, lr, Teacher(scored, "live"), None, log=lambda _: None)


class Log(TrainerCallback):
    """A JSON object per step on standard output, and the rows of the CSV."""

    def __init__(self):
        self.rows = []

    def on_log(self, args, state, control, logs=None, **_):
        row = {"step": state.global_step, **{k: float(f"{v:.6g}") for k, v in logs.items() if k.startswith("loss/")}}
        if len(row) > 1:
            self.rows.append(row)
            print(json.dumps(row), flush=True)


def write_csv(path, rows):
    names = list(dict.fromkeys(k for r in rows for k in r))
    with open(path, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, names)
        writer.writeheader()
        writer.writerows(rows)


def config(output, steps, lr, logging_steps=1, **more):
    """A CompositeConfig that takes the batches as they are: no generation, no dropout, one micro-batch of each channel
    per step."""
    need_trl()
    return CompositeConfig(output_dir=str(output), max_steps=steps, learning_rate=lr, per_device_train_batch_size=2, num_generations=2, beta=0.0, loss_type="dapo",
                           logging_steps=logging_steps, logging_first_step=True, report_to=[], save_strategy="no", use_cpu=not torch.cuda.is_available(), bf16=False, gradient_checkpointing=False,
                           disable_tqdm=True, lr_scheduler_type="constant", **more)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--run", required=True, help="a run's folder, or its batches")
    p.add_argument("--model", default="tiny", help="tiny, or the folder of a Hugging Face model")
    p.add_argument("--output", default="", help="folder for the trained weights")
    p.add_argument("--csv", default="", help="file for the log")
    p.add_argument("--teacher", default="live", choices=("live", "frozen", "ema"))
    p.add_argument("--warm-up", type=int, default=0, help="supervised steps on the run's sft batches before training")
    for name, default in (("steps", 20), ("lr", 1e-3), ("seed", 0), ("micro_rows", 8), ("alpha_sdpo", 0.0), ("beta_replay", 0.0),
                          ("sdpo_jsd_beta", 0.5), ("sdpo_temperature", 1.0), ("sdpo_token_clip", 0.0), ("replay_dpo_beta", 0.1), ("reference", ""),
                          ("epsilon", 0.2), ("logging_steps", 50)):
        p.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    p.add_argument("--epsilon-high", type=float, help="upper bound of the ratio; --epsilon unless given")
    p.add_argument("--mask-truncated-completions", action="store_true", help="rollouts that a length limit cut off train nothing")
    a = vars(p.parse_args())
    folder, output, log = Path(a.pop("run")), a.pop("output"), Log()
    batches = list(read(folder / "batches" if (folder / "batches").is_dir() else folder, split="train"))
    if not batches:
        raise SystemExit(f"{folder}: no batch of the train split")
    name, table, teacher = a.pop("model"), a.pop("csv"), a.pop("teacher")
    torch.manual_seed(a["seed"])
    model = tiny(max(b.line["vocab_size"] for b in batches)) if name == "tiny" else load_model(name, None, 0).model
    warm_up(model, batches, a.pop("warm_up"))
    trainer = CompositeGRPOTrainer(model, config(output or "trainer", a.pop("steps"), a.pop("lr"), **a), batches, teacher, callbacks=[log])
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    if table:
        write_csv(table, log.rows)
    if output:
        trainer.save_model(output)


if __name__ == "__main__":
    main()
