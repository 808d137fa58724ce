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

import yaml

import judge
import page
import planted
import stacks

HERE = pathlib.Path(__file__).parent
OF = yaml.safe_load((HERE / "referee.yml").read_text())
ENVIRONMENTS, STACKS = OF["environments"], list(OF["stacks"])


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
    for mark in (m for m in OF["marks"].split() if m not in known):
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
        (model / "config.json").write_text(json.dumps(OF["model"] | {"vocab_size": next_id}))
        (model / "tokenizer_config.json").write_text(json.dumps(
            OF["tokenizer"] | {"eos_token": of["stops"][0], "chat_template": sources[name]}))
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


def judged(work, sources, rollouts, tools, without, arguments, template):
    """The cells of a template, and which share of planted errors the judge finds."""
    the = judge.Judge(template, sources[template], work / "models" / template / "tokenizer.json", rollouts, tools)
    got = {}
    for stack in arguments.only:
        one = {"failed": without[stack]} if stack in without else cell(work, stack, template, the)
        print(stack, template, one.get("found") or one.get("empty") or one.get("failed"), flush=True)
        got[f"{stack} {template}"] = one
    return got | {f"planted {template}": {"found": planted.found(the)}}


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    for name in ("traces", "tools", "tokenizer"):
        parse.add_argument("--" + name, required=True)
    parse.add_argument("--work", type=lambda p: pathlib.Path(p).resolve(), default=".cache/referee")
    parse.add_argument("--only", type=lambda s: s.split(","), default=STACKS)
    parse.add_argument("--rollouts", type=int, default=100)
    parse.add_argument("--templates", type=lambda s: s.split(","), default=list(judge.TEMPLATES))
    arguments = parse.parse_args()
    work, without = arguments.work, {}
    for name in ["common", "templates", "axolotl", *arguments.only]:
        try:
            install(work, name)
        except subprocess.CalledProcessError as error:
            without[name] = f"pip ended with status {error.returncode}"
    sources, rollouts, tools = prepare(work, arguments)
    with futures.ThreadPoolExecutor(2) as pool:
        todo = [s for s in arguments.only if s not in without]
        list(pool.map(lambda s: run(work, s, arguments.templates, arguments.rollouts), todo))
    one = functools.partial(judged, work, sources, rollouts[:arguments.rollouts], tools, without, arguments)
    with futures.ProcessPoolExecutor(2) as pool:
        done = list(pool.map(one, arguments.templates))
    kept = work / "cells.json"
    cells = json.loads(kept.read_text()) if kept.exists() else {}
    for got in done:
        cells.update(got)
    kept.write_text(json.dumps(cells, indent=1))
    settings = {s: " ".join(getattr(stacks, s).__doc__.split()) for s in STACKS}
    text = "; ".join("%s %d of %d (%d)" % (t, *cells[f"planted {t}"]["found"])
                     for t in judge.TEMPLATES if f"planted {t}" in cells)
    text = text and f"Of planted errors, one in each row, it finds (in parentheses: in the rows without one): {text}."
    page.write(HERE, cells, OF["stacks"], settings, text, arguments.rollouts)


if __name__ == "__main__":
    main()
