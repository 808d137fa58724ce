"""Runs one stack on templates: python stacks.py STACK WORK TEMPLATE...

Each adapter uses the stack's own code, as its documentation says, and yields (rollout, number of its messages, ids,
mask) for each row. It runs in the stack's environment. referee.yml has the stacks' settings and template names.
"""

import array
import functools
import importlib.metadata
import itertools
import json
import operator
import os
import pathlib
import subprocess
import sys

import yaml

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", WANDB_DISABLED="true", UNSLOTH_IS_PRESENT="1",
                  HF_DATASETS_DISABLE_PROGRESS_BARS="1", USE_HF="1")
HERE = pathlib.Path(__file__).parent
OF = yaml.safe_load((HERE / "referee.yml").read_text())
STACKS = OF["stacks"] | {"floor": OF["floor"]}  # the floor makes no rows that could be judged


def environment(work, *names):
    """The variables of a process that imports what was installed for those names. natgo.verl is this tree's."""
    folders = *(work / "env" / name for name in (*names, "common")), HERE.parent.parent / "plugins" / "python"
    return {"NATGO": "nat-go"} | os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}


class Work:
    """A template's conversations, and those that a stack refuses, with its error by rollout."""

    def __init__(self, folder, stack, template, out=None):
        self.template, self.of, self.stack = template, OF["templates"][template], STACKS[stack]
        self.folder, self.model, self.refused = folder, str(folder / "models" / template), {}
        self.out = out or folder / "out" / f"{stack}-{template}"
        self.data = out / "conversations.jsonl" if out else folder / "data" / (template + ".jsonl")
        self.out.mkdir(parents=True, exist_ok=True)
        self.name = self.stack.get("templates", {template: template}).get(template)

    @functools.cached_property
    def rows(self):
        return list(map(json.loads, open(self.data)))

    @functools.cached_property
    def file(self):
        """The conversations as the stack reads them, where that is another form."""
        return globals().get(self.stack.get("file"), lambda work: work.data)(self)

    def tokenizer(self):
        from transformers import AutoTokenizer
        return AutoTokenizer.from_pretrained(self.model)

    def each(self, make, rows=None):
        """Calls make for each conversation and yields its rows, each with its number of messages (default: all)."""
        for r, row in enumerate(rows or self.rows):
            try:
                made = list(make(row))
            except Exception as error:
                self.refused[r] = f"{type(error).__name__}: {error}"[:300]
                continue
            for ids, mask, *upto in made:
                yield r, *(upto or [len(self.rows[r]["messages"])]), ids, mask


def labels(row):
    masks = [row[name] for name in ("assistant_masks", "loss_mask") if name in row]
    return row["input_ids"], *(masks or [[x != -100 for x in row["labels"]]])


def stock(work):
    render, ask = work.tokenizer().apply_chat_template, {"return_dict": True, "return_assistant_tokens_mask": True}
    return work.each(lambda row: [labels(render(row["messages"], tools=row.get("tools"), **ask))])


def trl_batches(work, kind, file):
    """The rows of a data set as SFTTrainer's collator gives them to the model."""
    from datasets import load_dataset
    from transformers import AutoConfig, AutoModelForCausalLM
    from trl import SFTConfig, SFTTrainer
    data = load_dataset(kind, data_files=str(file), split="train", cache_dir=str(work.out))
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(work.model))
    args = SFTConfig(output_dir=str(work.out), assistant_only_loss=kind == "json", **work.stack["config"])
    trainer = SFTTrainer(model, args, train_dataset=data, processing_class=work.tokenizer())
    return (labels({k: v[0].tolist() for k, v in trainer.data_collator([row]).items()})
            for row in trainer.train_dataset)


def trl(work):
    return work.each(lambda row: [row], trl_batches(work, "json", work.data))


def trl_natgo(work):
    import pyarrow.parquet
    file = nat_go(work, "sft_parquet")
    names = pyarrow.parquet.read_table(file, columns=["example"])["example"].to_pylist()
    return ((int(name[1:]), None, *row) for name, row in zip(names, trl_batches(work, "parquet", file), strict=True))


def axolotl(work, rows=None):
    from axolotl.prompt_strategies.chat_template import load
    from axolotl.utils.dict import DictDefault
    strategy = load(work.tokenizer(), DictDefault(work.stack["config"], eot_tokens=work.of["stops"]),
                    DictDefault(work.stack["dataset"]))
    return work.each(lambda row: [labels(strategy.tokenize_prompt(row))], rows)


def axolotl_natgo(work):
    return axolotl(work, map(json.loads, pathlib.Path(nat_go(work, "axolotl")).read_text().splitlines()))


def llama_factory(work, **data):
    """The rows that get_dataset returns for the arguments that llamafactory-cli train passes to it."""
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import get_train_args
    from llamafactory.model import load_tokenizer
    model, data, training, *_ = get_train_args(
        work.stack["config"] | {"model_name_or_path": work.model, "output_dir": str(work.out)} | data)
    tokenizer = load_tokenizer(model)
    template = get_template_and_fix_tokenizer(tokenizer["tokenizer"], data)
    return get_dataset(template, model, data, training, stage="sft", **tokenizer)["train_dataset"]


def sharegpt(work):
    roles = {"system": "system", "user": "human", "tool": "observation", "assistant": "gpt"}

    def message(m):
        if "tool_calls" not in m:
            return {"from": roles[m["role"]], "value": m["content"]}
        value = json.dumps([c["function"] for c in m["tool_calls"]], ensure_ascii=False)
        text = f"{m['content']}\n<tool_call>{value}</tool_call>" if m["content"] else value
        return {"from": "function_call", "value": text}

    rows = [{"conversations": list(map(message, row["messages"])),
             "tools": json.dumps(row["tools"]) if "tools" in row else ""} for row in work.rows]
    (work.out / "rows.json").write_text(json.dumps(rows))
    (work.out / "dataset_info.json").write_text(json.dumps({"rows": work.stack["dataset"]}))
    return str(work.out)


def llamafactory(work):
    return work.each(lambda row: [labels(row)], llama_factory(work, template=work.name, dataset_dir=work.file))


def llamafactory_natgo(work):
    from datasets import Dataset, DatasetDict
    data = Dataset.from_parquet(nat_go(work, "sft_parquet"), cache_dir=str(work.out))
    DatasetDict(train=data).save_to_disk(work.out / "tokens")
    return named(llama_factory(work, template="default", tokenized_path=str(work.out / "tokens")))


def parquet(work):
    import pandas
    pandas.DataFrame(work.rows).to_parquet(work.out / "rows.parquet")
    return str(work.out / "rows.parquet")


def verl(work, kind=None, file=None):
    from omegaconf import OmegaConf
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset
    config = {"enable_thinking_default": work.of["switches"][0].get("enable_thinking")} | work.stack["config"]
    data = (kind or MultiTurnSFTDataset)(file or work.file, work.tokenizer(), OmegaConf.create(config))
    return work.each(lambda n: [labels(data[n])], range(len(data)))


def verl_natgo(work):
    from natgo.verl import Conversations
    return verl(work, Conversations, nat_go(work, "verl"))


def renderers(work):
    import renderers
    config = getattr(renderers, work.name + "RendererConfig")
    renderer = renderers.create_renderer(work.tokenizer(), config(**work.stack["config"].get(work.name, {})))
    role = (lambda m: m["role"] == "assistant") if work.name == "Default" else None
    made = functools.partial(renderers.build_training_sample, renderer, role_to_mask=role)
    row = operator.attrgetter("token_ids", "loss_mask")
    return work.each(lambda of: [row(made(of["messages"], tools=of.get("tools")))])


def tinker(work):
    from tinker_cookbook import renderers as cookbook
    from tinker_cookbook.renderers import ToolCall, TrainOnWhat
    renderer = cookbook.get_renderer(work.name, work.tokenizer())

    def message(m):
        calls = [ToolCall(id=c["id"], function=ToolCall.FunctionBody(
            name=c["function"]["name"], arguments=json.dumps(c["function"]["arguments"])))
            for c in m.get("tool_calls", [])]
        return m | {"tool_calls": calls} if calls else m

    def make(row):
        system, *rest = row["messages"]
        messages = renderer.create_conversation_prefix_with_tools(
            [t["function"] for t in row["tools"]], system["content"]) + list(map(message, rest))
        ends = [i + 1 for i, m in enumerate(row["messages"]) if m["role"] == "assistant"]
        rows = renderer.build_supervised_examples(messages, TrainOnWhat.ALL_ASSISTANT_MESSAGES)
        for (ids, weights), end in zip(rows, ends[-len(rows):], strict=True):  # one row, if none shows answers differently
            yield ids.to_ints(), weights.tolist(), end
    return work.each(make)


def swift(work):
    from swift.model import get_processor
    from swift.template import get_template
    kind, agent = work.name
    template = get_template(get_processor(work.model, model_type="qwen2"), template_type=kind, agent_template=agent)
    template.set_mode("train")

    def make(row):
        messages = []
        for m in row["messages"]:
            if m["content"] or "tool_calls" not in m:
                role = "tool_response" if m["role"] == "tool" else m["role"]
                messages.append({"role": role, "content": m["content"]})
            messages += [{"role": "tool_call", "content": json.dumps(c["function"], ensure_ascii=False)}
                         for c in m.get("tool_calls", [])]
        return [labels(template.encode({"messages": messages, "tools": row["tools"]}))]
    return work.each(make)


def unsloth(work):
    import unsloth  # noqa: F401
    from unsloth.chat_templates import train_on_responses_only
    tokenizer, answer = work.tokenizer(), work.of["header"]
    mask = train_on_responses_only(None, instruction_part=answer.replace("assistant", "user"), response_part=answer,
                                   tokenizer=tokenizer, return_function=True)

    def make(row):
        text = tokenizer.apply_chat_template(row["messages"], tools=row.get("tools"), tokenize=False)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        return [labels({"input_ids": ids, "labels": mask({"input_ids": [ids]})["labels"][0]})]
    return work.each(make)


def nat_go(work, form="axolotl"):
    """Runs nat-go over the conversations; returns the file of its rows. Texts are in the conversations' order."""
    config = work.out / f"{form}.yml"
    config.write_text(OF["natgo"] % {"traces": work.data, "model": work.model, "form": form, "out": work.out})
    command = [os.environ["NATGO"], "run", "-q", "--config-file", config, *work.stack.get("flags", "").split()]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
    folder = pathlib.Path(done.stdout.strip()) / "dataset" / form
    if (folder / "rows.jsonl").exists():
        names = [json.loads(line)["example"] for line in (folder / "rows.jsonl").read_text().splitlines()]
        assert names == [f"#{r}" for r in range(len(names))], "rows and conversations differ"
    (file,) = (f for f in folder.iterdir() if f.stem in ("train", "sft"))
    return str(file)


def named(data):
    """Rows of ids and labels, each with the rollout that nat-go named it after."""
    return ((int(row["example"][1:]), None, *labels(row)) for row in data)


def floor(work):
    """What any preparation has to do: read the messages, tokenise each distinct text once, write each one's ids."""
    import tokenizers
    os.environ["TOKENIZERS_PARALLELISM"], ids = "true", {}
    tokenizer = tokenizers.Tokenizer.from_file(work.model + "/tokenizer.json")
    with open(work.data) as rows, open(work.out / "ids", "wb") as out:
        while part := list(map(json.loads, itertools.islice(rows, 256))):
            texts = [text for row in part for text in (json.dumps(row["tools"]), *(
                text for m in row["messages"] for text in (m["content"], *(
                    json.dumps(c["function"]) for c in m.get("tool_calls", [])))))]
            new = [text for text in dict.fromkeys(texts) if text not in ids]
            for text, made in zip(new, tokenizer.encode_batch_fast(new, add_special_tokens=False)):
                ids[text] = array.array("I", made.ids)
            out.writelines(ids[text] for text in texts)


def natgo(work):
    import pyarrow.parquet
    return named(pyarrow.parquet.read_table(nat_go(work, "sft_parquet")).to_pylist())


def judged_rows(stack, work):
    """Runs the adapter twice, writes the rows, and reports whether both runs produced the same."""
    first, second = ([{"rollout": r, "upto": upto, "ids": [int(t) for t in ids], "mask": [int(m) for m in mask]}
                      for r, upto, ids, mask in globals()[stack](work)] for _ in range(2))
    path = work.folder / "rows" / f"{stack}-{work.template}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in first))
    return {"refused": work.refused, "same": first == second}


def main(stack, folder, *templates):
    for template in templates:
        work = Work(pathlib.Path(folder), stack, template)
        packages = work.stack.get("packages", [stack.partition("_")[0], "transformers"])
        result = {"versions": {p: importlib.metadata.version(p) for p in packages}}
        try:
            result |= judged_rows(stack, work) if work.name else {"empty": work.stack["unclaimed"]}
        except Exception as error:
            result["failed"] = f"{type(error).__name__}: {error}"[:300]
        (work.folder / "rows" / f"{stack}-{template}.stats.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
