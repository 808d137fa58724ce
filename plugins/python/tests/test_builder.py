"""Tests of natgo.builder without nat-go; builder_test.go tests it as a process."""

import dataclasses
import enum
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Optional

import pytest

from natgo.builder import (
    BuilderError, Candidate, Demonstration, Drop, Example, Graph, Group, Message, Node, Preference, Prompt, SettingsError, builder, drop,
    serve, setting,
)
from natgo.builder.settings import Finding, fill, schema

ROOT = pathlib.Path(__file__).parents[1]


class Order(enum.Enum):
    EASY = "easy"
    HARD = "hard"


@dataclasses.dataclass
class Inner:
    name: str
    weight: float = setting(1.0, ge=0)


@dataclasses.dataclass
class Settings:
    words: list[str] = setting(default_factory=lambda: ["a"], doc="words to look for", min_length=1)
    weights: dict[str, float] = dataclasses.field(default_factory=dict)
    order: Order = Order.EASY
    inner: list[Inner] = dataclasses.field(default_factory=list)
    most: Optional[int] = setting(None, "how many; all without", gt=0)
    token: str = setting("", secret=True)
    either: int | str = 1


def test_schema_of_a_dataclass():
    s = schema(Settings)
    assert s["additionalProperties"] is False and s["x-order"][:2] == ["words", "weights"] and "required" not in s
    p = s["properties"]
    assert p["words"] == {
        "type": "array", "items": {"type": "string"}, "minItems": 1, "description": "words to look for", "default": ["a"]}
    assert p["weights"]["additionalProperties"] == {"type": "number"}
    assert p["order"] == {"type": "string", "enum": ["easy", "hard"], "default": "easy"}
    assert p["inner"]["items"]["required"] == ["name"]
    assert p["most"]["anyOf"] == [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}]
    assert p["token"] == {"type": "string", "writeOnly": True}
    assert schema(None)["additionalProperties"] is False


def test_settings_are_filled():
    made, found = fill(Settings, b'{"order": "hard", "inner": [{"name": "x", "weight": 2}], "most": 3, "weights": {"a": 1}}')
    assert not found
    assert made.order is Order.HARD and made.inner == [Inner("x", 2.0)] and made.most == 3 and made.words == ["a"]
    assert type(made.weights["a"]) is float
    assert fill(Settings, b"") == (Settings(), []) and fill(None, b"{}") == (None, [])


@pytest.mark.parametrize("config, pointer, said", [
    ("{", "", "not JSON"), ("[]", "", "a list, not an object"), ('{"wrods": 1}', "/wrods", "unknown setting wrods"),
    ('{"words": []}', "/words", "length of at least 1"), ('{"words": [1]}', "/words/0", "an integer, not a text"),
    ('{"weights": {"a/b": "x"}}', "/weights/a~1b", "a text, not a number"), ('{"order": "any"}', "/order", "not one of easy, hard"),
    ('{"order": ["easy"]}', "/order", "not one of easy, hard"), ('{"inner": [{}]}', "/inner/0", "name is missing"),
    ('{"inner": [{"name": "x", "weight": -1}]}', "/inner/0/weight", "at least 0"), ('{"most": 0}', "/most", "greater than 0"),
    ('{"most": true}', "/most", "true or false, not an integer"), ('{"either": 1.5}', "/either", "a number, not an integer"),
    ('{"inner": {}}', "/inner", "an object, not a list"), ('{"token": null}', "/token", "null, not a text"),
])
def test_mistakes_in_settings(config, pointer, said):
    made, found = fill(Settings, config.encode())
    assert made is None and [f.pointer for f in found] == [pointer] and said in found[0].message


def test_a_builder_without_settings_takes_none():
    assert fill(None, b'{"x": 1}') == (None, [Finding("/x", "unknown setting x: the builder has none")])


def test_pydantic_models():
    pydantic = pytest.importorskip("pydantic")

    class Nested(pydantic.BaseModel):
        n: int = 1

    class Model(pydantic.BaseModel):
        least: float = pydantic.Field(0.5, ge=0, le=1, description="lowest score")
        nested: Nested = Nested()

        @pydantic.model_validator(mode="after")
        def together(self):
            if self.least == 1 and self.nested.n > 1:
                raise ValueError("these leave nothing")
            return self

    s = schema(Model)
    assert s["additionalProperties"] is False and s["$defs"]["Nested"]["additionalProperties"] is False
    assert s["properties"]["least"]["maximum"] == 1 and s["properties"]["least"]["description"] == "lowest score"
    assert fill(Model, b'{"least": 0.7}')[0].least == 0.7
    assert [f.pointer for f in fill(Model, b'{"least": 7, "nested": {"n": "x"}}')[1]] == ["/least", "/nested/n"]
    [found] = fill(Model, b'{"least": 1, "nested": {"n": 2}}')[1]
    assert found.pointer == "" and "these leave nothing" in found.message


def test_types_that_settings_cannot_have():
    @dataclasses.dataclass
    class Bad:
        x: set[int] = dataclasses.field(default_factory=set)

    with pytest.raises(SettingsError, match=r"Bad\.x: .* is not a type that a setting can have"):
        schema(Bad)
    with pytest.raises(SettingsError, match="neither"):
        schema(int)


def test_a_declaration_says_what_is_missing():
    def ok(group: Group) -> Iterator[Preference | Drop]:
        """pairs"""
        yield drop("x")

    declared = builder(name="ok", unit="task")(ok)
    assert (declared.kinds, declared.doc, declared.unit, declared.config) == (["preference"], "pairs", "task", None)
    assert list(declared(Group("k", []))) == [drop("x")]

    def no_kinds(group):
        """pairs"""

    def no_doc(group: Group) -> Iterator[Preference]:
        yield Preference("a", "b", "q")

    def bare(group: Group, settings) -> Iterator[Preference]:
        """pairs"""
        yield Preference("a", "b", "q")

    def three(group: Group, a: int, b: int) -> Iterator[Preference]:
        """pairs"""
        yield Preference("a", "b", "q")

    for function, said in [(no_kinds, "what kinds"), (no_doc, "a docstring"), (bare, "annotate settings"), (three, "3 arguments")]:
        with pytest.raises(BuilderError, match=said):
            builder(name="x")(function)
    for wrong in [{"name": "a/b"}, {"name": "x", "unit": "all"}, {"name": "x", "stability": "new"}, {"name": "x", "kinds": ["pairs"]}]:
        with pytest.raises(BuilderError):
            builder(**wrong)(ok)
    with pytest.raises(BuilderError, match="a name of its own"):
        serve(declared, declared)


def test_walks_of_a_graph():
    graph = Graph([Node(Message("user", "q")), Node(Message("assistant", "a"), 0), Node(Message("assistant", "b"), 0)])
    assert graph.leaves() == [1, 2] and graph.branch(2) == [0, 2]
    assert [m.text for m in graph.messages(2)] == ["q", "b"]
    assert Prompt(messages=[Message("user", "q")]).form == "messages" and Prompt("q").conversation() == [Message("user", "q")]
    example = Example(candidates=[Candidate(Prompt("q"), str(i), 0.0, turn=t) for i, t in enumerate("aba")])
    assert {t: [c.output for c in cs] for t, cs in example.turns().items()} == {"a": ["0", "2"], "b": ["1"]}


def run(*args, **env):
    env = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'builders'}", "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **env}
    return subprocess.run([sys.executable, *args], env=env, capture_output=True, text=True, cwd=ROOT / "tests", timeout=120)


def test_authors_need_nothing_installed():
    assert run("-c", "import sys, natgo.builder, sample; assert not {'grpc', 'google.protobuf', 'numpy'} & set(sys.modules)").stderr == ""


def test_the_command_line():
    described = json.loads(run("-m", "natgo.builder", "sample", "describe").stdout)
    assert [b["name"] for b in described["builders"]] == ["best_of_n", "extremes", "echo"] and described["protocol_minor"] == 4
    assert [b["kinds"] for b in described["builders"]] == [["demonstration"], ["preference"], ["demonstration", "rollout", "state"]]
    assert json.loads(run("-m", "natgo.builder", "sample", "schema").stdout)["properties"]["min_score"]["maximum"] == 1
    for args, said in [(["sample"], "is a nat-go plugin"), (["sample", "schema", "x"], "no builder x"), ([], "usage:"), (["json"], "no builder")]:
        done = run("-m", "natgo.builder", *args)
        assert done.returncode != 0 and said in done.stderr
    assert "no nat-go on PATH" in run("-m", "natgo.builder", "sample", "try", "rows.jsonl", PATH="/nowhere").stderr


def test_a_module_is_located_without_running_it(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("raise SystemExit('it ran')")
    (tmp_path / "single.py").write_text("raise SystemExit('it ran')")
    for module, path in [("pkg.builders", tmp_path / "pkg"), ("single", tmp_path / "single.py")]:
        done = run("-m", "natgo.builder", "--where", module, PYTHONPATH=f"{ROOT}:{tmp_path}")
        assert json.loads(done.stdout) == {"path": str(path)}, done.stderr
    assert "finds no module nothing_such" in run("-m", "natgo.builder", "--where", "nothing_such").stderr


def test_without_grpc_it_says_what_to_install():
    done = run("-c", "import sys; sys.modules['grpc'] = None; sys.path.insert(0, 'builders'); from natgo.builder.__main__ import main; main(['sample'])",
               NATGO_PLUGIN_COOKIE="nat.builder.v1", PLUGIN_UNIX_SOCKET_DIR="/tmp")
    assert done.returncode == 1 and "pip install grpcio protobuf" in done.stderr and done.stdout == ""
