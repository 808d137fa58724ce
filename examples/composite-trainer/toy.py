"""A world of tools small enough for a tiny model: real on-policy data for all three channels.

A user asks for a verb on an object. Each verb's tool has been renamed. The model starts with the habit of using the old
names; the environment answers such a call with an error, and the hint says what the model could have known: which tools
there are. The model samples the rollouts itself, token by token, with their ids and log-probs; nothing is re-rendered.
They yield, in the format nat-go writes:

    rl     all rollouts, advantages within the task
    sdpo   a site for each failed call: the hint goes before the failed turn, the turn is the target
    dpo    first calls at the same prompt: one that worked over one that failed

    python3 toy.py --output out --rounds 8     warm up, then alternately sample and train; prints the share of first calls that work
"""

import argparse
import hashlib
import json
import random
from pathlib import Path

import torch
from safetensors.torch import save, save_file

from natgo.trl.microbatch import IGNORED, read
from natgo.trl.losses import Objective
from natgo.trl.scoring import Teacher, frozen, scoring
from train import TinyDecoder, fit

VERBS = ["find", "open", "list", "send", "sort", "plot"]
WORDS = (["!", "<user>", "<assistant>", "<tool>", "<system>", "<end>", "ok", "error", "unknown", "tools", "done", "failed"]
         + VERBS + [v + "_old" for v in VERBS] + [v + "_new" for v in VERBS] + [f"object{i}" for i in range(6)])
ID = {w: i for i, w in enumerate(WORDS)}  # id 0 is a word like any other: padding must not be recognised by its id
END = ID["<end>"]


def ids(text):
    return [ID[w] for w in text.split()]


def text(tokens):
    return " ".join(WORDS[i] for i in tokens)


def hint(verb):
    return ids(f"<system> tools {verb}_new <end>")


class Rollout:
    """One attempt at a task: its tokens, which of them the model sampled, and their log-probs."""

    def __init__(self, verb, thing):
        self.verb, self.thing = verb, thing
        self.ids = ids(f"<user> {verb} {thing} <end>")
        self.logprobs = [None] * len(self.ids)  # None: not sampled
        self.turns, self.failed, self.over, self.reward = [], [], False, 0.0
        self.add(ids("<assistant>"))
        self.header = len(self.ids) - 1

    def add(self, tokens, logprobs=None):
        self.ids += tokens
        self.logprobs += logprobs or [None] * len(tokens)

    def react(self):
        """The environment's answer once a turn has ended."""
        turn = self.ids[self.header + 1:]
        self.turns.append((self.header, len(self.ids)))
        if turn[-1] != END or turn[0] in (ID["done"], ID["failed"]) or len(self.turns) == 3:
            self.over = True
            return
        if turn == ids(f"{self.verb}_new {self.thing} <end>"):
            self.reward = self.reward or (1.0 if len(self.turns) == 1 else 0.5)
            self.add(ids("<tool> ok <end> <assistant>"))
        else:
            self.failed.append(len(self.turns) - 1)
            name = turn[0] if len(turn) > 1 else ID["!"]
            self.add(ids("<tool> error unknown") + [name] + ids("<end> <assistant>"))
        self.header = len(self.ids) - 1


def rollouts(model, tasks, each, generator):
    """`each` attempts at every task, sampled from the model at temperature 1, all side by side."""
    all_ = [Rollout(*task) for task in tasks for _ in range(each)]
    with scoring(model):
        while True:
            live = [r for r in all_ if not r.over]
            if not live:
                return all_
            length = torch.tensor([len(r.ids) for r in live])
            at = torch.arange(int(length.max()))
            mask = (at < length[:, None]).long()
            grid = torch.nn.utils.rnn.pad_sequence([torch.tensor(r.ids) for r in live], batch_first=True)
            logp = model(grid, mask, at * mask, torch.arange(len(live)), length - 1).log_softmax(1)
            for r, row, choice in zip(live, logp, torch.multinomial(logp.exp(), 1, generator=generator)[:, 0].tolist()):
                r.add([choice], [float(row[choice])])
                if choice == END or len(r.ids) - r.header > 6:
                    r.react()


def grid(name, rows, fill=0, dtype=torch.int64):
    width = max(len(r) for r in rows)
    return {name: torch.tensor([list(r) + [fill] * (width - len(r)) for r in rows], dtype=dtype)}


def side(prefix, rows, pad):
    return {**grid(prefix + "input_ids", rows, pad), **grid(prefix + "attention_mask", [[1] * len(r) for r in rows]),
            **grid(prefix + "position_ids", [range(len(r)) for r in rows])}


class Writer:
    """Writes batches and their index as nat-go does, with only the parts of a line that a trainer reads."""

    def __init__(self, root, vocab=len(WORDS), pad=0):
        self.root, self.vocab, self.pad, self.lines, self.count = Path(root), vocab, pad, [], {}

    def write(self, channel, split, tensors, rows, **line):
        key = f"{channel}/{split}"
        number = self.count[key] = self.count.get(key, -1) + 1
        name = f"{key}/{number:05d}.safetensors"
        (self.root / key).mkdir(parents=True, exist_ok=True)
        data = save({"row_weight": torch.ones(rows), **tensors})
        (self.root / name).write_bytes(data)
        self.lines.append({"file": name, "channel": channel, "split": split, "rows": rows, "pad_id": self.pad, "vocab_size": self.vocab,
                           "sites": [], **line, "proof": {"sha256": hashlib.sha256(data).hexdigest()}})

    def close(self):
        (self.root / "index.jsonl").write_text("".join(json.dumps(l) + "\n" for l in self.lines), "utf-8")

    def rl(self, split, group):
        """group: lists of rollouts for the same task; advantages are (reward - mean) / (deviation + 1e-4)."""
        rows, advantage = [r for g in group for r in g], []
        for g in group:
            reward = torch.tensor([r.reward for r in g])
            advantage.append((reward - reward.mean()) / (reward.std() + 1e-4))
        self.write("rl", split, {
            **side("", [r.ids for r in rows], self.pad), **grid("response_mask", [[int(p is not None) for p in r.logprobs] for r in rows]),
            **grid("old_logprobs", [[p or 0.0 for p in r.logprobs] for r in rows], 0.0, torch.float32),
            "reward": torch.tensor([r.reward for r in rows]), "advantage": torch.cat(advantage),
            "reward_null": torch.zeros(len(rows), dtype=torch.int64), "group": torch.tensor([i for i, g in enumerate(group) for _ in g])}, len(rows))

    def sdpo(self, split, rows, hint=hint):
        """One student row per rollout, one teacher row per failed call."""
        students, teachers, pairs, sites = [], [], [], []
        for r in rows:
            last = max(r.turns[k][1] for k in r.failed)
            for k in r.failed:
                start, end = r.turns[k]
                fragment = hint(r.verb)
                for at in range(start, end - 1):
                    pairs.append((len(students), at, len(teachers), at + len(fragment), r.ids[at + 1], len(sites)))
                teachers.append(r.ids[:start] + fragment + r.ids[start:end])
                sites.append({"record": str(len(students)), "example": r.verb, "site": k, "hint_sha256": hashlib.sha256(text(fragment).encode()).hexdigest(),
                              "kind": "knowable", "class": "unknown_tool"})
            students.append(r.ids[:last])
        names = ("student_row", "student_pos", "teacher_row", "teacher_pos", "target_id", "site")
        columns = {"pair_" + n: torch.tensor(c) for n, c in zip(names, zip(*sorted(pairs)))}
        self.write("sdpo", split, {**side("student_", students, self.pad), **side("teacher_", teachers, self.pad), **columns,
                                   "pair_weight": torch.ones(len(pairs))}, len(students), sites=sites)

    def dpo(self, split, pairs):
        """pairs: (prompt, chosen, rejected) as ids."""
        tensors = {}
        for name, which in (("chosen_", 1), ("rejected_", 2)):
            tensors.update(side(name, [p[0] + p[which] for p in pairs], self.pad))
            tensors.update(grid(name + "labels", [[IGNORED] * len(p[0]) + p[which] for p in pairs], IGNORED))
        self.write("dpo", split, tensors, len(pairs))

    def sft(self, split, rows):
        """rows: (ids, trained), where trained is a set of positions."""
        labels = [[t if i in on else IGNORED for i, t in enumerate(r)] for r, on in rows]
        self.write("sft", split, {**side("", [r for r, _ in rows], self.pad), **grid("labels", labels, IGNORED)}, len(rows))


def demonstration(rng):
    """An episode in which the habit of using old names is seldom broken; a hint is always followed."""
    verb, thing = rng.choice(VERBS), f"object{rng.randrange(6)}"
    row, on = ids(f"<user> {verb} {thing} <end>"), set()

    def say(words):
        row.extend(ids("<assistant>"))
        on.update(range(len(row), len(row) + len(ids(words))))
        row.extend(ids(words))

    for attempt in range(2):
        hinted = rng.random() < 0.4
        if hinted:
            row.extend(hint(verb))
        if hinted or rng.random() < (0.25, 0.5)[attempt]:
            say(f"{verb}_new {thing} <end>")
            row.extend(ids("<tool> ok <end>"))
            say("done <end>")
            return row, on
        say(f"{verb}_old {thing} <end>")
        row.extend(ids(f"<tool> error unknown {verb}_old <end>"))
    say("failed <end>")
    return row, on


def warm_up(folder, seed, steps=150, make=TinyDecoder):
    """A model that knows the world and has the bad habit. `make` builds it for a vocabulary size."""
    rng, w = random.Random(seed), Writer(Path(folder) / "warm")
    for _ in range(30):
        w.sft("train", [demonstration(rng) for _ in range(32)])
    w.close()
    torch.manual_seed(seed)
    model = make(len(WORDS))
    fit(model, list(read(w.root)), Objective(), steps, 3e-3, Teacher(model, "live"), None, micro_rows=32, log=lambda line: None)
    return model


def sample(model, folder, seed, each=8, pad=0):
    """Writes rollouts of every verb as batches: on three objects for training, and on a fourth for validation."""
    g, w, tried = torch.Generator().manual_seed(seed), Writer(folder, pad=pad), []
    for split, things in (("train", (0, 1, 2)), ("validation", (3,))):
        tasks = [(v, f"object{i}") for v in VERBS for i in things]
        got = rollouts(model, tasks, each, g)
        tried += got
        groups = [got[i:i + each] for i in range(0, len(got), each)]
        w.rl(split, groups)
        failed = [r for r in got if r.failed]
        if failed:
            w.sdpo(split, failed)
        pairs = []
        for group in groups:
            prompt = group[0].header and ids(f"<user> {group[0].verb} {group[0].thing} <end> <assistant>")
            first = [(r.ids[len(prompt):r.turns[0][1]], 0 in r.failed) for r in group]
            good, bad = [x for x, failed in first if not failed], [x for x, failed in first if failed]
            if good and bad:
                pairs.append((prompt, good[0], bad[0]))
        if pairs:
            w.dpo(split, pairs)
    w.close()
    return tried


def works(tried):
    """The share of rollouts whose first call worked."""
    return sum(r.reward == 1.0 for r in tried) / len(tried)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--output", required=True, help="folder for batches and weights")
    p.add_argument("--rounds", type=int, default=8)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    out = Path(a.output)
    torch.set_num_threads(1)  # at this size a second thread costs more than it gains
    model = warm_up(out, a.seed)
    save_file(model.state_dict(), str(out / "model.safetensors"))
    for n in range(a.rounds):
        tried = sample(model, out / f"round{n}", seed=a.seed + n)
        start, last = frozen(model), {}
        fit(model, list(read(out / f"round{n}", split="train")), Objective(alpha_sdpo=1.0, beta_replay=1.0), 4, 3e-4, Teacher(model, "frozen", start=start), start,
            micro_rows=32, log=lambda line: last.setdefault(len(last), json.loads(line)))
        first = last[0]
        print(json.dumps({"round": n, "rollouts": len(tried), "first_call_works": round(works(tried), 3), "failed_calls": sum(len(r.failed) for r in tried),
                          **{k: first[k] for k in ("rl_ratio_off_1", "loss/sdpo_kl", "loss/trace_replay_dpo", "sdpo_target_logp") if k in first}}), flush=True)


if __name__ == "__main__":
    main()
