"""Shows a set-up in which every term of the composite loss falls, in curves.csv and curves.svg:

    python3 curves.py --output out

The model is warmed up on toy.py's world and samples its own rollouts; trl_trainer.py then trains 20 steps on that one
batch per channel. The frozen teacher is the model at that point, which follows the hint: the student learns to behave
as if it had seen the hint, and the JSD falls. GRPO falls because the rollouts' log-probs remain the initial model's,
and DPO because its reference does.
"""

import argparse
from pathlib import Path

import torch
from transformers import PrinterCallback

import toy
from natgo.trl.microbatch import read
from natgo.trl import CompositeTrainer
from natgo.trl.scoring import AtPositions
from trl_trainer import Log, config, tiny, write_csv

TERMS = {"loss/grpo": "#0072b2", "loss/sdpo_kl": "#d55e00", "loss/trace_replay_dpo": "#009e73"}


def train(out, steps=20, seed=0):
    """Returns the training log, one row per step."""
    model = toy.warm_up(out, seed, make=lambda vocab: AtPositions(tiny(vocab)))
    toy.sample(model, out / "round0", seed)
    log = Log()
    settings = config(out / "trainer", steps, 3e-4, seed=seed, alpha_sdpo=1.0, beta_replay=1.0, micro_rows=1024)
    trainer = CompositeTrainer(model.model, settings, list(read(out / "round0", split="train")), "frozen", callbacks=[log])
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return log.rows


def svg(rows, width=720, height=180):
    """One panel per term, stacked: their sizes differ by orders of magnitude."""
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height * len(TERMS)}" font-family="sans-serif" font-size="13">',
           f'<rect width="{width}" height="{height * len(TERMS)}" fill="white"/>']
    for n, (term, colour) in enumerate(TERMS.items()):
        values = [r[term] for r in rows]
        low, high, top = min(values), max(values), n * height
        spread = (high - low) or 1.0
        points = " ".join(f"{90 + (width - 110) * i / max(len(values) - 1, 1):.1f},{top + 30 + (height - 55) * (high - v) / spread:.1f}" for i, v in enumerate(values))
        out += [f'<text x="90" y="{top + 20}" fill="{colour}">{term}</text>',
                f'<text x="80" y="{top + 34}" text-anchor="end">{high:.4g}</text>',
                f'<text x="80" y="{top + height - 21}" text-anchor="end">{low:.4g}</text>',
                f'<line x1="90" y1="{top + height - 25}" x2="{width - 20}" y2="{top + height - 25}" stroke="#999"/>',
                f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>']
    out.append(f'<text x="{width - 20}" y="{height * len(TERMS) - 8}" text-anchor="end">step {rows[0]["step"]} to {rows[-1]["step"]}</text></svg>')
    return "\n".join(out) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--output", required=True, help="folder for batches, curves.csv and curves.svg")
    p.add_argument("--steps", type=int, default=20)
    a = p.parse_args()
    out = Path(a.output)
    torch.set_num_threads(1)
    rows = train(out, a.steps)
    write_csv(out / "curves.csv", rows)
    (out / "curves.svg").write_text(svg(rows), "utf-8")


if __name__ == "__main__":
    main()
