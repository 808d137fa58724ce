"""Compares the contexts of rows with the raw files that they were made from, without nat-go's readers.

usage: contexts.py RAW ROWS...

RAW holds conversations ({messages, tools}), logged calls ({request, response}, or LiteLLM's payloads), or rollouts of
verifiers ({prompt, completion, tool_defs}), one a line. ROWS are files of the formats messages and trl. It prints one
JSON object: how many calls the raw file has, how many turns the rows train, and which of those follow something that
no call followed.
"""
import json
import sys


def text(content):
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
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


def calls(raw):
    """Yields (tools, messages up to and including a turn) of every call of the model that was answered."""
    if "response" in raw and "choices" not in (raw["response"] or {}):
        return
    if "request" in raw:
        yield raw["request"].get("tools"), raw["request"]["messages"] + [raw["response"]["choices"][0]["message"]]
    elif "litellm_call_id" in raw:
        yield raw["model_parameters"].get("tools"), raw["messages"] + [raw["response"]["choices"][0]["message"]]
    else:
        messages = raw["messages"] if "messages" in raw else raw["prompt"] + raw["completion"]
        for i, m in enumerate(messages):
            if m["role"] == "assistant":
                yield raw.get("tools") or raw.get("tool_defs"), messages[:i + 1]


def turns(row):
    """Yields the same for every turn that a row trains."""
    if "completion" in row:
        yield row.get("tools"), row["prompt"] + row["completion"]
        return
    for i, m in enumerate(row["messages"]):
        if m["role"] == "assistant":
            yield row.get("tools"), row["messages"][:i + 1]


def lines(path):
    with open(path, encoding="utf-8") as f:
        yield from (json.loads(line) for line in f if line.strip())


def main(raw, *files):
    recorded, trained, foreign = set(), 0, []
    for entry in lines(raw):
        recorded.update(context(*one) for one in calls(entry))
    for path in files:
        for n, row in enumerate(lines(path), 1):
            for one in turns(row):
                trained += 1
                if context(*one) not in recorded:
                    foreign.append(f"{path}:{n}: {one[1][-1]}"[:300])
    print(json.dumps({"calls": len(recorded), "trained": trained, "foreign": foreign}))


main(*sys.argv[1:])
