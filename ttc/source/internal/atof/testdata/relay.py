"""Writes relay.jsonl with the nemo-relay package: a session of an agent with a failing tool, parallel calls, a retry
after an error, a sub-agent, a stream and a mark."""

import asyncio
import sys

import nemo_relay as nr
from nemo_relay import LLMRequest, ScopeType, ToolExecutionResult, llm, scope, tools
from nemo_relay.codecs import OpenAIChatCodec

config = nr.AtofExporterConfig()
config.output_directory, config.filename = sys.argv[1], "relay.jsonl"
config.mode = nr.AtofExporterMode.Overwrite
exporter = nr.AtofExporter(config)
exporter.register("file")

TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"Look up a {name}.", "parameters": {
        "type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}}
    for name in ("train", "weather")
]


def message(text, *calls):
    out = {"role": "assistant", "content": text}
    if calls:
        out["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls
        ]
    return out


def response(n, answer, finish):
    return {"id": f"chatcmpl-{n}", "object": "chat.completion", "created": 1790000000 + n, "model": "model-1",
            "choices": [{"index": 0, "message": answer, "finish_reason": finish}],
            "usage": {"prompt_tokens": 10 * n, "completion_tokens": n}}


async def ask(messages, out, use_tools=True):
    request = {"model": "model-1", "messages": list(messages)}
    if use_tools:
        request["tools"] = TOOLS

    async def call(_):
        if isinstance(out, Exception):
            raise out
        return out
    try:
        await llm.execute("openai", LLMRequest({}, request), call, model_name="model-1",
                          response_codec=OpenAIChatCodec())
    except Exception as err:
        print("llm:", err)
        return
    messages.append(out["choices"][0]["message"])


async def use(messages, call, args, result):
    async def run(_):
        if isinstance(result, Exception):
            raise result
        return ToolExecutionResult(result)
    try:
        await tools.execute(call[1], args, run, tool_call_id=call[0])
    except Exception as err:
        print("tool:", err)
    messages.append({"role": "tool", "tool_call_id": call[0], "content": str(result)})


async def main():
    with scope.scope("planner", ScopeType.Agent, metadata={"session_id": "trip-1"}):
        m = [{"role": "system", "content": "You plan trips."}, {"role": "user", "content": "A trip to Ulm, please."}]
        await ask(m, response(1, message("I look.", ("c1", "train", '{"id": "ulm"}')), "tool_calls"))
        await use(m, ("c1", "train"), {"id": "ulm"}, ValueError("no train is called ulm"))
        await ask(m, ConnectionError("overloaded"))
        await ask(m, response(2, message(None, ("c2", "train", '{ "id":"RE 5" }'),
                                         ("c3", "weather", '{"id": "Ulm\\u0020West"}')), "tool_calls"))
        await use(m, ("c2", "train"), {"id": "RE 5"}, "It leaves at 9:10.")
        await use(m, ("c3", "weather"), {"id": "Ulm West"}, "Rain.")
        with scope.scope("hotels", ScopeType.Agent):
            sub = [{"role": "user", "content": "Find a hotel in Ulm."}]
            await ask(sub, response(3, message("The Lion."), "stop"), use_tools=False)
        await ask(m, response(4, message("Take the RE 5 at 9:10, with a coat; sleep at the Lion."), "stop"))
        scope.event("checkpoint", data={"step": 4})

    async def chunks(_):
        for text in ("Good", "bye."):
            yield {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]}
    with scope.scope("streamer", ScopeType.Agent):
        got = []
        request = LLMRequest({}, {"model": "model-1", "stream": True, "messages": [{"role": "user", "content": "Bye."}]})
        stream = await llm.stream_execute("openai", request, chunks, got.append,
                                    lambda: response(5, message("Goodbye."), "stop"), model_name="model-1")
        async for _ in stream:
            pass


asyncio.run(main())
exporter.force_flush()
exporter.shutdown()
