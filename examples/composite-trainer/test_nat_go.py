"""The trainer on batches that nat-go made, compared with nat-go's own losses. trainer_test.go makes the runs and sets

    NATGO       the program
    NATGO_RUNS  a folder of runs on examples/hints: <template> with hints, <template>.null with collator.hints: none,
                hints.cumulative with collator.sites: cumulative, composer.SITES.WIDTH.FILES.MASK with collator.format:
                composer, and hints.ignored with another ignore_index
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import toy
from natgo.trl.microbatch import IGNORED, SIDES, Batch, read, select, split, steps
from natgo.trl.losses import CHANNELS, composite, side_logits
from natgo.trl.scoring import Teacher, frozen
from dump_logits import dump
from test_trainer import every_term, gradient, with_tensors
from train import TinyDecoder, evaluate, fit

RUNS = Path(os.environ.get("NATGO_RUNS", ""))
torch.set_num_threads(1)


def setUpModule():
    if "NATGO_RUNS" not in os.environ:
        raise unittest.SkipTest("no runs of nat-go: set NATGO and NATGO_RUNS, or run `go test`")


def sharp(b, **size):
    """A model for a batch's vocabulary with pronounced predictions: a fresh one finds all tokens about equally
    likely."""
    torch.manual_seed(1)
    model = TinyDecoder(b.line["vocab_size"], **size)
    with torch.no_grad():
        model.lm_head.weight.mul_(8)
        model.embed.weight.mul_(4)
    return model


class NullHint(unittest.TestCase):
    """A hint of no tokens makes the teacher the student, on any template: what loss is left comes from a wrong index."""

    def each(self):
        for run in sorted(RUNS.glob("*.null")):
            for b in read(run / "batches", "sdpo"):
                yield run.stem, b

    def loss(self, b):
        model = sharp(b, width=32, layers=1, heads=1)  # rows of stock templates are long: the smallest model that knows positions
        m, g = gradient(model, [b], every_term(), Teacher(model, "live"))
        return m["loss/sdpo_kl"], float(g.abs().max())

    def test_nothing_is_left(self):
        seen = set()
        for name, b in self.each():
            every = range(b.rows)
            widest = b.t["student_input_ids"].shape[1]
            for how, c in (("as written", b), ("wider", select(b, every, width=widest + 7)), ("left", select(b, every, left=True)), ("left, wider", select(b, every, left=True, width=widest + 7))):
                value, g = self.loss(c)
                self.assertLess(abs(value), 1e-9, (name, how))
                self.assertLess(g, 1e-9, (name, how))
            seen.add(name)
        self.assertGreaterEqual(len(seen), 2, "templates")
        print(f"\nnull hints: {' '.join(sorted(seen))}", end="", flush=True)

    def test_one_off_is_seen(self):
        for name, b in self.each():
            for which in ("student_pos", "teacher_pos"):
                for by in (1, -1):
                    value, g = self.loss(with_tensors(b, **{"pair_" + which: (b.t["pair_" + which] + by).clamp(min=0)}))
                    self.assertGreater(value, 1e-3, (name, which))
                    self.assertGreater(g, 1e-6, (name, which))

    def test_a_hint_is_seen(self):
        for run in {name for name, _ in self.each()}:
            value, g = self.loss(next(read(RUNS / run / "batches", "sdpo")))
            self.assertGreater(value, 1e-6, run)
            self.assertGreater(g, 1e-7, run)


class Composer(unittest.TestCase):
    def test_same_losses(self):
        """Under the reference trainer's names, in every form, the run has the same losses and gradients."""
        for sites, base, forms in (("per_site", "hints", 6), ("cumulative", "hints.cumulative", 4), ("rollouts", "hints.rollouts", 1)):
            runs = sorted(RUNS.glob(f"composer.{sites}.*"))
            self.assertEqual(len(runs), forms)
            for run in runs:
                with self.subTest(run.name):
                    self.assertIn("sdpo_loss_mask", load_file(str(run / "batches/sdpo/train/00000.safetensors")))
                    self.same(run.name, base)
                    if ".step." in run.name or ".example." in run.name:
                        self.equal(base, list(read(RUNS / base / "batches")), [b for step in steps(run / "batches") for b in step.values()])

    def test_a_step_without_hints_has_no_teacher(self):
        kinds = [list(step) for step in steps(RUNS / "rollouts.alone" / "batches")]
        self.assertEqual(kinds, [["rl"]] * len(kinds))

    def test_sites_are_those_of_the_pair_table(self):
        several = 0
        for run in sorted(RUNS.glob("composer.cumulative.equal.[cs]*")):
            for ours, theirs in zip(read(RUNS / "hints.cumulative" / "batches", "sdpo"), read(run / "batches", "sdpo")):
                table, derived = (sorted(zip(*(b.t["pair_" + n].tolist() for n in ("student_row", "student_pos", "site", "target_id")))) for b in (ours, theirs))
                self.assertEqual(table, derived)
                several += len(theirs.line["sites"]) > theirs.rows
        self.assertGreater(several, 0, "no row has several sites")

    def test_trl_trains_on_them(self):
        try:
            import trl_trainer
        except ImportError as err:
            self.skipTest(f"no TRL: {err}")
        for run in sorted(RUNS.glob("composer.*")):
            with self.subTest(run.name), tempfile.TemporaryDirectory() as scratch:
                data, log = list(read(run / "batches", split="train")), trl_trainer.Log()
                model = trl_trainer.tiny(data[0].line["vocab_size"])
                trl_trainer.CompositeTrainer(model, trl_trainer.config(scratch, 1, 1e-3, alpha_sdpo=1.0, beta_replay=1.0), data, callbacks=[log]).train()
                self.assertTrue(math.isfinite(log.rows[0]["loss/total"]), log.rows)

    def test_another_ignore_index(self):
        labels = load_file(str(RUNS / "hints.ignored/batches/dpo/train/00000.safetensors"))["chosen_labels"]
        self.assertTrue((labels == -1).any() and (labels != IGNORED).all())
        self.same("hints.ignored", "hints")

    def same(self, run, base):
        self.equal(run, *(list(read(RUNS / name / "batches")) for name in (base, run)))

    def equal(self, run, ours, other):
        model = sharp(ours[0])
        start = frozen(model)
        a, g = gradient(model, ours, every_term(), Teacher(model, start=start), start)
        b, h = gradient(model, other, every_term(), Teacher(model, start=start), start)
        self.assertGreater(a["loss/sdpo_kl"], 1e-6)
        self.assertAlmostEqual(a["loss/sdpo_kl"], b["loss/sdpo_kl"], delta=1e-6)
        self.assertAlmostEqual(a["loss/trace_replay_dpo"], b["loss/trace_replay_dpo"], delta=1e-6)
        self.assertLess(float((g - h).abs().max()), 1e-5 * float(g.abs().max()))


def imitation(b):
    """An sft batch with the failed turns of an sdpo batch as targets: the habit to be unlearnt."""
    t = {n: b.t["student_" + n] for n in ("input_ids", "attention_mask", "position_ids")}
    labels = torch.full_like(t["input_ids"], IGNORED)
    labels[b.t["pair_student_row"], b.t["pair_student_pos"] + 1] = b.t["pair_target_id"]
    return Batch("sft", b.line, {**t, "labels": labels, "row_weight": torch.ones(b.rows)})


class EndToEnd(unittest.TestCase):
    """From traces with failed calls to a model that makes fewer of them."""

    def test_invariance(self):
        """1 x 8 = 8 x 1, and neither side nor width nor pad id is part of the objective."""
        for b in (next(read(RUNS / "hints/batches", c)) for c in ("sdpo", "dpo")):
            model = sharp(b).double()
            start = frozen(sharp(b).double())
            with torch.no_grad():
                start.lm_head.weight.mul_(0.5)
            every = range(b.rows)
            want, g = gradient(model, [b], every_term(), Teacher(model, start=start), start)
            for parts in (split(b, 1), [select(b, every, left=True, width=300)], [select(b, every, pad_id=5, width=300)]):
                got, h = gradient(model, parts, every_term(), Teacher(model, start=start), start)
                self.assertAlmostEqual(want["loss/total"], got["loss/total"], delta=1e-6 * abs(want["loss/total"]))
                self.assertLess(float((g - h).abs().max()), 1e-7 * float(g.abs().max()))

    def test_100_steps(self):
        """With a frozen hinted teacher the student approaches it, and makes fewer failed calls."""
        data = list(read(RUNS / "hints/batches", split="train"))
        torch.manual_seed(0)
        model = TinyDecoder(data[0].line["vocab_size"])
        habit = [imitation(b) for b in data if b.channel == "sdpo"]
        fit(model, habit, every_term(), 40, 3e-3, Teacher(model, "live"), None, log=lambda line: None)
        start = frozen(model)
        o, teacher = every_term(beta_replay=0.02), Teacher(model, start=start)
        before = evaluate(model, data, o, teacher, start)
        self.assertAlmostEqual(before["loss/trace_replay_dpo"], math.log(2), delta=1e-6)
        fit(model, data, o, 100, 1e-3, teacher, start, log=lambda line: None)
        after = evaluate(model, data, o, teacher, start)
        print("\n" + json.dumps({k: [round(before[k], 5), round(after[k], 5)] for k in ("loss/sdpo_kl", "sdpo_target_logp", "dpo_margin", "untargeted_kl")}), end="", flush=True)
        self.assertLess(after["loss/sdpo_kl"], 0.2 * before["loss/sdpo_kl"])
        self.assertLess(after["sdpo_target_logp"], before["sdpo_target_logp"])
        self.assertGreater(after["dpo_margin"], before["dpo_margin"] + 0.1)
        self.assertGreater(after["untargeted_kl"], 0)

    def test_program(self):
        out = subprocess.run([sys.executable, Path(__file__).with_name("train.py"), "--batches", RUNS / "hints/batches", "--steps", "2", "--alpha-sdpo", "1", "--beta-replay", "1"], capture_output=True, text=True)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertAlmostEqual(json.loads(out.stdout.splitlines()[0])["loss/trace_replay_dpo"], math.log(2), delta=1e-6)


class Parity(unittest.TestCase):
    """`nat-go loss composite` on the trainer's own logits says what the trainer says, gradients included."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        torch.manual_seed(2)
        self.start = TinyDecoder(len(toy.WORDS))
        toy.sample(self.start, self.root / "toy", seed=1, each=2)
        self.model = TinyDecoder(len(toy.WORDS))  # not the model that sampled the rollouts, so that no ratio, margin or divergence is trivial
        self.batches = [next(read(self.root / "toy", c, "train")) for c in CHANNELS if (self.root / "toy" / c).is_dir()]
        self.assertEqual([b.channel for b in self.batches], ["rl", "sdpo", "dpo"])

    def nat_go(self, *flags):
        args = []
        for b in self.batches:
            save_file(dump(self.model, b, self.start, self.start), str(self.root / f"{b.channel}.safetensors"))
            args += ["--batch", self.root / "toy" / b.line["file"], "--logits", self.root / f"{b.channel}.safetensors"]
        out = subprocess.run([os.environ["NATGO"], "loss", "composite", *args, "--output", self.root / "gradients.safetensors", *flags], capture_output=True, text=True)
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout), load_file(str(self.root / "gradients.safetensors"))

    def through(self, found):
        """nat-go's gradients of the logits, carried on to the parameters."""
        self.model.zero_grad()
        for number, b in enumerate(self.batches, 1):
            for side in SIDES[b.channel]:
                if side == "teacher_":
                    continue
                ids = b.t[side + "input_ids"]
                row, at = (b.t["pair_student_row"], b.t["pair_student_pos"]) if b.channel == "sdpo" else torch.ones_like(ids).nonzero(as_tuple=True)
                logits = side_logits(self.model, b, side, row, at)
                logits.backward(found[f"{number}.{side}logits_grad"].view_as(logits))
        return torch.cat([p.grad.flatten() for p in self.model.parameters()])

    def test_composite(self):
        for o, flags in (
            (every_term(), ()),
            (every_term(alpha_sdpo=0.7, beta_replay=0.3, dpo_beta=0.3, jsd_beta=0.2, temperature=1.3, reduction="sequence"),
             ("--alpha-sdpo", "0.7", "--beta-replay", "0.3", "--dpo-beta", "0.3", "--jsd-beta", "0.2", "--temperature", "1.3", "--reduction", "sequence")),
            (every_term(jsd_beta=1.0, clip_epsilon=0.1, clip_epsilon_high=0.28, reduction="constant", max_tokens=50),
             ("--jsd-beta", "1", "--clip-epsilon", "0.1", "--clip-epsilon-high", "0.28", "--reduction", "constant", "--max-tokens", "50")),
            (every_term(jsd_beta=0.0), ("--jsd-beta", "0")),
        ):
            exact, grads = self.nat_go(*flags, *(() if "--alpha-sdpo" in flags else ("--alpha-sdpo", "1", "--beta-replay", "1")))
            ours, g = gradient(self.model, self.batches, o, Teacher(self.model, start=self.start), self.start)
            for name in (n for n in exact if n.startswith("loss/")):
                self.assertAlmostEqual(ours[name], exact[name], delta=1e-5 * max(1, abs(exact[name])), msg=f"{name} {flags}")
            self.assertGreater(exact["loss/sdpo_kl"], 1e-3)
            h = self.through(grads)
            self.assertLess(float((g - h).abs().max()), 1e-5 * max(1, float(h.abs().max())), flags)


if __name__ == "__main__":
    unittest.main()
