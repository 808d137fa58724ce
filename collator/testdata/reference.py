"""The reference collator as it is described (its source is not available): the aligned variant, with every segment tokenised
alone, teacher and student rendered and tokenised whole, and per-token lists. Used to compare with, never to make data.

stdin: {"template", "tokenizer", "traces": file, "failed": {trace: [message, ...]}, "hint", "ask": "compare"|"time",
        "ours": [{"trace", "student", "teachers", "pairs": [[student position, teacher, teacher position, target]], "null": pairs}]}
compare, stdout: what of both is on the tokens it is meant for.  time, stdout: seconds of processor time of the best of three passes.
"""
import json
import math
import sys
import time

from tokenizers import Tokenizer

from hf import Renderer, normalised

IGNORE, PAD = -100, 0


class Reference:
    def __init__(self, template, tokenizer, max_seq_len):
        self.render, self.tokenizer, self.max_seq_len = Renderer(template), tokenizer, max_seq_len

    def tokenise(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def templated(self, messages):
        return self.tokenise(self.render(messages)) if messages else []

    def filler(self, hint):
        """Filler whose length as text of its own is driven toward the hint's."""
        want = len(self.tokenise(hint))
        text = ". " * max(1, want)
        for _ in range(6):
            n = len(self.tokenise(text))
            if abs(n - want) <= 1 and n == want:
                break
            if n < want:
                text += ". "
            while n > want and len(text) > 1:
                text = text[:-1]
                n = len(self.tokenise(text))
        return text

    def context(self, turns, hints):
        """Messages and mask of a row: a system message before each failed turn, and the turn in the loss."""
        messages, mask = [], []
        for i, turn in enumerate(turns):
            hint = hints.get(i)
            if hint:
                messages.append({"role": "system", "content": hint})
                mask += [IGNORE] * len(self.tokenise(hint))
            if not turn.get("content"):
                continue
            messages.append({"role": turn.get("role", "assistant"), "content": turn["content"]})
            mask += [1 if hint else IGNORE] * len(self.tokenise(turn["content"]))
        ids = self.templated(messages)
        return messages, ids, (mask + [IGNORE] * len(ids))[: len(ids)]

    def collate(self, examples, hint):
        """A batch: dict of lists of lists. hint is the generator's answer for every failed turn."""
        channel1 = []
        for turns in examples:
            ids, response = [], []
            for turn in turns:
                if not turn.get("content"):
                    continue
                piece = self.tokenise(turn["content"])
                ids += piece
                response += [1 if turn.get("role") == "assistant" else 0] * len(piece)
            channel1.append((ids, response))
        out = {}
        sites = [{i: hint for i, turn in enumerate(turns) if turn.get("tool_error") is not None and hint} for turns in examples]
        if any(sites):
            teachers = [self.context(turns, s) for turns, s in zip(examples, sites)]
            width = min(self.max_seq_len, max(len(ids) for _, ids, _ in teachers))
            out["ctx_teacher_input_ids"] = [self.padded(ids, width, PAD) for _, ids, _ in teachers]
            out["sdpo_loss_mask"] = [self.padded(mask, width, IGNORE) for _, _, mask in teachers]
            out["teacher_messages"] = [m for m, _, _ in teachers]
            channel1 = []
            for turns, s in zip(examples, sites):  # the aligned variant: the student again, with filler for hints
                messages, ids, _ = self.context(turns, {i: self.filler(h) for i, h in s.items()})
                response = []
                for m in messages:
                    response += [1 if m["role"] == "assistant" else 0] * len(self.tokenise(m["content"]))
                channel1.append((ids, (response + [0] * len(ids))[: len(ids)]))
        else:
            width = min(self.max_seq_len, max(len(ids) for ids, _ in channel1))
        out["input_ids"] = [self.padded(ids, width, PAD) for ids, _ in channel1]
        out["attention_mask"] = [[1 if x != PAD else 0 for x in row] for row in out["input_ids"]]
        out["response_mask"] = [self.padded(r, width, 0) for _, r in channel1]
        out["rewards"] = [0.0] * len(examples)
        return out

    @staticmethod
    def padded(row, width, fill):
        return (row + [fill] * (width - len(row)))[:width]


def turns_of(messages, failed, written):
    """A trace as the reference takes it. written: calls written into the text as the template would, since it reads no calls."""
    out = []
    for i, m in enumerate(messages):
        m = normalised(m)
        text = m["content"]
        if written:
            for c in m.get("tool_calls", []):
                f = c["function"]
                text += ("\n" if text else "") + '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>' % (f["name"], json.dumps(f["arguments"], ensure_ascii=False))
        turn = {"role": m["role"], "content": text}
        if i in failed:
            turn["tool_error"] = "tool_error"
        out.append(turn)
    return out


class Model:
    """Something that reads its tokens from left to right: a small recurrent net, the same for everybody."""

    width, classes = 8, 16

    def __init__(self):
        self.seed = 12345
        self.a = [[self.draw() for _ in range(self.width)] for _ in range(self.width)]
        self.head = [[3 * self.draw() for _ in range(self.width)] for _ in range(self.classes)]

    def draw(self):
        self.seed = (1103515245 * self.seed + 12345) % 2**31
        return self.seed / 2**30 - 1

    def distributions(self, ids):
        """What follows each position, as log-probabilities."""
        h, out = [0.0] * self.width, []
        for token in ids:
            h = [math.tanh(sum(w * x for w, x in zip(row, h)) + math.sin((token + 1) * (k + 1.7))) for k, row in enumerate(self.a)]
            logits = [sum(w * x for w, x in zip(row, h)) for row in self.head]
            total = math.log(sum(math.exp(x) for x in logits))
            out.append([x - total for x in logits])
        return out


def jsd(p, q):
    total = 0.0
    for a, b in zip(p, q):
        m = a + math.log((1 + math.exp(b - a)) / 2)
        total += 0.5 * (math.exp(a) * (a - m) + math.exp(b) * (b - m))
    return total


def spans(render, messages, wanted):
    """Characters of whole turns, their end mark included, in the render of all messages."""
    text, out = render(messages), []
    for k in wanted:
        start = len(render(messages[:k], prompt=True))
        end = len(render(messages[: k + 1]).rstrip("\n"))
        assert text.startswith(render(messages[:k], prompt=True))
        out.append((start, end))
    return text, out


def tokens_in(encoding, ranges):
    return {i for i, (a, b) in enumerate(encoding.offsets) if any(a >= s and b <= e for s, e in ranges)}


def compare(q, ref, traces):
    hint, model = q["hint"], Model()
    counts = dict.fromkeys(("sites", "positions", "on", "intended", "covered", "rows", "as_was", "null"), 0)
    theirs, ours, structured = dict(counts), dict(counts), 0
    nulls = {"theirs": [], "ours": []}
    for name, failed in q["failed"].items():
        messages = traces[name]
        bare = ref.collate([turns_of(messages, failed, False)], hint)
        structured += sum(x == 1 for x in bare["sdpo_loss_mask"][0])
        turns = turns_of(messages, failed, True)
        batch = ref.collate([turns], hint)
        student, teacher, mask = (batch[k][0] for k in ("input_ids", "ctx_teacher_input_ids", "sdpo_loss_mask"))
        told = batch["teacher_messages"][0]
        wanted = [k + 1 for k, m in enumerate(told) if m == {"role": "system", "content": hint}]
        text, ranges = spans(ref.render, told, wanted)
        encoding = ref.tokenizer.encode(text, add_special_tokens=False)
        intended = tokens_in(encoding, ranges)
        # The trainer reads the logits at each marked position, of both rows: they predict the token after it.
        marked = [t for t, x in enumerate(mask) if x == 1 and t + 1 < len(teacher)]
        hit = {t for t in marked if t + 1 in intended and student[t + 1] == teacher[t + 1]}
        theirs["sites"] += len(wanted)
        theirs["positions"] += len(marked)
        theirs["on"] += len(hit)
        theirs["intended"] += len(intended)
        theirs["covered"] += len(hit)
        theirs["rows"] += 1
        theirs["as_was"] += student[: len(mask)] == ref.templated([{"role": t["role"], "content": t["content"]} for t in turns])
        null = ref.collate([turns], " ")
        a, b = model.distributions(null["input_ids"][0]), model.distributions(null["ctx_teacher_input_ids"][0])
        nulls["theirs"] += [jsd(a[t], b[t]) for t, x in enumerate(null["sdpo_loss_mask"][0]) if x == 1]

        row = next(r for r in q["ours"] if r["trace"] == name)
        written = [{"role": t["role"], "content": t["content"]} for t in turns]
        text, ranges = spans(ref.render, written, failed)
        encoding = ref.tokenizer.encode(text, add_special_tokens=False)
        intended = tokens_in(encoding, ranges)
        ours["sites"] += len(failed)
        ours["rows"] += 1
        ours["as_was"] += encoding.ids[: len(row["student"])] == row["student"]
        hit = {p for p, k, t, _ in row["pairs"] if p + 1 in intended and row["teachers"][k][t + 1] == row["student"][p + 1]}
        ours["positions"] += len(row["pairs"])
        ours["on"] += sum(p in hit for p, _, _, _ in row["pairs"])
        ours["intended"] += len(intended)
        ours["covered"] += len(hit)
        a = model.distributions(row["student"])
        for k, ids in enumerate(row["null"]["teachers"]):
            b = model.distributions(ids)
            nulls["ours"] += [jsd(a[p], b[t]) for p, teacher, t, _ in row["null"]["pairs"] if teacher == k]
    for name, side in (("theirs", theirs), ("ours", ours)):
        side["null"] = sum(nulls[name]) / max(1, len(nulls[name]))
    return {"theirs": theirs, "ours": ours, "structured": structured}


def main():
    q = json.load(sys.stdin)
    ref = Reference(q["template"], Tokenizer.from_file(q["tokenizer"]), 1 << 20)
    traces = {"%s.%s" % (e["task_id"], e["trial"]): e["traj"] for e in json.load(open(q["traces"]))}
    if q["ask"] == "compare":
        print(json.dumps(compare(q, ref, traces)))
        return
    examples = [turns_of(traces[name], failed, True) for name, failed in q["failed"].items()]
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        for example in examples:
            ref.collate([example], q["hint"])
        best = min(best, time.process_time() - start)
    print(best)


if __name__ == "__main__":
    main()
