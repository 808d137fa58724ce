"""trl_trainer.py compared with a float64 calculation from the logits of each step. Set NATGO_RUN to a run's folder with
batches of all four channels, or run `go test`."""

import copy
import math
import os
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch

try:
    import trl  # noqa: F401
except ImportError:
    raise unittest.SkipTest("no trl: pip install trl")

from transformers import PrinterCallback

import curves
import toy
from natgo.errors import BatchError
from natgo.trl.microbatch import SIDES, read, select, trained, without_cut_off
from natgo.trl.losses import LOSSES, row_weights, side_logits, units
from natgo.trl.scoring import frozen, scoring
from test_trainer import jsd64, log_softmax64, with_tensors
from natgo.trl import CompositeTrainer
from natgo.trl.composite import as_trl
from natgo.trl.scoring import AtPositions
from trl_trainer import Log, config, tiny, warm_up

torch.set_num_threads(1)


def grid64(model, b, side):
    """Log-softmaxed logits of every position in float64, [R,T,V]."""
    ids = b.t[side + "input_ids"]
    row, at = torch.ones_like(ids).nonzero(as_tuple=True)
    with scoring(model):
        return log_softmax64(side_logits(model, b, side, row, at).double().numpy().reshape(*ids.shape, -1))


def token_logps64(model, b, side):
    """[R,T]: the log-prob of each token, 0 for the first."""
    logp, ids = grid64(model, b, side), b.t[side + "input_ids"].numpy()
    out = np.zeros(ids.shape)
    out[:, 1:] = np.take_along_axis(logp[:, :-1], ids[:, 1:, None], 2)[..., 0]
    return out


def grpo64(model, b, low, high):
    on, t = trained(b, "").numpy(), b.t
    now = token_logps64(model, b, "")
    old = t["old_logprobs"].double().numpy() if "old_logprobs" in t else now
    ratio, advantage = np.exp(now - old), t["advantage"].double().numpy()[:, None]
    loss = -np.minimum(ratio * advantage, np.clip(ratio, 1 - low, 1 + high) * advantage)
    weight = row_weights(b).numpy()[:, None] * on
    return (weight * loss).sum() / weight.sum()


def sdpo64(student, teacher, b, beta):
    z, p = (grid64(m, b, s) for m, s in ((student, "student_"), (teacher, "teacher_")))
    t = {k: v.numpy() for k, v in b.t.items()}
    loss = jsd64(z[t["pair_student_row"], t["pair_student_pos"]], p[t["pair_teacher_row"], t["pair_teacher_pos"]], beta)
    return (t["pair_weight"] * loss).sum() / t["pair_weight"].sum()


def dpo64(model, reference, b, beta):
    def margin(m):
        chosen, rejected = ((token_logps64(m, b, s) * trained(b, s).numpy()).sum(1) for s in SIDES["dpo"])
        return chosen - rejected

    weight = row_weights(b).numpy()
    return (weight * np.logaddexp(0, -beta * (margin(model) - margin(reference)))).sum() / weight.sum()


class Steps(unittest.TestCase):
    """20 steps, each term of each compared with the float64 calculation; what is trained falls."""

    def train(self, batches, model, alpha=0.7, beta=0.3, lr=1e-3, **more):
        log, rows, start = Log(), [], frozen(AtPositions(model))
        with tempfile.TemporaryDirectory() as out:
            trainer = CompositeTrainer(model, config(out, 20, lr, alpha_sdpo=alpha, beta_replay=beta, **more), batches, "frozen", callbacks=[log])
            compute = trainer.compute_loss

            def beside(model, inputs, **kwargs):
                found = {}
                if "rl" in inputs:
                    found["loss/grpo"] = grpo64(trainer.scored, inputs["rl"], trainer.epsilon_low, trainer.epsilon_high)
                if "sdpo" in inputs:
                    found["loss/sdpo_kl"] = sdpo64(trainer.scored, trainer.teacher.model, inputs["sdpo"], 0.5)
                if "dpo" in inputs:
                    found["loss/trace_replay_dpo"] = dpo64(trainer.scored, start, inputs["dpo"], 0.1)
                rows.append(found)
                return compute(model, inputs, **kwargs)

            trainer.compute_loss = beside
            trainer.remove_callback(PrinterCallback)
            trainer.train()
        self.assertEqual(len(log.rows), 20)
        for got, want in zip(log.rows, rows):
            for name, value in want.items():
                self.assertLess(abs(got[name] - value), 1e-5 * max(1, abs(value)), (name, got["step"]))
            self.assertEqual(len(want), 3)
            total = want["loss/grpo"] + alpha * want["loss/sdpo_kl"] + beta * want["loss/trace_replay_dpo"]
            self.assertLess(abs(got["loss/total"] - total), 2e-5 * max(1, abs(total)))
            self.assertEqual((got["loss/alpha_sdpo"], got["loss/beta_replay"]), (alpha, beta))
        return log.rows

    def test_toy(self):
        with tempfile.TemporaryDirectory() as out:
            model = toy.warm_up(out, 0, make=lambda vocab: AtPositions(tiny(vocab)))
            toy.sample(model, Path(out) / "round0", 0)
            batches = list(read(Path(out) / "round0", split="train"))
        # Rollouts of unequal weight, and one that nobody scored.
        for i, b in enumerate(batches):
            if b.channel == "rl":
                unscored = torch.zeros(b.rows, dtype=torch.int64)
                unscored[0] = 1
                batches[i] = with_tensors(b, row_weight=torch.arange(b.rows) % 3 + 0.5, reward_null=unscored)
        rows = self.train(batches, model.model, micro_rows=1024)
        self.assertLess(abs(rows[0]["loss/trace_replay_dpo"] - math.log(2)), 1e-5)
        for term in curves.TERMS:
            self.assertLess(rows[-1][term], rows[0][term], term)

    def test_clip_higher(self):
        """DAPO's clip-higher: TRL's term and the plain trainer's are those of the two bounds, and not of one."""
        with tempfile.TemporaryDirectory() as out:
            model = toy.warm_up(out, 0, steps=1, make=lambda vocab: AtPositions(tiny(vocab)))
            toy.sample(model, Path(out) / "round0", 0)
            b = next(b for b in read(Path(out) / "round0", split="train") if b.channel == "rl")
            torch.manual_seed(1)
            noise = 0.3 * torch.randn(b.t["old_logprobs"].shape)
            b = with_tensors(b, old_logprobs=b.t["old_logprobs"] + noise, advantage=torch.randn(b.rows))
            args = config(Path(out) / "t", 1, 1e-3, epsilon=0.1, epsilon_high=0.28, micro_rows=b.rows)
            trainer = CompositeTrainer(model.model, args, [b])
            trainer.current_gradient_accumulation_steps = 1  # train sets it
            want = grpo64(trainer.scored, b, 0.1, 0.28)
            got = float(trainer.compute_loss(trainer.model, {"rl": b}).detach())
            loss, _ = LOSSES["rl"](trainer.scored, b, trainer.objective)
            plain = float(loss.detach() / units(b, trainer.objective))
            for value in (got, plain):
                self.assertLess(abs(value - want), 1e-5 * max(1, abs(want)))
            self.assertGreater(abs(want - grpo64(trainer.scored, b, 0.1, 0.1)), 1e-3)

    @unittest.skipUnless("NATGO_RUN" in os.environ, "no run of nat-go: set NATGO_RUN, or run `go test`")
    def test_run(self):
        batches = list(read(Path(os.environ["NATGO_RUN"]) / "batches", split="train"))
        torch.manual_seed(0)
        model = tiny(batches[0].line["vocab_size"])
        warm_up(model, batches, 100)
        rows = self.train(batches, model, alpha=20, beta=0.3, lr=1e-4, micro_rows=1024)
        self.assertLess(abs(rows[0]["loss/trace_replay_dpo"] - math.log(2)), 1e-5)
        for term in ("loss/sdpo_kl", "loss/trace_replay_dpo"):  # rollouts made from text have no old log-probs: the term's value is that of the advantages
            self.assertLess(rows[-1][term], 0.9 * rows[0][term], term)


class Contract(unittest.TestCase):
    def setUp(self):
        self.out = tempfile.TemporaryDirectory()
        self.addCleanup(self.out.cleanup)
        self.model = toy.warm_up(self.out.name, 0, steps=1, make=lambda vocab: AtPositions(tiny(vocab)))
        toy.sample(self.model, Path(self.out.name) / "round0", 0)
        self.batches = list(read(Path(self.out.name) / "round0", split="train"))

    def trainer(self, batches, **more):
        return CompositeTrainer(self.model.model, config(Path(self.out.name) / "t", 1, 1e-3, **more), batches)

    def test_defaults_are_plain_grpo(self):
        t = self.trainer(self.batches)
        self.assertEqual((t.args.alpha_sdpo, t.args.beta_replay, list(t.pools)), (0.0, 0.0, ["rl"]))

    def test_batches_of_a_generator(self):
        t = self.trainer(iter(self.batches), alpha_sdpo=1.0, beta_replay=1.0)
        self.assertEqual(list(t.pools), list(self.trainer(self.batches, alpha_sdpo=1.0, beta_replay=1.0).pools))

    def test_nothing_to_train_on_is_said(self):
        with self.assertRaisesRegex(ValueError, "nothing to train on"):
            self.trainer([b for b in self.batches if b.channel != "rl"])

    def test_nothing_to_warm_up_on_is_said(self):
        with self.assertRaisesRegex(ValueError, "nothing to warm up on"):
            warm_up(self.model.model, [b for b in self.batches if b.channel != "sft"], 1)

    def test_steps_without_sites_leave_the_term_out(self):
        t = self.trainer([b for b in self.batches if b.channel != "sdpo"], alpha_sdpo=1.0)
        log = Log()
        t.add_callback(log)
        t.train()
        self.assertNotIn("loss/sdpo_kl", log.rows[0])
        self.assertIn("loss/grpo", log.rows[0])

    def test_a_teacher_of_another_shape_counts_as_0(self):
        t, log = self.trainer(self.batches, alpha_sdpo=1.0), Log()
        student = t.teacher.model
        t.teacher.model = type("Narrower", (torch.nn.Module,), {"forward": lambda self, *a: student(*a)[:, :-3]})()
        t.add_callback(log)
        with self.assertWarnsRegex(UserWarning, r"sdpo term of this step counts as 0: the student's logits are \[\d+, \d+\], the teacher's"):
            t.train()
        self.assertEqual(log.rows[0]["loss/sdpo_kl"], 0)
        self.assertEqual(log.rows[0]["loss/total"], log.rows[0]["loss/grpo"])

    def test_cut_off_rollouts_can_be_left_out(self):
        b = next(b for b in self.batches if b.channel == "rl")
        with self.assertRaisesRegex(BatchError, "doesn't say which rollouts were cut off"):
            without_cut_off(b)
        info = [{"flags": ["cut_off"]}, {"flags": ["truncated"]}] + [{}] * (b.rows - 2)
        b = b._replace(line={**b.line, "row_info": info})
        self.assertTrue((without_cut_off(b).t["row_weight"] > 0).tolist()[:3] == [False, False, True])
        t = self.trainer([b], mask_truncated_completions=True, micro_rows=b.rows)
        self.assertEqual(t.pools["rl"][0].t["row_weight"][:2].tolist(), [0, 0])
        self.assertGreater(self.trainer([b], micro_rows=b.rows).pools["rl"][0].t["row_weight"][0].item(), 0)

    def test_one_temperature_only(self):
        b = next(b for b in self.batches if b.channel == "rl")
        hot = with_tensors(b, temperature=torch.full((b.rows,), 0.7))
        self.assertEqual(self.trainer([hot]).args.temperature, torch.tensor(0.7).item())
        with self.assertRaisesRegex(ValueError, "several temperatures"):
            self.trainer([b, hot])

    def test_micro_batches_are_one_step(self):
        """Rollouts, sites and pairs of unequal weight: accumulated micro-batches have the step's denominators."""
        batches = []
        for b in self.batches:
            batches.append(with_tensors(select(b, range(4)), row_weight=torch.arange(4) + 0.5))
        got = []
        for rows, parts in ((4, 1), (2, 2), (1, 4)):
            model, log = copy.deepcopy(self.model.model), Log()
            args = config(Path(self.out.name) / "t", 1, 0.1, alpha_sdpo=0.7, beta_replay=0.3, micro_rows=rows, gradient_accumulation_steps=parts, optim="sgd", max_grad_norm=0.0)
            trainer = CompositeTrainer(model, args, batches, "frozen", callbacks=[log])
            trainer.train()
            got.append((torch.cat([x.detach().flatten() for x in model.parameters()]), log.rows[0]))
        for after, row in got[1:]:
            self.assertLess(float((after - got[0][0]).abs().max()), 1e-6)
            for name in (*curves.TERMS, "loss/total"):
                self.assertAlmostEqual(row[name], got[0][1][name], places=5)

    def test_it_never_generates(self):
        t = self.trainer(self.batches)
        t._generate_and_score_completions = t.model.generate = None
        t.train()

    def test_what_is_trained_is_what_was_sampled(self):
        b = next(b for b in self.batches if b.channel == "rl")
        x, on = as_trl(b), trained(b, "")
        ids = torch.cat((x["prompt_ids"], x["completion_ids"]), 1)
        mask = torch.cat((torch.zeros_like(x["prompt_ids"]), x["completion_mask"] * x["tool_mask"]), 1)
        self.assertTrue((ids == b.t["input_ids"]).all() and (mask.bool() == on).all())


if __name__ == "__main__":
    unittest.main()
