"""Compares the contexts of rows with the raw files that they were made from, without nat-go's readers.

usage: contexts.py RAW ROWS...

RAW holds conversations ({messages, tools}), logged calls ({request, response}, or LiteLLM's payloads), rollouts of
verifiers ({prompt, completion, tool_defs}) or of NeMo Gym ({responses_create_params, response}), spans of OTLP with the
attributes of OpenInference or of OpenTelemetry's GenAI conventions, or such events in logs, one a line; or it is a trajectory
of ATIF, or a session of Codex or Claude Code, whose requests are read as it logged them. A folder holds such files. ROWS are files of the formats messages and trl. It prints one
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


def plain(value):
    """Returns a value of OTLP as one of JSON."""
    kind, v = next(iter(value.items()), (None, None))
    if kind == "arrayValue":
        return [plain(x) for x in v.get("values", [])]
    if kind == "kvlistValue":
        return {x["key"]: plain(x["value"]) for x in v.get("values", [])}
    return int(v) if kind == "intValue" else v


def attributes(span):
    return {a["key"]: plain(a["value"]) for a in span.get("attributes", [])}


def parsed(value):
    return json.loads(value) if isinstance(value, str) else value


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
        given = [{"role": "system", "parts": parsed(flat[key])} for key in ("gen_ai.system_instructions",) if key in flat]
        given += parsed(flat["gen_ai.input.messages"])
        yield parsed(flat.get("gen_ai.tool.definitions", "[]")), list(of_parts(given + parsed(flat["gen_ai.output.messages"])))


def of_events(entries):
    """Yields the calls in logs of older conventions, which have an event for each message and each answer. An answer's event
    has the text that later ones lack beside its calls; results may lack ids, and are in the order of the calls."""
    given, texts = {}, {}
    for entry in entries:
        for record in (r for x in entry["resourceLogs"] for scope in x["scopeLogs"] for r in scope["logRecords"]):
            kind, body = record.get("eventName", ""), plain(record.get("body", {}))
            so_far, due = given.setdefault(record.get("spanId"), ([], []))
            if kind == "gen_ai.choice":
                answer = {"role": "assistant", **body["message"], **{k: body[k] for k in ("tool_calls",) if k in body}}
                texts[json.dumps([c["id"] for c in answer.get("tool_calls", [])])] = answer.get("content")
                yield None, so_far + [answer]
            elif kind.endswith(".message"):
                said = {"role": kind.split(".")[1], **body}
                ids = [c["id"] for c in body.get("tool_calls", [])]
                if said["role"] == "tool":
                    said["tool_call_id"] = body.get("id") or due.pop(0)
                elif ids:
                    due[:] = ids
                    said["content"] = body.get("content") or texts.get(json.dumps(ids))
                so_far.append(said)


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
    for resource in raw.get("resourceSpans", []) + raw.get("resourceLogs", []):
        for scope in resource.get("scopeSpans", []) + resource.get("scopeLogs", []):
            for span in scope.get("spans", []) + scope.get("logRecords", []):
                yield from of_span(span)
    if "resourceSpans" in raw or "resourceLogs" in raw:
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


def of_blocks(m):
    """Returns the messages that one of Anthropic's amounts to: each result of a tool is one."""
    blocks = m["content"] if isinstance(m["content"], list) else [{"type": "text", "text": m["content"]}]
    said = {"role": m["role"], "content": "\n".join(b["text"] for b in blocks if b["type"] == "text"), "tool_calls": [
        {"id": b["id"], "name": b["name"], "arguments": b["input"]} for b in blocks if b["type"] == "tool_use"],
        "thinking": "\n".join(b["thinking"] for b in blocks if b["type"] == "thinking")}
    results = [{"role": "tool", "content": text(b["content"], "\n"), "tool_call_id": b["tool_use_id"]} for b in blocks if b["type"] == "tool_result"]
    return results + [said] if said["content"] or not results else results


def of_requests(entries):
    """Yields the calls of a session of Claude Code, from the requests that it logged. They name messages by hashes; an
    answer's hash is in the next request and nowhere else."""
    shapes, sent, requests, answers, answered = {}, {}, {}, {}, None
    for e in entries:
        if e["type"] == "api-request-shape":
            shapes[e["shapeHash"]] = e["shape"]
        elif e["type"] == "api-request-blob":
            sent[e["hash"]] = e["message"]
        elif e["type"] == "api-request":
            for h in e["tail"]:
                sent.setdefault(h, answered)
            given = requests[e["base"]][1][:e["keep"]] if "base" in e else []
            requests[e["id"]] = shapes[e["shapeHash"]], given + [sent[h] for h in e["tail"]]
        elif e["type"] == "assistant" and "requestRef" in e:
            answered = answers.setdefault(e["requestRef"], {"role": "assistant", "content": []})
            answered["content"] += e["message"]["content"]
    for request, answer in answers.items():
        shape, given = requests[request]
        messages = [{"role": "system", "content": text(shape["system"], "\n")}]
        for m in given + [answer]:
            messages += of_blocks(m)
        yield shape["tools"], messages


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
        if any(isinstance(e, dict) and e.get("type") == "api-request" for e in entries):
            recorded.update(context(*one) for one in of_requests(entries))
            continue
        if entries and isinstance(entries[0], dict) and "resourceLogs" in entries[0]:
            recorded.update(context(*one) for one in of_events(entries))
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
