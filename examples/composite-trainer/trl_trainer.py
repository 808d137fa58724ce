"""natgo.trl's CompositeTrainer on nat-go's batches: grpo + alpha_sdpo * jsd + beta_replay * dpo.

    python3 trl_trainer.py --run RUN --steps 20                                         # tiny: shows that the data trains
    python3 trl_trainer.py --run RUN --model PATH/TO/HF --lr 1e-6 --alpha-sdpo 0.5 --beta-replay 0.1

It runs in one process; for torchrun, use train.py.
"""

import argparse
import csv
import json
from pathlib import Path

import torch
from natgo.trl import CompositeConfig, CompositeTrainer
from natgo.trl.losses import Objective
from natgo.trl.microbatch import read
from natgo.trl.scoring import AtPositions, Teacher
from transformers import LlamaConfig, LlamaForCausalLM, PrinterCallback, TrainerCallback

from train import fit, load_model


def tiny(vocab):
    """A transformers decoder small enough for a test."""
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocab, hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32768))


def warm_up(model, batches, steps, lr=1e-3):
    """Supervised steps on a run's sft batches before the others: a hint doesn't affect a model that has learnt
    nothing."""
    scored, demonstrations = AtPositions(model), [b for b in batches if b.channel == "sft"]
    if steps and not demonstrations:
        raise ValueError("nothing to warm up on: the run has no sft batches")
    if steps:
        fit(scored, demonstrations, Objective(), steps, lr, Teacher(scored, "live"), None, log=lambda _: None)


class Log(TrainerCallback):
    """Prints a JSON object per step to standard output, and collects the CSV's rows."""

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
    """A CompositeConfig that uses the batches as is, without generation or dropout, and with one micro-batch per
    channel in each step."""
    return CompositeConfig(output_dir=str(output), max_steps=steps, learning_rate=lr, logging_steps=logging_steps, report_to=[], save_strategy="no", use_cpu=not torch.cuda.is_available(), bf16=False, gradient_checkpointing=False,
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
    trainer = CompositeTrainer(model, config(output or "trainer", a.pop("steps"), a.pop("lr"), **a), batches, teacher, callbacks=[log])
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    if table:
        write_csv(table, log.rows)
    if output:
        trainer.save_model(output)


if __name__ == "__main__":
    main()
