"""The decorator that turns a function into a builder."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable
from typing import Any, Generic, Literal, ParamSpec, TypeVar

from natgo.builder import settings
from natgo.builder.group import Group
from natgo.builder.records import Demonstration, Distillation, Item, Preference, Rollout, State

P = ParamSpec("P")
Unit = Literal["example", "task", "run"]
Stability = Literal["stable", "beta", "experimental"]
Kind = Literal["preference", "demonstration", "rollout", "distillation", "state"]

KINDS: dict[type, Kind] = {
    Preference: "preference", Demonstration: "demonstration", Rollout: "rollout", Distillation: "distillation", State: "state",
}


class BuilderError(TypeError):
    """A function can't be a builder; the message says why and what to do."""


class Builder(Generic[P]):
    """A function declared to be a builder; it can be called as before."""

    def __init__(
        self, function: Callable[P, Iterable[Item]], *, name: str, unit: Unit, version: str, stability: Stability, doc: str,
        kinds: list[Kind], raw_steps: bool, config: type | None,
    ) -> None:
        self.function, self.name, self.unit, self.version, self.stability, self.doc = function, name, unit, version, stability, doc
        self.kinds, self.raw_steps, self.config = kinds, raw_steps, config
        self.schema = settings.schema(config)
        self.__doc__, self.__module__ = function.__doc__, function.__module__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Iterable[Item]:
        return self.function(*args, **kwargs)

    def make(self, group: Group, config: Any) -> Any:
        """The function's results for a group, given an instance of its settings."""
        function: Callable[..., Any] = self.function
        return function(group) if self.config is None else function(group, config)

    def place(self) -> str:
        """Where the function is defined."""
        code = getattr(self.function, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code else self.__module__


def builder(
    *, name: str, unit: Unit = "example", version: str = "", stability: Stability = "experimental", doc: str = "",
    kinds: Iterable[Kind] | None = None, raw_steps: bool = False, config: type | None = None,
) -> Callable[[Callable[P, Iterable[Item]]], Builder[P]]:
    """Declares a function to be a builder: it takes a group and, as a second argument, settings, and yields records and
    drops.

    The settings' class is the second argument's annotation, the kinds of record are those in the return annotation
    (`Iterator[Preference | Drop]`), and the doc is the docstring's first line; config, kinds and doc override these. A
    builder is pure in (settings, group): it keeps nothing between groups.
    """
    def declare(function: Callable[P, Iterable[Item]]) -> Builder[P]:
        what = f"the builder {name} ({getattr(function, '__qualname__', function)})"
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", name):
            raise BuilderError(f"{what}: a name consists of letters, digits, _, - and ., and begins with a letter")
        if unit not in typing.get_args(Unit) or stability not in typing.get_args(Stability):
            raise BuilderError(f"{what}: unit must be one of {typing.get_args(Unit)}, stability one of {typing.get_args(Stability)}")
        hints, parameters = _hints(function, what), list(inspect.signature(function).parameters)
        if not 1 <= len(parameters) <= 2:
            raise BuilderError(f"{what} takes {len(parameters)} arguments; a builder takes a group and, if it has settings, those")
        of = config
        if of is None and len(parameters) == 2:
            of = hints.get(parameters[1])
            if of is None:
                raise BuilderError(f"{what}: say what its settings are: annotate {parameters[1]}, or give config=")
        found = list(kinds) if kinds is not None else _kinds(hints.get("return"))
        if not found or not set(found) <= set(KINDS.values()):
            raise BuilderError(
                f"{what}: say what kinds of record it yields: -> Iterator[Preference | Drop], or kinds=[\"preference\"]; kinds are "
                + ", ".join(KINDS.values()))
        told = doc or (inspect.getdoc(function) or "").partition("\n")[0]
        if not told:
            raise BuilderError(f"{what}: say in a line what it does: a docstring, or doc=")
        return Builder(
            function, name=name, unit=unit, version=version, stability=stability, doc=told, kinds=found, raw_steps=raw_steps, config=of)

    return declare


def _hints(function: Any, what: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError as e:
        raise BuilderError(f"{what}: its annotations can't be read: {e}; define the names before it, at the top of the module") from e


def _kinds(hint: Any) -> list[Kind]:
    """The kinds of record in an annotation."""
    found = [KINDS[hint]] if isinstance(hint, type) and hint in KINDS else []
    for inner in typing.get_args(hint):
        found += [kind for kind in _kinds(inner) if kind not in found]
    return found
