#!/usr/bin/env python3
"""Reads recorded sessions with nat-go and its peers, and counts what each keeps of what went over the wire.

    NATGO_CONFORMANCE=DIR python3 ttc/source/session/testdata/peers.py bin/nat-go [VENV]

The peers are installed into VENV (.cache/peers). letta's agent-trajectory needs node.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile

PEERS = ["teich==0.3.6", "agent-trajectory==0.4.3", "agentpile==0.3.1"]
SESSIONS = {"Claude Code": "claude_code/projects", "Codex": "codex/sessions"}
FOLDER = os.path.join(os.environ["NATGO_CONFORMANCE"], "readers")


# --- the readers: each yields lists of (role, text, [(call id, arguments)]) ---


def of_chat(messages):
    out = []
    for m in messages:
        content = m.get("content") or ""
        if isinstance(content, list):
            content = "".join(p.get("text", "") for p in content)
        calls = []
        for c in m.get("tool_calls") or []:
            calls.append((c.get("id"), c.get("function", c).get("arguments", c.get("args"))))
        out.append((m["role"], content, calls))
    return out


def teich(path):
    import pathlib

    import teich

    yield of_chat(teich.convert_trace_to_training_example(pathlib.Path(path)).to_dict()["messages"])


def letta(path):
    import trajectory

    source = "codex" if "codex" in path else "claude-code"
    with open(path) as f:
        result = trajectory.normalize_transcript(source=source, transcript=f.read())
    records = result["records"] if isinstance(result, dict) else result.records
    yield of_chat([m for m in records if m["role"] not in ("meta", "reasoning")])


def agentpile(path):
    import agentpile

    for run in agentpile.load(path):
        rows = agentpile.to_chat(run)
        for row in rows if isinstance(rows, list) else [rows]:
            yield of_chat(row["messages"])


def nat_go(path):
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [program, "run", path, "--builder", "sft", "--format", "customizer", "--run-id", "r", "-o", "dataset.split.validation=0",
             "-o", "trajectory_builders.sft.skip_failed_calls=false"],
            cwd=folder, capture_output=True, check=False,
        )
        shown = subprocess.run(
            [program, "dataset", "show", "out/r", "--json", "--limit", "0"], cwd=folder, capture_output=True, check=True,
        )
    for record in json.loads(shown.stdout)["records"]:
        yield of_chat(record["messages"])


READERS = {"nat-go": nat_go, "teich 0.3.6": teich, "agent-trajectory 0.4.3": letta, "agentpile 0.3.1": agentpile}


# --- the truth ---


def truth(name):
    """Yields for each model call: its answer's text and calls, and how many items the model was given before it."""
    folder = "claude_code" if name == "Claude Code" else "codex"
    with open(os.path.join(FOLDER, folder, "truth.json")) as f:
        t = json.load(f)
    calls, reasoning = [], 0
    for c in t["model_calls"]:
        if c["status"] != 200:
            continue
        text, tools = "", []
        for block in c["output"]:
            if block["type"] == "text":
                text += block["text"]
            elif block["type"] == "message":
                text += "".join(p["text"] for p in block["content"])
            elif block["type"] == "tool_use":
                tools.append((block["id"], block["input"]))
            elif block["type"] == "function_call":
                tools.append((block["call_id"], block["arguments"]))
            elif block["type"] == "custom_tool_call":
                tools.append((block["call_id"], None))  # its input is a text, not arguments
        given = c["messages_in_request"] - reasoning
        if folder == "codex":  # its requests repeat the reasoning, which none of the readers can know
            reasoning += sum(b["type"] == "reasoning" for b in c["output"])
        calls.append((text, tools, given, c["thread"]))
    if folder == "codex":
        return calls, t["input_of_last_call"][0]["content"][0]["text"]
    return calls, t["system_prompt_of_first_call"][-1]["text"]


def items(name, messages, system):
    """Counts messages as the wire format does: Anthropic's has all results of a turn in one, Codex's each part apart."""
    n, before = 0, None
    for role, text, calls in messages:
        if name == "Codex":  # its system prompt is a message
            n += (1 if text.strip() or role == "tool" else 0) + len(calls)
            continue
        if has_system(role, text, system):
            continue
        if role in ("user", "assistant", "tool") and (role == "user" or role != before):
            n += 1
        before = role
    return n


def has_system(role, text, system):
    return role in ("system", "developer") and system.strip()[:200] in text


def measure(name, conversations):
    calls, system = truth(name)
    kept = contexts = sampled = arguments = 0
    for text, tools, given, _ in calls:
        found = right = False
        for messages in conversations:
            for i, (role, said, made) in enumerate(messages):
                if role == "assistant" and said.strip() == text.strip() and [c[0] for c in made] == [c[0] for c in tools]:
                    found = True
                    right = right or items(name, messages[:i], system) == given
        kept, contexts = kept + found, contexts + right
        for call, want in tools:
            if want is None:
                continue
            arguments += 1
            got = {a if isinstance(a, str) else None for m in conversations for _, _, made in m for c, a in made if c == call}
            # Claude Code keeps arguments as JSON values: nobody can know their spelling, so that text with the value counts.
            same = want in got if isinstance(want, str) else any(a and json.loads(a) == want for a in got)
            sampled += same
    prompt = any(has_system(role, text, system) for m in conversations for role, text, _ in m)
    return f"{kept} of {len(calls)}", f"{contexts} of {len(calls)}", f"{sampled} of {arguments}", "yes" if prompt else "no"


def main():
    venv = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else ".cache/peers")
    python = os.path.join(venv, "bin", "python")
    if os.path.realpath(sys.prefix) != os.path.realpath(venv):
        if not os.path.exists(python):
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PEERS], check=True)
        os.execv(python, [python, os.path.abspath(__file__), sys.argv[1], venv])
    print("| session | reader | calls kept | with the context they had | arguments as sampled | system prompt |")
    print("|---|---|---|---|---|---|")
    for name, folder in SESSIONS.items():
        files = sorted(glob.glob(os.path.join(FOLDER, folder, "**", "*.jsonl"), recursive=True))
        for reader, read in READERS.items():
            try:
                cells = measure(name, [m for path in files for m in read(path)])
            except Exception as e:  # a peer that can't read a file says so in its own way
                cells = (f"refused: {type(e).__name__}", "-", "-", "-")
            print("|", " | ".join((name, reader, *cells)), "|", flush=True)


if __name__ == "__main__":
    main()
