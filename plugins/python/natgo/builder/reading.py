"""Assembles groups from the parts that come over the wire. A text is identified by its number in its group's table."""

from __future__ import annotations

from typing import Any, TypeVar

from natgo.builder.group import (
    Candidate, Example, Fidelity, Form, Group, Message, Node, Part, Prompt, PromptForm, Sampled, Sampling, Step, Tool, ToolCall,
)

Word = TypeVar("Word", bound=str)
FORMS: tuple[Form, ...] = ("absent", "null", "text", "parts")
PROMPT_FORMS: tuple[PromptForm, ...] = ("text", "messages", "other")
SAMPLED: tuple[Sampled, ...] = ("no", "yes", "assumed")
FIDELITY: tuple[Fidelity, ...] = ("partial", "text", "ids", "ids+logprobs")


class WireError(ValueError):
    """The host sent something invalid."""


def word(words: tuple[Word, ...], n: int) -> Word:
    """The word for an enum value, which can be any number on the wire."""
    if not 0 <= n < len(words):
        raise WireError(f"{n} is not one of {', '.join(words)}")
    return words[n]


class Texts:
    """A group's text table. A text may continue in the next part."""

    def __init__(self) -> None:
        self.texts, self.rest, self.start, self.size = [""], bytearray(), 0, 0

    def part(self, blob: bytes, ends: Any) -> None:
        base = self.size - len(self.rest)  # of what is not in the table yet
        self.rest += blob
        self.size += len(blob)
        data = bytes(self.rest) if ends else b""
        for end in ends:
            if not self.start <= end <= self.size:
                raise WireError(f"text {len(self.texts)} ends at {end}, outside {self.start} to {self.size}")
            try:
                self.texts.append(data[self.start - base:end - base].decode("utf-8", "surrogatepass"))
            except UnicodeDecodeError:
                raise WireError(f"text {len(self.texts)} is not UTF-8") from None
            self.start = end
        del self.rest[:self.start - base]

    def __getitem__(self, i: int) -> str:
        try:
            return self.texts[i]
        except IndexError:
            raise WireError(f"text {i} of {len(self.texts) - 1}") from None


class GroupReader:
    """Assembles groups: part returns a group when a part ends it."""

    def __init__(self) -> None:
        self.open = False

    def part(self, p: Any) -> Group | None:
        if p.begin == self.open:
            raise WireError(f"group {p.group} " + ("begins within another" if p.begin else "goes on without a beginning"))
        if p.begin:
            self.open, self.more, self.number = True, False, p.group
            self.texts, self.prompts, self.group = Texts(), [Prompt()], Group("", [])
        elif p.group != self.number:
            raise WireError(f"a part of group {p.group} within group {self.number}")
        t = self.texts
        t.part(p.text, p.ends)
        if p.key:
            self.group.key = t[p.key]
        for prompt in p.prompts:
            self.prompts.append(Prompt(t[prompt.text], [self.message(m) for m in prompt.messages], word(PROMPT_FORMS, prompt.form)))
        for example in p.examples:
            self.example(example)
        if not p.end:
            return None
        if self.more or not self.group.examples:
            raise WireError(f"group {p.group} ends " + ("within an example" if self.more else "without one"))
        self.open = False
        return self.group

    def example(self, e: Any) -> None:
        t = self.texts
        if not self.more:
            self.group.examples.append(Example(
                id=t[e.id], task=t[e.task], trial=t[e.trial], run=e.run, row=e.row, file=t[e.file], offset=e.offset,
                reward=e.reward if e.HasField("reward") else None, policy=t[e.policy], fidelity=word(FIDELITY, e.fidelity),
                sampling=Sampling(e.sampling.temperature, e.sampling.top_p, e.sampling.processed) if e.HasField("sampling") else None,
                raw_id=t[e.raw_id], interrupted=e.interrupted))
        self.more = e.more
        out = self.group.examples[-1]
        for n in e.nodes:
            out.graph.nodes.append(self.node(n, len(out.graph.nodes)))
        out.tools += [Tool(t[tool.name], t[tool.raw]) for tool in e.tools]
        out.candidates += [self.candidate(c) for c in e.candidates]
        out.steps += [Step(t[s.type], t[s.name], t[s.raw]) for s in e.steps]

    def candidate(self, c: Any) -> Candidate:
        t = self.texts
        if c.prompt >= len(self.prompts):
            raise WireError(f"prompt {c.prompt} of {len(self.prompts) - 1}")
        return Candidate(
            self.prompts[c.prompt], t[c.output], c.score, t[c.turn], c.index, c.turn_index if c.HasField("turn_index") else None,
            t[c.step], t[c.score_error], t[c.metadata], c.offset)

    def node(self, n: Any, number: int) -> Node:
        if not -1 <= n.parent < number:  # a cycle would be walked for ever
            raise WireError(f"node {number} has the parent {n.parent}")
        return Node(
            self.message(n.message), n.parent, word(SAMPLED, n.sampled), self.texts[n.policy],
            list(n.token_ids.values) if n.HasField("token_ids") else None,
            list(n.log_probs.values) if n.HasField("log_probs") else None,
            self.texts[n.finish_reason], n.error if n.HasField("error") else None)

    def message(self, m: Any) -> Message:
        t = self.texts
        return Message(
            t[m.role], t[m.text], word(FORMS, m.form), [Part(t[p.type], t[p.text], t[p.raw]) for p in m.parts],
            [ToolCall(t[c.name], t[c.arguments], t[c.id], t[c.type], t[c.parsed], c.as_object, self.members(c.extra)) for c in m.tool_calls],
            t[m.tool_call_id], t[m.name], t[m.reasoning], t[m.reasoning_key], self.members(m.extra))

    def members(self, members: Any) -> list[tuple[str, str]]:
        return [(self.texts[m.key], self.texts[m.value]) for m in members]
