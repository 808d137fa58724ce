"""The reference collator as it is described (reference.py) beside natgo.Collator, a call a rollout, by turns: a pass of one over
all rollouts, then one of the other.

natgo's calls go through a pipe to its nat-go, whose time counts. In every call each message has text that neither has seen
before, but for the system's, which is the same in all rollouts of an agent. In the first pass nat-go has seen none of the
conversations, and has no words in its memory.

stdin: as reference.py, and {"program": nat-go, "folder": tokenizer with its template, "calls": n}
stdout: {"times": of the traces as they are, "processor": the same of processor time, "first": both in the first pass,
         "tokens": of the long rollout, "sites": its errors,
         "theirs": [median, p99], "ours": [median, p99]: milliseconds for it}
"""
import json
import os
import sys
import time

from natgo import Collator
from reference import Reference, turns_of
from tokenizers import Tokenizer


def used(pid):
    """Processor time of this process and of nat-go, in seconds."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Beside:
    def __init__(self, q):
        self.hint = q["hint"]
        self.reference = Reference(q["template"], Tokenizer.from_file(q["tokenizer"]), 1 << 20)
        self.ours = Collator(
            q["folder"], ["rl", "sdpo"], names="composer", hints=lambda kind, meta: self.hint, program=q["program"],
            settings={"max_length": 1 << 17},
        )  # fmt: skip
        self.fresh = 0

    def made(self, messages, failed):
        """The rollout with text of its own, as either takes it."""
        self.fresh += 1
        messages = [m if m["role"] == "system" else dict(m, content=f"{m.get('content') or ''} {self.fresh}.{i}") for i, m in enumerate(messages)]
        marked = [dict(m, tool_error="tool_error") if i in failed else m for i, m in enumerate(messages)]
        return turns_of(messages, failed, True), [{"messages": marked, "reward": 0.0}]

    def round(self, rollouts):
        """Seconds of each call of theirs and of ours, and the processor time of all."""
        rollouts = [self.made(*r) for r in rollouts]
        before, theirs, ours = time.process_time(), [], []
        for turns, _ in rollouts:
            start = time.perf_counter()
            made = self.reference.collate([turns], self.hint)
            theirs.append(time.perf_counter() - start)
            assert "sdpo_loss_mask" in made
        theirs_used = time.process_time() - before
        before = used(self.ours.pid)
        for _, traces in rollouts:
            start = time.perf_counter()
            made = self.ours(traces)
            ours.append(time.perf_counter() - start)
            assert "sdpo_loss_mask" in made, made.dropped
        return theirs, ours, theirs_used, used(self.ours.pid) - before


def long(traces, failed, tokens):
    """A rollout of about so many tokens, of several put end to end."""
    messages, sites = [], set()
    for name in failed:
        for i, m in enumerate(traces[name]):
            if messages and m["role"] == "system":
                continue
            if tokens(messages + [m]) > 4000:
                return messages, sites
            if i in failed[name]:
                sites.add(len(messages))
            messages.append(m)
    return messages, sites


def quantiles(times):
    times = sorted(1000 * t for t in times)
    return [times[len(times) // 2], times[min(len(times) - 1, int(len(times) * 0.99))]]


def main():
    q = json.load(sys.stdin)
    beside = Beside(q)
    traces = {"%s.%s" % (e["task_id"], e["trial"]): e["traj"] for e in json.load(open(q["traces"]))}
    failed = {name: set(at) for name, at in q["failed"].items()}
    rollouts = [(traces[name], failed[name]) for name in failed]
    beside.ours([{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}])  # starts it
    theirs, ours, theirs_used, ours_used = zip(*[beside.round(rollouts) for _ in range(5)])

    def tokens(messages):
        return len(beside.reference.templated([{"role": t["role"], "content": t["content"]} for t in turns_of(messages, (), True)]))

    messages, sites = long(traces, failed, tokens)
    long_theirs, long_ours = [], []
    for _ in range(q["calls"] // 30):
        a, b, _, _ = beside.round([(messages, sites)] * 30)
        long_theirs += a
        long_ours += b
    print(json.dumps({
        "times": sum(map(sum, theirs)) / sum(map(sum, ours)), "processor": sum(theirs_used) / sum(ours_used),
        "first": [sum(theirs[0]) / sum(ours[0]), theirs_used[0] / ours_used[0]],
        "tokens": tokens(messages), "sites": len(sites), "theirs": quantiles(long_theirs), "ours": quantiles(long_ours),
    }))  # fmt: skip


main()
