"""Times what a Python collator does at least: render with jinja2, encode whole texts, and make a mask over the offsets.

stdin: {"template", "tokenizer", "traces", "pairs", "header", "end"}; stdout: seconds of processor time of the best of three passes.
"""
import json
import sys
import time

import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

q = json.load(sys.stdin)
env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
env.filters["tojson"] = lambda x, indent=None, **_: json.dumps(x, ensure_ascii=False, indent=indent)
template = env.from_string(q["template"])
tokenizer = Tokenizer.from_file(q["tokenizer"])


def normalised(m):
    m = dict(m)
    if m.get("content") is None:
        m["content"] = ""
    if m.get("tool_calls"):
        m["tool_calls"] = [dict(c, function=dict(c["function"], arguments=json.loads(c["function"]["arguments"]))) for c in m["tool_calls"]]
    else:
        m.pop("tool_calls", None)
    return m


conversations = [[normalised(m) for m in e["traj"]] for e in json.load(open(q["traces"]))]


def row(messages, only_last=False):
    text = template.render(messages=messages, tools=None, documents=None, add_generation_prompt=False, bos_token="<s>", eos_token="</s>")
    encoding = tokenizer.encode(text, add_special_tokens=False)
    spans, at = [], 0
    while (i := text.find(q["header"], at)) >= 0:
        start = i + len(q["header"])
        at = text.index(q["end"], start) + len(q["end"])
        spans.append((start, at))
    if only_last:
        spans = spans[-1:]
    mask, k = [], 0
    for a, b in encoding.offsets:
        while k < len(spans) and spans[k][1] <= a:
            k += 1
        mask.append(1 if k < len(spans) and b > spans[k][0] else 0)
    return encoding.ids, mask


def demonstrations():
    for c in conversations:
        row(c)


def preferences():
    answers = ["Answer %d: %s" % (k, "I will look into this for you. " * (k + 1)) for k in range(8)]
    for c in conversations[:20]:
        for i in [i for i, m in enumerate(c) if m["role"] == "user"][:5]:
            for a in range(8):
                for b in range(a + 1, 8):
                    for answer in (answers[a], answers[b]):
                        row(c[: i + 1] + [{"role": "assistant", "content": answer}], True)


work = preferences if q["pairs"] else demonstrations
best = 1e9
for _ in range(1 if q["pairs"] else 3):
    start = time.process_time()
    work()
    best = min(best, time.process_time() - start)
print(best)
