"""Renders templates with jinja2 under transformers' settings: one {"src", "vars"} a line in, one answer a line out."""
import json
import sys
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

sys.set_int_max_str_digits(4300)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(lineno)

    @jinja2.pass_eval_context
    def _support(self, context, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda f: datetime(2026, 1, 2, 3, 4, 5).strftime(f)

for line in sys.stdin:
    q = json.loads(line)
    try:
        v = dict(q["vars"])
        for k in ("messages", "tools", "documents"):
            v.setdefault(k, None)
        v.setdefault("add_generation_prompt", False)
        a = {"ok": True, "text": env.from_string(q["src"]).render(**v)}
    except RecursionError:
        a = {"ok": False, "error": "RecursionError"}
    except Exception as e:
        a = {"ok": False, "error": type(e).__name__, "message": str(e)[:200]}
    print(json.dumps(a), flush=True)
