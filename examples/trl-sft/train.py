"""SFT with LoRA on nat-go's token rows, with TRL's own trainer. Prints progress as one JSON object per line."""

import argparse
import json
import sys

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import SFTConfig, SFTTrainer


class Progress(TrainerCallback):
    """Prints progress."""

    def on_log(self, args, state, control, logs=None, **_):
        if "loss" in logs:
            print(json.dumps({"step": state.global_step, "total_steps": state.max_steps, "loss": float(logs["loss"]), "epoch": logs.get("epoch")}), flush=True)


def check(trainer, rows):
    """Stops unless the first batch holds the rows' own ids and labels, and the trainer's loss on it matches plain
    PyTorch's."""
    batch = next(iter(trainer.get_train_dataloader()))
    known = {(tuple(r["input_ids"]), tuple(r["labels"])) for r in rows}
    for ids, labels, here in zip(batch["input_ids"], batch["labels"], batch["attention_mask"].bool()):
        if (tuple(ids[here].tolist()), tuple(labels[here].tolist())) not in known:
            sys.exit("the trainer changed a row: its ids and labels are not in the file")
    with torch.no_grad():
        theirs = float(trainer.compute_loss(trainer.model.eval(), dict(batch)))
        logits = trainer.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, :-1].float()
        ours = float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"][:, 1:].flatten(), ignore_index=-100))
    print(json.dumps({"first_loss": theirs, "expected": ours, "trained_tokens": int((batch["labels"][:, 1:] != -100).sum())}), flush=True)
    if abs(theirs - ours) > 0.01:
        sys.exit(f"the first loss is {theirs}, but {ours} by the file's own labels: the trainer uses another shift, mask or denominator")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--model", required=True, help="folder of the model that the rows were tokenised for")
    p.add_argument("--train", required=True, help="train.parquet of the sft_parquet format")
    p.add_argument("--output", required=True, help="folder for the adapter")
    p.add_argument("--steps", type=int, default=0, help="0: one epoch")
    p.add_argument("--lr", type=float, default=1e-4)
    a = p.parse_args()
    cuda = torch.cuda.is_available()

    rows = load_dataset("parquet", data_files=a.train, split="train").select_columns(["input_ids", "labels"])
    trainer = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(a.model, dtype="auto"),
        processing_class=AutoTokenizer.from_pretrained(a.model),
        train_dataset=rows,
        peft_config=LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"),
        args=SFTConfig(
            output_dir=a.output, learning_rate=a.lr, max_length=None, max_steps=a.steps or -1, num_train_epochs=1,
            per_device_train_batch_size=2, gradient_accumulation_steps=1, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, seed=0,
            bf16=cuda and torch.cuda.is_bf16_supported(), use_cpu=not cuda and not torch.backends.mps.is_available(),
        ),
        callbacks=[Progress()],
    )
    check(trainer, rows)
    trainer.train()
    trainer.save_model(a.output)


if __name__ == "__main__":
    main()
