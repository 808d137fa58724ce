#!/usr/bin/env python3
"""Reads recorded sessions with nat-go and its peers, and counts what each keeps of what went over the wire.

    NATGO_CONFORMANCE=DIR python3 ttc/source/internal/session/testdata/peers.py bin/nat-go [VENV | ours]

It prints README's table, and what README says of the turns that are trained. The peers are installed into VENV
(.cache/peers); with ours, only nat-go is measured. letta's agent-trajectory needs node.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile

PEERS = ["teich==0.3.6", "agent-trajectory==0.4.3", "agentpile==0.3.1"]
SESSIONS = {"Claude Code": "claude_code/projects", "Codex": "codex/sessions"}
FOLDER = os.path.join(os.environ.get("NATGO_CONFORMANCE", ""), "readers")


# --- the readers: each yields lists of (role, text, [(call id, arguments)]) ---


def of_chat(messages):
    out = []
    for m in messages:
        calls = []
        for c in m.get("tool_calls") or []:
            calls.append((c.get("id"), c.get("function", c).get("arguments", c.get("args"))))
        out.append((m["role"], text_of(m.get("content")), calls))
    return out


def text_of(content):
    if isinstance(content, list):
        return "".join(p.get("text", "") for p in content)
    return content or ""


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
    """Reads the rows that a run writes with its defaults, in two formats that say which turns are trained: openai_sft has
    arguments as they were sampled and no place for reasoning. A turn that isn't trained has the role context."""
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [program, "run", path, "--builder", "sft", "--format", "axolotl", "--format", "openai_sft", "--run-id", "r",
             "-o", "dataset.split.validation=0"],
            cwd=folder, capture_output=True, check=False,
        )
        for file in sorted(glob.glob(os.path.join(folder, "out/r/dataset/*/train.jsonl"))):
            with open(file) as f:
                for row in map(json.loads, f):
                    yield [of_row(m) for m in row["messages"]]


def of_row(message):
    [(role, text, calls)] = of_chat([message])
    if message.get("train") is False or message.get("weight") == 0:
        role = "context"
    return role, text, [(c, a if isinstance(a, str) else json.dumps(a)) for c, a in calls]


READERS = {"nat-go": nat_go, "teich 0.3.6": teich, "agent-trajectory 0.4.3": letta, "agentpile 0.3.1": agentpile}


# --- the truth: for each model call its answer's text and calls, and what it was given, as parts (role, text or id) ---


def parts_of(messages, system):
    """Flattens a context: texts without their spacing, those of one role that adjoin as one; calls by their ids."""
    out = []
    for role, text, calls in messages:
        role = {"developer": "system", "context": "assistant"}.get(role, role)
        if has_system(role, text, system):
            continue  # it has a column of its own
        text = "".join(text.split())
        if text and out and out[-1][0] == role and role != "tool":
            out[-1] = (role, out[-1][1] + text)
        elif text:
            out.append((role, text))
        out += [("call", c[0]) for c in calls]
    return out


def has_system(role, text, system):
    return role in ("system", "developer") and system.strip()[:200] in text


def of_blocks(message):
    """Yields the messages that one of Anthropic's amounts to: each result of a tool is one."""
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for b in content:
        if b["type"] == "text":
            yield message["role"], b["text"], []
        elif b["type"] == "tool_use":
            yield message["role"], "", [(b["id"], b["input"])]
        elif b["type"] == "tool_result":
            yield "tool", text_of(b["content"]), []


def of_items(items):
    """Yields the messages that items of OpenAI's responses amount to. Reasoning is encrypted."""
    for it in items:
        if it["type"] == "message":
            yield it["role"], text_of(it["content"]), []
        elif it["type"] in ("function_call", "custom_tool_call"):
            yield "assistant", "", [(it["call_id"], it.get("arguments"))]
        elif it["type"] != "reasoning":
            yield "tool", text_of(it["output"]), []


def claude_requests():
    """Returns what each request contained, by the id of its answer, as the program logged it beside the session. An
    answer in it is not logged, and None."""
    blobs, requests, answered = {}, {}, {}
    for path in glob.glob(os.path.join(FOLDER, SESSIONS["Claude Code"], "**", "*.jsonl"), recursive=True):
        with open(path) as f:
            for x in map(json.loads, f):
                if x["type"] == "api-request-blob":
                    blobs[x["hash"]] = x["message"]
                elif x["type"] == "api-request":
                    requests[x["id"]] = requests.get(x.get("base"), [])[: x["keep"]] + x["tail"]
                elif x["type"] == "assistant" and "requestRef" in x:
                    answered[x["message"]["id"]] = x["requestRef"]
    return {answer: [blobs.get(h) for h in requests[ref]] for answer, ref in answered.items()}


def claude_truth():
    with open(os.path.join(FOLDER, "claude_code", "truth.json")) as f:
        t = json.load(f)
    calls, logged = [], claude_requests()
    for c in t["model_calls"]:
        text = "".join(b["text"] for b in c["output"] if b["type"] == "text")
        tools = [(b["id"], b["input"]) for b in c["output"] if b["type"] == "tool_use"]
        given, answers = None, (x["output"] for x in t["model_calls"])
        if c["response_id"] in logged:
            given = []
            for message in logged[c["response_id"]]:
                given += of_blocks(message or {"role": "assistant", "content": next(answers)})
        calls.append((text, tools, given))
    return calls, t["system_prompt_of_first_call"][-1]["text"]


def codex_truth():
    with open(os.path.join(FOLDER, "codex", "truth.json")) as f:
        t = json.load(f)
    calls = []
    for c in t["model_calls"]:
        said = list(of_items(c["output"]))
        text = "".join(m[1] for m in said)
        given = list(of_items(t["input_of_last_call"][: c["messages_in_request"]]))
        calls.append((text, [call for m in said for call in m[2]], given))
    return calls, t["input_of_last_call"][0]["content"][0]["text"]


def with_sub_agent(folder):
    """Writes a session of Claude Code with a sub-agent, and returns the truth about the sub-agent's calls."""
    made = []

    def line(agent, kind, **more):
        number = len(made)
        made.append((agent, {
            "parentUuid": f"u{number - 1}" if number and made[-1][0] == agent else None, "isSidechain": bool(agent), "type": kind,
            "uuid": f"u{number}", "timestamp": f"2026-03-01T22:38:{number:02}.5Z", "sessionId": "s", "version": "2.1.329",
            "cwd": "/home/user/project", "userType": "external", **({"agentId": agent} if agent else {}), **more,
        }))

    def said(agent, identity, *blocks):
        for block in blocks:
            line(agent, "assistant", requestId=f"r-{identity}", message={
                "id": identity, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [block],
                "stop_reason": "tool_use", "usage": {"input_tokens": 7, "output_tokens": 3},
            })

    def asked(agent, content):
        line(agent, "user", message={"role": "user", "content": content})

    def result(call, text):
        return [{"type": "tool_result", "tool_use_id": call, "content": text}]

    look = {"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {"command": "ls"}}
    asked("", "How many files are there?")
    said("", "m1", {"type": "tool_use", "id": "toolu_1", "name": "Agent", "input": {"prompt": "Count the files."}})
    asked("7", "Count the files.")
    said("7", "m2", {"type": "text", "text": "I list them."}, look)
    asked("7", result("toolu_2", "a.txt b.txt"))
    said("7", "m3", {"type": "text", "text": "Two files."})
    asked("", result("toolu_1", "Two files."))
    said("", "m4", {"type": "text", "text": "There are two."})
    for agent, name in ("", "s.jsonl"), ("7", "s/subagents/agent-7.jsonl"):
        path = os.path.join(folder, "projects", "-home-user-project", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.writelines(json.dumps(x) + "\n" for a, x in made if a == agent)
    first = [("user", "Count the files.", [])]
    after = [("assistant", "I list them.", [("toolu_2", None)]), ("tool", "a.txt b.txt", [])]
    return [("I list them.", [("toolu_2", look["input"])], first), ("Two files.", [], first + after)]


# --- the measurement ---


def same_answer(message, text, tools):
    role, said, made = message
    return role in ("assistant", "context") and said.strip() == text.strip() and [c[0] for c in made] == [c[0] for c in tools]


def in_context(calls, conversations, system):
    """Counts the answers that are there, those that stand after what the model was given, message by message, and those
    that are trained."""
    kept = right = trained = 0
    for text, tools, given in calls:
        there = [(m[:i], x[0]) for m in conversations for i, x in enumerate(m) if same_answer(x, text, tools)]
        kept += bool(there)
        right += given is not None and any(parts_of(c, system) == parts_of(given, system) for c, _ in there)
        trained += any(role == "assistant" for _, role in there)
    return kept, right, trained


def measure(truth, conversations):
    calls, system = truth
    sampled = arguments = 0
    for _, tools, _ in calls:
        for call, want in tools:
            if want is None:
                continue
            arguments += 1
            got = {a if isinstance(a, str) else None for m in conversations for _, _, made in m for c, a in made if c == call}
            # Claude Code keeps arguments as JSON values: nobody can know their spelling, so that text with the value counts.
            same = want in got if isinstance(want, str) else any(a and json.loads(a) == want for a in got)
            sampled += same
    prompt = any(has_system(role, text, system) for m in conversations for role, text, _ in m)
    kept, right, trained = in_context(calls, conversations, system)
    return kept, trained, right, len(calls), sampled, arguments, prompt


def row(reader, read, truths):
    """Returns a reader's row of the table, and how many of the calls that it keeps are trained."""
    of_all = [said_by(lambda: measure(truth, conversations_in(os.path.join(FOLDER, SESSIONS[name]), read))) for name, truth in truths.items()]
    good = [m for m in of_all if m]

    def cell(one):
        return ", ".join(one(m) if m else "refused" for m in of_all)

    sampled = f"{sum(m[4] for m in good)} of {sum(m[5] for m in good)}" + ", refused" * (len(good) < len(of_all))
    prompts = [name for name, m in zip(truths, of_all) if m and m[6]]
    with tempfile.TemporaryDirectory() as folder:
        calls = with_sub_agent(folder)
        inner = said_by(lambda: f"{in_context(calls, conversations_in(folder, read), 'no prompt')[1]} of {len(calls)}")
    cells = (reader, cell(lambda m: f"{m[0]} of {m[3]}"), cell(lambda m: f"{m[2]} of {m[3]}"), sampled,
             "both" if len(prompts) == len(truths) else ", ".join(prompts) or "none", inner or "refused")
    return f"| {' | '.join(cells)} |", [(m[1], m[0]) for m in good]


def main():
    venv = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else ".cache/peers")
    python = os.path.join(venv, "bin", "python")
    if ours := sys.argv[2:] == ["ours"]:
        pass
    elif os.path.realpath(sys.prefix) != os.path.realpath(venv):
        if not os.path.exists(python):
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PEERS], check=True)
        os.execv(python, [python, os.path.abspath(__file__), sys.argv[1], venv])
    truths = {"Claude Code": claude_truth(), "Codex": codex_truth()}
    rows = {reader: row(reader, read, truths) for reader, read in READERS.items() if read is nat_go or not ours}
    for line, _ in rows.values():
        print(line, flush=True)
    (a, all_a), (b, all_b) = rows["nat-go"][1]
    print(f"They train {a} of the {all_a} calls and {b} of the {all_b}")


def conversations_in(folder, read):
    return [m for path in sorted(glob.glob(os.path.join(folder, "**", "*.jsonl"), recursive=True)) for m in read(path)]


def said_by(measured):
    try:
        return measured()
    except Exception:  # a peer that can't read a file says so in its own way
        return None


if __name__ == "__main__":
    main()
