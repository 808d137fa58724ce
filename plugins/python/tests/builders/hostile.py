"""A builder that fails on a group in the way its key says, and makes a demonstration of every other group."""

import json
import os
import re
import sys
import time
from collections.abc import Iterator

from natgo.builder import Candidate, Demonstration, Drop, Group, Message, Preference, Progress, Prompt, builder

print("hello from the import")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def fine(group: Group) -> Iterator[Demonstration]:
    yield Demonstration([Message("user", "q"), Message("assistant", group.key)], example=group.examples[0])


def raises(group):
    yield from fine(group)
    raise ValueError("two\nlines")


def raises_in_a_library(group):
    yield json.loads("{")


def unprintable(group):
    raise Unprintable
    yield


def prints(group):
    print("to standard output")
    os.write(1, b"to its descriptor\n")
    yield from fine(group)


def forks(group):
    os.fork()
    yield from fine(group)


def forks_before_the_first(group):
    os.fork()
    return list(fine(group))


def never_returns(group):
    while True:
        pass
    yield


def sleeps(group):
    time.sleep(1e6)
    yield


def matches_for_ever(group):
    re.match(r"(a+)+$", "a" * 64 + "b")
    yield


def yields_a_number(group):
    yield 7


def yields_a_class(group):
    yield Demonstration


def returns_none(group):
    return None


def returns_a_text(group):
    return "abc"


def foreign_candidate(group):
    yield Demonstration(Candidate(Prompt("q"), "a", 1.0))


def content_is_a_number(group):
    yield Demonstration([1, 2])


def text_is_bytes(group):
    yield Demonstration([Message("user", b"q")])


def undeclared_kind(group):
    yield Preference("a", "b", "q", 1.0)


def goes_on_after_a_mistake(group):
    try:
        yield 7
    except TypeError:
        yield from fine(group)


def yields_after_close(group):
    while True:
        try:
            yield 7
        except TypeError:
            try:
                yield 8
            finally:
                yield 9


def exits(group):
    sys.exit("it had enough")
    yield


def exits_at_once(group):
    os._exit(3)
    yield


def recurses(group):
    yield from recurses(group)


def without_end(group):
    while True:
        yield Demonstration([Message("user", "q"), Message("assistant", os.urandom(5000).hex())])


def one_record_too_large(group):
    yield Demonstration([Message("user", "q")] * 1_000_000)


def reports_nonsense(group):
    yield Progress("some", None)


def no_reason(group):
    yield Drop(None)


@builder(name="hostile", doc="goes wrong as it is told", kinds=["demonstration"])
def hostile(group: Group):
    how = globals().get(group.key)
    return fine(group) if how is None else how(group)
