"""A builder's results for its groups, split into frames."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from natgo.builder import builder_pb2 as pb
from natgo.builder.declare import KINDS, Kind
from natgo.builder.group import Candidate, Example, Group, Message, Prompt
from natgo.builder.reading import FORMS
from natgo.builder.records import Content, Count, Demonstration, Distillation, Drop, Preference, Rollout, Site, Span, State, Train

FRAME = 256 << 10  # the size that frames aim for
LIMIT = 7 << 20  # what a single record may have besides its texts: a frame has at most 8 MiB
MOST_COUNTERS = 256
TRAIN: tuple[Train, ...] = ("all", "last", "calls", "flagged")
UNITS = ("candidate", "example", "group", "pair", "record", "rollout", "site", "step", "turn")


class Writer:
    """Writes the results for one group after another. send takes a frame's parts."""

    def __init__(self, send: Callable[[list[Any]], None]) -> None:
        self.send, self.bytes = send, 0
        self.frame: list[Any] = []

    def begin(self, number: int, group: Group) -> None:
        self.group, self.number, self.parts = group, number, 0
        self.ids: dict[str, int] = {"": 0}
        self.size = 0  # of the group's texts
        self.records = self.drops = 0
        self.counts: dict[str, int] = {}
        self.places: dict[int, tuple[int, int]] | None = None
        self.open()

    def open(self) -> None:
        self.part = pb.ResultPart(group=self.number, part=self.parts)
        self.frame.append(self.part)
        self.blob = bytearray()
        self.parts += 1
        self.bytes += 24

    def split(self) -> None:
        """Ends the frame within the group."""
        self.part.text = bytes(self.blob)
        self.flush()
        self.open()

    def flush(self) -> None:
        if self.frame:
            frame, self.frame, self.bytes = self.frame, [], 0
            self.send(frame)

    def done(self, message: str = "", stack: str = "") -> None:
        """Ends the group; a message says that the builder failed on it."""
        done = pb.Done(records=self.records, drops=self.drops)
        if message:
            done.error.CopyFrom(pb.GroupError(message=self.text(message), stack=self.text(stack)))
        for name, n in self.counts.items():
            done.counts.add(name=self.text(name), n=n)
        self.part.done.CopyFrom(done)
        self.part.text = bytes(self.blob)
        self.bytes += 16
        if self.bytes >= FRAME:
            self.flush()

    def text(self, s: str) -> int:
        """The number of a text, which is sent if it is new. A long text is split at a frame's end."""
        if not isinstance(s, str):
            raise TypeError(f"{what(s)} stands where a text belongs")
        if s in self.ids:
            return self.ids[s]
        data = s.encode("utf-8", "surrogatepass")
        self.size += len(data)
        while len(data) > FRAME // 4 and len(data) > FRAME - self.bytes:
            room = max(FRAME - self.bytes, 0)
            self.blob += data[:room]
            data = data[room:]
            self.split()
        self.blob += data
        self.bytes += len(data) + 4
        self.part.ends.append(self.size)
        self.ids[s] = len(self.ids)
        return self.ids[s]

    def add(self, item: Any, kinds: Sequence[Kind]) -> None:
        """Writes what a builder yielded, or raises an error if that can't be sent."""
        kind = KINDS.get(type(item))
        if isinstance(item, Count):
            self.count(item)
        elif isinstance(item, Drop):
            self.put(self.drop(item))
            self.drops += 1
        elif kind is None:
            raise TypeError(f"it yielded {what(item)}, which is neither a record nor a drop, Count or Progress")
        elif kind not in kinds:
            raise TypeError(f"it yielded a record of the kind {kind}, and was declared to yield {', '.join(kinds)}")
        else:
            self.put(pb.Record(**{kind: getattr(self, kind)(item)}))
            self.records += 1

    def put(self, message: Any) -> None:
        """Writes a record or a drop into the part that its texts end in, or a later one."""
        size = message.ByteSize()
        if size > LIMIT:
            raise ValueError(f"a record of {size >> 20} MiB besides its texts; at most {LIMIT >> 20} MiB can be sent")
        if self.bytes + size > 2 * FRAME:
            self.split()
        (self.part.drops if isinstance(message, pb.Drop) else self.part.records).append(message)
        self.bytes += size + 8
        if self.bytes >= FRAME:
            self.split()

    def count(self, c: Count) -> None:
        if not isinstance(c.name, str) or type(c.n) is not int:
            raise TypeError(f"a Count has a name and an integer, not {what(c.name)} and {what(c.n)}")
        if c.name not in self.counts and len(self.counts) == MOST_COUNTERS:
            raise ValueError(f"more than {MOST_COUNTERS} counters")
        self.counts[c.name] = self.counts.get(c.name, 0) + c.n

    # --- positions in the group ---

    def place(self, of: Example | Candidate) -> tuple[int, int]:
        """The index of an example in the group and -1, or the indices of a candidate's example and of the candidate."""
        if self.places is None:
            self.places = {}
            for e, example in enumerate(self.group.examples):
                self.places[id(example)] = (e, -1)
                for c, candidate in enumerate(example.candidates):
                    self.places[id(candidate)] = (e, c)
        found = self.places.get(id(of))
        if found is None:
            raise ValueError(f"a {type(of).__name__} that is not one of the group's own: give its texts instead")
        return found

    def example(self, record: Any, *contents: Any) -> int:
        """The index of the example that a record comes from."""
        if record.example is not None:
            if not isinstance(record.example, Example):
                raise TypeError(f"example is {what(record.example)}, not an Example of the group")
            return self.place(record.example)[0]
        for content in contents:
            if isinstance(content, (Candidate, Span)):
                return self.place(content.example if isinstance(content, Span) else content)[0]
        if len(self.group.examples) > 1:
            raise ValueError(f"nothing says which of the group's {len(self.group.examples)} examples a {type(record).__name__} comes from: give example=")
        return 0

    def head(self, record: Any, *contents: Any) -> Any:
        candidate = next((c for c in contents if isinstance(c, Candidate)), None)
        turn = record.turn if record.turn is not None else candidate.turn if candidate else ""
        metadata = record.metadata
        if metadata is not None and not isinstance(metadata, str):
            metadata = json.dumps(dict(metadata), ensure_ascii=False)
        return pb.Head(example=self.example(record, *contents), turn=self.text(turn), metadata=self.text(metadata or ""))

    # --- records ---

    def content(self, of: Content, prompt: bool = False) -> Any:
        if isinstance(of, Candidate):
            example, candidate = self.place(of)
            part = pb.CONTENT_PART_CANDIDATE_PROMPT if prompt else pb.CONTENT_PART_CANDIDATE_OUTPUT
            return pb.Content(part=part, example=example, candidate=candidate)
        if isinstance(of, Span):
            return pb.Content(part=pb.CONTENT_PART_NODE_SPAN, example=self.place(of.example)[0], last=of.last, skip=of.skip)
        if isinstance(of, Prompt):
            of = of.messages if of.form == "messages" else of.text
        if isinstance(of, str):
            return pb.Content(part=pb.CONTENT_PART_INLINE_TEXT, text=self.text(of))
        if isinstance(of, (list, tuple)):
            return pb.Content(part=pb.CONTENT_PART_INLINE_MESSAGES, messages=[self.message(m) for m in of])
        raise TypeError(f"{what(of)} stands where content belongs: a text, messages, a Candidate or a Span")

    def message(self, m: Message) -> Any:
        if not isinstance(m, Message):
            raise TypeError(f"{what(m)} stands where a Message belongs")
        return pb.Message(
            role=self.text(m.role), form=choice(FORMS, m.form, "form"), text=self.text(m.text), name=self.text(m.name),
            parts=[pb.Part(type=self.text(p.type), text=self.text(p.text), raw=self.text(p.raw)) for p in m.parts],
            tool_calls=[pb.ToolCall(
                id=self.text(c.id), type=self.text(c.type), name=self.text(c.name), arguments=self.text(c.arguments),
                parsed=self.text(c.parsed), as_object=c.as_object, extra=self.members(c.extra)) for c in m.tool_calls],
            tool_call_id=self.text(m.tool_call_id), reasoning=self.text(m.reasoning), reasoning_key=self.text(m.reasoning_key),
            extra=self.members(m.extra))

    def members(self, members: list[tuple[str, str]]) -> list[Any]:
        return [pb.Member(key=self.text(key), value=self.text(value)) for key, value in members]

    def preference(self, p: Preference) -> Any:
        a = p.chosen if isinstance(p.chosen, Candidate) else None
        b = p.rejected if isinstance(p.rejected, Candidate) else None
        prompt = p.prompt if p.prompt is not None else a
        if prompt is None:
            raise ValueError("a Preference whose chosen side is not a Candidate needs a prompt")
        chosen = p.chosen_score if p.chosen_score is not None else a.score if a else 0.0
        rejected = p.rejected_score if p.rejected_score is not None else b.score if b else 0.0
        return pb.Preference(
            head=self.head(p, p.chosen, p.rejected, prompt), prompt=self.content(prompt, True), chosen=self.content(p.chosen),
            rejected=self.content(p.rejected), reward=p.reward if p.reward is not None else chosen - rejected,
            score_name=self.text(p.score_name if p.score_name is not None else a.step if a else ""),
            chosen_score=chosen, rejected_score=rejected,
            chosen_index=p.chosen_index if p.chosen_index is not None else a.index if a else 0,
            rejected_index=p.rejected_index if p.rejected_index is not None else b.index if b else 0,
            chosen_policy=self.text(p.chosen_policy), rejected_policy=self.text(p.rejected_policy))

    def demonstration(self, d: Demonstration) -> Any:
        return pb.Demonstration(
            head=self.head(d, d.messages), messages=self.content(d.messages), train=choice(TRAIN, d.train, "train"),
            trained=d.trained, weight=d.weight, score=d.score, mask_reasoning=d.mask_reasoning)

    def rollout(self, r: Rollout) -> Any:
        head = self.head(r, r.messages)
        return pb.Rollout(head=head, messages=self.content(r.messages), reward=r.reward, task=self.task(r, head))

    def state(self, s: State) -> Any:
        head = self.head(s, s.messages)
        return pb.State(head=head, messages=self.content(s.messages, True), task=self.task(s, head))

    def task(self, of: Rollout | State, head: Any) -> int:
        return self.text(of.task if of.task is not None else self.group.examples[head.example].task)

    def distillation(self, d: Distillation) -> Any:
        return pb.Distillation(
            head=self.head(d, d.messages), messages=self.content(d.messages), sites=[self.site(s) for s in d.sites])

    def site(self, s: Site) -> Any:
        if not isinstance(s, Site):
            raise TypeError(f"{what(s)} stands where a Site belongs")
        return pb.Site(
            call=s.call, call_seq=s.call_seq, result=s.result, target=choice(("failed_turn", "next_turn"), s.target, "target"),
            tool=self.text(s.tool), error=self.text(s.error), hint=self.text(s.hint), hint_source=self.text(s.hint_source),
            hint_kind=choice(("knowable", "hindsight"), s.hint_kind, "hint_kind"))

    def drop(self, d: Drop) -> Any:
        if not isinstance(d.reason, str) or not d.reason:
            raise TypeError(f"a drop's reason is a text, not {what(d.reason)}")
        candidate = d.of if isinstance(d.of, Candidate) else None
        whole = len(self.group.examples) > 1 and d.of is None
        e, at = (0, -1) if d.of is None else self.place(d.of)
        example = self.group.examples[e]
        unit = d.unit or ("candidate" if candidate else "group" if whole else "example")
        choice(UNITS, unit, "unit")
        turn = d.turn if d.turn is not None else candidate.turn if candidate else ""
        index = d.index if d.index is not None else candidate.index if candidate else at
        return pb.Drop(
            reason=self.text(d.reason), unit=self.text(unit), detail=self.text(d.detail), run=example.run, example=self.text(example.id),
            turn=self.text(turn), index=index, file=self.text(example.file),
            offset=candidate.offset if candidate else example.offset, count=d.count)


def choice(words: Sequence[str], word: str, name: str) -> Any:
    """The index of a word."""
    if word not in words:
        raise ValueError(f"{name} is {word!r}; it is one of {', '.join(words)}")
    return words.index(word)


def what(value: object) -> str:
    """A value as shown in messages."""
    try:
        text = repr(value)
    except Exception:  # a repr of the author's
        text = "?"
    return f"{text[:100]} ({type(value).__name__})"
