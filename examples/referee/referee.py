"""The referee: python referee.py --traces FILE --tools FILE --tokenizer FILE [--part rows|speed] [--only STACK ...].

It sets up the environments, runs each stack on each template, judges the rows, measures preparation and writes the
page. README.md explains how to read it.
"""

import argparse
import concurrent.futures as futures
import contextlib
import functools
import json
import pathlib
import re
import subprocess
import sys

import tokenizers

import judge
import page
import planted
import speed
import stacks
from stacks import HERE, OF

ENVIRONMENTS = OF["environments"]


def install(work, name):
    """Sets up a stack's environment; pip's messages are kept in a file."""
    name = name.partition("_")[0]  # trl_natgo: nat-go's rows in TRL
    folder = work / "env" / name
    if (folder / ".made").exists() and (folder / ".made").read_text() == ENVIRONMENTS[name]:
        return
    folder.mkdir(parents=True, exist_ok=True)
    pip, failed = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"], subprocess.CalledProcessError
    with open(work / "env" / f"{name}.log", "w") as log, contextlib.suppress(failed):
        if name == "templates":
            subprocess.run([*pip, "download", "--no-deps", "--no-binary", "llama-cpp-python", "-d", folder,
                            ENVIRONMENTS[name]], check=True, stderr=log)
            (archive,) = folder.glob("*.tar.gz")
            subprocess.run(["tar", "xzf", archive, "-C", folder, "--wildcards", "--transform=s#.*/##",
                            "*/models/templates/*.jinja"], check=True)
            archive.unlink()
        elif ENVIRONMENTS[name]:
            subprocess.run([*pip, "install", "--root-user-action", "ignore", "--no-cache-dir", "--upgrade", "--no-deps",
                            "--target", folder, *ENVIRONMENTS[name].split()], check=True, stderr=log)
        (folder / ".made").write_text(ENVIRONMENTS[name])


def prepare(work, arguments):
    """Writes a model's folder and the conversations for each template; returns the templates' sources."""
    base = tokenizers.Tokenizer.from_file(arguments.tokenizer)
    for mark in (m for m in OF["marks"].split() if base.token_to_id(m) is None):
        base.add_tokens([tokenizers.AddedToken(mark, normalized=False, special=mark.startswith("<|"))])
    rollouts, tools = (json.loads(pathlib.Path(p).read_text()) for p in (arguments.traces, arguments.tools))
    rollouts, sources = rollouts[:arguments.rollouts], {}
    for sub in ("models", "data", "rows"):
        (work / sub).mkdir(parents=True, exist_ok=True)
    for name, of in judge.TEMPLATES.items():
        file = work / "env" / of["file"]
        sources[name] = (file if file.exists() else work / "env" / "templates" / of["file"]).read_text()
        model = work / "models" / name
        model.mkdir(exist_ok=True)
        (model / "tokenizer.json").write_text(base.to_str())
        (model / "config.json").write_text(json.dumps(OF["model"] | {"vocab_size": base.get_vocab_size()}))
        (model / "tokenizer_config.json").write_text(json.dumps(
            OF["tokenizer"] | {"eos_token": of["stops"][0], "chat_template": sources[name]}))
        with open(work / "data" / (name + ".jsonl"), "w") as out:
            for rollout in rollouts:
                row = {"messages": judge.conversation(rollout, of)}
                out.write(json.dumps(row if of.get("text") else row | {"tools": tools}, ensure_ascii=False) + "\n")
    return sources, rollouts, tools


def run(work, stack):
    """Runs a stack's adapter in its environment; its output is kept in a file."""
    for stats in (work / "rows").glob(f"{stack}-*.stats.json"):
        stats.unlink()
    with open(work / "rows" / f"{stack}.log", "w") as log:
        subprocess.run([sys.executable, HERE / "stacks.py", stack, work, *judge.TEMPLATES],
                       env=stacks.environment(work, stack.partition("_")[0]), stdout=log, stderr=log)


def cell(work, stack, template, the):
    """Judges a stack's rows under a template or, if it didn't produce any, returns the reason."""
    stats = work / "rows" / f"{stack}-{template}.stats.json"
    if not stats.exists():
        log = "".join(file.read_text() for file in (
            work / "env" / f"{stack.partition('_')[0]}.log", work / "rows" / f"{stack}.log") if file.exists())
        errors = re.findall(r"^ERROR:.*|^\w[\w.]*(?:Error|Exception|Exit).*", log, re.M)
        return {"failed": [*errors, log.strip() or "no output"][0][:300]}
    result = json.loads(stats.read_text())
    if "failed" not in result and "empty" not in result:
        rows = list(map(json.loads, (work / "rows" / f"{stack}-{template}.jsonl").read_text().splitlines()))
        result["found"], result["worst"] = the.judge(rows, {int(r) for r in result["refused"]})
    return result


def judged(work, source, rollouts, tools, stacks, template):
    """A template's cells, and the share of planted errors that the judge finds."""
    the = judge.Judge(template, source, work / "models" / template / "tokenizer.json", rollouts, tools)
    return {f"{stack} {template}": cell(work, stack, template, the) for stack in stacks} | {
        f"planted {template}": {"found": planted.found(the)}}


def rows(work, sources, rollouts, tools, only):
    """Runs stacks on all templates, judges them and writes the page."""
    with futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(functools.partial(run, work), only))
    kept = work / "cells.json"
    cells = json.loads(kept.read_text()) if kept.exists() else {}
    with futures.ProcessPoolExecutor(2) as pool:
        for done in [pool.submit(judged, work, of, rollouts, tools, only, name) for name, of in sources.items()]:
            cells.update(done.result())
    kept.write_text(json.dumps(cells, indent=1))
    page.write(HERE, cells, OF["stacks"], len(rollouts))


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    for name in ("traces", "tools", "tokenizer"):
        parse.add_argument("--" + name, required=True)
    parse.add_argument("--work", type=lambda p: pathlib.Path(p).resolve(), default=".cache/referee")
    parse.add_argument("--part", nargs="+", default=["rows", "speed"])
    parse.add_argument("--only", nargs="+", default=list(stacks.STACKS))
    parse.add_argument("--rollouts", type=int, default=100)
    arguments = parse.parse_args()
    work = arguments.work
    for name in ("common", "templates", "axolotl", *arguments.only):
        install(work, name)
    sources, rollouts, tools = prepare(work, arguments)
    if "rows" in arguments.part:
        rows(work, sources, rollouts, tools, [s for s in arguments.only if s in OF["stacks"]])
    timed = [s for s in arguments.only if "speed" in stacks.STACKS[s] and "speed" in arguments.part]
    if cells := speed.measure(work, timed):
        page.speed(HERE, cells, stacks.STACKS)


if __name__ == "__main__":
    main()
