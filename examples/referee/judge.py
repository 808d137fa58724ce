"""Judges rows. It uses a chat template, a tokenizer and the rollouts, and nothing from nat-go or any trainer.

The model's input for a turn is the template's rendering of the messages before it with the generation prompt; its
output is what the template shows of the turn as the last message, up to the stop token. A row consists of ids and a
mask. For each turn that a row trains, the row up to the turn's end is compared with that input and output, token by
token.
"""

import bisect
import collections
import difflib
import functools
import json
import os
import pathlib
import re

import jinja2
import jinja2.sandbox
import tokenizers
import yaml

TEMPLATES = yaml.safe_load(pathlib.Path(__file__).with_name("referee.yml").read_text())["templates"]


def _refuse(text):
    raise jinja2.TemplateError(text)


def compiled(source, bos):
    """The template, compiled with the settings that transformers documents; generation tags show their contents."""
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    source = re.sub(r"({%-? *)generation\b", r"\1if true", re.sub(r"({%-? *)endgeneration\b", r"\1endif", source))
    env.filters["tojson"] = lambda x, indent=None, **_: json.dumps(x, ensure_ascii=False, indent=indent)
    env.globals.update(raise_exception=_refuse, bos_token=bos)
    return env.from_string(source)


def conversation(rollout, template):
    """The messages as the template expects them, up to the last answer: arguments as objects, no null content; for a
    template without calls, calls in the text."""
    out = []
    for m in rollout["traj"]:
        m = {k: m[k] for k in ("role", "content", "tool_calls", "tool_call_id", "name") if m.get(k) is not None}
        calls = [{"id": c["id"], "type": "function", "function": {
            "name": c["function"]["name"], "arguments": json.loads(c["function"]["arguments"])}}
            for c in m.pop("tool_calls", [])]
        m.setdefault("content", "")
        if template.get("text"):
            texts = ["<tool_call>\n%s\n</tool_call>" % json.dumps(c["function"], ensure_ascii=False) for c in calls]
            m = {"role": m["role"], "content": "\n".join([m["content"]] * bool(m["content"]) + texts)}
        elif calls:
            m["tool_calls"] = calls
        out.append(m)
    while out[-1]["role"] != "assistant":
        out.pop()
    return out


Turn = collections.namedtuple("Turn", "index given written shown")


class Truth:
    """A rollout under a template: for each assistant message, the ids given and written (one pair per switch), and
    whether the template shows all of it."""

    def __init__(self, the, messages):
        self.the, self.of, self.messages = the, the.of, messages
        self.turns = [self._turn(i) for i, m in enumerate(messages) if m["role"] == "assistant"]

    def render(self, end, generate, **switch):
        return self.the.template.render(messages=self.messages[:end], tools=self.the.tools,
                                        add_generation_prompt=generate, **switch)

    def _written(self, text):
        """Cuts what the template adds after the stop token."""
        ends = [text.rfind(s) + len(s) for s in self.of["stops"] if s in text]
        return text[:max(ends)]

    def _turn(self, i):
        given, written = [], []
        for switch in self.of["switches"]:
            prompt = self.render(i, True, **switch)
            header = prompt[prompt.rindex(self.of["header"]):]
            shown = self.render(i + 1, False, **switch)
            text = self._written(shown[shown.rindex(header) + len(header):])
            given.append(self.the.ids(prompt))
            written.append(self.the.ids(text))
        m = self.messages[i]
        return Turn(i, given, written, m["content"].strip() in text)

    @functools.lru_cache(maxsize=256)
    def whole(self, end):
        """The ids of the conversation up to a message as the template shows it, and each turn's [start, end)."""
        text = self.render(end, False)
        enc = self.the.tokenizer.encode(text, add_special_tokens=False)
        starts = [a for a, _ in enc.offsets]
        at, spans = 0, []
        for turn in self.turns:
            if turn.index >= end:
                break
            begin = text.index(self.of["header"], at) + len(self.of["header"])
            at = min(text.index(s, begin) + len(s) for s in self.of["stops"] if s in text[begin:])
            spans.append((bisect.bisect_left(starts, begin), bisect.bisect_left(starts, at)))
        return enc.ids, spans


@functools.lru_cache(maxsize=1 << 14)
def _blocks(a, b):
    return [tuple(m) for m in difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks() if m.size]


def matches(a, b, special):
    """Pairs (i, j, n): a[i:i+n] == b[j:j+n], in order. Long texts are compared message by message first."""
    head = len(os.path.commonprefix([a, b]))
    tail = len(os.path.commonprefix([a[head:][::-1], b[head:][::-1]]))
    out = [(0, 0, head)] if head else []
    mid_a, mid_b = a[head:len(a) - tail], b[head:len(b) - tail]
    if mid_a and mid_b:
        parts_a, parts_b = _parts(mid_a, special), _parts(mid_b, special)
        place = lambda parts, at: [at + sum(map(len, parts[:k])) for k in range(len(parts) + 1)]
        at_a, at_b = place(parts_a, head), place(parts_b, head)
        for op, i1, i2, j1, j2 in difflib.SequenceMatcher(None, parts_a, parts_b, autojunk=False).get_opcodes():
            i, j = at_a[i1], at_b[j1]
            if op == "equal":
                out.append((i, j, at_a[i2] - i))
            elif op == "replace":
                x, y = tuple(a[i:at_a[i2]]), tuple(b[j:at_b[j2]])
                out.extend((i + p, j + q, n) for p, q, n in _blocks(x, y))
    if tail:
        out.append((len(a) - tail, len(b) - tail, tail))
    return out


def _parts(ids, special):
    out, part = [], []
    for t in ids:
        part.append(t)
        if t in special:
            out.append(tuple(part))
            part = []
    return out + [tuple(part)] * bool(part)


class Judge:
    """Judges one stack's rows under one template."""

    def __init__(self, name, source, tokenizer_file, rollouts, tools):
        self.of = TEMPLATES[name]
        self.tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
        self.template = compiled(source, "<|begin_of_text|>")
        self.special = frozenset(k for k, v in self.tokenizer.get_added_tokens_decoder().items() if v.special)
        self.tools = None if self.of.get("text") else tools
        added = sorted((v.content for v in self.tokenizer.get_added_tokens_decoder().values()), key=len, reverse=True)
        self.marks = re.compile("(%s)" % "|".join(map(re.escape, added)))
        self.part = functools.lru_cache(maxsize=None)(
            lambda text: self.tokenizer.encode(text, add_special_tokens=False).ids)
        self.truths = [Truth(self, conversation(r, self.of)) for r in rollouts]
        self.header, self.newline = self.ids(self.of["header"]), set(self.ids("\n"))

    def ids(self, text):
        """Added tokens are split off before anything else is tokenised; text between them is tokenised only once."""
        return [i for part in self.marks.split(text) if part for i in self.part(part)]

    def row(self, row, truth, trained, found):
        """Adds a row's errors to found, and the turns that it trains to trained."""
        ids, mask = row["ids"], row["mask"]
        end = row["upto"] or min(truth.turns, key=lambda t: min(  # the answer that it ends with, by its length
            abs(len(g) + len(w) - len(ids)) for g, w in zip(t.given, t.written))).index + 1
        whole, spans = truth.whole(end)
        pairs = matches(whole, ids, self.special)
        starts = [p[0] for p in pairs]

        def place(i):  # of a token of the whole conversation, in the row
            k = bisect.bisect_right(starts, i) - 1
            if k < 0:
                return 0
            a, b, n = pairs[k]
            return b + min(i - a, n)

        inside = bytearray(len(ids))
        other = set()
        for turn, (a, b) in zip(truth.turns, spans):
            s, e = place(a - 1), min(place(b - 1) + 1, len(ids))
            s += s < len(ids) and ids[s] == whole[a - 1]  # from the header's end: a row may add to the turn's start
            if not any(mask[s:e]):
                continue
            trained.add(turn.index)
            inside[s:e] = b"\1" * (e - s)
            best = min((self.turn(ids, mask, s, e, g, w) for g, w in zip(turn.given, turn.written)),
                       key=lambda v: (len(v["ids"]) + v["untrained"] + v["unwritten"]))
            if not turn.shown:  # the template shows only part of what the model wrote: training it or not is a choice
                found["partly shown"] += 1
                continue
            found["turns"] += 1
            found["other context"] += bool(best["context"])
            other |= best["ids"]
            for key in ("untrained", "unwritten", "stopless"):
                found[key] += best[key]
        size = len(self.header)
        headers = {k for j in range(size, len(ids)) if inside[j] > inside[j - 1] and ids[j - size:j] == self.header
                   for k in range(j - size, j)}
        for j, m in enumerate(mask):
            if m and not inside[j]:
                after = j and inside[j - 1] and ids[j] in self.newline
                found["newline" if after else "header" if j in headers else "unwritten"] += 1
        found["ids"] += len(other)

    def turn(self, ids, mask, s, e, given, written):
        truth = given + written
        seen, at_row, at_truth, differ, context = {}, 0, 0, set(), False
        for i, j, n in matches(ids[:e], truth, self.special) + [(e, len(truth), 0)]:
            differ.update(("row", k) for k in range(at_row, i))
            differ.update(("truth", at_row, k - at_truth) for k in range(at_truth, j))
            context |= (i > at_row and at_row < s and j <= len(given)) or (j > at_truth and at_truth < len(given))
            for k in range(max(0, len(given) - j, s - i), n):
                seen[i + k] = j + k
            at_row, at_truth = i + n, j + n
        good = {j for i, j in seen.items() if mask[i] and j >= len(given)}
        return {"ids": differ, "context": context, "untrained": len(written) - len(good),
                "stopless": len(truth) - 1 not in good,
                "unwritten": sum(1 for k in range(s, e) if mask[k] and seen.get(k, -1) < len(given))}

    def judge(self, rows, refused=()):
        """The cell: counts, and the three rows with the most errors."""
        total, worst = collections.Counter(), []
        trained = collections.defaultdict(set)
        for n, row in enumerate(rows):
            found = collections.Counter()
            self.row(row, self.truths[row["rollout"]], trained[row["rollout"]], found)
            total += found
            wrong = sum(found[k] for k in ("ids", "untrained", "unwritten", "stopless"))
            worst.append((wrong, n, dict(found)))
        for r, truth in enumerate(self.truths):
            if r in refused:
                continue
            for turn in truth.turns:
                if turn.index not in trained[r]:
                    if turn.shown:
                        total["turns"] += 1
                        total["untaught"] += 1
                        total["untrained"] += len(turn.written[0])
                        total["stopless"] += 1
                    else:
                        total["partly shown"] += 1
        total["rows"], total["refused"] = len(rows), len(refused)
        worst.sort(key=lambda w: (-w[0], w[1]))
        return dict(total), [w for w in worst[:3] if w[0]]
