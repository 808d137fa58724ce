"""Renders templates with jinja2 under transformers' settings: one {"src", "vars"} a line in, one answer a line out."""
import json
import sys
from datetime import datetime
from functools import lru_cache

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


compiled = lru_cache(maxsize=16)(env.from_string)


def answer(src, variables):
    """What transformers' jinja2 makes of a template and its variables."""
    try:
        v = dict(variables)
        for k in ("messages", "tools", "documents"):
            v.setdefault(k, None)
        v.setdefault("add_generation_prompt", False)
        return {"ok": True, "text": compiled(src).render(**v)}
    except RecursionError:
        return {"ok": False, "error": "RecursionError"}
    except Exception as e:
        return {"ok": False, "error": type(e).__name__, "message": str(e)[:200]}


def main():
    for line in sys.stdin:
        q = json.loads(line)
        print(json.dumps(answer(q["src"], q["vars"])), flush=True)


if __name__ == "__main__":
    main()
