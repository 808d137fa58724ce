"""Finds the pairs of rollouts that diverge, by comparing every two lines of a verifiers file, independently of nat-go.

    python3 divergence.py traces.jsonl

It prints the pairs sorted, one per line, equal ones once: the shared messages, then how the better and the worse
rollout went on.
"""

import itertools
import json
import sys


def message(node):
    m = node["message"]
    calls = [(c["name"], json.loads(c["arguments"])) for c in m.get("tool_calls") or []]
    return [m["role"], m.get("content") or "", calls]


def rollout(line):
    episode = json.loads(line)
    trace = episode["traces"][0]
    reward = sum(r["score"] * r["weight"] for r in trace["rewards"].values())
    return {
        "task": trace["task"]["key"], "tools": trace["nodes"][0].get("tools") or trace.get("tools"), "reward": reward,
        "messages": [message(n) for n in trace["nodes"]],
    }


def pair(better, worse):
    a, b = better["messages"], worse["messages"]
    if better["task"] != worse["task"] or better["tools"] != worse["tools"] or better["reward"] <= worse["reward"]:
        return None
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1
    if shared in (len(a), len(b)) or a[shared][0] != "assistant" or b[shared][0] != "assistant":
        return None  # one goes on, or what parted was not the model's
    return [a[:shared], answered(a[shared:]), answered(b[shared:])]


def answered(messages):
    """Leaves out results that the model never answered."""
    while messages[-1][0] != "assistant":
        messages = messages[:-1]
    return messages


with open(sys.argv[1]) as f:
    rollouts = [rollout(line) for line in f]
pairs = [p for a, b in itertools.permutations(rollouts, 2) if (p := pair(a, b))]
for line in sorted({json.dumps(p, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for p in pairs}):
    print(line)
