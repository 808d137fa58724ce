"""Do hints teach? Trains a tiny model on hints and on three controls, and measures its calls without a hint on tools
and values that were never hinted.

    python3 learn.py --output out

For each seed, a model is trained from scratch that uses tools, has bad habits and follows hints (world.py); it samples
rollouts, and nat-go finds the failed calls in them. The arms then train copies of that model on the same failed calls,
with the same number of rows, trained tokens and steps:

    hints    HintTrainer with each site's hint
    wrong    HintTrainer with the hint for a site of another kind
    none     HintTrainer without hints
    sft      SFTTrainer on the call that worked later, in place of the one that failed

learn.csv has the success after every few steps: the exact probability that a sampled call is the right one.
learn.svg shows means over the seeds with 95 % intervals.
"""

import argparse
import copy
import csv
import json
import random
import statistics
import subprocess
from pathlib import Path

import datasets
import torch
import transformers
import trl
from natgo.__main__ import find
from natgo.trl import HintConfig, HintTrainer, SFTTrainer, hints, pairs
from transformers import LlamaConfig, LlamaForCausalLM, PrinterCallback, TrainerCallback

import world

ARMS = ("hints", "wrong", "none", "sft")
STEPS, EVERY, ROWS = 40, 5, 16
T95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}  # Student's t, by the number of seeds


def ids(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def taught(tokenizer, seed, steps):
    """A model that has learnt the world, its bad habits, and how to follow hints."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                         max_position_embeddings=128, pad_token_id=tokenizer.pad_token_id))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps, pct_start=0.1)
    episodes = [world.episode(rng) for _ in range(8000)]
    texts = iter(tokenizer([text for parts in episodes for text in parts], add_special_tokens=False)["input_ids"])
    rows = [[(next(texts), n % 2) for n in range(len(parts))] for parts in episodes]
    for _ in range(steps):
        chosen = [rng.choice(rows) for _ in range(64)]
        inputs = [torch.tensor([i for part, _ in row for i in part]) for row in chosen]
        labels = [torch.tensor([i if own else -100 for part, own in row for i in part]) for row in chosen]
        grids = [torch.nn.utils.rnn.pad_sequence(x, batch_first=True, padding_value=fill) for x, fill in ((inputs, tokenizer.pad_token_id), (labels, -100))]
        model(input_ids=grids[0], labels=grids[1]).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model.eval()


@torch.no_grad()
def sampled(model, tokenizer, texts):
    """The model's continuation of each text; texts of the same length form one batch."""
    out, rows = [""] * len(texts), [ids(tokenizer, text) for text in texts]
    for length in sorted({len(row) for row in rows}):
        at = [i for i, row in enumerate(rows) if len(row) == length]
        grid = torch.tensor([rows[i] for i in at])
        made = model.generate(grid, attention_mask=torch.ones_like(grid), do_sample=True, top_k=0, max_new_tokens=16,
                              eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
        for i, row in zip(at, made[:, length:].tolist()):
            out[i] = tokenizer.decode(row[:row.index(tokenizer.eos_token_id)]) if tokenizer.eos_token_id in row else ""
    return out


def rollouts(model, tokenizer, seed, count):
    """Rollouts of hintable tasks, sampled from the model; those with more than one failed call, or a broken one, are not used."""
    rng = random.Random(f"rollouts {seed}")
    torch.manual_seed(seed)
    chosen = [world.any_task(rng, range(world.SEEN)) for _ in range(count)]
    texts, turns = [world.prompt(t) for t in chosen], [[] for _ in chosen]
    open_ = list(range(count))
    while open_:
        said = dict(zip(open_, sampled(model, tokenizer, [texts[i] for i in open_])))
        for i, words in said.items():
            turns[i].append(words)
            texts[i] += words + "<end>" + world.result(chosen[i], words)
        open_ = [i for i in open_ if said[i].startswith("<call>") and len(turns[i]) < 4]
    forms = [{world.call(t, f) for f in world.FORMS} for t in chosen]
    fit = [i for i in range(count) if turns[i][-1] in ("done", "failed") and set(turns[i][:-1]) <= forms[i]
           and sum(x != world.call(chosen[i], world.RIGHT[chosen[i][0]]) for x in turns[i][:-1]) == 1]
    return [world.trace(i, chosen[i], turns[i]) for i in fit]


def nat_go(folder, name, given, *more):
    """A run over the rollouts with the hints that `given` has for each kind."""
    rules = [{"error": f'"{kind}"', "text": text} for kind, text in given.items()]
    config = {
        "sources": {"rollouts": {"_type": "traces", "path": "traces.jsonl"}},
        "trajectory_builders": {"hints": {"_type": "sdpo_traj_builder", "emit": ["distillation", "repair_pairs"], "hints": {"sources": ["rules"], "rules": rules}}},
        "collator": {"tokenizer": "tokenizer", "policy": "student", "max_length": 512},
        "dataset": {"formats": ["trl"], "split": {"by": "task", "validation": 0}},
        "finetuning": {"enabled": True, "trajectory_builder": "hints", "output_dir": "runs"},
    }
    (folder / f"{name}.yml").write_text(json.dumps(config), "utf-8")
    done = subprocess.run([find(), "run", "-q", "--config-file", f"{name}.yml", "--run-id", name, *more], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"nat-go: {done.stderr}")
    return folder / "runs" / name


def arms(folder):
    """The rows of each arm, all about the same failed calls."""
    right = {kind: world.hint(kind, world.RIGHT[kind]) for kind in world.FAULTY}
    wrong = dict(zip(right, [*list(right.values())[1:], list(right.values())[0]]))
    run = nat_go(folder, "right", right)
    return {"hints": hints(run), "wrong": hints(nat_go(folder, "wrong", wrong)), "none": hints(nat_go(folder, "null", right, "-o", "collator.hints=none")),
            "sft": repaired(run)}


def repaired(run):
    """The calls that worked later, each in place of the one that failed."""
    return datasets.Dataset.from_list([
        {"input_ids": x["chosen_input_ids"], "labels": [i if on else -100 for i, on in zip(x["chosen_input_ids"], x["chosen_mask"])]} for x in pairs(run)])


class Success:
    """The probability that a sampled call is the right one, on tasks that are never hinted; `hinted` puts a hint before them."""

    def __init__(self, tokenizer):
        self.cases = {}
        for kind in world.RIGHT:
            for hinted in ("", world.hint(kind, world.RIGHT[kind])):
                tasks = world.tasks(kind, hintable=False)
                before = [ids(tokenizer, world.prompt(t, hinted)) for t in tasks]
                right = [ids(tokenizer, world.call(t, world.RIGHT[kind]) + "<end>") for t in tasks]
                self.cases[kind, bool(hinted)] = torch.tensor([x + y for x, y in zip(before, right)]), len(before[0])

    @torch.no_grad()
    def of(self, model, hinted=False):
        """By kind."""
        out, training = {}, model.training
        model.eval()
        for kind in world.RIGHT:
            grid, start = self.cases[kind, hinted]
            logp = model(input_ids=grid).logits[:, start - 1:-1].log_softmax(-1).gather(2, grid[:, start:, None])[..., 0]
            out[kind] = float(logp.sum(1).exp().mean())
        model.train(training)
        return out


class Measure(TrainerCallback):
    def __init__(self, success, seen):
        self.success, self.seen = success, seen

    def on_step_end(self, args, state, control, model=None, **_):
        if state.global_step % EVERY == 0:
            self.seen(state.global_step, self.success.of(model))


def train(arm, model, tokenizer, data, folder, seed, steps, callbacks):
    """Trains a copy of the model on an arm's rows."""
    settings = dict(output_dir=str(folder), max_steps=steps, per_device_train_batch_size=ROWS, learning_rate=1e-3, lr_scheduler_type="constant", max_length=None,
                    dataloader_drop_last=True, seed=seed, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[], save_strategy="no", disable_tqdm=True,
                    logging_steps=steps)  # a last batch with fewer rows would come at other steps in each arm
    kind, args = (SFTTrainer, trl.SFTConfig(**settings)) if arm == "sft" else (HintTrainer, HintConfig(teacher="frozen", **settings))
    trainer = kind(copy.deepcopy(model), args, train_dataset=data, processing_class=tokenizer, callbacks=callbacks)
    trainer.remove_callback(PrinterCallback)
    trainer.train()


def trained_tokens(row):
    return len(row["pair_pos"]) if "pair_pos" in row else sum(x >= 0 for x in row["labels"])


def one_seed(seed, a, tokenizer, write):
    folder = Path(a.output) / f"seed{seed}"
    model, success = taught(tokenizer, seed, a.pretraining), Success(tokenizer)
    tokenizer.save_pretrained(folder / "tokenizer")
    (folder / "tokenizer" / "chat_template.jinja").write_text(world.TEMPLATE, "utf-8")
    made = rollouts(model, tokenizer, seed, a.rollouts)
    (folder / "traces.jsonl").write_text("".join(json.dumps(x) + "\n" for x in made), "utf-8")
    rows = arms(folder)
    tokens = {n for data in rows.values() for n in map(trained_tokens, data)}
    if len(tokens) != 1:
        raise SystemExit(f"rows have different numbers of trained tokens: {sorted(tokens)}")
    start, told = success.of(model), success.of(model, hinted=True)
    print(json.dumps({"seed": seed, "failed_calls": len(rows["hints"]), "repaired": len(rows["sft"]), "tokens_a_row": tokens.pop(),
                      "without_hint": mean(start), "with_hint": mean(told)}), flush=True)
    for arm, data in rows.items():
        last = {}

        def seen(step, found):
            last.update(found)
            for kind, share in found.items():
                write([seed, arm, step, kind, f"{share:.6f}"])

        seen(0, start)
        train(arm, model, tokenizer, data, folder / arm, seed, a.steps, [Measure(success, seen)])
        print(json.dumps({"seed": seed, "arm": arm, **{k: round(v, 3) for k, v in last.items()}}), flush=True)


def mean(by_kind):
    return round(statistics.mean(by_kind[k] for k in world.FAULTY), 4)


def summary(path):
    """{(panel, arm): [(step, mean, half the 95 % interval)]}; the panels are all faulty kinds together and each kind."""
    values = {}
    with open(path, newline="", encoding="utf-8") as file:
        for x in csv.DictReader(file):
            for panel in (x["kind"], *(["all"] if x["kind"] in world.FAULTY else [])):
                values.setdefault((panel, x["arm"], int(x["step"])), {}).setdefault(x["seed"], []).append(float(x["success"]))
    out = {}
    for (panel, arm, step), seeds in sorted(values.items()):
        means = [statistics.mean(x) for x in seeds.values()]
        half = T95[len(means)] * statistics.stdev(means) / len(means) ** 0.5 if len(means) > 1 else 0.0
        out.setdefault((panel, arm), []).append((step, statistics.mean(means), half))
    return out


COLOURS = {"hints": "#0072b2", "wrong": "#d55e00", "none": "#777777", "sft": "#009e73"}
TITLES = {"all": "all kinds that fail", "date": "date: the model repairs 9 of 10", "amount": "amount: the model repairs 9 of 10", "name": "name: never repaired",
          "code": "code: right from the start"}


def svg(found, width=420, height=230):
    """A panel for all kinds and one for each, with a band for the interval."""
    down = (len(TITLES) + 2) // 2
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * width} {down * height}" font-family="sans-serif" font-size="13">',
           f'<rect width="{2 * width}" height="{down * height}" fill="white"/>']
    last = max(step for points in found.values() for step, _, _ in points) or 1
    for n, (panel, title) in enumerate(TITLES.items()):
        left, top = n % 2 * width + 50, n // 2 * height + 35
        wide, high = width - 70, height - 75

        def at(step, share):
            return f"{left + wide * step / last:.1f},{top + high * (1 - min(max(share, 0), 1)):.1f}"

        out.append(f'<text x="{left}" y="{top - 12}">{title}</text>')
        for share in (0, 0.5, 1):
            y = top + high * (1 - share)
            out.append(f'<line x1="{left}" y1="{y}" x2="{left + wide}" y2="{y}" stroke="#ddd"/><text x="{left - 8}" y="{y + 4}" text-anchor="end">{share:g}</text>')
        out.append(f'<text x="{left + wide}" y="{top + high + 20}" text-anchor="end">step {last}</text>')
        for arm, colour in COLOURS.items():
            points = found[panel, arm]
            band = [at(s, m + h) for s, m, h in points] + [at(s, m - h) for s, m, h in reversed(points)]
            out.append(f'<polygon points="{" ".join(band)}" fill="{colour}" fill-opacity="0.2"/>')
            out.append(f'<polyline points="{" ".join(at(s, m) for s, m, _ in points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
    left, top = len(TITLES) % 2 * width + 50, len(TITLES) // 2 * height + 60
    for n, (arm, colour) in enumerate(COLOURS.items()):
        step, middle, half = found["all", arm][-1]
        out.append(f'<text x="{left}" y="{top + 22 * n}" fill="{colour}">{arm}: {middle:.3f} ± {half:.3f}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--output", required=True, help="folder for models' rollouts, runs, learn.csv and learn.svg")
    p.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    p.add_argument("--steps", type=int, default=STEPS)
    p.add_argument("--pretraining", type=int, default=600, help="steps that the model is made with")
    p.add_argument("--rollouts", type=int, default=512)
    a = p.parse_args()
    torch.set_num_threads(1)  # at this size a second thread costs more than it gains
    transformers.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    out = Path(a.output)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = world.tokenizer()
    with open(out / "learn.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["seed", "arm", "step", "kind", "success"])
        for seed in a.seeds:
            one_seed(seed, a, tokenizer, table.writerow)
    found = summary(out / "learn.csv")
    (out / "learn.svg").write_text(svg(found), "utf-8")
    print(json.dumps({arm: {"success": round(found["all", arm][-1][1], 4), "half_interval": round(found["all", arm][-1][2], 4)} for arm in ARMS}))


if __name__ == "__main__":
    main()
