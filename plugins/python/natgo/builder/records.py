"""The items that a builder yields: records, drops, counts, progress.

Content is a text, messages, or a reference into the group, which costs nothing: one of the group's Candidates means its
output (or its prompt, where a prompt is expected), and a Span means the messages on a walk through an example's graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Union

from natgo.builder.group import Candidate, Example, Message, Prompt

Train = Literal["all", "last", "calls", "flagged"]
Target = Literal["failed_turn", "next_turn"]
HintKind = Literal["knowable", "hindsight"]
Unit = Literal["candidate", "example", "group", "pair", "record", "rollout", "site", "step", "turn"]


@dataclass(slots=True)
class Span:
    """An example's messages on the walk from the root to a node, without the first `skip` ones."""

    example: Example
    last: int
    skip: int = 0


Content = Union[str, Prompt, Candidate, Span, Sequence[Message]]
Metadata = Union[str, Mapping[str, object], None]  # raw JSON of an object, or the object


@dataclass(slots=True)
class Preference:
    """One answer to a prompt is better than another. If both are candidates, everything else follows from them: the
    prompt and the turn are the better one's, and the reward is the difference of their scores."""

    chosen: Content
    rejected: Content
    prompt: Content | None = None
    reward: float | None = None
    score_name: str | None = None
    chosen_score: float | None = None
    rejected_score: float | None = None
    chosen_index: int | None = None
    rejected_index: int | None = None
    chosen_policy: str = ""
    rejected_policy: str = ""
    turn: str | None = None
    metadata: Metadata = None
    example: Example | None = None  # which example of the group it comes from, if nothing else says so


@dataclass(slots=True)
class Demonstration:
    """A conversation whose assistant turns are to be imitated. trained has flags for the messages if train is
    "flagged"."""

    messages: Content
    train: Train = "all"
    trained: Sequence[bool] = ()
    weight: float = 1.0
    score: float | None = None  # what it was chosen by
    turn: str | None = None
    metadata: Metadata = None
    example: Example | None = None
    mask_reasoning: bool = False  # the reasoning of trained turns is context: no loss on it


@dataclass(slots=True)
class Rollout:
    """A conversation and its reward; a reward of None means that it was not scored. Rollouts for the same task form a
    group for advantages; a task of None means the example's task."""

    messages: Content
    reward: float | None = None
    task: str | None = None
    turn: str | None = None
    metadata: Metadata = None
    example: Example | None = None


@dataclass(slots=True)
class State:
    """A prompt without an answer, from which a trainer samples its own; a task of None means the example's task."""

    messages: Content
    task: str | None = None
    turn: str | None = None
    metadata: Metadata = None
    example: Example | None = None


@dataclass(slots=True)
class Site:
    """A failed tool call. call and result are indices into the record's messages."""

    call: int
    hint: str
    result: int = -1  # what shows the error; -1: the call itself
    call_seq: int = 0  # which of the message's tool calls; -1 if it has none
    target: Target = "failed_turn"
    tool: str = ""
    error: str = ""
    hint_source: str = "rules"
    hint_kind: HintKind = "knowable"


@dataclass(slots=True)
class Distillation:
    """A conversation with error sites and, at each, a hint for the teacher but not the student."""

    messages: Content
    sites: Sequence[Site] = field(default_factory=list)
    turn: str | None = None
    metadata: Metadata = None
    example: Example | None = None


Record = Union[Preference, Demonstration, Rollout, Distillation, State]


@dataclass(slots=True)
class Drop:
    """Something that didn't become a record, and why. `drop` creates one."""

    reason: str
    detail: str = ""
    of: Candidate | Example | None = None
    unit: Unit | None = None
    turn: str | None = None
    index: int | None = None
    count: int = 1


def drop(
    reason: str, detail: str = "", of: Candidate | Example | None = None, *, unit: Unit | None = None, turn: str | None = None,
    index: int | None = None, count: int = 1,
) -> Drop:
    """Reports that a candidate, an example or, without of, the group doesn't become a record, as in
    `yield drop("too_short", "3 words", candidate)`. The reason is one of nat-go's codes or your own, the detail a
    human-readable line."""
    return Drop(reason, detail, of, unit, turn, index, count)


@dataclass(slots=True)
class Count:
    """Adds n to one of the builder's own counters, which is summed over the run and shown with its statistics."""

    name: str
    n: int = 1


@dataclass(slots=True)
class Progress:
    """Reports progress on a long group: nat-go assumes that a builder is stuck if it yields nothing for a minute."""

    done: int
    total: int = 0  # 0: unknown


Item = Union[Record, Drop, Count, Progress]
