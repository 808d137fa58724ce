"""Writes random templates over a grammar of the whole language, each with jinja2's answer under transformers' settings.

    fuzz.py OUT [N] [SEED]

OUT gets fuzz-SEED.jsonl in the format of extract.py, N cases (20,000). The grammar asks for what is rare in chat templates as
often as for what is common: every filter, test, method and operator with arguments of every type, scoping, Markup, iterators.
What Python prints differently every time (addresses, sets) is left out and counted on stderr.
"""
import json
import random
import re
import signal
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "testdata"))
import oracle  # noqa: E402

VARIABLES = json.loads(r'''{"s": "Hello World", "e": "", "u": "Stra\u00dfe \u0130\u03a3 \ud83d\ude00\u00a0x", "ws": "  a b\tc\n\nd  ",
"html": "<a href='x'>\"&amp;\"</a>", "n": 42, "neg": -7, "z": 0, "f": 3.14159, "g": 1e20, "h": 2.5, "t": true, "nil": null,
"l": [3, 1, 2], "el": [], "ll": [[1, 2], [3, 4]], "ls": ["b", "A", "c", "a"], "mix": [1, "a", null, 2.5, true],
"d": {"b": 1, "A": 2, "c": [1, {"x": null}]}, "ed": {}, "num": "12", "fl": " 1.50 ", "lines": "one\ntwo\r\nthree\n\n  four",
"ld": [{"k": "b", "v": 1}, {"k": "a", "v": 2}, {"k": "B", "v": null}, {"v": 3}],
"prose": "The quick brown-fox jumps -- over the lazy dog's well-known back. supercalifragilistic",
"messages": [{"role": "system", "content": "Be exact."}, {"role": "user", "content": "  Hi\nthere "},
{"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f",
"arguments": {"city": "Z\u00fcrich \"x\"", "n": 1.0, "deep": {"k": [1, "\n"]}}}}]}, {"role": "tool", "content": "ok <b>"},
{"role": "assistant", "content": "It's done."}]}''')

TEXTS = ["''", "'a'", "' b '", '"it\'s"', "'<|im_start|>'", r"'\n'", "'1'", "'-3.5'", "'%s'", "'%d %r'", "'{}'", "'{0!r:>5}'", "'a,b,,c'", "'Aa Bb'",
         "'x-y'", "'\\té'", "'0x1f'", "'1e3'", "'<b>&'", "'ab' * 3", "'A\\u0301ﬃ'"]
NAMES = list(VARIABLES) + ["undefd"]
ATOMS = ["1", "0", "-1", "2", "3", "7", "2.5", "-0.5", "0.0", "1e3", "10**20", "true", "false", "none", "[]", "{}", "()", "[1, 2]", "(1, 2)", "{'a': 1}",
         "{'a': 1, 'b': {'c': 'x'}}", "[1, 'a', none]", "['b', 'a']", "(1,)", "range(3)", "range(5, 0, -2)", "'x'|safe", "'<'|e", "html|e", "u|safe",
         "l|map('string')", "ls|select", "d.items()", "d.keys()", "d.values()", "d|items", "namespace(a=1)", "cycler(1, 2)", "joiner()", "dict(a=1)",
         "ls|batch(2)", "l|reverse", "s|reverse", "ld|groupby('k')"]
FILTERS = """abs attr batch capitalize center count d default dictsort e escape filesizeformat first float forceescape format groupby indent int items
join last length list lower map max min pprint reject rejectattr replace reverse round safe select selectattr slice sort string striptags sum title
tojson trim truncate unique upper urlencode urlize wordcount wordwrap xmlattr""".split()
FILTER_NAMES = ["default", "upper", "length", "string", "int", "first", "e", "trim", "nosuch", "list", "abs", "tojson"]
TESTS = """boolean callable defined divisibleby eq equalto escaped even false filter float ge greaterthan gt in integer iterable le lessthan lower lt
mapping ne none number odd sameas sequence string test true undefined upper""".split()
METHODS = {
    "s": """capitalize casefold center count endswith expandtabs find format format_map index isalnum isalpha isascii isdecimal isdigit
isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind rindex rjust
rpartition rsplit rstrip split splitlines startswith strip swapcase title upper zfill unescape striptags escape""".split(),
    "n": "bit_length bit_count conjugate real imag numerator denominator as_integer_ratio is_integer hex".split(),
    "l": "append copy count index pop sort extend".split(),
    "d": "copy fromkeys get items keys pop setdefault update values".split(),
}
KEYWORDS = """attribute default case_sensitive reverse by width first blank length killwords end leeway precision method indent sort_keys linecount
fill_with slices d start boolean default_value old new count chars base name sep maxsplit keepends tabsize caller a b""".split()
OPERATORS = ["+", "+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


class Grammar:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.depth, self.names, self.blocks, self.loops = 0, ["x", "y", "ns.a", "ns.b", "ns"], 0, 0

    def pick(self, *of):
        return self.r.choice(of)

    def chance(self, p):
        return self.r.random() < p

    def text(self):
        return self.r.choice(TEXTS + ["s", "u", "ws", "html", "num", "fl", "lines", "prose", "e", "messages[1].content"])

    def atom(self):
        k = self.r.randint(0, 9)
        if k < 3:
            return self.text()
        if k < 6:
            return self.r.choice(NAMES)
        if k < 7:
            return self.r.choice(self.names)
        if k < 8 and self.loops:
            return self.pick("loop.index", "loop.index0", "loop.first", "loop.last", "loop.length", "loop.revindex", "loop.previtem", "loop.nextitem",
                             "loop.cycle('a', 'b')", "loop.changed(m)", "loop.depth", "m", "i", "k")
        return self.r.choice(ATOMS)

    def arguments(self, d, most=2):
        out = [self.expr(d - 1) for _ in range(self.r.choice([0, 0, 1, 1, 1, 2][:most * 2 + 2]))]
        if self.chance(0.15):
            out.append(self.r.choice(KEYWORDS) + "=" + self.expr(d - 1))
        if self.chance(0.02):
            out.append(self.pick("*l", "*ls", "**ed", "**dict(a=1)", "*()"))
        return ", ".join(out)

    def filter(self, d):
        f = self.r.choice(FILTERS)
        special = {
            "default": lambda: self.pick("", f"({self.expr(d - 1)})", f"({self.expr(d - 1)}, true)"),
            "map": lambda: self.pick(f"('{self.r.choice(FILTER_NAMES)}')", "(attribute='k')", "(attribute='k', default='-')", "('default', 'x')", "(attribute=0)"),
            "select": lambda: self.pick("", f"('{self.r.choice(TESTS)}')", f"('{self.r.choice(TESTS)}', {self.atom()})", "('nosuch')"),
            "selectattr": lambda: self.pick("('k')", "('v', 'none')", "('k', 'equalto', 'b')", "('v', 'gt', 1)", "('role', 'in', ['user'])"),
            "tojson": lambda: self.pick("", "", "(indent=2)", "(ensure_ascii=true)", "(sort_keys=true)", "(separators=(',', ':'))", "(2)", "(indent='--')"),
            "sort": lambda: self.pick("", "(reverse=true)", "(attribute='k')", "(case_sensitive=true)", "(attribute='v,k')", "(true, true)"),
            "groupby": lambda: self.pick("('k')", "('v', default=0)", "('role')", "(0)", "('k', case_sensitive=true)"),
            "join": lambda: self.pick("", "(',')", "(', ', attribute='k')", f"({self.text()})"),
            "replace": lambda: self.pick("('a', 'b')", "('', '-')", "('l', 'L', 1)", f"({self.text()}, {self.text()})", "('<', '&')"),
            "round": lambda: self.pick("", "(1)", "(2, 'floor')", "(0, 'ceil')", "(-1)", "(method='x')"),
            "indent": lambda: self.pick("", "(2)", "(2, true)", "('> ')", "(1, blank=true)"),
            "wordwrap": lambda: self.pick("", "(5)", "(10, false)", "(7, wrapstring='|')", "(6, break_on_hyphens=false)", "(1)", "(3, false, '/', false)"),
            "truncate": lambda: self.pick("", "(5)", "(5, true)", "(6, false, '..')", "(4, leeway=0)", "(5, true, '', 0)"),
            "int": lambda: self.pick("", "(7)", "(base=16)", "(0, 2)", "(none)"),
            "center": lambda: self.pick("", "(9)", "(20)"),
            "batch": lambda: self.pick("(2)", "(2, '-')", "(0)", "(2.0)"),
            "slice": lambda: self.pick("(2)", "(3, '-')", "(1)", "(0)"),
            "urlize": lambda: self.pick("", "(5)", "(nofollow=true)", "(target='_top')", "(rel='x')"),
        }
        special["d"], special["reject"], special["rejectattr"] = special["default"], special["select"], special["selectattr"]
        special["min"] = special["max"] = lambda: self.pick("", "", "(attribute='v')", "(true)")
        special["sum"] = lambda: self.pick("", "", "(attribute='v')", "(start=1)", "(start=[])")
        special["unique"] = lambda: self.pick("", "", "(attribute='k')", "(true)")
        special["dictsort"] = lambda: self.pick("", "", "(true)", "(by='value')", "(reverse=true)")
        special["format"] = lambda: self.pick("", f"({self.atom()})", f"({self.atom()}, {self.atom()})", f"(a={self.atom()})")
        if f in special and self.chance(0.85):
            return f + special[f]()
        return f + (f"({self.arguments(d)})" if self.chance(0.3) else "")

    def method(self, d):
        kind = self.r.choice("sssssnld")
        of = {"s": self.text, "n": lambda: self.pick("n", "f", "t", "neg", "3", "2.5", "h", "g", "(10**20)"),
              "l": lambda: self.pick("l", "ls", "mix", "(1, 2)", "ll", "range(4)"), "d": lambda: self.pick("d", "ed", "{'a': 1}", "messages[0]")}[kind]()
        m = self.r.choice(METHODS[kind])
        special = {"format": lambda: f"({self.atom()}, {self.atom()}, a={self.atom()})", "join": lambda: f"({self.pick('ls', 'l', 's', 'd', 'mix', '[html, s]')})",
                   "replace": lambda: self.pick("('l', 'L')", "('', '-')", "('a', 'b', 1)"), "split": lambda: self.pick("()", "(' ')", "(none, 1)", "('l', 1)", "(sep='a')"),
                   "rsplit": lambda: self.pick("()", "(' ')", "(none, 1)", "('l', 1)"), "get": lambda: self.pick("('b')", "('x', 1)", "('role')", "(1)"),
                   "startswith": lambda: self.pick("('H')", "(('a', 'H'))", "('e', 1)", "('H', 0, 1)"), "endswith": lambda: self.pick("('d')", "('l', 0, -1)", "(('d', 'x'))"),
                   "center": lambda: self.pick("(20)", "(20, '*')", "(15, '')"), "zfill": lambda: self.pick("(5)", "(20)", "()"),
                   "strip": lambda: self.pick("()", "('Hd')", "(none)"), "find": lambda: self.pick("('l')", "('l', 4)", "('', 2)", "('l', -3, -1)"),
                   "count": lambda: self.pick("('l')", "('')", "(1)"), "index": lambda: self.pick("('l')", "(1)", "('b')", "(1, 1)")}
        for same, as_ in (("lstrip", "strip"), ("rstrip", "strip"), ("ljust", "center"), ("rjust", "center"), ("rfind", "find"), ("rindex", "index")):
            special[same] = special[as_]
        if kind == "s" and self.chance(0.2):
            of = f"({of})" + self.pick("|safe", "|e", "|upper")
            of = f"({of})"
        else:
            of = f"({of})"
        if kind == "n" and m in ("real", "imag", "numerator", "denominator"):
            return f"{of}.{m}"
        if m in special and self.chance(0.8):
            return f"{of}.{m}{special[m]()}"
        return f"{of}.{m}" + (f"({self.arguments(d)})" if self.chance(0.3) else "()")

    def test(self, d):
        t = self.r.choice(TESTS + ["defined", "none", "string", "mapping"])
        arg = ""
        if t in ("divisibleby", "eq", "equalto", "ge", "greaterthan", "gt", "in", "le", "lessthan", "lt", "ne", "sameas") or self.chance(0.03):
            arg = f"({self.expr(d - 1)})" if self.chance(0.7) else " " + self.pick("1", "'a'", "l", "none", "2.5", "[1, 2]", "s")
        return self.pick("is ", "is ", "is not ") + t + arg

    def slice(self):
        part = lambda: self.pick("", "", "1", "-1", "2", "0", "n", "-3", "10", "none", "z")
        return f"[{part()}:{part()}]" if self.chance(0.7) else f"[{part()}:{part()}:{self.pick('', '-1', '2', '-2', '1')}]"

    def expr(self, d):
        if d <= 0:
            return self.atom()
        k, e = self.r.randint(0, 19), lambda: self.expr(d - 1)
        if k < 4:
            return f"({e()} {self.r.choice(OPERATORS)} {e()})"
        if k < 8:
            return f"({e()})|{self.filter(d)}" if self.chance(0.6) else f"{self.atom()}|{self.filter(d)}"
        if k < 11:
            return self.method(d)
        if k < 12:
            return f"({self.text()})" + self.pick("[0]", "[-1]", self.slice(), self.slice(), "['upper']", ".nosuch", "[1.0]", "[none]", "['x'|safe]")
        if k < 13:
            return f"({e()})" + self.pick(self.slice(), "[0]", "['a']", ".a", ".b", "[1]", ".items()", "[e]", "['__class__']", ".__class__", "[true]", ".k.v")
        if k < 15:
            return f"({e()} {self.test(d)})"
        if k < 16:
            return f"({e()} if {e()}" + (f" else {e()})" if self.chance(0.8) else ")")
        if k < 17:
            return self.pick("not ", "-", "+", "- -") + f"({e()})"
        if k < 18:
            return self.pick(f"[{e()}, {e()}]", f"({e()}, {e()})", f"{{'a': {e()}, {self.atom()}: {e()}}}", f"dict(a={e()})", f"({e()},)")
        if k < 19:
            return self.pick(f"mac({e()})", f"mac({e()}, b={e()})", f"mac2({self.arguments(d)})", "mac", "mac.name", "mac.arguments", f"mac3({e()})", f"range({self.pick('3', 'n', '1, 9, 2', 'z')})",
                             "cycler('a', 'b').next()", "joiner('; ')()", "dict(d, z=1)", "dict([('a', 1)])", "namespace(d).b", "lipsum", "strftime_now('%Y-%m-%d')", "self.b0()")
        return e()

    def space(self):
        return self.pick("", "", "", " ", "\n", "  \n  ", "\n\n", "\t", "\r\n")

    def tag(self, s):
        return self.space() + self.pick("{%", "{%", "{%-", "{%+") + " " + s + " " + self.pick("%}", "%}", "-%}", "+%}") + self.space()

    def body(self):
        self.depth += 1
        out = "".join(self.statement() for _ in range(self.r.randint(1, 3)))
        self.depth -= 1
        return out

    def statement(self):
        k = self.r.randint(0, 22)
        if self.depth > 3:
            k = self.r.randint(0, 6)
        if k < 2:
            return self.pick("text", "<|im_end|>\n", " \n", "x\n  y", "{# note #}", "{#- note -#}", "é", "{% raw %}{{ x }}{% endraw %}", "{{ '{{' }}", "\n")
        if k < 7:
            return self.space() + self.pick("{{ ", "{{- ") + self.expr(self.r.randint(0, 3)) + self.pick(" }}", " -}}") + self.space()
        if k < 10:
            return self.tag("set " + self.pick("x", "y", "z", "ns.a", "ns.b", "m", "x, y", "ns.a, x") + " = " + self.expr(2))
        if k < 13:
            out = self.tag("if " + self.expr(2)) + self.body()
            if self.chance(0.3):
                out += self.tag("elif " + self.expr(1)) + self.body()
            if self.chance(0.5):
                out += self.tag("else") + self.body()
            return out + self.tag("endif")
        if k < 17:
            self.loops += 1
            out = self.tag("for " + self.pick("m in messages", "m in messages[::-1]", "i in l", "k, v in d.items()", "k, v in d|items", "i in range(3)", "m in s[:3]",
                                              "m in messages if m.content", "i in l if i > 1", "x in undefd", "m in ls recursive", f"i in {self.expr(2)}", "i, k in ll",
                                              "i in l if loop.first", "m in ld|groupby('k')", "(i, k) in [(1, 2)]", "i in [x, y]"))
            out += self.body()
            if self.chance(0.25):
                out += self.tag("if " + self.expr(1)) + self.tag(self.pick("break", "continue")) + self.tag("endif") + self.body()
            self.loops -= 1
            if self.chance(0.2):
                out += self.tag("else") + self.body()
            return out + self.tag("endfor")
        if k == 17:
            return self.tag("set x" + self.pick("", "", " | upper", " | trim | e", " | length")) + self.body() + self.tag("endset")
        if k == 18:
            return self.tag("filter " + self.filter(1) + self.pick("", "", " | upper")) + self.body() + self.tag("endfilter")
        if k == 19:
            return self.tag("with " + self.pick("x = ", "x = 1, y = ", "") .rstrip() + (" " + self.expr(1) if self.chance(0) else "")) + self.body() + self.tag("endwith") if self.chance(0.2) else \
                self.tag("with x = " + self.expr(1) + self.pick("", ", y = x")) + self.body() + self.tag("endwith")
        if k == 20:
            return self.tag("macro " + self.pick("mac3", "mac4") + self.pick("()", "(a)", "(a, b=1)", "(a=x, b=none)", "(a, *b)"[:3] + ")")) + self.pick("", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}") + self.body() + self.tag("endmacro")
        if k == 21:
            return self.tag("call" + self.pick("", "(a)", "(a, b=2)") + " " + self.pick("mac", "mac2", "mac5") + "(" + self.pick("1", "s", "") + ")") + self.body() + self.tag("endcall")
        if self.chance(0.5):
            self.blocks += 1
            name = f"b{self.blocks - 1}"
            return self.tag(f"block {name}" + self.pick("", "", " scoped")) + self.body() + self.tag("endblock" + self.pick("", " " + name))
        if self.chance(0.4):
            return self.tag("autoescape " + self.pick("true", "false", "x", "n", "t")) + self.body() + self.tag("endautoescape")
        return self.tag("generation") + self.body() + self.tag("endgeneration")

    def template(self):
        if self.chance(0.4):  # one expression alone, so that one error does not hide the rest
            return "{{ " + self.expr(self.r.randint(1, 3)) + " }}"
        return ("{% set ns = namespace(a='', b=0) %}{% set m = messages[1] %}{% macro mac(a, b='B') %}[{{ a }}{{ b }}]{% endmacro %}"
                "{% macro mac2(a) %}{{ a }}{{ varargs }}{% endmacro %}{% macro mac5(a) %}<{{ caller(a) }}>{% endmacro %}"
                + "".join(self.body() for _ in range(self.r.randint(1, 3))))


UNSTABLE = re.compile(r"(?i) at 0x|bound method|built-in|generator.object|0,?.?x,?.?7,?.?[0-9a-f]{2}|<class|0x7f| of str object|method-wrapper|bytes|\bb'|iterator object|0-x-7-f|function-l|n- -l-i-p|lipsum")


class Slow(BaseException):
    pass


def slow(*_):
    raise Slow


def main():
    out, n, seed = sys.argv[1], int((sys.argv[2:] or [20000])[0]), int((sys.argv[3:] or [1])[0])
    Path(out).mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGALRM, slow)
    written, left_out, i, failed = 0, 0, 0, 0
    with open(Path(out) / f"fuzz-{seed}.jsonl", "w") as f:
        while written < n:
            i += 1
            src = Grammar(f"{seed} {i}").template()
            signal.alarm(10)
            try:
                a = oracle.answer(src, json.loads(json.dumps(VARIABLES)))
            except Slow:
                left_out += 1
                continue
            finally:
                signal.alarm(0)
            if UNSTABLE.search(a.get("text", "")) or len(a.get("text", "")) > 200_000 or "random" in src or a.get("error") == "MemoryError":
                left_out += 1
                continue
            if not a["ok"] and i % 4:  # most random expressions fail, and one failure is much like another
                continue
            case = {"name": str(i), "src": src, **({} if written else {"vars": VARIABLES}), **a}
            f.write(json.dumps(case) + "\n")
            written += 1
            failed += not a["ok"]
    print(f"fuzz-{seed}: {written} cases, {failed} of them failures; left out: {left_out} slow or different every time", file=sys.stderr)


if __name__ == "__main__":
    main()
