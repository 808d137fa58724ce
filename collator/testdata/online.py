"""The reference collator as it is described (reference.py) beside natgo.Collator, a call a rollout, by turns, in one process each.

natgo's calls go through a pipe to its nat-go, whose time counts. Every call has text that neither has seen before.

stdin: as reference.py, and {"program": nat-go, "folder": tokenizer with its template, "calls": n}
stdout: {"times": of the traces as they are, "processor": the same of processor time, "tokens": of the long rollout,
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

    def call(self, messages, failed):
        """Seconds, and of processor time, of both."""
        self.fresh += 1
        messages = [dict(m, content=f"{m.get('content') or ''} {self.fresh}.{i}") for i, m in enumerate(messages)]
        turns = turns_of(messages, failed, True)
        marked = [dict(m, tool_error="tool_error") if i in failed else m for i, m in enumerate(messages)]
        start, before = time.perf_counter(), time.process_time()
        theirs = self.reference.collate([turns], self.hint)
        theirs_took, theirs_used = time.perf_counter() - start, time.process_time() - before
        pid = self.ours.pid
        before = used(pid) if pid else 0
        start = time.perf_counter()
        ours = self.ours([{"messages": marked, "reward": 0.0}])
        ours_took = time.perf_counter() - start
        ours_used = used(self.ours.pid) - before
        assert "sdpo_loss_mask" in ours and "sdpo_loss_mask" in theirs, (ours.dropped, list(theirs))
        return theirs_took, ours_took, theirs_used, ours_used


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
    for name in list(failed)[:3]:
        beside.call(traces[name], failed[name])
    all_calls = [beside.call(traces[name], failed[name]) for _ in range(3) for name in failed]
    theirs, ours, theirs_used, ours_used = map(sum, zip(*all_calls))

    def tokens(messages):
        return len(beside.reference.templated([{"role": t["role"], "content": t["content"]} for t in turns_of(messages, (), True)]))

    messages, sites = long(traces, failed, tokens)
    rollouts = [beside.call(messages, sites) for _ in range(q["calls"])]
    print(json.dumps({
        "times": theirs / ours, "processor": theirs_used / ours_used, "tokens": tokens(messages), "sites": len(sites),
        "theirs": quantiles([r[0] for r in rollouts]), "ours": quantiles([r[1] for r in rollouts]),
    }))  # fmt: skip


main()
