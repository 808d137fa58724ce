"""The referee: python referee.py --traces FILE --tools FILE --tokenizer FILE [--work FOLDER] [--only stack,...].

It makes the environments, runs each stack on each template, judges the rows and writes the page. README.md says how to
read it.
"""

import argparse
import concurrent.futures as futures
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

import judge
import page
import planted

HERE = pathlib.Path(__file__).parent
WEB = "requests certifi urllib3 charset_normalizer httpx httpcore sniffio distro pillow"
# What is installed beside torch and transformers, without dependencies: the newest of each at the date of the page, and
# the transformers that each asks for.
ENVIRONMENTS = {
    "common": WEB,
    "templates": "llama-cpp-python==0.3.36",
    "natgo": "",
    "trl": "",
    "stock": "",
    "axolotl": "axolotl==0.19.0 transformers==5.16.1 tokenizers==0.23.1 datasets==4.8.4 trl==1.9.0 peft==0.20.0 "
               "accelerate==1.13.0 huggingface_hub==1.17.0 colorama addict pydantic==2.12.5 pydantic_core==2.41.5",
    "renderers": "renderers==0.1.12 openai openai-harmony prime-pydantic-config tiktoken jiter",
    "tinker": "tinker-cookbook==0.6.1 tinker tml-renderers chz termcolor cloudpickle blobfile tiktoken pyrage orjson",
    "swift": "ms-swift==4.6.0 transformers<5.20 huggingface_hub<2 trl<1.0 datasets<4.8.5 peft<0.21 addict attrdict "
             "binpacking dacite json-repair modelscope modelscope_hub einops simplejson sortedcontainers aiohttp",
    "unsloth": "unsloth==2026.10.9 unsloth-zoo==2026.10.9 transformers==5.17.0 trl==1.15.0 datasets<5 "
               "huggingface_hub<2 torchao einops cut_cross_entropy sentencepiece structlog nest-asyncio triton "
               "bitsandbytes msgspec hf_transfer tyro docstring-parser shtab json5",
}
STACKS = [s for s in ENVIRONMENTS if s not in ("common", "templates")]
STACKS[1:1] = ["trl_natgo", "axolotl_natgo"]
MARKS = """<think> </think> <tool_response> </tool_response> <|begin_of_text|> <|start_header_id|> <|end_header_id|>
<|eot_id|> <|eom_id|> <|end_of_text|> <|python_tag|> <|tool_call_start|> <|tool_call_end|>""".split()


def install(work, name):
    name = name.partition("_")[0]  # trl_natgo: nat-go's rows in TRL
    folder = work / "env" / name
    if (folder / ".made").exists() and (folder / ".made").read_text() == ENVIRONMENTS[name]:
        return
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    if name == "templates":
        subprocess.run([*pip, "download", "--no-deps", "--no-binary", "llama-cpp-python", "-d", folder,
                        ENVIRONMENTS[name]], check=True)
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            for member in tar:
                if "/models/templates/" in member.name and member.name.endswith(".jinja"):
                    (folder / pathlib.Path(member.name).name).write_bytes(tar.extractfile(member).read())
        archive.unlink()
    elif ENVIRONMENTS[name]:
        subprocess.run([*pip, "install", "--root-user-action", "ignore", "--no-cache-dir", "--upgrade", "--no-deps",
                        "--target", folder, *ENVIRONMENTS[name].split()], check=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".made").write_text(ENVIRONMENTS[name])


def prepare(work, arguments):
    """Writes a model's folder and the conversations for each template; returns the templates' sources."""
    base = json.loads(pathlib.Path(arguments.tokenizer).read_text())
    known = {t["content"] for t in base["added_tokens"]}
    next_id = max(t["id"] for t in base["added_tokens"]) + 1
    for mark in (m for m in MARKS if m not in known):
        base["added_tokens"].append({"id": next_id, "content": mark, "single_word": False, "lstrip": False,
                                     "rstrip": False, "normalized": False, "special": mark.startswith("<|")})
        next_id += 1
    rollouts, tools = (json.loads(pathlib.Path(p).read_text()) for p in (arguments.traces, arguments.tools))
    sources = {}
    for sub in ("models", "data", "rows"):
        (work / sub).mkdir(parents=True, exist_ok=True)
    for name, of in judge.TEMPLATES.items():
        file = work / "env" / of["file"]
        sources[name] = (file if file.exists() else work / "env" / "templates" / of["file"]).read_text()
        model = work / "models" / name
        model.mkdir(exist_ok=True)
        (model / "tokenizer.json").write_text(json.dumps(base, ensure_ascii=False))
        (model / "config.json").write_text(json.dumps({
            "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": next_id, "hidden_size": 8,
            "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
            "max_position_embeddings": 65536, "torch_dtype": "float32"}))
        (model / "tokenizer_config.json").write_text(json.dumps({
            "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": of["stops"][0], "pad_token": "<|endoftext|>",
            "bos_token": "<|begin_of_text|>", "unk_token": None, "model_max_length": 65536,
            "clean_up_tokenization_spaces": False,
            "chat_template": sources[name]}))
        with open(work / "data" / (name + ".jsonl"), "w") as out:
            for rollout in rollouts:
                row = {"messages": judge.conversation(rollout, of)}
                out.write(json.dumps(row if of.get("text") else row | {"tools": tools}, ensure_ascii=False) + "\n")
    return sources, rollouts, tools


def run(work, stack, templates, limit):
    """Runs a stack's adapter in its environment; what it printed stays in a file."""
    for template in templates:
        (work / "rows" / f"{stack}-{template}.stats.json").unlink(missing_ok=True)
    path = os.pathsep.join(str(work / "env" / n) for n in (stack.partition("_")[0], "common"))
    env = {"NATGO": "nat-go"} | os.environ | {"PYTHONPATH": path}
    with open(work / "rows" / f"{stack}.log", "w") as log:
        subprocess.run([sys.executable, HERE / "stacks.py", stack, work, str(limit), *templates], env=env,
                       stdout=log, stderr=log)


def cell(work, stack, template, the):
    """Judges a stack's rows under a template; where there are none, the reason."""
    stats = work / "rows" / f"{stack}-{template}.stats.json"
    if not stats.exists():
        log = (work / "rows" / f"{stack}.log").read_text()
        errors = re.findall(r"^\w[\w.]*(?:Error|Exception|Exit).*", log, re.M)
        return {"failed": (errors or log.strip().splitlines() or ["no output"])[-1][:300]}
    result = json.loads(stats.read_text())
    if "failed" not in result and "empty" not in result:
        with open(work / "rows" / f"{stack}-{template}.jsonl") as file:
            rows = [json.loads(line) for line in file]
        result["found"], result["worst"] = the.judge(rows, {int(r) for r in result["refused"]})
    return result


def stacks_doc(stack):
    """The first paragraph of an adapter: the settings, for the page."""
    source = (HERE / "stacks.py").read_text()
    return re.search(r'def %s\(.*?"""(.*?)"""' % stack, source, re.S).group(1).replace("\n    ", " ").strip()


def judged(work, sources, rollouts, tools, without, arguments, template):
    """The cells of a template, and which share of planted errors the judge finds."""
    the = judge.Judge(template, sources[template], work / "models" / template / "tokenizer.json", rollouts, tools)
    got = {}
    for stack in arguments.only:
        one = {"failed": without[stack]} if stack in without else cell(work, stack, template, the)
        print(stack, template, one.get("found") or one.get("empty") or one.get("failed"), flush=True)
        got[f"{stack} {template}"] = one
    return got | ({f"planted {template}": {"found": planted.found(the)}} if arguments.planted else {})


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    for name in ("traces", "tools", "tokenizer"):
        parse.add_argument("--" + name, required=True)
    parse.add_argument("--work", type=lambda p: pathlib.Path(p).resolve(), default=".cache/referee")
    parse.add_argument("--only", type=lambda s: s.split(","), default=STACKS)
    parse.add_argument("--planted", action="store_true", help="check the judge with planted errors, too")
    parse.add_argument("--judge", action="store_true", help="judge the rows of the last run again")
    parse.add_argument("--rollouts", type=int, default=100)
    parse.add_argument("--jobs", type=int, default=2)
    parse.add_argument("--templates", type=lambda s: s.split(","), default=list(judge.TEMPLATES))
    arguments = parse.parse_args()
    work, without = arguments.work, {}
    for name in ["common", "templates", "axolotl", *arguments.only]:
        try:
            install(work, name)
        except subprocess.CalledProcessError as error:
            without[name] = f"pip ended with status {error.returncode}"
    sources, rollouts, tools = prepare(work, arguments)
    with futures.ThreadPoolExecutor(arguments.jobs) as pool:
        todo = [s for s in arguments.only if s not in without and not arguments.judge]
        list(pool.map(lambda s: run(work, s, arguments.templates, arguments.rollouts), todo))
    one = functools.partial(judged, work, sources, rollouts[:arguments.rollouts], tools, without, arguments)
    with futures.ProcessPoolExecutor(arguments.jobs) as pool:
        done = list(pool.map(one, arguments.templates))
    kept = work / "cells.json"
    cells = json.loads(kept.read_text()) if kept.exists() else {}
    for got in done:
        cells.update(got)
    kept.write_text(json.dumps(cells, indent=1))
    settings = {s: stacks_doc(s) for s in STACKS}
    text = "; ".join("%s %d of %d (%d)" % (t, *cells[f"planted {t}"]["found"])
                     for t in judge.TEMPLATES if f"planted {t}" in cells)
    text = text and f"Of planted errors, one a row, it finds (in parentheses: in the rows without one): {text}."
    page.write(HERE, cells, STACKS, settings, text, arguments.rollouts)


if __name__ == "__main__":
    main()
