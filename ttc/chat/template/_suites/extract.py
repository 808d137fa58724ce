"""Extracts test cases from packages that ship some: (template, variables, answer of jinja2 under transformers' settings).

    extract.py OUT [--jinja2 FOLDER] [--llama FOLDER] [--templates FOLDER]...

--jinja2 is an unpacked source distribution of jinja2: its own tests run, and every template they compile or render is a case.
--llama is vendor/llama.cpp of a source distribution of llama-cpp-python: the cases of tests/test-jinja.cpp and
tests/test-chat-template.cpp. --templates is a folder of *.jinja files, each rendered with random conversations. OUT gets a
file a suite, a case a line; a case without "src" has the one of the line before. What can't be a case is counted on stderr.
"""
import argparse
import json
import os
import random
import re
import signal
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "testdata"))
import oracle  # noqa: E402


class Slow(BaseException):
    pass


def slow(*_):
    raise Slow


class Suite:
    """A file of cases, each once."""

    def __init__(self, out, name):
        self.file = open(Path(out) / (name + ".jsonl"), "w")
        self.name, self.seen, self.count, self.skipped, self.src = name, set(), 0, {}, None

    def skip(self, why):
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def add(self, name, src, variables):
        key = json.dumps([src, variables], sort_keys=True)
        if key in self.seen:
            return
        self.seen.add(key)
        answers = []
        for seed in (1, 2) if "random" in src or "lipsum" in src else (1,):
            random.seed(seed)
            signal.signal(signal.SIGALRM, slow)
            signal.alarm(10)
            try:
                answers.append(oracle.answer(src, json.loads(json.dumps(variables))))
            except Slow:
                return self.skip("jinja2 takes more than 10 s")
            finally:
                signal.alarm(0)
        if answers[0] != answers[-1]:
            return self.skip("another answer every time")
        case = {"name": name, "vars": variables, **answers[0]}
        if src != self.src:
            case, self.src = {"src": src, **case}, src
        self.file.write(json.dumps(case) + "\n")
        self.count += 1

    def close(self):
        self.file.close()
        print(f"{self.name}: {self.count} cases", *(f"; left out: {n} {why}" for why, n in self.skipped.items()), sep="", file=sys.stderr)


def plain(value):
    """The value as JSON has it, or ValueError."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if type(value) is str:
        return value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if type(value) is dict and all(type(k) is str for k in value):
        return {k: plain(v) for k, v in value.items()}
    raise ValueError


def jinja2_suite(folder, suite):
    """Runs jinja2's tests and notes what they compile and render."""
    import jinja2
    import pytest

    rendered, compiled, current = [], [], [""]
    compile_, from_code, new_context = jinja2.Environment.compile, jinja2.Template.from_code.__func__, jinja2.Template.new_context
    sources = {}

    def note_compile(self, source, *args, **kwargs):
        if isinstance(source, str):
            compiled.append((current[0], source))
        code = compile_(self, source, *args, **kwargs)
        if isinstance(source, str) and not isinstance(code, str):
            sources[id(code)] = (code, source)
        return code

    def note_code(cls, environment, code, *args, **kwargs):
        t = from_code(cls, environment, code, *args, **kwargs)
        t.__dict__["source_"] = sources.get(id(code), (None, None))[1]
        return t

    def note_context(self, vars=None, *args, **kwargs):
        if self.__dict__.get("source_") is not None:
            variables = {}
            for k, v in dict(vars or {}).items():
                try:
                    variables[k] = plain(v)
                except ValueError:
                    suite.skip("variables that are not JSON")
            rendered.append((current[0], self.source_, variables))
        return new_context(self, vars, *args, **kwargs)

    class Notes:
        @staticmethod
        def pytest_runtest_setup(item):
            current[0] = item.nodeid

    jinja2.Environment.compile = note_compile
    jinja2.Template.from_code = classmethod(note_code)
    jinja2.Template.new_context = note_context
    here = os.getcwd()
    os.chdir(folder)
    try:
        pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", "-x", "--maxfail=1000", "tests"], plugins=[Notes()])
    finally:
        os.chdir(here)
        jinja2.Environment.compile = compile_
        jinja2.Template.from_code = classmethod(from_code)
        jinja2.Template.new_context = new_context
    for name, src, variables in rendered:
        suite.add(name, src, variables)
    known = {src for _, src, _ in rendered}
    for name, src in compiled:
        if src not in known:
            suite.add(name, src, {})


class Cpp:
    """Reads the arguments of C++ calls: string literals and nlohmann's JSON initialisers."""

    def __init__(self, text, at):
        self.s, self.i = text, at

    def space(self):
        while m := re.compile(r"\s+|//[^\n]*|/\*.*?\*/", re.S).match(self.s, self.i):
            self.i = m.end()

    def eat(self, token):
        self.space()
        if not self.s.startswith(token, self.i):
            return False
        self.i += len(token)
        return True

    def need(self, token):
        if not self.eat(token):
            raise ValueError(f"expected {token!r} at {self.s[self.i:self.i + 60]!r}")

    def string(self):
        self.space()
        out, found = "", False
        while True:
            self.space()
            if m := re.compile(r'(?:u8)?R"([^(\s]*)\((.*?)\)\1"', re.S).match(self.s, self.i):
                out += m[2]
            elif m := re.compile(r'(?:u8)?"((?:\\.|[^"\\\n])*)"', re.S).match(self.s, self.i):
                out += unescape(m[1])
            else:
                break
            self.i, found = m.end(), True
        if not found:
            raise ValueError(f"no string at {self.s[self.i:self.i + 60]!r}")
        return out

    def list(self):
        out = []
        self.need("{")
        while not self.eat("}"):
            out.append(self.value())
            self.eat(",")
        return out

    def value(self):
        self.space()
        if m := re.compile(r"(?:json|common_json|ordered_json)::(object|array)\(\s*").match(self.s, self.i):
            self.i = m.end()
            items = [] if self.s[self.i] == ")" else self.list()
            self.need(")")
            return dict(map(tuple, items)) if m[1] == "object" else items
        if m := re.compile(r"(?:json|common_json|std::string)\(\s*").match(self.s, self.i):
            self.i = m.end()
            v = self.value()
            self.need(")")
            return v
        if self.s[self.i] == "{":
            items = self.list()
            if all(isinstance(x, list) and len(x) == 2 and isinstance(x[0], str) for x in items):
                return dict(map(tuple, items))
            return items
        for word, v in (("true", True), ("false", False), ("nullptr", None)):
            if self.eat(word):
                return v
        if m := re.compile(r"-?\d+(\.\d*)?([eE][-+]?\d+)?").match(self.s, self.i):
            self.i = m.end()
            return float(m[0]) if m[1] or m[2] else int(m[0])
        return self.string()


def unescape(s):
    table = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
    out = bytearray()
    for m in re.finditer(r"\\x([0-9a-fA-F]{1,2})|\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\(.)|([^\\]+)", s, re.S):
        if m[1]:
            out.append(int(m[1], 16))
        elif m[2] or m[3]:
            out += chr(int(m[2] or m[3], 16)).encode()
        else:
            out += (table.get(m[4], m[4]) if m[4] else m[5]).encode()
    return out.decode(errors="replace")


def llama_suite(folder, suite):
    text = (Path(folder) / "tests" / "test-jinja.cpp").read_text()
    for m in re.finditer(r"\btest_template\(t,", text):
        c = Cpp(text, m.end())
        try:
            name = c.string()
            c.need(",")
            src = c.string()
            c.need(",")
            variables = c.value()
        except (ValueError, IndexError):
            suite.skip("written in C++ that is not read here")
            continue
        suite.add("test-jinja: " + name, src, variables or {})
    text = (Path(folder) / "tests" / "test-chat-template.cpp").read_text()
    conversation = [
        {"role": "system", "content": "You are a helpful assistant"},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi there"},
        {"role": "user", "content": "Who are you"},
        {"role": "assistant", "content": "   I am an assistant   "},
        {"role": "user", "content": "Another question"},
    ]
    for m in re.finditer(r'/\* \.name= \*/\s*|\.template_str\s*=\s*\*/|/\* \.template_str= \*/', text):
        if "template_str" not in m[0]:
            continue
        try:
            src = Cpp(text, m.end()).string()
        except ValueError:
            suite.skip("templates from elsewhere")
            continue
        for prompt in (False, True):
            suite.add("test-chat-template", src, {"messages": conversation, "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>"})


WORDS = ["Hello", "weather", "in", "Zürich", "\n", "  ", "<think>", "</think>", "plan", "{\"a\": 1}", "<|im_end|>", "😀", "it's", "\"quoted\"",
         "<tool_call>", "ok", "\t", "\n\n", "</tool_call>", "back\\slash", "&lt;", "%s", "{{ x }}", "final", "answer", "[1, 2]"]


def words(r, least=0):
    return "".join(r.choice(WORDS) + r.choice([" ", " ", ""]) for _ in range(r.randint(least, 7)))


def json_value(r, depth=2):
    kind = r.randint(0, 7 if depth else 4)
    if kind < 5:
        return [words(r), r.randint(-5, 10**6), r.random() * 10, r.choice([True, False]), None][kind]
    if kind == 5:
        return [json_value(r, depth - 1) for _ in range(r.randint(0, 3))]
    return {r.choice(["city", "unit", "deep", "x y", "n", "é"]): json_value(r, depth - 1) for _ in range(r.randint(0, 3))}


def arguments(r):
    return {k: json_value(r) for k in r.sample(["city", "unit", "limit", "query"], r.randint(0, 3))}


def tool(r, i):
    kinds = ["string", "integer", "number", "boolean", "array", "object"]
    properties = {}
    for k in r.sample(["city", "unit", "limit", "query"], r.randint(0, 4)):
        p = {"type": r.choice(kinds)}
        if r.random() < 0.7:
            p["description"] = words(r, 1)
        if r.random() < 0.2:
            p["enum"] = ["a", "b"]
        if p["type"] == "array":
            p["items"] = {"type": r.choice(kinds)}
        if p["type"] == "object":
            p["properties"] = {"inner": {"type": "string", "description": "d"}}
        properties[k] = p
    parameters = {"type": "object", "properties": properties}
    if r.random() < 0.7:
        parameters["required"] = list(properties)[:2]
    function = {"name": f"tool_{i}", "description": words(r, 1), "parameters": parameters}
    if r.random() < 0.1:
        function["return"] = {"type": "string", "description": "what it returns"}
    return {"type": "function", "function": function}


def content(r, parts):
    if parts and r.random() < 0.3:
        out = [{"type": "text", "text": words(r, 1)} for _ in range(r.randint(1, 2))]
        if r.random() < 0.3:
            out.insert(r.randint(0, 1), {"type": "image"})
        return out
    return words(r)


def conversation(r):
    """Mostly what a careful client sends; now and then what it should not."""
    wild, parts, calls = r.random() < 0.15, r.random() < 0.25, r.random() < 0.6
    messages, number = [], 0
    if r.random() < 0.5:
        messages.append({"role": r.choice(["system"] * 5 + ["developer"]), "content": content(r, parts)})
    for _ in range(r.randint(1, 3)):
        messages.append({"role": "user", "content": content(r, parts)})
        for _ in range(r.randint(0, 2) if calls else 0):
            made = []
            for _ in range(r.choice([1, 1, 2])):
                number += 1
                given = arguments(r)
                made.append({"id": f"call_{number:05d}"[-9:], "type": "function",
                             "function": {"name": f"tool_{r.randint(0, 2)}", "arguments": given if r.random() < 0.8 else json.dumps(given)}})
            m = {"role": "assistant", "content": r.choice(["", None, words(r), words(r)]), "tool_calls": made}
            if r.random() < 0.3:
                m[r.choice(["reasoning_content", "thinking", "reasoning"])] = words(r, 1)
            messages.append(m)
            for call in made:
                result = {"role": "tool", "content": content(r, parts and r.random() < 0.2), "tool_call_id": call["id"]}
                if r.random() < 0.6:
                    result["name"] = call["function"]["name"]
                messages.append(result)
        m = {"role": "assistant", "content": content(r, parts)}
        if r.random() < 0.3:
            m["reasoning_content"] = words(r, 1)
        messages.append(m)
    if r.random() < 0.4:
        messages.pop()
    if wild:
        for _ in range(r.randint(1, 3)):
            what = r.randint(0, 5)
            at = r.randrange(len(messages)) if messages else 0
            if what == 0 and messages:
                messages.pop(at)
            elif what == 1 and messages:
                messages[at] = {**messages[at], "role": r.choice(["function", "system", "user", "tool", "ipython", "unknown"])}
            elif what == 2 and messages:
                messages[at].pop("content", None)
            elif what == 3:
                messages.insert(at, {"role": r.choice(["user", "assistant", "system"]), "content": words(r)})
            elif what == 4 and messages:
                messages[at]["content"] = r.choice([None, 5, [], {}, [{"type": "text"}], ["x"]])
            elif what == 5 and messages:
                messages[at]["tool_calls"] = r.choice([None, [], [{}], [{"function": {"name": "f"}}]])
    variables = {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": r.random() < 0.5}
    if r.random() < 0.6:
        variables["tools"] = [tool(r, i) for i in range(r.randint(0 if wild else 1, 3))]
    if r.random() < 0.7:  # what firefunction asks for
        variables |= {"functions": json.dumps(variables.get("tools", []), indent=4), "datetime": "2026-01-02"}
    for key, values in (("enable_thinking", [True, False]), ("thinking", [True, False]), ("reasoning_effort", ["low", "high"]),
                        ("date_string", ["26 Jul 2024"]), ("keep_all_reasoning", [True]), ("documents", [[{"title": "t", "text": words(r), "content": "c"}]]),
                        ("tools_in_user_message", [False]), ("builtin_tools", [["code_interpreter"]]), ("preserve_thinking", [True])):
        if r.random() < 0.15:
            variables[key] = r.choice(values)
    return variables


def templates_suite(folders, suite, rounds):
    for folder in folders:
        for file in sorted(Path(folder).glob("*.jinja")):
            src = file.read_text()
            for i in range(rounds):
                suite.add(f"{file.stem} {i}", src, conversation(random.Random(f"{file.stem} {i}")))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--jinja2")
    p.add_argument("--llama")
    p.add_argument("--templates", action="append", default=[])
    p.add_argument("--rounds", type=int, default=60, help="conversations a template")
    a = p.parse_args()
    Path(a.out).mkdir(parents=True, exist_ok=True)
    for wanted, name, fill in ((a.jinja2, "jinja2", lambda s: jinja2_suite(a.jinja2, s)),
                               (a.llama, "llama-cpp", lambda s: llama_suite(a.llama, s)),
                               (a.templates, "templates", lambda s: templates_suite(a.templates, s, a.rounds))):
        if wanted:
            s = Suite(a.out, name)
            fill(s)
            s.close()


if __name__ == "__main__":
    main()
