"""Reports how TRL tokenises rows and which of their tokens it trains. nat-go writes this file, asks one question, and
removes it.

The question is a JSON object on standard input; answers are JSON lines on the original standard output: "versions",
then a "row" for each row that the trainer keeps, "note" where the trainer warns, and finally "done" or "error". The
real trainer is created, with its own config and a tiny model; the answers come from its own data set and its own
collator.
"""

import contextlib
import json
import logging
import os
import sys

answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # what libraries print is not an answer
KINDS = {"sft": ("SFTTrainer", "SFTConfig"), "dpo": ("DPOTrainer", "DPOConfig")}
ROW = "nat_go_row"
FIXED = {"output_dir", "report_to", "use_cpu", "bf16", "fp16", "packing", "padding_free", "dataset_num_proc"}


def say(kind, **what):
    answers.write(json.dumps({"kind": kind, **what}) + "\n")
    answers.flush()


class Notes(logging.Handler):
    """Passes on the trainer's warnings, each once."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.seen = set()

    def emit(self, record):
        text = record.getMessage()[:1000]
        if len(self.seen) < 20 and text not in self.seen:
            self.seen.add(text)
            say("note", text=text)


def versions():
    found = {"python": "%d.%d.%d" % sys.version_info[:3]}
    for name in ("torch", "transformers", "datasets", "trl"):
        try:
            found[name] = getattr(__import__(name), "__version__", "?")
        except ImportError as e:
            say("error", code="missing", text=f"{name}: {e}")
            return None
    say("versions", versions=found)
    return found


def tokenizer_of(question):
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        tokenizer = AutoTokenizer.from_pretrained(question["tokenizer"], local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError):  # a folder without a model's config
        tokenizer = PreTrainedTokenizerFast.from_pretrained(question["tokenizer"], local_files_only=True)
    if question.get("template"):
        tokenizer.chat_template = question["template"]
    return tokenizer


def trainer_of(question, tokenizer):
    import trl
    from datasets import load_dataset
    from transformers import LlamaConfig, LlamaForCausalLM

    for key in FIXED & set(question["settings"]):
        raise ValueError(f"{key} is fixed here: rows are looked at one by one, on the CPU")
    trainer, config = (getattr(trl, name) for name in KINDS[question["method"]])
    size = max(len(tokenizer), max(tokenizer.get_vocab().values()) + 1)
    shape = LlamaConfig(vocab_size=size, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1)
    rows = load_dataset("json", data_files=question["rows"], split="train")
    others = {"ref_model": LlamaForCausalLM(shape)} if question["method"] == "dpo" else {}
    args = config(output_dir=question["scratch"], report_to=[], use_cpu=True, bf16=False, **question["settings"])
    return trainer(model=LlamaForCausalLM(shape), args=args, train_dataset=rows, processing_class=tokenizer, **others)


def side(ids, trained, present):
    """A sequence without its padding. Nothing predicts the first token, so it is never trained."""
    kept = [(int(i), bool(t)) for i, t, p in zip(ids, trained, present) if p]
    return {"ids": [i for i, _ in kept], "trained": [int(t and n > 0) for n, (_, t) in enumerate(kept)]}


def sides(method, batch):
    ids = batch["input_ids"]
    present = batch["attention_mask"] if "attention_mask" in batch else [[1] * len(x) for x in ids]
    if method == "sft":
        return {"row": side(ids[0], batch["labels"][0] != -100, present[0])}
    if "completion_mask" not in batch:
        raise NotImplementedError(f"its collator gives {', '.join(batch)}; only the columns of TRL 1.x are known here")
    mask = batch["completion_mask"]
    return {name: side(ids[k], mask[k] == 1, present[k]) for k, name in enumerate(("chosen", "rejected"))}


def main():
    question = json.loads(sys.stdin.readline())
    if versions() is None:
        return
    for name in ("trl", "transformers"):
        logging.getLogger(name).addHandler(Notes())
    try:
        tokenizer = tokenizer_of(question)
        trainer = trainer_of(question, tokenizer)
        if getattr(trainer, "chat_template", None):
            say("note", text="TRL renders with a chat template of its own in place of the tokenizer's, which has no generation markers")
        for row in trainer.train_dataset:
            number = row.pop(ROW)
            say("row", row=number, sides=sides(question["method"], trainer.data_collator([row])))
    except Exception as e:  # of any kind: the user must see it
        say("error", code="refused", text=f"{type(e).__name__}: {e}"[:4000])
        return
    say("done")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
