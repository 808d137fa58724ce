"""Rows for the tests of natgo.trl: conversations of several turns with tools, results and reasoning, as pairs and as traces."""

import json
import math
import random

TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"{name} something", "parameters": {
        "type": "object", "properties": {key: {"type": "string"}}, "required": [key]}}}
    for name, key in (("find", "query"), ("book", "slot"))
]
KINDS = ("turns", "calls", "reasoning")


def words(rng, n):
    return " ".join(rng.choice(["two", "rooms", "are", "free", "on", "Monday", "at", "noon", "für", "Ada", "Grace"]) for _ in range(n))


def answer(rng, reasoning, content, calls=()):
    message = {"role": "assistant", "content": content}
    if reasoning:
        message["reasoning_content"] = words(rng, 4)
    if calls:
        message["tool_calls"] = list(calls)
    return message


def called(rng, name, long=0):
    key = "query" if name == "find" else "slot"
    ident = f"c{rng.randrange(10**8):08d}"
    return (
        {"id": ident, "type": "function", "function": {"name": name, "arguments": {key: words(rng, 2)}}},
        {"role": "tool", "tool_call_id": ident, "content": words(rng, long or rng.randint(2, 12))},
    )


def side(rng, kind, steps, long):
    """Makes one continuation: calls with their results, as many as there are steps, then an answer."""
    messages = []
    for step in range(steps):
        call, result = called(rng, rng.choice(["find", "book"]), long if step == 0 else 0)
        messages += [answer(rng, kind == "reasoning", "", [call]), result]
    return messages + [answer(rng, kind == "reasoning", words(rng, rng.randint(3, 9)))]


def pair(rng, at, long=0):
    kind = KINDS[at % len(KINDS)]
    prompt = [{"role": "system", "content": "You book rooms."}]
    for _ in range(rng.randint(1, 3) if kind == "turns" else 0):
        prompt += [{"role": "user", "content": words(rng, 4)}, {"role": "assistant", "content": words(rng, 4)}]
    prompt.append({"role": "user", "content": words(rng, 5) + f" ({at})"})
    steps = 0 if kind == "turns" else rng.randint(1, 3)
    return {"id": f"p{at}", "kind": kind, "tools": TOOLS, "prompt": prompt,
            "chosen": side(rng, kind, steps, long), "rejected": side(rng, kind, rng.randint(0, steps), 0)}


def trace(rng, at, long=0):
    p = pair(rng, at, long)
    return {"id": f"t{at}", "kind": p["kind"], "task_id": f"task{at}", "tools": TOOLS, "messages": p["prompt"] + p["chosen"], "reward": 1.0}


def write(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def rows(make, count, long=0):
    """Makes count rows, the last of which has a tool result of long words."""
    rng = random.Random(7)
    return [make(rng, at, long if at == count - 1 else 0) for at in range(count)]


def random_rows(rng, count, vocab, stored=False):
    """Rows of hints: students, teachers with hints spliced in, pairs of unequal weight, some of weight 0."""
    out = []
    for _ in range(count):
        ids = [rng.randrange(vocab) for _ in range(rng.randint(6, 24))]
        row = {"student_input_ids": ids, "teacher_input_ids": [], "pair_pos": [], "pair_teacher": [], "pair_teacher_pos": [], "pair_target_id": [],
               "pair_site": [], "pair_weight": [], "contrast_input_ids": [], "pair_contrast_pos": []}
        for site in range(rng.randint(0 if out else 1, 2)):
            start = rng.randint(1, len(ids) - 3)
            end = rng.randint(start + 1, len(ids) - 1)
            at, hint = rng.randint(0, start), [rng.randrange(vocab) for _ in range(rng.randint(1, 5))]
            wrong = [(t + 1) % vocab for t in (hint * 2)[: len(hint) % 3 + 1]]
            row["teacher_input_ids"].append(ids[:at] + hint + ids[at : end + 1])
            row["contrast_input_ids"].append(ids[:at] + wrong + ids[at : end + 1])
            for pos in range(start, end):
                if pos not in row["pair_pos"]:
                    row["pair_pos"].append(pos)
                    row["pair_teacher"].append(site)
                    row["pair_teacher_pos"].append(pos + len(hint))
                    row["pair_contrast_pos"].append(pos + len(wrong))
                    row["pair_target_id"].append(ids[pos + 1])
                    row["pair_site"].append(site)
                    row["pair_weight"].append(rng.choice([0.0, 0.5, 1.0, 3.0]))
        if stored:
            tops = [[rng.sample(range(vocab), k) + [-1] * (4 - k), k] for k in (rng.randint(0, 4) for _ in row["pair_pos"])]
            row["pair_teacher_topk_ids"] = [ids for ids, _ in tops]
            row["pair_teacher_topk_logprobs"] = [[math.log(x) for x in share(rng, k)] + [-math.inf] * (4 - k) for _, k in tops]
        out.append(row)
    return out


def share(rng, k):
    parts = [rng.random() + 1e-3 for _ in range(k)]
    return [x / (sum(parts) + rng.random()) for x in parts]


def shrink(folder):
    """Leaves a model one layer with one head: attention over 20,000 tokens takes long enough with that."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    sizes = dict(num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1, hidden_size=32, intermediate_size=64, head_dim=16)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder, **sizes)).save_pretrained(folder)


if __name__ == "__main__":
    import sys

    if sys.argv[1] == "shrink":
        shrink(sys.argv[2])
        sys.exit()
    folder, count, long = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    write(f"{folder}/pairs.jsonl", rows(pair, count, long))
    write(f"{folder}/traces.jsonl", rows(trace, count, long))
