"""Train on nat-go's batches: a tiny decoder of its own on the CPU, or a Hugging Face model where transformers is installed.

    python3 train.py --batches RUN/batches --alpha-sdpo 1 --beta-replay 1      # tiny: shows that the data trains
    python3 train.py --batches RUN/batches --model PATH/TO/HF --lr 1e-6        # a real one, GRPO and SFT alone
    python3 train.py --batches RUN/batches --steps 0                           # first-step values only

Progress is a JSON object per line on standard output. Under torchrun each rank takes its share of the micro-batches.
"""

import argparse
import dataclasses
import json
import math
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

from natgo.trl.microbatch import read, split, without_cut_off
from natgo.trl.losses import CHANNELS, Objective, composite, over_ranks, untargeted_kl
from natgo.trl.scoring import AtPositions, Teacher, frozen, scoring


class TinyDecoder(nn.Module):
    """A decoder small enough for a test: pre-norm blocks, rotary positions taken from position_ids, masked padding."""

    def __init__(self, vocab, width=64, layers=2, heads=4, dropout=0.0):
        super().__init__()
        self.heads, self.drop = heads, nn.Dropout(dropout)
        self.embed, self.lm_head, self.norm = nn.Embedding(vocab, width), nn.Linear(width, vocab, bias=False), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "before": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width, bias=False), "out": nn.Linear(width, width, bias=False),
            "after": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)}) for _ in range(layers))

    def forward(self, ids, mask, positions, row, at):
        x, (rows, length) = self.embed(ids), ids.shape
        size = x.shape[2] // self.heads
        angle = positions[:, None, :, None] * (10000.0 ** (-torch.arange(0, size, 2, device=x.device) / size))
        cos, sin = angle.cos().to(x), angle.sin().to(x)
        seen = torch.ones(length, length, dtype=torch.bool, device=x.device).tril() & mask[:, None, None, :].bool()
        hidden = torch.zeros(seen.shape, dtype=x.dtype, device=x.device).masked_fill(~seen, torch.finfo(x.dtype).min)

        def turn(v):
            a, b = v.chunk(2, -1)
            return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

        for block in self.blocks:
            q, k, v = block["qkv"](block["before"](x)).view(rows, length, 3, self.heads, size).permute(2, 0, 3, 1, 4)
            scores = (turn(q) @ turn(k).transpose(2, 3)) / size ** 0.5 + hidden
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, length, -1)
            x = x + self.drop(block["out"](mixed))
            x = x + self.drop(block["down"](F.gelu(block["up"](block["after"](x)))))
        return self.lm_head(self.norm(x[row, at]))


def load_model(name, init, vocab):
    """The tiny model, with weights from a file if one is given, or a transformers model from a folder."""
    if name != "tiny":
        from transformers import AutoModelForCausalLM
        return AtPositions(AutoModelForCausalLM.from_pretrained(name))
    model = TinyDecoder(vocab)
    if init:
        model.load_state_dict(load_file(init))
    return model


def ranks():
    return (dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else (0, 1)


def fit(model, batches, o: Objective, steps, lr, teacher: Teacher, start, micro_rows=8, batches_per_step=1, log=print):
    """Trains for a number of steps, each on the next batches of every channel. `start` is the reference policy."""
    rank, world = ranks()
    pools = {c: [b for b in batches if b.channel == c] for c in CHANNELS}
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    for step in range(max(steps, 1)):
        taken = [pool[(step * batches_per_step + i) % len(pool)] for pool in pools.values() for i in range(min(batches_per_step, len(pool)))]
        optimizer.zero_grad()
        metrics = composite(model, [m for b in taken for m in split(b, micro_rows)][rank::world], o, teacher, start)
        if steps:
            norm = float(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
            if not math.isfinite(norm):
                raise SystemExit(f"step {step + 1}: the gradient is {norm}: stopped before it reached the weights")
            optimizer.step()
            teacher.update()
        if rank == 0:
            log(json.dumps({"step": step + 1 if steps else 0, "total_steps": steps, **{k: float(f"{v:.6g}") for k, v in metrics.items()}}))


def evaluate(model, batches, o: Objective, teacher, start, micro_rows=8):
    """Metrics over all the batches at once, and the drift from `start` outside the pairs."""
    rank, world = ranks()
    mine = [m for b in batches for m in split(b, micro_rows)][rank::world]
    with scoring(model):
        out = composite(model, mine, o, teacher, start)
    drift = [untargeted_kl(model, start, b) for b in mine if b.channel == "sdpo"]
    kl, n = over_ranks([sum(d for d, _ in drift), sum(n for _, n in drift)], "SUM")
    return {**out, "untargeted_kl": kl / n} if n else out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--batches", required=True, help="folder with index.jsonl")
    p.add_argument("--model", default="tiny", help="tiny, or the folder of a Hugging Face model")
    p.add_argument("--init", help="safetensors file the tiny model starts from")
    p.add_argument("--output", help="folder for the trained weights")
    p.add_argument("--teacher", default="frozen", choices=("live", "frozen", "ema"))
    for name, default in (("steps", 100), ("lr", 1e-3), ("seed", 0), ("ema_decay", 0.95), ("micro_rows", 8), ("batches_per_step", 1)):
        p.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    p.add_argument("--mask-cut-off", action="store_true", help="rollouts that a length limit cut off train nothing")
    for field in dataclasses.fields(Objective):
        kind = (lambda s: s.lower() in ("1", "true", "yes")) if field.type is bool else field.type
        p.add_argument("--" + field.name.replace("_", "-"), type=kind, default=field.default)
    a = p.parse_args()
    o = Objective(**{f.name: getattr(a, f.name) for f in dataclasses.fields(Objective)})
    torch.manual_seed(a.seed)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        dist.init_process_group("gloo")
    batches = list(read(a.batches, split="train"))
    if not batches:
        raise SystemExit(f"{a.batches}: no batch of the train split")
    unweighted = sorted({b.channel for b in batches if not o.weight(b.channel)})
    if all(b.channel in unweighted for b in batches):
        raise SystemExit(f"{a.batches}: nothing to train on: it has batches of {', '.join(unweighted)} alone, which weigh 0 without --alpha-sdpo and --beta-replay")
    if unweighted and ranks()[0] == 0:
        print(f"batches of {', '.join(unweighted)} weigh 0: see --alpha-sdpo and --beta-replay", file=sys.stderr)
    if a.mask_cut_off:
        batches = [without_cut_off(b) for b in batches]
    model = load_model(a.model, a.init, max(b.line["vocab_size"] for b in batches)).train()
    start = frozen(model)
    teacher = Teacher(model, a.teacher, a.ema_decay, start)
    fit(model, batches, o, a.steps, a.lr, teacher, start, a.micro_rows, a.batches_per_step)
    for name, data in (("train", batches), ("validation", list(read(a.batches, split="validation")))):
        if a.steps and data:
            found = evaluate(model, data, o, teacher, start, a.micro_rows)
            if ranks()[0] == 0:
                print(json.dumps({"evaluated": name, **{k: float(f"{v:.6g}") for k, v in found.items()}}))
    if a.output and ranks()[0] == 0:
        Path(a.output).mkdir(parents=True, exist_ok=True)
        if a.model == "tiny":
            save_file(model.state_dict(), str(Path(a.output) / "model.safetensors"))
        else:
            model.model.save_pretrained(a.output)


if __name__ == "__main__":
    main()
