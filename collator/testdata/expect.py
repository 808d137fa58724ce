"""Checks trained texts with jinja2, knowing nothing of how they were found.

stdin: {"name", "template", "conversations": [{"messages", "tools", "trained": {"<message>": text}}]}
stdout: {"checked": n, "wrong": [[conversation, message, expected, got], ...]}

A turn's text is what the render of the conversation up to it has beyond what the model was given. The marks of each
template's turns are written down here by hand.
"""
import datetime
import json
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
env.filters["tojson"] = lambda x, indent=None, **_: json.dumps(x, ensure_ascii=False, indent=indent)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda f: datetime.datetime(2026, 1, 2, 3, 4, 5).strftime(f)

# template: (what ends a turn, the empty think block it puts into one)
MARKS = {
    "qwen3": (["<|im_end|>"], "<think>\n\n</think>\n\n"),
    "qwen3_5_think": (["<|im_end|>"], "\n</think>\n\n"),
    "gptoss": (["<|return|>", "<|call|>"], ""),
    "glm4moe": ([], "\n<think></think>"),
    "nemotron_3_nano": (["<|im_end|>"], ""),
    "llama3_1": (["<|eot_id|>"], ""),
    "gemma3": (["<end_of_turn>"], ""),
    "qwen2_5": (["<|im_end|>"], ""),
}

q = json.load(sys.stdin)
template = env.from_string(q["template"])
ends, filler = MARKS[q["name"]]


def render(messages, tools, prompt, **kw):
    return template.render(messages=messages, tools=tools, documents=None, add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>", **kw)


def normalised(m):
    m = dict(m)
    if m.get("content") is None:
        m["content"] = ""
    if m.get("tool_calls"):
        m["tool_calls"] = [dict(c, function=dict(c["function"], arguments=json.loads(c["function"]["arguments"]))) for c in m["tool_calls"]]
    else:
        m.pop("tool_calls", None)
    return m


def expected(messages, tools, i):
    for kw in ({}, {"enable_thinking": False}):
        given = render(messages[:i], tools, True, **kw)
        full = render(messages[: i + 1], tools, False, **kw)
        if full.startswith(given):
            text = full[len(given):]
            break
    else:
        prompt = given[len(render(messages[:i], tools, False, **kw)):]
        text = after(full, prompt, messages[i])
    if filler and text.startswith(filler):
        text = text[len(filler):]
    cuts = [text.rindex(e) + len(e) for e in ends if e in text]
    return text[: max(cuts)] if cuts else text


def after(full, prompt, message):
    """The last turn, where the past reads otherwise than it did: gpt-oss closes a turn's reasoning and opens it again."""
    text = full.split(prompt)
    n = 2 if message.get("tool_calls") and message.get("content") else 1
    return prompt.join(text[-n:])


checked, wrong = 0, []
for k, c in enumerate(q["conversations"]):
    messages = [normalised(m) for m in c["messages"]]
    for i, got in c["trained"].items():
        want = expected(messages, c["tools"], int(i))
        if not ends:  # the next turn's header ends this one, where there is a next
            for e in ("<|user|>", "<|observation|>"):
                got = got.removesuffix(e)
        checked += 1
        if want != got:
            wrong.append([k, int(i), want, got])
print(json.dumps({"checked": checked, "wrong": wrong[:20], "wrongs": len(wrong)}))
