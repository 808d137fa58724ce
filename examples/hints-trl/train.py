"""Trains a model on a nat-go run's hints, with natgo.trl's HintTrainer. Prints progress as one JSON object per line."""

import argparse
import json
import pathlib

import torch
from natgo.trl import HintConfig, HintTrainer, SFTTrainer, demonstrations, hints
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PrinterCallback, TrainerCallback
from trl import SFTConfig


class Progress(TrainerCallback):
    """Prints progress."""

    def on_log(self, args, state, control, logs=None, **_):
        if "loss" in logs:
            print(json.dumps({"step": state.global_step, "total_steps": state.max_steps, "loss": float(logs["loss"]), "target_logp": logs.get("target_logp")}), flush=True)


def tiny(tokenizer, run, settings):
    """A model that has seen the run's best rollouts: a hint means nothing to one that has learnt nothing."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4))
    args = SFTConfig(max_length=None, max_steps=40, learning_rate=3e-3, **settings)
    trainer = SFTTrainer(model, args, train_dataset=demonstrations(run), processing_class=tokenizer)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return model


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--run", required=True, help="folder of the run")
    p.add_argument("--model", required=True, help="folder that the run took its tokenizer from; if it has no model, a tiny one is made for it")
    p.add_argument("--output", required=True, help="folder for the model, or its adapter")
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--teacher", default="frozen", choices=("live", "frozen", "ema"))
    a = p.parse_args()
    tokenizer, real = AutoTokenizer.from_pretrained(a.model), (pathlib.Path(a.model) / "config.json").exists()
    cuda = torch.cuda.is_available()
    settings = dict(
        output_dir=a.output, per_device_train_batch_size=4, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, seed=0,
        lr_scheduler_type="constant", bf16=cuda and torch.cuda.is_bf16_supported(), use_cpu=not cuda and not torch.backends.mps.is_available(),
    )
    trainer = HintTrainer(
        AutoModelForCausalLM.from_pretrained(a.model, dtype="auto") if real else tiny(tokenizer, a.run, settings),
        HintConfig(teacher=a.teacher, max_steps=a.steps, learning_rate=1e-4 if real else 1e-3, **settings),
        train_dataset=hints(a.run),
        processing_class=tokenizer,
        # With an adapter the frozen teacher is the model with the adapter switched off: no second copy of it.
        peft_config=LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM") if real else None,
        callbacks=[Progress()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    trainer.save_model(a.output)


if __name__ == "__main__":
    main()
