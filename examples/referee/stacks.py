"""One stack on templates: python stacks.py STACK WORK ROLLOUTS TEMPLATE...

Each adapter goes through the stack's own code, as its documentation says, and yields (rollout, messages of it, ids,
mask) for each row. It runs in the stack's environment.
"""

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import traceback

import yaml

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", WANDB_DISABLED="true", UNSLOTH_IS_PRESENT="1",
                  HF_DATASETS_DISABLE_PROGRESS_BARS="1", USE_HF="1")


class Unclaimed(Exception):
    """The stack does not claim this template; the text is the reason."""


class Work:
    def __init__(self, folder, template, limit):
        self.template, self.model = template, str(folder / "models" / template)
        self.folder = folder
        with open(folder / "data" / (template + ".jsonl")) as file:
            self.rows = [json.loads(line) for line in file][:limit]

    def tokenizer(self):
        from transformers import AutoTokenizer
        return AutoTokenizer.from_pretrained(self.model)

    def each(self, make, refused):
        """make of every conversation, one by one; what it refuses is counted with its error."""
        for r, row in enumerate(self.rows):
            try:
                made = list(make(row))
            except Exception as error:
                refused[r] = f"{type(error).__name__}: {error}"[:300]
                continue
            for ids, mask, upto in made:
                yield r, upto or len(row["messages"]), [int(t) for t in ids], [int(m) for m in mask]


def labels(row):
    return row["input_ids"], [x != -100 for x in row["labels"]], None


def stock(work, refused):
    """transformers alone: the mask that the template's generation tags give."""
    tokenizer = work.tokenizer()
    if not re.search(r"{%-? *generation *-?%}", tokenizer.chat_template):
        raise Unclaimed("the template has no generation tags")

    def make(row):
        out = tokenizer.apply_chat_template(row["messages"], tools=row.get("tools"), return_dict=True,
                                            return_assistant_tokens_mask=True)
        yield out["input_ids"], out["assistant_masks"], None
    return lambda: work.each(make, refused)


def trl_batches(work, data):
    """The rows of a data set as SFTTrainer's collator gives them to the model."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from trl import SFTConfig, SFTTrainer
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(work.model))
    args = SFTConfig(output_dir=str(work.folder / "out"), assistant_only_loss="labels" not in data.column_names,
                     max_length=None, report_to=[], use_cpu=True, bf16=False, gradient_checkpointing=False)
    trainer = SFTTrainer(model, args, train_dataset=data, processing_class=work.tokenizer())
    for row in trainer.train_dataset:
        yield labels({k: v[0].tolist() for k, v in trainer.data_collator([row]).items()})


def trl(work, refused):
    """SFTTrainer with assistant_only_loss; TRL replaces templates that it knows by ones with generation tags."""
    from datasets import Dataset
    run = lambda rows: trl_batches(work, Dataset.from_list(rows, on_mixed_types="use_json"))
    try:
        next(run(work.rows[:1]))
    except ValueError as error:
        if "generation" in str(error):
            raise Unclaimed("assistant_only_loss needs generation tags; the template has none, and TRL no patch for it")
        raise
    return lambda: ((r, len(work.rows[r]["messages"]), *row[:2]) for r, row in enumerate(run(work.rows)))


def trl_natgo(work, refused):
    """SFTTrainer over nat-go's format sft_parquet, whose ids and labels it takes as they are."""
    from datasets import Dataset
    data = Dataset.from_parquet(str(nat_go(work, "sft_parquet") / "train.parquet"), cache_dir=str(work.folder / "out"))
    return lambda: ((int(example[1:]), None, *row[:2])
                    for example, row in zip(data["example"], trl_batches(work, data), strict=True))


def axolotl_strategy(work, **more):
    from axolotl.prompt_strategies.chat_template import load
    from axolotl.utils.dict import DictDefault
    stops = {"llama3.1": ["<|eot_id|>", "<|eom_id|>"]}.get(work.template, ["<|im_end|>"])
    return load(work.tokenizer(), DictDefault(train_on_inputs=False, sequence_len=1 << 15, eot_tokens=stops,
                                              chat_template="tokenizer_default"),
                DictDefault(type="chat_template", field_messages="messages", roles_to_train=["assistant"],
                            train_on_eos="turn", **more))


def axolotl(work, refused):
    """type: chat_template, chat_template: tokenizer_default, roles_to_train: assistant, train_on_eos: turn."""
    strategy = axolotl_strategy(work)
    return lambda: work.each(lambda row: [labels(strategy.tokenize_prompt(row))], refused)


def axolotl_natgo(work, refused):
    """nat-go's format axolotl, with axolotl's settings above, message_field_training: train and message mappings."""
    folder = nat_go(work, "axolotl")
    fields = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name")
    strategy = axolotl_strategy(work, message_field_training="train",
                                message_property_mappings={f: f for f in fields})
    texts, ids = ([json.loads(line) for line in (folder / f).read_text().splitlines()]
                  for f in ("train.jsonl", "rows.jsonl"))
    return lambda: ((int(row["example"][1:]), None, *labels(strategy.tokenize_prompt(text))[:2])
                    for text, row in zip(texts, ids, strict=True))


def swift(work, refused):
    """Template.encode over messages with the roles tool_call and tool_response, each family's own agent template."""
    from swift.model import get_processor
    from swift.template import get_template
    names = {"qwen2.5": ("qwen2_5", "hermes"), "qwen3": ("qwen3", "hermes"),
             "llama3.1": ("llama3_2", "llama3")}
    if work.template not in names:
        raise Unclaimed("no template of this name that takes results of tools")
    kind, agent = names[work.template]
    template = get_template(get_processor(work.model, model_type="qwen2"), template_type=kind, agent_template=agent)
    template.set_mode("train")

    def make(row):
        messages = []
        for m in row["messages"]:
            if m["content"] or "tool_calls" not in m:
                role = "tool_response" if m["role"] == "tool" and "tools" in row else m["role"]
                messages.append({"role": role, "content": m["content"]})
            messages += [{"role": "tool_call", "content": json.dumps(c["function"], ensure_ascii=False)}
                         for c in m.get("tool_calls", [])]
        yield labels(template.encode({"messages": messages, **({"tools": row["tools"]} if "tools" in row else {})}))
    return lambda: work.each(make, refused)


def unsloth(work, refused):
    """The text of apply_chat_template, tokenised, and train_on_responses_only with the template's markers."""
    import unsloth  # noqa: F401
    from unsloth.chat_templates import train_on_responses_only
    tokenizer = work.tokenizer()
    user, answer = ("<|im_start|>user\n", "<|im_start|>assistant\n")
    if work.template == "llama3.1":
        user, answer = ("<|start_header_id|>%s<|end_header_id|>\n\n" % r for r in ("user", "assistant"))
    mask = train_on_responses_only(None, instruction_part=user, response_part=answer, tokenizer=tokenizer,
                                   return_function=True)

    def make(row):
        text = tokenizer.apply_chat_template(row["messages"], tools=row.get("tools"), tokenize=False)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        yield labels({"input_ids": ids, "labels": [int(x) for x in mask({"input_ids": [ids]})["labels"][0]]})
    return lambda: work.each(make, refused)


def nat_go(work, form):
    """Runs nat-go over the conversations; returns the folder of its rows."""
    config = work.folder / "rows" / f"natgo-{form}-{work.template}.yml"
    traces = config.with_suffix(".json")
    traces.write_text("".join(json.dumps(r) + "\n" for r in work.rows))
    text = yaml.safe_load(pathlib.Path(__file__).with_name("referee.yml").read_text())["natgo"]
    config.write_text(text % {"traces": traces, "model": work.model, "form": form, "out": work.folder / "out"})
    done = subprocess.run([os.environ["NATGO"], "run", "-q", "--config-file", config], check=True, text=True,
                          stdout=subprocess.PIPE)
    return pathlib.Path(done.stdout.strip()) / "dataset" / form


def natgo(work, refused):
    """sft_traj_builder with failed_calls: train, since the others train them; format sft_parquet; rows: auto."""
    import pyarrow.parquet

    def run():
        for row in pyarrow.parquet.read_table(nat_go(work, "sft_parquet") / "train.parquet").to_pylist():
            yield int(row["example"][1:]), None, *labels(row)[:2]
    return run


PACKAGES = {"stock": "transformers", "swift": "ms-swift"}


def one(stack, work):
    """Runs the adapter twice and writes the rows; says if both runs gave the same."""
    refused, path = {}, work.folder / "rows" / f"{stack}-{work.template}.jsonl"
    package = stack.partition("_")[0]
    packages = () if stack == "natgo" else (PACKAGES.get(package, package), "transformers")
    result = {"versions": {p: importlib.metadata.version(p) for p in packages}}
    try:
        run = globals()[stack](work, refused)
        first, second = ([{"rollout": r, "upto": upto, "ids": list(ids), "mask": [int(m) for m in mask]}
                          for r, upto, ids, mask in run()] for _ in range(2))
        result.update(refused=refused, same=first == second)
        path.write_text("".join(json.dumps(row) + "\n" for row in first))
    except Unclaimed as error:
        result["empty"] = str(error)
    except Exception as error:
        traceback.print_exc()
        result["failed"] = f"{type(error).__name__}: {error}"[:300]
    return result


def main(stack, folder, limit, *templates):
    folder = pathlib.Path(folder)
    for template in templates:
        result = one(stack, Work(folder, template, int(limit)))
        (folder / "rows" / f"{stack}-{template}.stats.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
