"""Writes the logits for a run's batches, to check a loss or to weight sites:

    python3 dump_logits.py --batches RUN/batches --model PATH/TO/HF --output dumps
    nat-go loss composite --batch RUN/batches/sdpo/train/00000.safetensors --logits dumps/sdpo/train/00000.safetensors

Each batch gets a float32 file under the batch's name: student_logits and teacher_logits [P,V] in the order of the pair
table, and weights [P]; for rl batches logits [R,T,V]; for dpo batches chosen_logits and rejected_logits [R,T,V] and the
ref_ sums [R]. The files are large, so dump only a few batches. The model itself is both teacher and reference.
"""

import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file

from natgo.trl.microbatch import SIDES, read
from natgo.trl.losses import per_row, side_logits, token_log_probs
from natgo.trl.scoring import scoring
from train import load_model


def dump(model, b, teacher, reference):
    """The tensors that `nat-go loss` needs for a batch besides its file."""
    out = {}
    for side in SIDES[b.channel]:
        ids = b.t[side + "input_ids"]
        row, at = (b.t[f"pair_{side}row"], b.t[f"pair_{side}pos"]) if b.channel == "sdpo" else torch.ones_like(ids).nonzero(as_tuple=True)
        with scoring(teacher if side == "teacher_" else model) as scorer:
            logits = side_logits(scorer, b, side, row, at).float()
        out[side + "logits"] = logits if b.channel == "sdpo" else logits.view(*ids.shape, -1)
        if b.channel == "dpo":
            with scoring(reference):
                out[f"ref_{side}logps"] = per_row(*token_log_probs(reference, b, side), b.rows).float()
    return {**out, "weights": b.t["pair_weight"]} if b.channel == "sdpo" else out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--batches", required=True)
    p.add_argument("--channel", default="sdpo", choices=("rl", "sdpo", "dpo"))
    p.add_argument("--model", default="tiny", help="tiny, or the folder of a Hugging Face model")
    p.add_argument("--init", help="safetensors file the tiny model starts from")
    p.add_argument("--output", required=True)
    p.add_argument("--limit", type=int, default=8, help="number of batches at most")
    a = p.parse_args()
    batches = [b for b, _ in zip(read(a.batches, a.channel), range(a.limit))]
    if not batches:
        raise SystemExit(f"{a.batches}: no {a.channel} batch")
    model = load_model(a.model, a.init, max(b.line["vocab_size"] for b in batches))
    for b in batches:
        path = Path(a.output) / b.line["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(dump(model, b, model, model), str(path))
        print(path)


if __name__ == "__main__":
    main()
