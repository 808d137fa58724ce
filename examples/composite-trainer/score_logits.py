"""Computes logits for nat-go, which starts it once and asks it about every error site, with and without the hint:

    collator: {teacher: {logits: {command: [python3, score_logits.py, --model, PATH/TO/HF]}}}

It reads one JSON object per line on standard input and answers each with one on standard output; the logits go into the
memory behind descriptor 3, which nat-go maps as well. `go doc
github.com/nat-go/nat-go/collator/teacher/internal/scorer` describes the protocol.
"""

import argparse
import json
import mmap
import os
import sys

import torch

from natgo.trl.scoring import scoring
from train import load_model

TYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}


def padded(sequences):
    """Ids, mask and positions of sequences, and the row and position of each requested row of logits."""
    width = max(len(s["ids"]) for s in sequences)
    ids = torch.zeros(len(sequences), width, dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for r, s in enumerate(sequences):
        ids[r, :len(s["ids"])] = torch.tensor(s["ids"])
        mask[r, :len(s["ids"])] = 1
    row = torch.tensor([r for r, s in enumerate(sequences) for _ in s["positions"]])
    at = torch.tensor([p for s in sequences for p in s["positions"]])
    return ids, mask, torch.arange(width).expand_as(ids), row, at


def parts(sequences, tokens):
    """Splits sequences into runs of at most `tokens` tokens each, including padding."""
    part, width = [], 0
    for s in sequences:
        width = max(width, len(s["ids"]))
        if part and width * (len(part) + 1) > tokens:
            yield part
            part, width = [], len(s["ids"])
        part.append(s)
    yield part


def score(model, sequences, memory, tokens, device):
    """Writes a row of logits for each requested position, contiguously, and returns how many."""
    rows = 0
    for part in parts(sequences, tokens):
        with scoring(model):
            logits = model(*(x.to(device) for x in padded(part)))
        memory[rows:rows + len(logits)] = logits.cpu()
        rows += len(logits)
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="tiny", help="tiny, or the folder of a Hugging Face model")
    p.add_argument("--init", help="safetensors file the tiny model starts from")
    p.add_argument("--vocab", type=int, default=0, help="vocabulary of the tiny model")
    p.add_argument("--device", default="cpu")
    p.add_argument("--tokens", type=int, default=16384, help="tokens scored at a time, padding included")
    a = p.parse_args()
    out, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr  # what a library prints is not an answer
    os.dup2(2, 1)

    def answer(**what):
        print(json.dumps(what), file=out, flush=True)

    hello = json.loads(sys.stdin.readline())
    if hello.get("hello") != "nat.logits.v1":
        raise SystemExit(f"unknown protocol {hello.get('hello')!r}")
    model = load_model(a.model, a.init, a.vocab).to(a.device).eval()
    with scoring(model):
        sample = model(*(x.to(a.device) for x in padded([{"ids": [0], "positions": [0]}])))
    vocab, dtype = sample.shape[-1], sample.dtype
    view = torch.frombuffer(mmap.mmap(3, hello["memory"]), dtype=dtype)
    memory = view[:len(view) // vocab * vocab].view(-1, vocab)
    known = {}
    if a.model != "tiny":
        from transformers import AutoTokenizer
        tokenizer = AutoTokenizer.from_pretrained(a.model)
        known["probes"] = [tokenizer.encode(text, add_special_tokens=False) for text in hello["probes"]]
    answer(vocab=vocab, dtype=TYPES[dtype], model=a.model, **known)
    for line in sys.stdin:
        q = json.loads(line)
        try:
            answer(id=q["id"], rows=score(model, q["sequences"], memory, a.tokens, a.device))
        except RuntimeError as e:  # out of memory, most likely: nat-go asks again for less
            answer(id=q["id"], error=str(e)[:300])


if __name__ == "__main__":
    main()
