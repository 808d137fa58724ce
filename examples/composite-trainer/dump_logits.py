"""Writes the logits behind each pair of the sdpo batches, for a loss to be checked or sites to be weighed elsewhere:

    python3 dump_logits.py --batches RUN/batches --model PATH/TO/HF --output dumps
    nat-go loss jsd --input dumps/sdpo/train/00000.safetensors --output gradient.safetensors

A file a batch, under the batch's name: student_logits and teacher_logits float32 [P,V], in the order of the pair table, and
weights float32 [P]. P x V floats twice: take few batches. Student and teacher are the same weights.
"""

import argparse
from pathlib import Path

from safetensors.torch import save_file

from batches import read
from composite_loss import scoring, side_logits
from train import load_model


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--batches", required=True)
    p.add_argument("--model", default="tiny", help="tiny, or the folder of a Hugging Face model")
    p.add_argument("--init", help="safetensors file the tiny model starts from")
    p.add_argument("--output", required=True)
    p.add_argument("--limit", type=int, default=8, help="batches at most")
    a = p.parse_args()
    batches = [b for b, _ in zip(read(a.batches, "sdpo"), range(a.limit))]
    if not batches:
        raise SystemExit(f"{a.batches}: no sdpo batch")
    model = load_model(a.model, a.init, max(b.line["vocab_size"] for b in batches))
    for b in batches:
        with scoring(model):
            logits = {side + "logits": side_logits(model, b, side, b.t[f"pair_{side}row"], b.t[f"pair_{side}pos"]).float() for side in ("student_", "teacher_")}
        path = Path(a.output) / b.line["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({**logits, "weights": b.t["pair_weight"]}, str(path))
        print(path)


if __name__ == "__main__":
    main()
