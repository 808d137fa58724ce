"""A world of tool calls small enough for a tiny model that is trained from scratch.

A user names a tool and two values. Each kind of tool expects them in one form, and the model habitually writes another:
`{"date": "a-b"}`, where a date has to be `b-a`, an amount `a/b`, and a name `b+a`; a code is right as is. A hint says
how to write a kind. The model has seen hints for all forms, but only for some tools and values: the others are never
hinted, before or during the experiment, and success is measured only on those.
"""

import json
import random
import re

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

RIGHT = {"date": "b-a", "amount": "a/b", "name": "b+a", "code": "a-b"}
HABIT = "a-b"
FAULTY = [kind for kind in RIGHT if RIGHT[kind] != HABIT]
REPAIRS = {"date": 0.9, "amount": 0.9, "name": 0.0}  # how often the model calls again, in the right form, after an error
FORMS = [order.replace("*", separator) for order in ("a*b", "b*a") for separator in "-/+"]
COUNT, SEEN = 8, 5  # of tools and of values, and how many of them are ever hinted
SPECIAL = ["<pad>", "<system>", "<user>", "<assistant>", "<tool>", "<call>", "<end>"]
PIECES = r'write \w+ as | \{"\w+": "|"\}|\{"error": "\w+"\}|\{"ok": true\}|\w+|[^\w]'
TEMPLATE = """\
{%- for m in messages %}
    {{- '<' + m.role + '>' }}
    {%- if m.content is string %}{{ m.content }}{% endif %}
    {%- for call in m.tool_calls or [] %}
        {%- set arguments = call.function.arguments %}
        {{- '<call>' + call.function.name }} {{ arguments if arguments is string else arguments | tojson }}
    {%- endfor %}
    {{- '<end>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif %}
"""


def filled(form, a, b):
    return form.replace("a", "A").replace("b", "B").replace("A", a).replace("B", b)


def hint(kind, form):
    return f"write {kind} as {filled(form, 'first', 'second')}"


def call(task, form):
    kind, tool, a, b = task
    return f'<call>{tool} {{"{kind}": "{filled(form, a, b)}"}}'


def prompt(task, hinted=""):
    _, tool, a, b = task
    return f"<user>{tool} {a} {b}<end>" + (f"<system>{hinted}<end>" if hinted else "") + "<assistant>"


def answer(task, said):
    return '{"ok": true}' if said == call(task, RIGHT[task[0]]) else json.dumps({"error": task[0]})


def result(task, said):
    return f"<tool>{answer(task, said)}<end><assistant>"


def tasks(kind, hintable):
    """All tasks of a kind whose tool and values are all hintable, or all not."""
    numbers = range(SEEN) if hintable else range(SEEN, COUNT)
    return [(kind, f"{kind}{tool}", f"x{a}", f"y{b}") for tool in numbers for a in numbers for b in numbers]


def any_task(rng, numbers):
    kind = rng.choice(list(RIGHT))
    return (kind, *(f"{name}{rng.choice(numbers)}" for name in (kind, "x", "y")))


def episode(rng):
    """An episode for training before the experiment: texts that the model says alternate with others."""
    hinted = rng.random() < 0.5
    task = any_task(rng, range(SEEN if hinted else COUNT))
    kind = about = task[0]
    form = rng.choice(FORMS)
    if hinted and rng.random() < 0.3:
        about = rng.choice([k for k in RIGHT if k != kind])
    out = [prompt(task, hint(about, form) if hinted else "")]
    if not hinted or about != kind:
        form = RIGHT[kind] if rng.random() < 0.15 else HABIT
    said = call(task, form)
    out += [said + "<end>", result(task, said)]
    failed = said != call(task, RIGHT[kind])
    if failed and rng.random() < REPAIRS.get(kind, 0):
        said, failed = call(task, RIGHT[kind]), False
        out += [said + "<end>", result(task, said)]
    return [*out, "failed<end>" if failed else "done<end>"]


def tokenizer():
    rng, pieces = random.Random(0), {}
    for text in [text for _ in range(3000) for text in episode(rng)]:
        for part in re.split("|".join(SPECIAL), text):
            pieces.update(dict.fromkeys(re.findall(PIECES, part)))
    own = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*SPECIAL, *sorted(pieces)])}, unk_token="<pad>"))
    own.pre_tokenizer = pre_tokenizers.Split(Regex(PIECES), "isolated")
    own.decoder = decoders.Fuse()
    own.add_special_tokens(SPECIAL)
    return PreTrainedTokenizerFast(tokenizer_object=own, eos_token="<end>", pad_token="<pad>", chat_template=TEMPLATE)


def trace(number, task, turns):
    """A rollout as the source `traces` reads it; the turns are what the model said."""
    kind, tool, a, b = task
    messages = [{"role": "user", "content": f"{tool} {a} {b}"}]
    for said in turns[:-1]:
        name, arguments = said.removeprefix("<call>").split(" ", 1)
        id = f"c{len(messages)}"
        messages.append({"role": "assistant", "content": None, "tool_calls": [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]})
        messages.append({"role": "tool", "tool_call_id": id, "content": answer(task, said)})
    messages.append({"role": "assistant", "content": turns[-1]})
    return {"id": f"r{number}", "task_id": f"t{number}", "reward": float(turns[-1] == "done"), "model": "student", "messages": messages}
