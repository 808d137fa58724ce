"""DPO with LoRA on a nat-go run's pairs, with TRL's own trainer. Prints progress as one JSON object per line."""

import argparse
import json
import math
import sys

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import DPOConfig, DPOTrainer


class Progress(TrainerCallback):
    """Prints progress, and stops training if the first loss shows that something is wrong."""

    def on_log(self, args, state, control, logs=None, **_):
        if "loss" not in logs:
            return
        print(json.dumps({"step": state.global_step, "total_steps": state.max_steps, "loss": float(logs["loss"]), "epoch": logs.get("epoch"),
                          "margin": logs.get("rewards/margins")}), flush=True)
        off = abs(float(logs["loss"]) - math.log(2))
        if state.global_step == 1 and off > 0.005:
            sys.exit(f"the first DPO loss is {logs['loss']}, not ln 2 = 0.693: before the first update policy and reference are the same model, so "
                     "one of them, or the prompt, is wrong")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--model", required=True, help="folder or name of a chat model")
    p.add_argument("--train", required=True, help="train.jsonl of the trl format")
    p.add_argument("--output", required=True, help="folder for the adapter")
    p.add_argument("--steps", type=int, default=0, help="0: one epoch")
    p.add_argument("--max-length", type=int, default=4096)
    p.add_argument("--lr", type=float, default=1e-5)
    p.add_argument("--beta", type=float, default=0.1)
    a = p.parse_args()
    cuda = torch.cuda.is_available()

    trainer = DPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(a.model, dtype="auto"),
        processing_class=AutoTokenizer.from_pretrained(a.model),
        train_dataset=load_dataset("json", data_files=a.train, split="train"),
        # Without dropout the adapter changes nothing at the start, and the model without it is the reference.
        peft_config=LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"),
        args=DPOConfig(
            output_dir=a.output, beta=a.beta, learning_rate=a.lr, max_length=a.max_length, max_steps=a.steps or -1, num_train_epochs=1,
            per_device_train_batch_size=2, gradient_accumulation_steps=4, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, seed=0,
            bf16=cuda and torch.cuda.is_bf16_supported(), use_cpu=not cuda and not torch.backends.mps.is_available(),
        ),
        callbacks=[Progress()],
    )
    trainer.train()
    trainer.save_model(a.output)


if __name__ == "__main__":
    main()
