"""Compares the contexts of rows with the raw files that they were made from, without nat-go's readers.

usage: contexts.py RAW ROWS...

RAW holds conversations ({messages, tools}), logged calls ({request, response}, or LiteLLM's payloads), rollouts of
verifiers ({prompt, completion, tool_defs}) or of NeMo Gym ({responses_create_params, response}), spans of OTLP with the
attributes of OpenInference or of OpenTelemetry's GenAI conventions, one a line; or it is a trajectory of ATIF, or a
session of Codex. A folder holds such files. ROWS are files of the formats messages and trl. It prints one
JSON object: how many calls the raw file has, how many turns the rows train, and which of those follow something that
no call followed.
"""
import glob
import json
import os
import sys


def text(content, between=""):
    if isinstance(content, list):
        return between.join(part.get("text", "") for part in content)
    return content or ""


def call(made):
    if isinstance(made, str):  # verifiers stores calls as text
        made = json.loads(made)
    function = made.get("function") or made
    arguments = function["arguments"]
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            pass
    return [made.get("id"), function["name"], arguments]


def message(m):
    reasoning = next((m[key] for key in ("reasoning_content", "reasoning", "thinking") if m.get(key)), None)
    return [m["role"], text(m.get("content")), reasoning, m.get("tool_call_id"),
            [call(made) for made in m.get("tool_calls") or []]]


def context(tools, messages):
    names = [(tool.get("function") or tool)["name"] for tool in tools or []]
    return json.dumps([names, [message(m) for m in messages]], sort_keys=True)


def of_items(items, summaries=True):
    """Returns the items of OpenAI's Responses API as messages: what the model says in a row is one turn."""
    messages = []

    def turn():
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": "", "tool_calls": []})
        return messages[-1]

    for item in items:
        kind = item.get("type") or "message"
        if kind == "message" and item["role"] != "assistant":
            messages.append({"role": item["role"].replace("developer", "system"), "content": text(item["content"], "\n")})
        elif kind == "message":
            if messages and messages[-1]["role"] == "assistant" and (messages[-1]["content"] or messages[-1]["tool_calls"]):
                messages.append({"role": "assistant", "content": "", "tool_calls": []})
            turn()["content"] += text(item["content"], "\n")
        elif kind == "reasoning":
            thought = "\n".join(part["text"] for part in item.get("content") or summaries and item.get("summary") or [])
            messages.append({"role": "assistant", "content": "", "tool_calls": [], "reasoning": thought or None})
        elif kind in ("function_call", "custom_tool_call"):
            arguments = item["arguments"] if "arguments" in item else {"input": item["input"]}
            turn()["tool_calls"].append({"id": item["call_id"], "name": item["name"], "arguments": arguments})
        elif kind in ("function_call_output", "custom_tool_call_output"):
            messages.append({"role": "tool", "content": item["output"], "tool_call_id": item["call_id"]})
    return messages


def of_steps(trajectory):
    """Returns the steps of an ATIF trajectory as messages."""
    messages = []
    for step in trajectory["steps"]:
        role = {"agent": "assistant"}.get(step["source"], step["source"])
        messages.append({"role": role, "content": step.get("message"), "reasoning": step.get("reasoning_content"), "tool_calls": [
            {"id": c["tool_call_id"], "name": c["function_name"], "arguments": c["arguments"]} for c in step.get("tool_calls") or []]})
        for result in (step.get("observation") or {}).get("results", []):
            messages.append({"role": "tool", "content": result.get("content"), "tool_call_id": result.get("source_call_id")})
    return messages


def attributes(span):
    return {a["key"]: next(iter(a["value"].values()), None) for a in span.get("attributes", [])}


def nested(flat, prefix):
    """Returns the list under a prefix of flattened attributes: PREFIX.0.message.role and the like."""
    out = {}
    for key, value in flat.items():
        if key.startswith(prefix + "."):
            at = out
            *path, last = key[len(prefix) + 1:].split(".")
            for part in path:
                at = at.setdefault(part, {})
            at[last] = value
    return [out[k] for k in sorted(out, key=int)]


def of_inference(flat, prefix):
    """Returns messages as OpenInference flattens them."""
    for wrapped in nested(flat, prefix):
        m = wrapped["message"]
        made = m.get("tool_calls") or {}
        yield {"role": m["role"], "content": m.get("content") or "".join(
            m["contents"][k]["message_content"]["text"] for k in sorted(m.get("contents") or {}, key=int)),
            "tool_call_id": m.get("tool_call_id"), "tool_calls": [
                {"id": c["tool_call"].get("id"), **c["tool_call"]["function"]} for _, c in sorted(made.items(), key=lambda x: int(x[0]))]}


def of_parts(messages):
    """Returns messages in the parts of OpenTelemetry's GenAI conventions."""
    for m in messages:
        said = {"role": m["role"], "content": "", "tool_calls": []}
        for part in m["parts"]:
            if part["type"] == "text":
                said["content"] += part["content"]
            elif part["type"] == "tool_call":
                said["tool_calls"].append(part)
            elif part["type"] == "tool_call_response":
                said["tool_call_id"], answer = part["id"], part.get("response", part.get("result"))
                said["content"] = answer if isinstance(answer, str) else json.dumps(answer)
        yield said


def of_span(span):
    flat = attributes(span)
    if "llm.output_messages.0.message.role" in flat:
        tools = [json.loads(t["tool"]["json_schema"]) for t in nested(flat, "llm.tools")]
        answer = list(of_inference(flat, "llm.output_messages"))
        yield tools, [*of_inference(flat, "llm.input_messages"), *answer]
    elif "gen_ai.output.messages" in flat:
        given = [{"role": "system", "parts": json.loads(flat[key])} for key in ("gen_ai.system_instructions",) if key in flat]
        given += json.loads(flat["gen_ai.input.messages"])
        yield json.loads(flat.get("gen_ai.tool.definitions", "[]")), list(of_parts(given + json.loads(flat["gen_ai.output.messages"])))


def each_turn(tools, messages):
    for i, m in enumerate(messages):
        if m["role"] == "assistant":
            yield tools, messages[:i + 1]


def calls(raw):
    """Yields (tools, messages up to and including a turn) of every call of the model that was answered."""
    if isinstance(raw, list):
        for one in raw:
            yield from calls(one)
        return
    trajectory = raw["trajectory"] if isinstance(raw.get("trajectory"), dict) else raw
    if "steps" in trajectory:
        yield from each_turn(trajectory["agent"].get("tool_definitions"), of_steps(trajectory))
        return
    if "responses_create_params" in raw:
        asked = raw["responses_create_params"]
        given = [{"type": "message", "role": "user", "content": asked["input"]}] if isinstance(asked["input"], str) else asked["input"]
        yield from each_turn(asked.get("tools"), of_items(given + raw["response"]["output"]))
        return
    if "resourceSpans" in raw:
        for resource in raw["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    yield from of_span(span)
        return
    if "response" in raw and "choices" not in (raw["response"] or {}):
        return
    if "request" in raw:
        yield raw["request"].get("tools"), raw["request"]["messages"] + [raw["response"]["choices"][0]["message"]]
    elif "litellm_call_id" in raw:
        yield raw["model_parameters"].get("tools"), raw["messages"] + [raw["response"]["choices"][0]["message"]]
    else:
        messages = raw["messages"] if "messages" in raw else raw["prompt"] + raw["completion"]
        yield from each_turn(raw.get("tools") or raw.get("tool_defs"), messages)


def turns(row):
    """Yields the same for every turn that a row trains."""
    if "completion" in row:
        yield row.get("tools"), row["prompt"] + row["completion"]
        return
    for i, m in enumerate(row["messages"]):
        if m["role"] == "assistant":
            yield row.get("tools"), row["messages"][:i + 1]


def of_session(entries):
    """Returns a session of Codex as messages."""
    meta = next(e["payload"] for e in entries if e["type"] == "session_meta")
    items = [e["payload"] for e in entries if e["type"] == "response_item"]
    return [{"role": "system", "content": meta["base_instructions"]["text"]}, *of_items(items, summaries=False)]


def lines(path):
    with open(path, encoding="utf-8") as f:
        if path.endswith(".json"):
            yield json.load(f)
            return
        yield from (json.loads(line) for line in f if line.strip())


def main(raw, *files):
    recorded, trained, foreign = set(), 0, []
    for path in glob.glob(raw + "/**/*.json*", recursive=True) if os.path.isdir(raw) else [raw]:
        entries = list(lines(path))
        if entries and isinstance(entries[0], dict) and entries[0].get("type") == "session_meta":
            recorded.update(context(*one) for one in each_turn(None, of_session(entries)))
            continue
        for entry in entries:
            recorded.update(context(*one) for one in calls(entry))
    for path in files:
        for n, row in enumerate(lines(path), 1):
            for one in turns(row):
                trained += 1
                if context(*one) not in recorded:
                    foreign.append(f"{path}:{n}: {one[1][-1]}"[:300])
    print(json.dumps({"calls": len(recorded), "trained": trained, "foreign": foreign}))


main(*sys.argv[1:])
