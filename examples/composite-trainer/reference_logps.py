"""Scores the pairs in a run's dpo batches under a model, for a later run to write as ref_ columns:

    python3 reference_logps.py --batches RUN/batches --model PATH/TO/HF --output reference.jsonl

and in the configuration

    collator: {reference: {path: reference.jsonl, fingerprint: "NAME OF THE MODEL, AND WHAT MADE THE TOKENS"}}

One line per pair: {"row", "chosen", "rejected"}. row is a hash of the tokens and labels, so log-probs for other tokens
- from another tokenizer, template or length limit - are never mistaken for these.
"""

import argparse
import hashlib
import json
import struct

from natgo.trl.microbatch import SIDES, read, select, trained
from natgo.trl.losses import per_row, token_log_probs
from natgo.trl.scoring import scoring
from train import load_model


def row_hash(b, row):
    """SHA-256 over, for each side, the ids as little-endian int32, -1, start and end of each trained run, -1."""
    numbers = []
    for side in SIDES["dpo"]:
        length = int(b.t[side + "attention_mask"][row].sum())
        on = [False] + trained(b, side)[row, :length].tolist() + [False]
        edges = [i for i in range(length + 1) if on[i] != on[i + 1]]
        numbers += b.t[side + "input_ids"][row, :length].tolist() + [-1] + edges + [-1]
    return hashlib.sha256(struct.pack(f"<{len(numbers)}i", *numbers)).hexdigest()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--batches", required=True)
    p.add_argument("--model", default="tiny", help="tiny, or the folder of a Hugging Face model")
    p.add_argument("--init", help="safetensors file the tiny model starts from")
    p.add_argument("--output", required=True)
    p.add_argument("--rows", type=int, default=8, help="pairs scored at once")
    a = p.parse_args()
    model = None
    with open(a.output, "w") as out:
        for b in read(a.batches, "dpo"):
            model = model or load_model(a.model, a.init, b.line["vocab_size"])
            for start in range(0, b.rows, a.rows):
                part = select(b, range(start, min(start + a.rows, b.rows)))
                with scoring(model):
                    chosen, rejected = (per_row(*token_log_probs(model, part, s), part.rows).tolist() for s in SIDES["dpo"])
                for i in range(part.rows):
                    print(json.dumps({"row": row_hash(b, start + i), "chosen": chosen[i], "rejected": rejected[i]}), file=out)
    if model is None:
        raise SystemExit(f"{a.batches}: no dpo batch")


if __name__ == "__main__":
    main()
