"""A builder's input: a group of examples, named as in nat-go's Go types.

A text is a str that may contain lone surrogates, as JSON strings can; raw JSON is the text of one JSON value as it was
in the source, or "" if it is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Form = Literal["absent", "null", "text", "parts"]
Sampled = Literal["no", "yes", "assumed"]
Fidelity = Literal["partial", "text", "ids", "ids+logprobs"]
PromptForm = Literal["text", "messages", "other"]


@dataclass(slots=True)
class Part:
    """One part of content that is a list."""

    type: str
    text: str = ""
    raw: str = ""  # the whole part as JSON


@dataclass(slots=True)
class ToolCall:
    """A call that the assistant made."""

    name: str
    arguments: str = ""  # as sampled
    id: str = ""
    type: str = "function"
    parsed: str = ""  # the arguments as JSON; "" where they don't parse
    as_object: bool = False  # the source gave an object, not a string
    extra: list[tuple[str, str]] = field(default_factory=list)  # other keys, with their raw JSON


@dataclass(slots=True)
class Message:
    """One entry in a conversation, in the OpenAI chat format's terms. form says how the content was given: a message
    with parts but no text has the form "parts"."""

    role: str
    text: str = ""
    form: Form = "text"
    parts: list[Part] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    tool_call_id: str = ""  # of a tool's result: the call it answers
    name: str = ""
    reasoning: str = ""
    reasoning_key: str = ""  # the key it stood under: reasoning_content, reasoning, thinking
    extra: list[tuple[str, str]] = field(default_factory=list)  # other keys, with their raw JSON

    def __post_init__(self) -> None:
        if self.parts and self.form == "text" and not self.text:
            self.form = "parts"


@dataclass(slots=True)
class Tool:
    """A function that the model may call."""

    name: str
    raw: str = ""  # the whole definition as JSON


@dataclass(slots=True)
class Node:
    """A message in a graph."""

    message: Message
    parent: int = -1  # index of an earlier node; -1 at a root
    sampled: Sampled = "no"
    policy: str = ""  # model that sampled this message; "": as the example's
    token_ids: Sequence[int] | None = None  # None: unknown
    log_probs: Sequence[float] | None = None
    finish_reason: str = ""
    error: bool | None = None  # on a tool's result: what the source says


@dataclass(slots=True)
class Graph:
    """An example's messages, each held once, with its parent. A branch is a walk from the root to a leaf."""

    nodes: list[Node] = field(default_factory=list)

    def branch(self, leaf: int) -> list[int]:
        """The nodes from the root to leaf, inclusive."""
        walk = []
        while leaf >= 0:
            walk.append(leaf)
            leaf = self.nodes[leaf].parent
        return walk[::-1]

    def leaves(self) -> list[int]:
        """The nodes that aren't the parent of any other."""
        inner = {node.parent for node in self.nodes}
        return [i for i in range(len(self.nodes)) if i not in inner]

    def messages(self, leaf: int) -> list[Message]:
        """The conversation that ends at leaf."""
        return [self.nodes[i].message for i in self.branch(leaf)]


@dataclass(slots=True)
class Prompt:
    """A candidate's input: a text or messages. The form "other" is neither, and is never trained on."""

    text: str = ""
    messages: list[Message] = field(default_factory=list)
    form: PromptForm = "text"

    def __post_init__(self) -> None:
        if self.messages and self.form == "text":
            self.form = "messages"

    def conversation(self) -> list[Message]:
        """The prompt as messages: a text becomes a user message."""
        if self.form == "other":
            raise ValueError("a prompt that is neither a text nor messages: there is no conversation in it")
        return list(self.messages) if self.form == "messages" else [Message("user", self.text)]


@dataclass(slots=True)
class Candidate:
    """One of several outputs considered at a turn, with its score."""

    prompt: Prompt
    output: str
    score: float
    turn: str = ""
    index: int = 0
    turn_index: int | None = None
    step: str = ""  # name of the step that recorded it
    score_error: str = ""  # why the scorer failed on it; "": it didn't
    metadata: str = ""  # raw JSON
    offset: int = 0  # of the step, in the file


@dataclass(slots=True)
class Step:
    """A recorded event, for builders declared with raw_steps=True."""

    type: str
    name: str = ""
    raw: str = ""


@dataclass(slots=True)
class Sampling:
    """How a rollout was sampled."""

    temperature: float
    top_p: float
    processed: bool = False  # log-probs are those after temperature and top_p


@dataclass(slots=True)
class Example:
    """One data-set entry that an agent was run on, with that run's results."""

    id: str = ""
    candidates: list[Candidate] = field(default_factory=list)
    graph: Graph = field(default_factory=Graph)
    tools: list[Tool] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    reward: float | None = None  # None: it was not scored, which is not a score of 0
    task: str = ""  # what rollouts of one problem share
    trial: str = ""  # which rollout of the task
    run: int = 0
    row: int = 0
    file: str = ""
    offset: int = 0
    policy: str = ""
    fidelity: Fidelity = "text"
    sampling: Sampling | None = None
    raw_id: str = ""
    interrupted: bool = False

    def turns(self) -> dict[str, list[Candidate]]:
        """The candidates by their turn, in order."""
        turns: dict[str, list[Candidate]] = {}
        for candidate in self.candidates:
            turns.setdefault(candidate.turn, []).append(candidate)
        return turns


@dataclass(slots=True)
class Group:
    """The unit of work: examples that may be compared with each other, never empty."""

    key: str
    examples: list[Example]
