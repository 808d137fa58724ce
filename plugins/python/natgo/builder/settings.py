"""A builder's settings, a dataclass or a pydantic model: the JSON Schema that users' YAML is checked against, and
instances made from JSON."""

from __future__ import annotations

import dataclasses
import enum
import json
import re
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, TypeVar, Union

T = TypeVar("T")

RULES = {  # a rule of a setting, its keyword in JSON Schema, what it asks
    "ge": ("minimum", "be at least"),
    "gt": ("exclusiveMinimum", "be greater than"),
    "le": ("maximum", "be at most"),
    "lt": ("exclusiveMaximum", "be less than"),
    "min_length": ("minLength", "have a length of at least"),
    "max_length": ("maxLength", "have a length of at most"),
    "pattern": ("pattern", "match"),
}


class SettingsError(TypeError):
    """A class can't describe a builder's settings."""


@dataclasses.dataclass
class Finding:
    """A problem with settings, at a JSON pointer."""

    pointer: str
    message: str


def setting(
    default: Any = dataclasses.MISSING, doc: str = "", *, default_factory: Any = dataclasses.MISSING, secret: bool = False,
    ge: float | None = None, gt: float | None = None, le: float | None = None, lt: float | None = None,
    min_length: int | None = None, max_length: int | None = None, pattern: str | None = None,
) -> Any:
    """A field of a dataclass, with its description for users and the rules that its value must satisfy."""
    rules = {"ge": ge, "gt": gt, "le": le, "lt": lt, "min_length": min_length, "max_length": max_length, "pattern": pattern}
    metadata = {"doc": doc, "secret": secret, **{k: v for k, v in rules.items() if v is not None}}
    if default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=default_factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def schema(settings: type | None) -> dict[str, Any]:
    """The JSON Schema of a settings class; None means that a builder doesn't have settings."""
    if settings is None:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    if hasattr(settings, "model_json_schema"):
        closed: dict[str, Any] = _closed(settings.model_json_schema())
        return closed
    if not dataclasses.is_dataclass(settings):
        raise SettingsError(f"settings are a dataclass or a pydantic model; {settings.__qualname__} is neither")
    return _object(settings)


def _closed(node: Any) -> Any:
    """A pydantic schema in which unknown keys are errors, unless the model allows them."""
    if isinstance(node, list):
        return [_closed(n) for n in node]
    if not isinstance(node, dict):
        return node
    out = {k: _closed(v) for k, v in node.items()}
    if "properties" in node and isinstance(node["properties"], dict) and "additionalProperties" not in node:
        out["additionalProperties"] = False
        out["x-order"] = list(node["properties"])
    return out


def _object(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    properties: dict[str, Any] = {}
    required = []
    for f in dataclasses.fields(cls):
        if not f.init:
            continue
        try:
            node = _of(hints[f.name])
        except SettingsError as e:
            raise SettingsError(f"{cls.__qualname__}.{f.name}: {e}") from None
        target = node["anyOf"][0] if "anyOf" in node and len(node["anyOf"]) == 2 else node
        for rule, (keyword, _) in RULES.items():
            if rule in f.metadata:
                of_list = {"min_length": "minItems", "max_length": "maxItems"} if target.get("type") == "array" else {}
                target[of_list.get(rule, keyword)] = f.metadata[rule]
        if f.metadata.get("doc"):
            node["description"] = f.metadata["doc"]
        if f.metadata.get("secret"):
            node["writeOnly"] = True
        default = f.default if f.default is not dataclasses.MISSING else (
            f.default_factory() if f.default_factory is not dataclasses.MISSING else dataclasses.MISSING)
        if default is dataclasses.MISSING:
            required.append(f.name)
        elif default is not None and not f.metadata.get("secret"):
            node["default"] = _plain(default)
        properties[f.name] = node
    out: dict[str, Any] = {"type": "object", "properties": properties, "x-order": list(properties), "additionalProperties": False}
    if required:
        out["required"] = required
    return out


def _plain(value: Any) -> Any:
    """A value in its JSON form."""
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value


SCALARS: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def _union(hint: Any) -> tuple[Any, ...] | None:
    if typing.get_origin(hint) in (Union, types.UnionType):
        return typing.get_args(hint)
    return None


def _of(hint: Any) -> dict[str, Any]:
    """The schema of a type."""
    if hint is Any:
        return {}
    if hint in SCALARS:
        return {"type": SCALARS[hint]}
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal and all(isinstance(a, str) for a in args):
        return {"type": "string", "enum": list(args)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum) and all(isinstance(m.value, str) for m in hint):
        return {"type": "string", "enum": [m.value for m in hint]}
    if origin is list and len(args) == 1:
        return {"type": "array", "items": _of(args[0])}
    if origin is dict and len(args) == 2 and args[0] is str:
        return {"type": "object", "additionalProperties": _of(args[1])}
    if members := _union(hint):
        return {"anyOf": [{"type": "null"} if m is types.NoneType else _of(m) for m in sorted(members, key=lambda m: m is types.NoneType)]}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _object(hint)
    raise SettingsError(
        f"{hint!r} is not a type that a setting can have: use bool, int, float, str, Literal of texts, an Enum of texts, list[T], dict[str, T], "
        "T | None, or a dataclass of these")


def fill(settings: type | None, config: bytes) -> tuple[Any, list[Finding]]:
    """Settings created from a JSON object, or the problems with it."""
    try:
        value = json.loads(config or b"{}")
    except ValueError as e:
        return None, [Finding("", f"the settings are not JSON: {e}")]
    if not isinstance(value, dict):
        return None, [Finding("", f"the settings are {_name(value)}, not an object")]
    if settings is None:
        return None, [Finding(_pointer("", k), f"unknown setting {k}: the builder has none") for k in value]
    if hasattr(settings, "model_validate_json"):
        return _fill_model(settings, config or b"{}")
    found: list[Finding] = []
    made = _make(settings, value, "", found)
    return (None, found) if found else (made, [])


def _fill_model(model: Any, config: bytes) -> tuple[Any, list[Finding]]:
    try:
        return model.model_validate_json(config), []
    except ValueError as e:  # pydantic's ValidationError is one
        errors = getattr(e, "errors", None)
        if errors is None:
            return None, [Finding("", str(e))]
        return None, [Finding("".join(_pointer("", str(step)) for step in error["loc"]), error["msg"]) for error in errors()]


def _pointer(pointer: str, step: str) -> str:
    return pointer + "/" + step.replace("~", "~0").replace("/", "~1")


def _name(value: Any) -> str:
    """The name for a JSON value's type in messages."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "an integer", float: "a number"}
    return names.get(type(value), "null")


def _make(cls: Any, value: dict[str, Any], pointer: str, found: list[Finding]) -> Any:
    """A dataclass instance created from an object."""
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
    before = len(found)
    for key in value.keys() - fields.keys():
        found.append(Finding(_pointer(pointer, key), f"unknown setting {key}; the settings are {', '.join(fields) or 'none'}"))
    made: dict[str, Any] = {}
    for name, f in fields.items():
        at = _pointer(pointer, name)
        if name in value:
            made[name] = _value(hints[name], value[name], at, found)
            if made[name] is not None:
                _hold(f.metadata, name, made[name], value[name], at, found)
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            found.append(Finding(pointer, f"{name} is missing"))
    if len(found) > before:
        return None
    try:
        return cls(**made)
    except ValueError as e:  # of its __post_init__, about more than one setting
        found.append(Finding(pointer, str(e)))
        return None


def _hold(rules: Any, name: str, value: Any, written: Any, pointer: str, found: list[Finding]) -> None:
    """Checks a value against its rules."""
    holds: dict[str, Callable[[Any, Any], Any]] = {
        "ge": lambda v, r: v >= r, "gt": lambda v, r: v > r, "le": lambda v, r: v <= r, "lt": lambda v, r: v < r,
        "min_length": lambda v, r: len(v) >= r, "max_length": lambda v, r: len(v) <= r, "pattern": re.search,
    }
    for rule, (_, asks) in RULES.items():
        if rule not in rules:
            continue
        args = (rules[rule], value) if rule == "pattern" else (value, rules[rule])
        if not holds[rule](*args):
            found.append(Finding(pointer, f"{name} must {asks} {rules[rule]}, got {written!r}"))


def _value(hint: Any, value: Any, pointer: str, found: list[Finding]) -> Any:
    """A value of a type, created from a JSON value."""
    def wrong(wanted: str) -> None:
        found.append(Finding(pointer, f"this is {_name(value)}, not {wanted}"))

    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if members := _union(hint):
        if value is None:
            return None if types.NoneType in members else wrong("a value")
        first: list[Finding] = []
        for member in (m for m in members if m is not types.NoneType):
            tried: list[Finding] = []
            made = _value(member, value, pointer, tried)
            if not tried:
                return made
            first = first or tried
        return found.extend(first)
    if hint is float and type(value) is int:
        return float(value)
    if hint in SCALARS:
        return value if type(value) is hint else wrong({bool: "true or false", int: "an integer", float: "a number", str: "a text"}[hint])
    if origin is Literal or isinstance(hint, type) and issubclass(hint, enum.Enum):
        words = list(args) if origin is Literal else [m.value for m in hint]
        if value not in words:
            found.append(Finding(pointer, f"{value!r} is not one of {', '.join(map(str, words))}"))
            return None
        return value if origin is Literal else hint(value)
    if origin is list:
        if not isinstance(value, list):
            return wrong("a list")
        return [_value(args[0], v, _pointer(pointer, str(i)), found) for i, v in enumerate(value)]
    if not isinstance(value, dict):
        return wrong("an object")
    if origin is dict:
        return {k: _value(args[1], v, _pointer(pointer, k), found) for k, v in value.items()}
    return _make(hint, value, pointer, found)
