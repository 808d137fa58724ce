"""Chat templates as transformers renders them: jinja2 with its settings. It knows nothing of nat-go."""
import datetime
import json

import jinja2.ext
import jinja2.nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    """{% generation %}: what is within is shown as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        return jinja2.nodes.Scope(parser.parse_statements(["name:endgeneration"], drop_needle=True), lineno=line)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation])
env.filters["tojson"] = lambda x, indent=None, **_: json.dumps(x, ensure_ascii=False, indent=indent)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda f: datetime.datetime(2026, 1, 2, 3, 4, 5).strftime(f)


def normalised(m):
    """A message of an agent trace as templates want it: arguments as objects, content as text, today's form of calls."""
    m = {k: v for k, v in m.items() if v is not None}
    if "function_call" in m:
        m["tool_calls"] = [{"type": "function", "function": m.pop("function_call")}]
    if m["role"] == "function":
        m["role"] = "tool"
    m.setdefault("content", "")
    if m.get("tool_calls"):
        m["tool_calls"] = [dict(c, function=dict(c["function"], arguments=json.loads(c["function"]["arguments"]))) for c in m["tool_calls"]]
    else:
        m.pop("tool_calls", None)
    return m


class Renderer:
    def __init__(self, source):
        self.template = env.from_string(source)

    def __call__(self, messages, tools=None, prompt=False, **kw):
        return self.template.render(messages=messages, tools=tools, documents=None, add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>", **kw)
