#!/usr/bin/env python3
"""Compares the rows that a run makes from the fixtures of letta-ai/trajectory with that project's own results.

    python3 ttc/source/internal/session/testdata/letta.py bin/nat-go FOLDER

FOLDER is a checkout of github.com/letta-ai/trajectory, whose expected.json files hold its readers' answers. The script
prints, for each source, how nat-go recognises it, and the texts, calls, results and reasoning that the rows have. It
fails if the rows lack anything that WHY doesn't explain.
"""

import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

FORMATS = ["openai_sft", "axolotl"]

# The reasons for missing items, by the beginning of the fixture's name, the kind of the item and its beginning.
NO_MODEL = "the result follows the last answer, so no model saw it"
NO_NAME = "an action without the name of its tool, which letta makes up; no trainer takes such a call"
NO_ID = "events without the ids that OpenHands writes, which letta derives from the actions"
ONE_TURN = "the session's only answer called a tool that failed, so nothing in it is trained"
WHY = {
    ("atif/tool-calls", "result", '{"subagent_trajectory_ref"'): "a result without content; letta writes the reference instead",
    ("codex/cleanup", "result", "beta"): "both results have one call id; letta renames the second",
    ("codex/tool-calls", "reasoning", "Reviewing"): "a summary of the reasoning, not its text",
    ("copilot-cli", "result", ""): NO_MODEL,
    ("gemini-cli", "result", ""): NO_MODEL,
    ("gemini-cli", "reasoning", "Planning"): "letta writes the thought's subject before its text",
    ("opencode/tool-calls", "result", ""): NO_MODEL,
    ("opencode/cleanup", "", ""): ONE_TURN,
    ("openhands/cleanup", "", ""): NO_NAME + ": the session is dropped, and counted",
    ("openhands/tool-calls", "reasoning", ""): "a thought, which OpenHands sends as the answer's text; the rows have it there",
    ("openhands/tool-calls", "", ""): NO_ID,
}


def run(program, *args, folder=None):
    done = subprocess.run([program, *args], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def value(args):
    """Returns arguments as a value, or as they are if they aren't JSON."""
    try:
        return json.loads(args) if isinstance(args, str) else args
    except ValueError:
        return args


def original(call):
    """Returns a call's id without the number that letta appends to a repeated one."""
    return re.sub(r"__\d+$", "", call)


def without_images(v):
    if isinstance(v, list):
        return [without_images(x) for x in v]
    if isinstance(v, dict) and v.get("type") in ("image", "image_url"):
        return {"type": "text", "text": "[image]"}
    return {k: without_images(x) for k, x in v.items()} if isinstance(v, dict) else v


def spoken(text):
    return "".join(text.split())


def of_letta(path):
    """Yields the items of a stored answer: (kind, call id, name or text, arguments)."""
    with open(path) as f:
        records = json.load(f)["records"]
    for r in records:
        text = r.get("content") or ""
        if r["role"] in ("user", "assistant", "system") and text:
            yield "text", None, text, None
        elif r["role"] == "reasoning" and text:
            yield "reasoning", None, text, None
        elif r["role"] == "tool":
            yield "result", original(r["tool_call_id"]), text.removeprefix("Error: "), None
        for c in r.get("tool_calls") or []:
            args = value(c["args"])
            yield "call", original(c["id"]), c["name"], value(args["_raw"]) if isinstance(args, dict) and "_raw" in args else args


def of_rows(program, path):
    """Returns the items of the rows of a run with its defaults."""
    texts, reasoning, results, calls = [], [], {}, {}
    with tempfile.TemporaryDirectory() as folder:
        with open(path) as f:
            text = f.read()
        path = os.path.join(folder, os.path.basename(path))
        with open(path, "w") as f:
            for entry in text.splitlines() if path.endswith(".jsonl") else [text]:
                seen = value(entry)  # some lines are torn
                f.write(entry if seen is entry else json.dumps(without_images(seen)))
                f.write("\n")
        options = [o for name in FORMATS for o in ("--format", name)]
        run(program, "run", path, "--builder", "sft", "--run-id", "r", *options, "-o", "dataset.split.validation=0", folder=folder)
        for file in sorted(glob.glob(os.path.join(folder, "out/r/dataset/*/train.jsonl"))):
            with open(file) as f:
                for m in (m for row in map(json.loads, f) for m in row["messages"]):
                    text = m.get("content") or ""
                    if isinstance(text, list):
                        text = "".join(p.get("text", "") for p in text)
                    if m["role"] == "tool":
                        results.setdefault(m.get("tool_call_id"), []).append(spoken(text))
                    texts.append(spoken(text))
                    reasoning.append(spoken(m.get("reasoning_content") or ""))
                    for c in m.get("tool_calls") or []:
                        args = c["function"]["arguments"]
                        calls.setdefault(c.get("id"), []).append((c["function"]["name"], value(args)))
    return texts, reasoning, results, calls


def kept(item, rows):
    texts, reasoning, results, calls = rows
    kind, call, text, args = item
    if kind == "call":
        return (text, args) in calls.get(call, [])
    if kind == "result":
        return any(spoken(text) in r for r in results.get(call, []))
    return any(spoken(text) in t for t in (reasoning if kind == "reasoning" else texts))


def recognised(program, path):
    code, said = run(program, "inspect", path)
    if code == 0:
        return re.search(r"read as\s+(\w+)", said).group(1)
    return "named: " + " ".join(said.split("nat-go: ")[-1].split())[-110:]


def main():
    program, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    total, unexplained = collections.Counter(), []
    sources = sorted(os.path.dirname(p) for p in glob.glob(os.path.join(folder, "src/adapters/*/index.ts")))
    for source in (os.path.basename(s) for s in sources):
        inputs = sorted(glob.glob(os.path.join(folder, "fixtures", source, "*", "input.*")))
        inputs = inputs or sorted(glob.glob(os.path.join(folder, "fixtures", source, "*.db")))
        how = [recognised(program, path) for path in inputs]
        print(f"{source}: {'; '.join(dict.fromkeys(how)) or 'no fixture'}")
        for path, way in zip(inputs, how):
            if way.startswith("named"):
                continue
            rows, name = of_rows(program, path), os.path.relpath(os.path.dirname(path), os.path.join(folder, "fixtures"))
            for item in of_letta(os.path.join(os.path.dirname(path), "expected.json")):
                total[item[0]] += 1
                if kept(item, rows):
                    total[item[0] + " kept"] += 1
                    continue
                why = next((w for (f, k, begin), w in WHY.items() if name.startswith(f) and k in ("", item[0]) and item[2].startswith(begin)), None)
                print(f"  {name}: {item[0]} {item[1] or ''} {item[2][:60]!r}: {why or 'NOT EXPLAINED'}")
                if not why:
                    unexplained.append(item)
    print("; ".join(f"{k} {total[k + ' kept']} of {total[k]}" for k in ("call", "text", "result", "reasoning")))
    sys.exit(1 if unexplained else 0)


if __name__ == "__main__":
    main()
