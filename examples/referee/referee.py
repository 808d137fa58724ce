"""The referee: python referee.py --traces FILE --tools FILE --tokenizer FILE [--work FOLDER] [--only stack,...].

It sets up the environments, runs each stack on each template, judges the rows and writes the page. README.md explains
how to read it.
"""

import argparse
import concurrent.futures as futures
import contextlib
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import yaml

import judge
import page
import planted

HERE = pathlib.Path(__file__).parent
OF = yaml.safe_load((HERE / "referee.yml").read_text())
ONE = threading.Lock()  # one pip at a time
PLUGIN = HERE.parent.parent / "plugins" / "python"  # natgo.verl
ENVIRONMENTS, STACKS = OF["environments"], list(OF["stacks"])


def install(work, name, log=None):
    name = name.partition("_")[0]  # trl_natgo: nat-go's rows in TRL
    folder = work / "env" / name
    if (folder / ".made").exists() and (folder / ".made").read_text() == ENVIRONMENTS[name]:
        return
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
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


def run(work, limit, stack):
    """Runs a stack's adapter in its environment; its output and pip's are kept in a file."""
    for stats in (work / "rows").glob(f"{stack}-*.stats.json"):
        stats.unlink()
    path = os.pathsep.join(map(str, (work / "env" / stack.partition("_")[0], work / "env" / "common", PLUGIN)))
    env = {"NATGO": "nat-go"} | os.environ | {"PYTHONPATH": path}
    with open(work / "rows" / f"{stack}.log", "w") as log:
        with ONE, contextlib.suppress(subprocess.CalledProcessError):
            install(work, stack, log)
        subprocess.run([sys.executable, HERE / "stacks.py", stack, work, str(limit), *judge.TEMPLATES], env=env,
                       stdout=log, stderr=log)


def cell(work, stack, template, the):
    """Judges a stack's rows under a template or, if it didn't produce any, returns the reason."""
    stats = work / "rows" / f"{stack}-{template}.stats.json"
    if not stats.exists():
        log = (work / "rows" / f"{stack}.log").read_text()
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
    cells = {f"{stack} {template}": cell(work, stack, template, the) for stack in stacks}
    return cells | {f"planted {template}": {"found": planted.found(the)}}


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    for name in ("traces", "tools", "tokenizer"):
        parse.add_argument("--" + name, required=True)
    parse.add_argument("--work", type=lambda p: pathlib.Path(p).resolve(), default=".cache/referee")
    parse.add_argument("--only", type=lambda s: s.split(","), default=STACKS)
    parse.add_argument("--rollouts", type=int, default=100)
    arguments = parse.parse_args()
    work = arguments.work
    for name in ("common", "templates", "axolotl"):
        install(work, name)
    sources, rollouts, tools = prepare(work, arguments)
    with futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(functools.partial(run, work, arguments.rollouts), arguments.only))
    kept = work / "cells.json"
    cells = json.loads(kept.read_text()) if kept.exists() else {}
    with futures.ProcessPoolExecutor(2) as pool:
        rest = rollouts[:arguments.rollouts], tools, arguments.only
        for done in [pool.submit(judged, work, source, *rest, name) for name, source in sources.items()]:
            cells.update(done.result())
    kept.write_text(json.dumps(cells, indent=1))
    page.write(HERE, cells, OF["stacks"], arguments.rollouts)


if __name__ == "__main__":
    main()
