"""What the trainer promises: each promise has a test that fails if one thing is broken.

    python3 -m unittest -v test_trainer
"""

import copy
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import reference_logps
import toy
from natgo.errors import BatchError
from natgo.trl import losses
from natgo.trl import microbatch as data
from natgo.trl.divergence import divergence
from natgo.trl.microbatch import IGNORED, Batch, read, select, split
from natgo.trl.losses import Objective, composite, side_logits, untargeted_kl
from natgo.trl.scoring import AtPositions, Teacher, frozen, scoring
from train import TinyDecoder, evaluate, fit

HERE = Path(__file__).parent
torch.set_num_threads(1)


def setUpModule():
    global scratch, policy, root
    scratch = tempfile.TemporaryDirectory()
    root = Path(scratch.name)
    policy = toy.warm_up(root, seed=0)  # knows the world, has the bad habit
    toy.sample(policy, root / "toy", seed=1, each=4)


def tearDownModule():
    scratch.cleanup()


def batch(channel, where="toy", part="train"):
    return next(read(root / where, channel, part))


def with_tensors(b, **changed):
    return b._replace(t={**b.t, **changed})


def every_term(**settings):
    return Objective(**{"alpha_sdpo": 1.0, "beta_replay": 1.0, **settings})


def gradient(model, parts, o, teacher=None, reference=None):
    """The step's metrics and its whole gradient as one vector."""
    model.zero_grad(set_to_none=True)
    m = composite(model, parts, o, teacher, reference)
    return m, torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in model.parameters()])


def jsd(student, teacher, o):
    return divergence(student, teacher, o.divergence())


class Blind(torch.nn.Module):
    """A model that is not told one of the things it must be told."""

    def __init__(self, inner, mask=True, positions=True):
        super().__init__()
        self.inner, self.mask, self.positions = inner, mask, positions

    def forward(self, ids, mask, positions, row, at):
        mask = mask if self.mask else torch.ones_like(mask)
        positions = positions if self.positions else torch.arange(ids.shape[1]).expand_as(ids)
        return self.inner(ids, mask, positions, row, at)


class Reader(unittest.TestCase):
    def refused(self, b, word, **changed):
        with self.assertRaisesRegex(BatchError, word):
            data.check(with_tensors(b, **changed), "file")

    def test_shifted_pairs_are_refused(self):
        b = batch("sdpo")
        for name, word in (("student_pos", "student_input_ids|nothing follows"), ("teacher_pos", "teacher_input_ids|nothing follows"), ("target_id", "not the target")):
            for by in (1, -1):
                self.refused(b, word, **{"pair_" + name: b.t["pair_" + name] + by})
        self.refused(b, "no such row", pair_teacher_row=b.t["pair_teacher_row"] + 1)
        self.refused(b, "no such site", pair_site=b.t["pair_site"] + 1)
        self.refused(b, "sorted", **{k: v.flip(0) for k, v in b.t.items() if k.startswith("pair_")})
        self.refused(b, "weights", pair_weight=b.t["pair_weight"] * math.nan)

    def test_false_rows_are_refused(self):
        for b, side in ((batch("sft", "warm"), ""), (batch("dpo"), "rejected_")):
            labels, ids, mask = (b.t[side + n] for n in ("labels", "input_ids", "attention_mask"))
            self.refused(b, "labels", **{side + "labels": torch.where(labels == IGNORED, labels, labels + 1)})
            self.refused(b, "nothing before", **{side + "labels": torch.cat((ids[:, :1], labels[:, 1:]), 1)})
            self.refused(b, "vocabulary", **{side + "input_ids": ids + len(toy.WORDS)})
            self.refused(b, "attention_mask", **{side + "attention_mask": torch.cat((0 * mask[:, :1], mask[:, 1:]), 1)})
            self.refused(b, "position_ids", **{side + "position_ids": b.t[side + "position_ids"] + 1})
            self.refused(b, "int64", **{side + "attention_mask": mask.float()})
        b = batch("rl")
        self.refused(b, "advantage", advantage=b.t["advantage"] / 0)
        self.refused(b, "old_logprobs", old_logprobs=b.t["old_logprobs"] - 1)
        self.refused(b, "row_n_active", row_n_active=b.t["response_mask"].sum(1) + 1)

    def test_files_are_the_indexed_ones(self):
        w = toy.Writer(root / "changed")
        w.sft("train", [(toy.ids("<user> done <end>"), {1, 2})])
        w.close()
        file = root / "changed" / w.lines[0]["file"]
        file.write_bytes(file.read_bytes()[:-1] + b"\x01")
        with self.assertRaisesRegex(BatchError, "index was written for"):
            list(read(root / "changed"))
        w.lines[0]["file"] = "../toy/index.jsonl"
        w.close()
        with self.assertRaisesRegex(BatchError, "names a file outside the folder"):
            list(read(root / "changed"))

    def test_packed_rows_are_taken_apart(self):
        rows = [(toy.ids("! <user> done <end>"), {2, 3}), (toy.ids("find_old <end>"), {1}), (toy.ids("ok ! ! ! <end>"), {1, 4})]
        loose, packed = toy.Writer(root / "loose"), toy.Writer(root / "packed")
        loose.sft("train", rows)
        one = {k: torch.cat([torch.tensor(r) for r in v])[None] for k, v in {
            "input_ids": [r for r, _ in rows], "position_ids": [list(range(len(r))) for r, _ in rows],
            "labels": [[x if i in on else IGNORED for i, x in enumerate(r)] for r, on in rows]}.items()}
        packed.write("sft", "train", {**one, "seq_lengths": torch.tensor([len(r) for r, _ in rows]), "row_weight": torch.ones(3)}, 3)
        loose.close(), packed.close()
        a, b = batch("sft", "loose").t, batch("sft", "packed").t
        self.assertEqual(a.keys(), b.keys())
        for k in a:
            self.assertTrue(torch.equal(a[k], b[k]), k)

    def test_composer_layout_says_the_same(self):
        """One row per site under the reference trainer's names gives the losses of the pair table."""
        tried = [r for r in toy.rollouts(policy, [(v, "object1") for v in toy.VERBS], 2, torch.Generator().manual_seed(5)) if r.failed]
        once = []
        for r in tried:
            r = copy.copy(r)
            r.failed = r.failed[:1]
            once.append(r)
        w = toy.Writer(root / "pairs")
        w.sdpo("train", once)
        w.close()
        ours, pairs, rollouts = batch("sdpo", "pairs"), batch("dpo"), batch("rl")
        t, names = ours.t, ("input_ids", "attention_mask", "position_ids")
        mask = torch.zeros_like(t["teacher_input_ids"])
        mask[t["pair_teacher_row"], t["pair_teacher_pos"]] = 1
        composer = {**{n: t["student_" + n] for n in names}, **{"ctx_teacher_" + n: t["teacher_" + n] for n in names}, "sdpo_loss_mask": mask, "row_weight": t["row_weight"]}
        dpo = {f"dpo_{s}_{n}": pairs.t[f"{s}_{n}"] for s in ("chosen", "rejected") for n in names}
        dpo.update({f"dpo_{s}_response_mask": (pairs.t[s + "_labels"] != IGNORED).long() for s in ("chosen", "rejected")}, row_weight=pairs.t["row_weight"])
        rl = {{"reward": "rewards", "advantage": "advantages"}.get(k, k): v for k, v in rollouts.t.items()}
        c = toy.Writer(root / "composer")
        c.write("sdpo", "train", composer, len(once), sites=ours.line["sites"], layout="composer")
        c.write("dpo", "train", dpo, pairs.rows, layout="composer")
        c.write("rl", "train", rl, rollouts.rows, layout="composer")
        c.close()
        start = frozen(policy)
        a, ga = gradient(policy, [ours, pairs, rollouts], every_term(), Teacher(policy), start)
        b, gb = gradient(policy, list(read(root / "composer")), every_term(), Teacher(policy), start)
        self.assertEqual((a["loss/sdpo_kl"], a["loss/trace_replay_dpo"], a["loss/grpo"]), (b["loss/sdpo_kl"], b["loss/trace_replay_dpo"], b["loss/grpo"]))
        self.assertTrue(torch.equal(ga, gb))
        unshifted = {**composer, "sdpo_loss_mask": torch.cat((mask[:, :1] * 0, mask[:, :-1]), 1)}  # as in the reference collator
        with self.assertRaises(BatchError):
            data.check(Batch("sdpo", ours.line, data.from_composer(ours.line, unshifted, "x")), "x")


class WithoutTRL(unittest.TestCase):
    def test_the_module_imports_and_the_trainer_says_what_to_install(self):
        program = "import sys; sys.modules['trl'] = None; import natgo.trl; print('imported'); natgo.trl.CompositeTrainer"
        out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(out.stdout, "imported\n", out.stderr)
        self.assertIn("natgo.trl needs the package", out.stderr)
        self.assertIn("pip install numpy 'trl>=1.9,<2'", out.stderr)


class EqualWidth(unittest.TestCase):
    """A student that is padded where its teacher has the hint is the student: nothing attends to that padding."""

    def test_padding_within_a_row_changes_nothing(self):
        tried = [r for r in toy.rollouts(policy, [(v, "object1") for v in toy.VERBS], 3, torch.Generator().manual_seed(5)) if r.failed]
        w = toy.Writer(root / "gaps")
        w.sdpo("train", [copy.copy(r) for r in tried])
        w.close()
        b = batch("sdpo", "gaps")
        model, t = copy.deepcopy(policy).double(), b.t
        row, pos = t["pair_student_row"], t["pair_student_pos"]
        plain = model(t["student_input_ids"], t["student_attention_mask"], t["student_position_ids"], row, pos)
        for at, gap in ((1, 5), (3, 1), (int(pos.min()), 9)):
            def wide(name, fill):
                x = t["student_" + name]
                return torch.cat((x[:, :at], x.new_full((len(x), gap), fill), x[:, at:]), 1)
            for pad in (0, 7):  # whatever stands there
                gapped = model(wide("input_ids", pad), wide("attention_mask", 0), wide("position_ids", at), row, pos + gap * (pos >= at))
                self.assertLess(float((gapped - plain).detach().abs().max()), 1e-12)
                seen = model(wide("input_ids", pad), wide("attention_mask", 1), wide("position_ids", at), row, pos + gap * (pos >= at))
                self.assertGreater(float((seen - plain).detach().abs().max()), 1e-6, "padding that is attended to would have shown")
            closed = data.close_gaps({n: wide(n, 0) for n in ("input_ids", "attention_mask", "position_ids")}, ("input_ids", "attention_mask", "position_ids"))
            for n, x in closed.items():
                real = t["student_attention_mask"].bool()
                self.assertTrue(torch.equal(x[:, :real.shape[1]][real], t["student_" + n][real]), n)


class NullHint(unittest.TestCase):
    """A hint of no tokens makes the teacher the student: any loss that is left comes from misalignment."""

    @classmethod
    def setUpClass(cls):
        tried = [r for r in toy.rollouts(policy, [(v, "object1") for v in toy.VERBS], 3, torch.Generator().manual_seed(2)) if r.failed]
        w = toy.Writer(root / "null")
        w.sdpo("train", tried, hint=lambda verb: [])
        w.close()
        cls.b = batch("sdpo", "null")

    def loss(self, model, b, **o):
        m, g = gradient(model, [b], every_term(**o), Teacher(model, "live"))
        return m["loss/sdpo_kl"], float(g.abs().max())

    def test_nothing_is_left(self):
        every = range(self.b.rows)
        for name, b in (("as written", self.b), ("wide", select(self.b, every, width=90)), ("left", select(self.b, every, left=True)), ("left, wide", select(self.b, every, left=True, width=77))):
            for beta in (0.0, 0.3, 0.5, 1.0):
                value, g = self.loss(policy, b, jsd_beta=beta)
                self.assertLess(abs(value), 1e-9, name)
                self.assertLess(g, 1e-9, name)

    def test_padded_on_one_side_only(self):
        """Other widths round differently: below 1e-9 in float64, as close as its precision allows in float32."""
        wide = select(self.b, range(self.b.rows), width=90)
        b = with_tensors(self.b, **{k: v for k, v in wide.t.items() if k.startswith("teacher_")})
        value, g = self.loss(copy.deepcopy(policy).double(), b)
        self.assertLess(abs(value), 1e-9)
        self.assertLess(g, 1e-9)
        value, g = self.loss(policy, b)
        self.assertLess(abs(value), 1e-9)
        self.assertLess(g, 1e-6)

    def test_one_off_is_seen(self):
        for name in ("student_pos", "teacher_pos"):
            for by in (1, -1):
                b = with_tensors(self.b, **{"pair_" + name: (self.b.t["pair_" + name] + by).clamp(min=0)})
                value, g = self.loss(policy, b)
                self.assertGreater(value, 1e-3, name)
                self.assertGreater(g, 1e-6, name)

    def test_d24_a_teacher_in_train_mode_is_seen(self):
        """With dropout the student differs from its teacher; the teacher itself must be deterministic."""
        noisy = TinyDecoder(len(toy.WORDS), dropout=0.3)
        noisy.load_state_dict(policy.state_dict())
        t, teacher = self.b.t, Teacher(noisy, "live")
        seen = []
        noisy.lm_head.register_forward_hook(lambda m, i, out: seen.append((out.requires_grad, out.detach())))
        for _ in range(2):
            losses.sdpo_loss(noisy.train(), self.b, every_term(), teacher=teacher)
        (g0, s0), (g1, t0), (_, s1), (_, t1) = seen
        self.assertTrue(g0 and not g1, "the student has a gradient, the teacher none")
        self.assertTrue(torch.equal(t0, t1), "the teacher is in eval mode")
        self.assertFalse(torch.equal(s0, s1), "the student is in train mode")
        self.assertTrue(noisy.training and noisy.drop.training)


class Invariance(unittest.TestCase):
    """Neither micro-batches nor padding, side or pad id are part of the objective."""

    def variants(self, b):
        every = list(range(b.rows))
        yield "8 of 1", split(b, 1)
        yield "micro-batches of 3", split(b, 3)
        yield "wide", [select(b, every, width=80)]
        yield "left", [select(b, every, left=True, width=51)]
        yield "pad is a word", [select(b, every, pad_id=0, width=60)]
        yield "pad is the terminator", [select(b, every, pad_id=toy.END, width=60)]
        yield "pad is outside the vocabulary", [select(b, every, pad_id=-1)]

    def test_of_every_channel(self):
        model = copy.deepcopy(policy).double()
        start = frozen(TinyDecoder(len(toy.WORDS)).double())  # a reference unlike the policy
        for b in (select(batch("rl"), range(3, 11)), select(batch("sdpo"), range(8)), select(batch("dpo"), range(8)), select(batch("sft", "warm"), range(8))):
            if b.channel == "rl":  # off-policy, so that ratios matter, and of uneven weight
                b = with_tensors(b, old_logprobs=b.t["old_logprobs"] * 1.1, row_weight=torch.linspace(0.25, 1, b.rows))
            if b.channel == "sdpo":
                b = with_tensors(b, pair_weight=torch.linspace(0, 1, len(b.t["pair_weight"])))
            for reduction in ("token", "sequence", "constant") if b.channel == "rl" else ("token",):
                o = every_term(reduction=reduction)
                want, g = gradient(model, [b], o, Teacher(model, start=start), start)
                self.assertGreater(float(g.abs().max()), 1e-6, b.channel)
                for name, parts in self.variants(b):
                    got, h = gradient(model, parts, o, Teacher(model, start=start), start)
                    for k in want:
                        self.assertAlmostEqual(got[k], want[k], delta=1e-6 * abs(want[k]) + 1e-12, msg=f"{b.channel} {name} {k}")
                    self.assertLess(float((g - h).abs().max()), 1e-7 * float(g.abs().max()), f"{b.channel} {name}")

    def test_mask_and_positions_matter(self):
        """What the test above would see if the model were not told them."""
        b = select(batch("sft", "warm"), range(8))
        want, _ = gradient(policy, [b], every_term())
        left = select(b, range(8), left=True, width=51)
        for blind in (Blind(policy, mask=False), Blind(policy, mask=False, positions=False)):
            got, _ = gradient(blind, [left], every_term())
            self.assertGreater(abs(got["loss/sft"] - want["loss/sft"]), 1e-3)
        shifted = Blind(policy, positions=False)  # rotary positions are relative: only a hole in them shows
        gap = with_tensors(b, position_ids=b.t["position_ids"] + (b.t["position_ids"] > 3) * 5)
        self.assertGreater(abs(gradient(policy, [gap], every_term())[0]["loss/sft"] - gradient(shifted, [gap], every_term())[0]["loss/sft"]), 1e-3)

    def test_nothing_active_is_exactly_nothing(self):
        o, start = every_term(), frozen(policy)
        m, g = gradient(policy, [data.idle(c) for c in losses.CHANNELS], o, Teacher(policy), start)
        self.assertEqual([m[k] for k in ("loss/total", "loss/grpo", "loss/sdpo_kl", "loss/trace_replay_dpo", "loss/sft")], [0.0] * 5)
        self.assertEqual(float(g.abs().max()), 0.0)
        b = select(batch("sdpo"), range(4))
        want = gradient(policy, [b], o, Teacher(policy))
        got = gradient(policy, [b, data.idle("sdpo")], o, Teacher(policy))
        self.assertEqual(want[0]["loss/sdpo_kl"], got[0]["loss/sdpo_kl"])
        self.assertTrue(torch.equal(want[1], got[1]))


class FirstStep(unittest.TestCase):
    def test_dpo_is_ln_2(self):
        b, start = batch("dpo"), frozen(policy)
        m, g = gradient(policy, [b], every_term(), reference=start)
        self.assertAlmostEqual(m["loss/trace_replay_dpo"], math.log(2), delta=1e-6)
        self.assertGreater(float(g.abs().max()), 1e-4)
        with self.assertRaisesRegex(ValueError, "reference"):
            composite(policy, [b], every_term())

    def test_d19_reference_columns_need_their_fingerprint(self):
        b, start = batch("dpo"), frozen(policy)
        wrong = with_tensors(b, ref_chosen_logps=torch.zeros(b.rows), ref_rejected_logps=torch.zeros(b.rows))
        for line, o in (({}, every_term()), ({"reference": "a"}, every_term()), ({}, every_term(reference="a")), ({"reference": "b"}, every_term(reference="a"))):
            m = composite(policy, [wrong._replace(line={**b.line, **line})], o, reference=start)
            self.assertAlmostEqual(m["loss/trace_replay_dpo"], math.log(2), delta=1e-6, msg=str((line, o.reference)))
        with scoring(policy):
            sums = [losses.per_row(*losses.token_log_probs(policy, b, s), b.rows) for s in data.SIDES["dpo"]]
        right = with_tensors(b, ref_chosen_logps=sums[0], ref_rejected_logps=sums[1])._replace(line={**b.line, "reference": "a"})
        self.assertAlmostEqual(composite(policy, [right], every_term(reference="a"))["loss/trace_replay_dpo"], math.log(2), delta=1e-6)
        self.assertNotAlmostEqual(composite(policy, [wrong._replace(line=right.line)], every_term(reference="a"))["loss/trace_replay_dpo"], math.log(2), delta=1e-3)

    def test_reference_log_probs_are_of_a_row(self):
        grid = lambda *rows: torch.tensor(rows)
        b = Batch("dpo", {}, {"chosen_input_ids": grid([5, 6, 7, 8, 9], [5, 6, 7, 0, 0]), "chosen_attention_mask": grid([1] * 5, [1, 1, 1, 0, 0]),
                              "chosen_labels": grid([-100, 6, -100, 8, 9], [-100, 6, 7, -100, -100]), "rejected_input_ids": grid([5, 4], [5, 4]),
                              "rejected_attention_mask": grid([1, 1], [1, 1]), "rejected_labels": grid([-100, 4], [-100, 4])})
        # the same rows as in collator/reference_test.go
        self.assertEqual(reference_logps.row_hash(b, 0), "4dd517022040a4059eeb8318a182d5b77d3df1fbff3b646bdc9764f9d2d6d713")
        self.assertEqual(reference_logps.row_hash(b, 1), "1dddf5364d079f7ba59ec77dae66c038267a983725b6ee9330ee75b090e723e4")
        path = root / "reference.jsonl"
        toy_model = root / "reference.safetensors"
        save_file(policy.state_dict(), str(toy_model))
        subprocess.run([sys.executable, HERE / "reference_logps.py", "--batches", root / "toy", "--init", toy_model, "--output", path], check=True, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        pairs = [(b, i) for b in read(root / "toy", "dpo") for i in range(b.rows)]
        self.assertEqual([x["row"] for x in lines], [reference_logps.row_hash(b, i) for b, i in pairs])
        self.assertTrue(all(x["chosen"] < 0 and x["rejected"] < 0 for x in lines))

    def test_grpo_ratio_is_1(self):
        m, _ = gradient(policy, [batch("rl")], every_term())
        self.assertLess(m["rl_ratio_off_1"], 1e-4)
        none = {k: v for k, v in batch("rl").t.items() if k != "old_logprobs"}
        m, g = gradient(policy, [batch("rl")._replace(t=none)], every_term())
        self.assertEqual(m["rl_ratio_off_1"], 0.0)
        self.assertGreater(float(g.abs().max()), 1e-5)

    def test_group_without_variance_has_no_gradient(self):
        got = toy.rollouts(policy, [(v, "object2") for v in toy.VERBS], 4, torch.Generator().manual_seed(3))
        for r in got:
            r.reward = 0.5
        w = toy.Writer(root / "flat")
        w.rl("train", [got[i:i + 4] for i in range(0, len(got), 4)])
        w.close()
        _, g = gradient(policy, [batch("rl", "flat")], every_term())
        self.assertEqual(float(g.abs().max()), 0.0)

    def test_unscored_rollouts_weigh_nothing(self):
        b = select(batch("rl"), range(8))
        null = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1])
        some = with_tensors(b, reward_null=null, advantage=torch.where(null == 1, torch.full((8,), 7.0), b.t["advantage"]))
        for reduction in ("token", "sequence", "constant"):
            a, g = gradient(policy, [some], every_term(reduction=reduction))
            c, h = gradient(policy, [select(b, range(5))], every_term(reduction=reduction))
            self.assertAlmostEqual(a["loss/grpo"], c["loss/grpo"], delta=1e-6)
            self.assertLess(float((g - h).abs().max()), 1e-6)


class OnPolicy(unittest.TestCase):
    def test_recomputed_log_probs_are_the_sampled_ones(self):
        for part in ("train", "validation"):
            b = batch("rl", part=part)
            with scoring(policy):
                for left in (False, True):
                    c = select(b, range(b.rows), left=left, width=40)
                    got, _ = losses.token_log_probs(policy, c, "")
                    self.assertLess(float((got - c.t["old_logprobs"][c.t["response_mask"] == 1]).abs().max()), 1e-4)
                late = with_tensors(b, old_logprobs=b.t["old_logprobs"].roll(1, 1), response_mask=b.t["response_mask"].roll(1, 1))
                got, _ = losses.token_log_probs(policy, late, "")
                self.assertGreater(float((got - late.t["old_logprobs"][late.t["response_mask"] == 1]).abs().max()), 1e-2)

    def test_the_temperature_is_the_rollouts(self):
        """Log-probs taken after the temperature are compared with the policy's at that temperature, raw ones with its own."""
        b = batch("rl")
        hot = with_tensors(b, temperature=torch.full((b.rows,), 1.7))
        with scoring(policy):
            logp, _ = losses.token_log_probs(policy, hot, "")
        old = torch.zeros_like(b.t["old_logprobs"])
        old[b.t["response_mask"] == 1] = logp
        for said, exact in (("processed", True), ("raw", False)):
            w = toy.Writer(root / said)
            w.write("rl", "train", {**b.t, "old_logprobs": old}, b.rows, row_info=[{"sampling": {"temperature": 1.7, "top_p": 1.0, "logprobs": said}}] * b.rows)
            w.close()
            off = composite(policy, [batch("rl", said)], every_term())["rl_logp_off"]
            (self.assertLess if exact else self.assertGreater)(off, 1e-4)

    def test_ids_are_the_sampled_ones(self):
        """Student rows are rollouts bit for bit; a teacher row is one with the hint put in."""
        rl, b = batch("rl"), batch("sdpo")
        rollouts = {tuple(r[:n]) for r, m in zip(rl.t["input_ids"].tolist(), rl.t["attention_mask"].sum(1).tolist()) for n in range(1, m + 1)}
        students = [r[:n] for r, n in zip(b.t["student_input_ids"].tolist(), b.t["student_attention_mask"].sum(1).tolist())]
        teachers = [r[:n] for r, n in zip(b.t["teacher_input_ids"].tolist(), b.t["teacher_attention_mask"].sum(1).tolist())]
        self.assertTrue(all(tuple(s) in rollouts for s in students))
        for s, teacher, n in {(int(x), int(y), int(q) - int(p)) for x, y, p, q in zip(*(b.t["pair_" + k] for k in ("student_row", "teacher_row", "student_pos", "teacher_pos")))}:
            t = teachers[teacher]
            self.assertTrue(any(t[:i] + t[i + n:] == students[s][:len(t) - n] and toy.text(t[i:i + n]).startswith("<system> tools") for i in range(len(t))))


class Learns(unittest.TestCase):
    def test_100_steps(self):
        """Composite objective, frozen hinted teacher: what should move moves, what should not is measured."""
        model, start = copy.deepcopy(policy), frozen(policy)
        train, held = ([select(b, range(min(16, b.rows))) for b in read(root / "toy", split=part)] for part in ("train", "validation"))
        o, teacher = every_term(), Teacher(model, "frozen", start=start)
        before = evaluate(model, train, o, teacher, start, 64), evaluate(model, held, o, teacher, start, 64)
        log = []
        fit(model, train, o, 100, 3e-4, teacher, start, micro_rows=64, log=log.append)
        after = evaluate(model, train, o, teacher, start, 64), evaluate(model, held, o, teacher, start, 64)
        for name, a, b in zip(("train", "validation"), before, after):
            print("\n" + json.dumps({"split": name, **{k: [round(a[k], 4), round(b[k], 4)] for k in ("loss/sdpo_kl", "sdpo_target_logp", "loss/trace_replay_dpo", "dpo_margin", "untargeted_kl")}}), end="", flush=True)
        (a, b), (_, c) = (before[0], after[0]), (before[1], after[1])
        self.assertGreater(a["loss/sdpo_kl"], 0.05)
        self.assertLess(b["loss/sdpo_kl"], 0.2 * a["loss/sdpo_kl"])
        self.assertLess(b["sdpo_target_logp"], a["sdpo_target_logp"] - 0.1)
        self.assertAlmostEqual(a["dpo_margin"], 0.0, delta=1e-5)
        self.assertGreater(b["dpo_margin"], 0.1)
        self.assertAlmostEqual(a["untargeted_kl"], 0.0, delta=1e-6)
        self.assertTrue(0 < b["untargeted_kl"] < 5)
        self.assertLess(c["loss/sdpo_kl"], before[1]["loss/sdpo_kl"])
        self.assertEqual(len(log), 100)
        self.assertEqual(json.loads(log[-1])["step"], 100)

    def test_distillation_alone(self):
        """With the JSD alone the student approaches its hinted self, and nothing else is trained."""
        model, start = copy.deepcopy(policy), frozen(policy)
        train = [select(batch("sdpo"), range(16))]
        teacher = Teacher(model, "frozen", start=start)
        before = evaluate(model, train, every_term(), teacher, start, 64)
        fit(model, train, every_term(), 40, 2e-3, teacher, start, micro_rows=64, log=lambda line: None)
        after = evaluate(model, train, every_term(), teacher, start, 64)
        self.assertLess(after["loss/sdpo_kl"], 0.2 * before["loss/sdpo_kl"])
        self.assertLess(after["sdpo_target_logp"], before["sdpo_target_logp"])

    def test_teachers(self):
        model = copy.deepcopy(policy)
        teachers = {k: Teacher(model, k, decay=0.9) for k in ("live", "frozen", "ema")}
        first = {k: composite(model, [batch("sdpo")], every_term(), t)["loss/sdpo_kl"] for k, t in teachers.items()}
        self.assertEqual(len(set(first.values())), 1)
        was = model.lm_head.weight.detach().clone()
        with torch.no_grad():
            model.lm_head.weight.mul_(2)
        for t in teachers.values():
            t.update()
        self.assertIs(teachers["live"].model, model)
        self.assertTrue(torch.equal(teachers["frozen"].model.lm_head.weight, was))
        self.assertTrue(torch.allclose(teachers["ema"].model.lm_head.weight, 1.1 * was))
        self.assertFalse(any(p.requires_grad for k in ("frozen", "ema") for p in teachers[k].model.parameters()))


class Memory(unittest.TestCase):
    def test_the_head_sees_gathered_positions_alone(self):
        model, start, seen = copy.deepcopy(policy), frozen(policy), []
        for m in (model, start):
            m.lm_head.register_forward_hook(lambda _, args, out: seen.append(tuple(args[0].shape[:-1])))
        b = batch("sdpo")
        composite(model, [b], every_term(), Teacher(model, start=start))
        self.assertEqual(seen, [(len(b.t["pair_site"]),)] * 2)
        seen.clear()
        b = batch("dpo")
        composite(model, [b], every_term(), None, start)
        self.assertEqual(sorted(seen), sorted(2 * [(int((b.t[s + "labels"] != IGNORED).sum()),) for s in data.SIDES["dpo"]]))


# The losses again, in float64 and as the definitions read.

def log_softmax64(x):
    x = np.asarray(x, np.float64)
    m = x.max(-1, keepdims=True)
    return x - m - np.log(np.exp(x - m).sum(-1, keepdims=True))


def jsd64(z, t, beta, temperature=1.0, clip=math.inf, normalize=False):
    with np.errstate(divide="ignore", invalid="ignore"):
        a, b = log_softmax64(np.asarray(z, np.float64) / temperature), log_softmax64(np.asarray(t, np.float64) / temperature)
        q, p = np.exp(a), np.exp(b)
        if beta in (0, 1):
            element = np.where(p > 0, p * (b - a), 0) if beta == 0 else np.where(q > 0, q * (a - b), 0)
        else:
            m = np.logaddexp(a + np.log(1 - beta), b + np.log(beta))
            element = np.where(p > 0, beta * p * (b - m), 0) + np.where(q > 0, (1 - beta) * q * (a - m), 0)
    loss = np.minimum(element.sum(-1), clip)
    return loss / (beta * (1 - beta)) if normalize and 0 < beta < 1 else loss


def jsd_gradient64(z, t, beta, temperature=1.0):
    a, b = log_softmax64(np.asarray(z, np.float64) / temperature), log_softmax64(np.asarray(t, np.float64) / temperature)
    q, p = np.exp(a), np.exp(b)
    if beta == 0:
        return (q - p) / temperature
    g = b - a if beta == 1 else np.logaddexp(a + np.log(1 - beta), b + np.log(beta)) - a
    return (1 if beta == 1 else 1 - beta) * q * (-g + (q * g).sum(-1, keepdims=True)) / temperature


class Parity(unittest.TestCase):
    def test_jsd(self):
        rng = np.random.default_rng(0)
        for beta in (0.0, 0.05, 0.3, 0.5, 0.9, 1.0):
            for noise in (3.0, 0.3, 1e-2, 1e-3):
                for temperature in (1.0, 0.7):
                    z = rng.normal(0, 4, (5, 700)).astype(np.float32)
                    t = (z + rng.normal(0, noise, z.shape)).astype(np.float32)
                    x = torch.tensor(z, requires_grad=True)
                    got = jsd(x, torch.tensor(t), every_term(jsd_beta=beta, temperature=temperature))
                    want = jsd64(z, t, beta, temperature)
                    # nearly equal rows keep their precision too, except at the ends, where only the row's rounding error is left
                    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-4 if noise > 0.1 else 5e-2, atol=1e-9 if 0 < beta < 1 else 3e-7)
                    np.testing.assert_allclose(got.detach().numpy(), want, atol=1e-5)
                    got.sum().backward()
                    np.testing.assert_allclose(x.grad.numpy(), jsd_gradient64(z, t, beta, temperature), atol=1e-6)
                    o = every_term(jsd_beta=beta, temperature=temperature, jsd_clip=0.01, jsd_normalize=True)
                    np.testing.assert_allclose(jsd(torch.tensor(z), torch.tensor(t), o), jsd64(z, t, beta, temperature, 0.01, True), rtol=1e-5, atol=1e-5)

    def test_jsd_of_masked_vocabularies_and_of_equals(self):
        z, t = torch.randn(4, 50), torch.randn(4, 50)
        z[:, 7], t[:, 7], t[:, 9] = -math.inf, -math.inf, -math.inf
        x = z.clone().requires_grad_()
        loss = jsd(x, t, every_term())
        np.testing.assert_allclose(loss.detach(), jsd64(z, t, 0.5), rtol=1e-5)
        loss.sum().backward()
        self.assertTrue(torch.isfinite(x.grad).all() and (x.grad[:, 7] == 0).all())
        x = z.clone().requires_grad_()
        loss = jsd(x, z, every_term())
        loss.sum().backward()
        loss = loss.detach()
        self.assertEqual((float(loss.abs().max()), float(x.grad.abs().max())), (0.0, 0.0))

    def test_composite(self):
        """All four channels over one step, from the model's own logits, as plain sums in float64."""
        o = every_term(alpha_sdpo=0.7, beta_replay=0.3, sft_weight=0.2, dpo_beta=0.3, jsd_beta=0.3, temperature=1.3)
        start = frozen(TinyDecoder(len(toy.WORDS)))
        rl, sdpo, dpo, sft = batch("rl"), batch("sdpo"), batch("dpo"), batch("sft", "warm")
        rng = np.random.default_rng(1)
        rl = with_tensors(rl, old_logprobs=rl.t["old_logprobs"] * torch.tensor(rng.uniform(0.5, 1.5, rl.t["old_logprobs"].shape), dtype=torch.float32), row_weight=torch.tensor(rng.random(rl.rows), dtype=torch.float32))
        sdpo = with_tensors(sdpo, pair_weight=torch.tensor(rng.random(len(sdpo.t["pair_site"])), dtype=torch.float32))

        def logits(model, b, side):
            ids = b.t[side + "input_ids"]
            row, at = torch.ones_like(ids).nonzero(as_tuple=True)
            with scoring(model):
                return side_logits(model, b, side, row, at).double().numpy().reshape(*ids.shape, -1)

        def row_log_probs(model, b, side):
            """[R,T]: of the token AT t; 0 where not trained."""
            lp = log_softmax64(logits(model, b, side))
            ids, on = b.t[side + "input_ids"].numpy(), data.trained(b, side).numpy()
            out = np.zeros(ids.shape)
            for r, t in zip(*on.nonzero()):
                out[r, t] = lp[r, t - 1, ids[r, t]]
            return out, on

        new, on = row_log_probs(policy, rl, "")
        ratio, adv = np.exp(new - rl.t["old_logprobs"].double().numpy()), rl.t["advantage"].double().numpy()[:, None]
        token = -np.minimum(ratio * adv, np.clip(ratio, 0.8, 1.2) * adv) * on
        w = rl.t["row_weight"].double().numpy()
        grpo = {"token": (w[:, None] * token).sum() / (w[:, None] * on).sum(), "sequence": (w * token.sum(1) / on.sum(1)).sum() / w.sum(),
                "constant": (w * token.sum(1)).sum() / (1024 * w.sum())}
        z, t = logits(policy, sdpo, "student_"), logits(start, sdpo, "teacher_")
        at = [sdpo.t["pair_" + n].numpy() for n in data.PAIRS]
        l, w = jsd64(z[at[0], at[1]], t[at[2], at[3]], 0.3, 1.3), sdpo.t["pair_weight"].double().numpy()
        distil = (w * l).sum() / w.sum()
        sums = [row_log_probs(m, dpo, s)[0].sum(1) for s in data.SIDES["dpo"] for m in (policy, start)]
        prefer = np.log1p(np.exp(-0.3 * ((sums[0] - sums[1]) - (sums[2] - sums[3])))).mean()
        nll, on = row_log_probs(policy, sft, "")
        imitate = -nll.sum() / on.sum()
        for reduction, want in grpo.items():
            o.reduction = reduction
            m = composite(policy, [p for b in (rl, sdpo, dpo, sft) for p in split(b, 5)], o, Teacher(policy, start=start), start)
            for got, exact in ((m["loss/grpo"], want), (m["loss/sdpo_kl"], distil), (m["loss/trace_replay_dpo"], prefer), (m["loss/sft"], imitate), (m["loss/total"], want + 0.7 * distil + 0.3 * prefer + 0.2 * imitate)):
                self.assertAlmostEqual(got, exact, delta=1e-5 * max(1, abs(exact)))

    def test_against_goldens(self):
        folder = Path(os.environ.get("NATGO_CONFORMANCE", HERE / "../../../shared/conformance")) / "kernels"
        if not folder.is_dir():
            self.skipTest("no goldens: set NATGO_CONFORMANCE")
        seen = 0
        for suite in ("dense_f32", "clip_f32"):
            raw, doc = (folder / f"{suite}.bin").read_bytes(), json.loads((folder / f"{suite}.json").read_text())

            def array(a):
                return np.frombuffer(raw, {"f32": "<f4", "f64": "<f8", "i32": "<i4", "u16": "<u2"}[a["t"]], a["n"], a["off"])

            inputs = {i.get("id", i.get("name")): i for i in doc["inputs"]}
            for case in doc["cases"]:
                if case.get("clip", "none") not in ("none", "token"):
                    continue  # the trainer clips no single entries
                i = inputs[case["in"]]
                rows = i["rows"]
                z, t = (torch.tensor(array(i[k]).reshape(rows, -1)) for k in ("z", "t"))
                o = every_term(jsd_beta=case["beta"], temperature=case.get("tau", 1.0), jsd_clip=case.get("c", 0.05) if case.get("clip", "none") == "token" else 0.0, jsd_normalize=case.get("norm", "none") == "beta")
                x = z.double().requires_grad_()
                got = jsd(x, t.double(), o)
                got.sum().backward()
                want, ok = array(case["row_loss"]), np.isfinite(array(case["row_loss"]))
                np.testing.assert_allclose(got.detach().numpy()[ok], want[ok], rtol=1e-5, atol=1e-9, err_msg=str(case)[:200])
                if "grad" in case:
                    np.testing.assert_allclose(x.grad.numpy()[ok], array(case["grad"]).reshape(rows, -1)[ok], atol=1e-7, err_msg=str(case)[:200])
                near = (min(case["beta"], 1 - case["beta"]) == 0 or 0.01 < case["beta"] < 0.99) & np.isfinite(want) & (np.abs(want) < 1e30) & torch.isfinite(z).all(1).numpy() & torch.isfinite(t).all(1).numpy()
                np.testing.assert_allclose(jsd(z, t, o).numpy()[near], want[near], rtol=1e-4, atol=1e-5, err_msg=str(case)[:200])
                seen += 1
        print(f"\n{seen} golden cases", end="", flush=True)
        self.assertGreater(seen, 10)


def on_rank(rank, world, folder, out):
    """One rank: it has all the rl and sft rows but for rank 0, which alone has sdpo and dpo."""
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{out}/meet", rank=rank, world_size=world)
    model = TinyDecoder(len(toy.WORDS))
    model.load_state_dict(torch.load(f"{out}/policy"))
    parts = [m for b in read(folder, split="train") for m in split(b, 16)]
    mine = [m for m in parts if (m.channel in ("sdpo", "dpo")) == (rank == 0)]
    calls, start = [0], frozen(model)
    model.register_forward_hook(lambda *_: calls.__setitem__(0, calls[0] + 1))
    start.register_forward_hook(lambda *_: calls.__setitem__(0, calls[0] + 1000))
    metrics, g = gradient(model, mine, every_term(), Teacher(model, start=start), start)
    torch.save((calls[0], metrics, g), f"{out}/rank{rank}")
    dist.destroy_process_group()


class Ranks(unittest.TestCase):
    @unittest.skipUnless(torch.distributed.is_available(), "this torch has no torch.distributed")
    def test_d23_two_ranks_are_one(self):
        with tempfile.TemporaryDirectory() as out:
            torch.save(policy.state_dict(), f"{out}/policy")
            torch.multiprocessing.spawn(on_rank, (2, str(root / "toy"), out), nprocs=2)
            (calls0, m0, g0), (calls1, m1, g1) = (torch.load(f"{out}/rank{r}") for r in range(2))
        self.assertEqual(calls0, calls1)  # the idle rank ran the same forwards
        self.assertTrue(torch.equal(g0, g1))
        start = frozen(policy)
        want, g = gradient(policy, list(read(root / "toy", split="train")), every_term(), Teacher(policy, start=start), start)
        for k in want:
            self.assertAlmostEqual(m0[k], want[k], delta=1e-5 * max(1, abs(want[k])))
            self.assertAlmostEqual(m0[k], m1[k], delta=1e-12)
        self.assertLess(float((g - g0).abs().max()), 1e-5 * float(g.abs().max()) + 1e-7)


class Transformers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import transformers
        except ImportError:
            raise unittest.SkipTest("no transformers here: the Hugging Face model was not tried")
        cls.transformers = transformers
        torch.manual_seed(0)
        size = dict(vocab_size=len(toy.WORDS), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
        cls.size = size
        cls.llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**size))

    def test_same_objective(self):
        model = AtPositions(self.llama)
        start = frozen(model)
        parts = [select(batch(c), range(6)) for c in ("rl", "sdpo", "dpo")]
        want, g = gradient(model, parts, every_term(), Teacher(model, "live"), start)
        got, h = gradient(model, [select(p, [i], left=True, width=45) for p in parts for i in range(6)], every_term(), Teacher(model, "live"), start)
        for k in want:
            self.assertAlmostEqual(got[k], want[k], delta=2e-5 * max(1, abs(want[k])), msg=k)
        self.assertLess(float((g - h).abs().max()), 1e-4 * float(g.abs().max()))
        self.assertAlmostEqual(want["loss/trace_replay_dpo"], math.log(2), delta=1e-6)

    def test_null_hint(self):
        tried = [r for r in toy.rollouts(policy, [(v, "object1") for v in toy.VERBS], 2, torch.Generator().manual_seed(2)) if r.failed]
        w = toy.Writer(root / "null-hf")
        w.sdpo("train", tried, hint=lambda verb: [])
        w.close()
        model = AtPositions(self.llama)
        b = batch("sdpo", "null-hf")
        for c in (b, select(b, range(b.rows), left=True, width=50)):
            m, g = gradient(model, [c], every_term(), Teacher(model, "live"))
            self.assertLess(abs(m["loss/sdpo_kl"]), 1e-9)
            self.assertLess(float(g.abs().max()), 1e-9)

    def test_what_follows_the_head_stays(self):
        model = self.transformers.GraniteForCausalLM(self.transformers.GraniteConfig(**self.size, logits_scaling=8.0))
        ids, at = torch.arange(8)[None], torch.tensor([2, 5])
        with torch.no_grad():
            here = AtPositions(model)(ids, torch.ones_like(ids), torch.arange(8)[None], torch.zeros_like(at), at)
            self.assertTrue(torch.allclose(here, model(ids).logits[0, at], atol=1e-6))

    def test_from_a_folder(self):
        self.llama.save_pretrained(root / "llama")
        out = subprocess.run([sys.executable, HERE / "train.py", "--batches", root / "toy", "--model", root / "llama", "--steps", "2", "--beta-replay", "1", "--micro-rows", "32", "--output", root / "tuned"],
                             capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout
        self.assertAlmostEqual(json.loads(out.splitlines()[0])["loss/trace_replay_dpo"], math.log(2), delta=1e-5)
        self.assertTrue((root / "tuned" / "model.safetensors").exists())


class Program(unittest.TestCase):
    def run_it(self, *args):
        return subprocess.run([sys.executable, *map(str, args)], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def test_first_step_values(self):
        save_file(policy.state_dict(), str(root / "policy.safetensors"))
        out = self.run_it(HERE / "train.py", "--batches", root / "toy", "--steps", 0, "--beta-replay", 1, "--init", root / "policy.safetensors", "--micro-rows", 64)
        self.assertEqual(out.returncode, 0, out.stderr)
        (line,) = map(json.loads, out.stdout.splitlines())
        self.assertAlmostEqual(line["loss/trace_replay_dpo"], math.log(2), delta=1e-5)
        self.assertLess(line["rl_logp_off"], 1e-4)
        self.assertEqual(line["step"], 0)

    def test_trains_and_saves(self):
        out = self.run_it(HERE / "train.py", "--batches", root / "toy", "--steps", 2, "--alpha-sdpo", 1, "--micro-rows", 64, "--output", root / "trained", "--jsd-beta", "0.3", "--teacher", "ema")
        self.assertEqual(out.returncode, 0, out.stderr)
        lines = [json.loads(l) for l in out.stdout.splitlines()]
        self.assertEqual([l.get("step", l.get("evaluated")) for l in lines], [1, 2, "train", "validation"])
        self.assertTrue((root / "trained" / "model.safetensors").exists())
        self.assertIn("batches of dpo weigh 0: see --alpha-sdpo and --beta-replay", out.stderr)

    def test_without_weights_pairs_alone_train_nothing(self):
        alone = Path(shutil.copytree(root / "toy", root / "alone"))
        lines = (alone / "index.jsonl").read_text("utf-8").splitlines()
        (alone / "index.jsonl").write_text("\n".join(l for l in lines if json.loads(l)["channel"] == "sdpo"), "utf-8")
        out = self.run_it(HERE / "train.py", "--batches", alone, "--steps", 1)
        self.assertEqual(out.returncode, 1)
        self.assertIn("nothing to train on: it has batches of sdpo alone, which weigh 0 without --alpha-sdpo and --beta-replay", out.stderr)

    def test_dumped_logits_are_the_losses_own(self):
        save_file(policy.state_dict(), str(root / "policy.safetensors"))
        out = self.run_it(HERE / "dump_logits.py", "--batches", root / "toy", "--init", root / "policy.safetensors", "--output", root / "dumps")
        self.assertEqual(out.returncode, 0, out.stderr)
        t = load_file(out.stdout.splitlines()[0])
        w, b = t["weights"].numpy(), batch("sdpo")
        want = composite(policy, [b], every_term(), Teacher(policy, "live"))["loss/sdpo_kl"]
        self.assertAlmostEqual(float((w * jsd64(t["student_logits"], t["teacher_logits"], 0.5)).sum() / w.sum()), want, delta=1e-5)

    def test_checks_a_folder(self):
        out = self.run_it("-m", "natgo.trl.microbatch", root / "toy")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual([json.loads(l)["channel"] for l in out.stdout.splitlines()], [f"{c}/{s}" for s in ("train", "validation") for c in ("rl", "sdpo", "dpo")])
        self.assertIn("BatchError", self.run_it("-m", "natgo.trl.microbatch", root / "nowhere").stderr)


if __name__ == "__main__":
    unittest.main()
