"""The museum: python museum.py WORK TOKENIZER. It runs the versions that had the bugs in museum.yml, each from its own
package, and writes MUSEUM.md. With an exhibit's name, it runs only that one, in this process and the environment made
for it.
"""

import importlib.util
import itertools
import json
import pathlib
import re
import subprocess
import sys
import types

import yaml

import referee
from stacks import environment, labels

def part(name):
    """Loads one file of a package, without the dependencies of the package as a whole."""
    file = next(p for p in (pathlib.Path(folder) / name for folder in sys.path) if p.exists())
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def transformers(case, tokenizer):
    return labels(tokenizer.apply_chat_template(case["messages"], return_dict=True, return_assistant_tokens_mask=True))


def nemo_automodel(case, tokenizer):
    return labels(part("nemo_automodel/components/datasets/llm/formatting_utils.py").format_chat_template(
        tokenizer, case["messages"], tokenizer.eos_token_id, tokenizer.pad_token_id, unshifted=True))


def mlx_lm(case, tokenizer):
    ids, offset = part("mlx_lm/tuner/datasets.py").ChatDataset([], tokenizer, mask_prompt=True).process(case)
    return ids, [i >= offset for i in range(len(ids))]


def trl(case, tokenizer):
    collator = part("trl/trainer/utils.py").DataCollatorForCompletionOnlyLM(case["response"], tokenizer=tokenizer)
    row = collator([tokenizer.apply_chat_template(case["messages"])])
    return labels({k: v[0].tolist() for k, v in row.items()})


def unsloth_zoo(case, tokenizer):
    rows = {"input_ids": [tokenizer.apply_chat_template(case["messages"])]}
    data = types.SimpleNamespace(map=lambda mask, batched: rows.update(mask(rows)))
    trainer = types.SimpleNamespace(tokenizer=tokenizer, train_dataset=data)
    part("unsloth_zoo/dataset_utils.py").train_on_responses_only(trainer, "[INST]", "[/INST]")
    return labels({k: v[0] for k, v in rows.items()})


def fschat(case, tokenizer):
    from fastchat.train.train import preprocess
    names = {"user": "human", "assistant": "gpt"}
    row = preprocess([[{"from": names[m["role"]], "value": m["content"]} for m in case["messages"]]], tokenizer)
    return labels({k: v[row["attention_mask"]].tolist() for k, v in row.items()})


def renderers(case, tokenizer):
    from renderers import GLM45Renderer, Qwen3Renderer, build_training_sample
    renderer = (GLM45Renderer if case["template"] == "roles" else Qwen3Renderer)(tokenizer)
    return build_training_sample(renderer, case["messages"], role_to_mask=lambda m: m["role"] == "assistant")


def axolotl(case, tokenizer):
    from axolotl.prompt_strategies.chat_template import load
    from axolotl.utils.dict import DictDefault
    return labels(load(tokenizer, DictDefault(sequence_len=1 << 15, chat_template="tokenizer_default"), DictDefault(
        type="chat_template", field_messages="messages", roles_to_train=["assistant"])).tokenize_prompt(case))


def one(case, template, base):
    """The row that a version produces from a conversation, with a real tokenizer and the template's marks."""
    from transformers import PreTrainedTokenizerFast
    file = json.loads(pathlib.Path(base).read_text())
    if case.get("trim_offsets"):
        file["post_processor"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                                  "use_regex": False}
    pathlib.Path("tokenizer.json").write_text(json.dumps(file))
    tokenizer = PreTrainedTokenizerFast(tokenizer_file="tokenizer.json", eos_token=template["eos"], model_max_length=99,
                                        pad_token=case.get("pad", "<|endoftext|>"))
    marks = set(re.findall(r"</?[a-z_]+>|<[|][a-z_]+[|]>|\[[A-Za-z/]+\]", case["rows"][0] + case.get("marks", "")))
    tokenizer.add_special_tokens({"additional_special_tokens": sorted(marks)})
    tokenizer.chat_template, tokenizer.legacy = template["text"], True
    ids, mask, *_ = globals()[case["package"].partition("=")[0].replace("-", "_")](case, tokenizer)
    text = ""
    for trained, part_of in itertools.groupby(zip(ids, map(bool, mask)), lambda pair: pair[1]):
        piece = tokenizer.decode([token for token, _ in part_of])
        text += f"⟦{piece}⟧" if trained else piece
    return text


def main(work, tokenizer, only=None):
    museum = yaml.safe_load((referee.HERE / "museum.yml").read_text())
    block = lambda text: f"```text\n{text.rstrip()}\n```\n"
    trained = lambda text: re.findall("⟦(.*?)⟧", text, re.S)
    out = [museum["page"]]
    for case in museum["exhibits"]:
        if only == case["name"]:
            return print(json.dumps(one(case, museum["templates"][case["template"]], tokenizer)))
        out.append(f"## [{case['name']}]({case['link']})\n\nVersion: `{case['version']}`.\n\n{case['wrong']}\n")
        out.append("What is right:\n\n" + "\n".join(map(block, case["rows"])))
        if "package" in case and not only:
            referee.install(work, case["package"])
            env = environment(work, case["package"], case["package"].partition("=")[0])
            done = subprocess.run([sys.executable, __file__, work, tokenizer, case["name"]], stdout=subprocess.PIPE,
                                  cwd=work / "env" / case["package"], env=env, check=True)
            got = json.loads(done.stdout.splitlines()[-1])
            if trained(got) in map(trained, case["rows"]):
                sys.exit(f"{case['name']}: {case['version']} is right: {got}")
            out.append(f"That version trains {'this' if trained(got) else 'nothing'}:\n\n" + block(got))
    if not only:
        (referee.HERE / "MUSEUM.md").write_text("\n".join(out))


if __name__ == "__main__":
    main(*(pathlib.Path(p).resolve() for p in sys.argv[1:3]), *sys.argv[3:])
