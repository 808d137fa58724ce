"""The experiment in small, with scripted rollouts in place of sampled ones; and the figures of the page, from learn.csv."""

import csv
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch

import learn
import world
from natgo.trl import hints

HERE = Path(__file__).parent


def scripted(model, tokenizer, texts):
    """The habit first, then the right form where the model is one to repair."""
    out = []
    for text in texts:
        tool, a, b = re.match(r"<user>(\w+) (\w+) (\w+)<end>", text).groups()
        task = (tool.rstrip("0123456789"), tool, a, b)
        if text.endswith('{"ok": true}<end><assistant>'):
            out.append("done")
        elif "error" in text:
            out.append(world.call(task, world.RIGHT[task[0]]) if world.REPAIRS[task[0]] else "failed")
        else:
            out.append(world.call(task, world.HABIT))
    return out


def weights(success, model, hinted=False):
    """In place of the success of a model that has learnt nothing: what tells its weights from others."""
    return dict.fromkeys(world.RIGHT, sum(float(x.double().abs().sum()) for x in model.parameters()))


class Small(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.out = Path(folder.name)
        given = ["learn.py", "--output", folder.name, "--seeds", "1", "2", "--steps", "5", "--pretraining", "2", "--rollouts", "48"]
        program = os.environ["NATGO_TEST_PROGRAM"]
        with mock.patch.object(sys, "argv", given), mock.patch.multiple(learn, sampled=scripted, find=lambda: program), mock.patch.object(learn.Success, "of", weights):
            learn.main()

    def test_arms(self):
        found = {}
        with open(self.out / "learn.csv", newline="", encoding="utf-8") as file:
            for x in csv.DictReader(file):
                found.setdefault((x["seed"], x["arm"], x["kind"]), []).append(float(x["success"]))
        self.assertEqual(len(found), 2 * len(learn.ARMS) * len(world.RIGHT))
        for (seed, arm, kind), values in found.items():
            self.assertEqual(len(values), 2)
            self.assertEqual(values[0], found[seed, "none", kind][0], "an arm starts from another model")
            if arm == "none":
                self.assertEqual(values[0], values[1], "without a hint nothing is trained")
        for arm in ("hints", "wrong", "sft"):
            self.assertTrue(any(v[0] != v[1] for (_, a, _), v in found.items() if a == arm), arm)
        self.assertIn("<polygon", (self.out / "learn.svg").read_text("utf-8"))

    def test_rows_are_what_was_sampled(self):
        own = world.tokenizer()
        texts = {own.decode(x["student_input_ids"]) for x in hints(self.out / "seed1" / "runs" / "right")}
        self.assertGreater(len(texts), 20)
        for text in texts:
            tool, a, b = re.match(r"<user>(\w+) (\w+) (\w+)<end>", text).groups()
            task = (tool.rstrip("0123456789"), tool, a, b)
            self.assertTrue(text.startswith(world.prompt(task) + world.call(task, world.HABIT) + "<end>"), text)
        seen = {tuple(re.findall(r"\d+", text.split("<end>")[0])) for text in texts}
        self.assertTrue(all(int(n) < world.SEEN for numbers in seen for n in numbers))  # none of those that are measured

    def test_hints_stand_before_the_failed_call(self):
        own = world.tokenizer()
        for run, other in (("right", False), ("wrong", True)):
            for x in hints(self.out / "seed1" / "runs" / run):
                (teacher,) = x["teacher_input_ids"]
                kind, form = re.search(r"<system>write (\w+) as (.*?)<end><assistant><call>", own.decode(teacher)).groups()
                its = re.match(r"<user>([a-z]+)\d", own.decode(teacher))[1]
                self.assertEqual(kind != its, other)
                self.assertEqual(form, world.filled(world.RIGHT[kind], "first", "second"))

    def test_success_is_a_probability(self):
        own = world.tokenizer()
        torch.manual_seed(0)
        model = learn.taught(own, 3, 1)
        success = learn.Success(own).of(model)
        self.assertTrue(all(0 <= x < 0.01 for x in success.values()), success)


class Figures(unittest.TestCase):
    """What the page says of learn.csv."""

    def test_hints_beat_the_controls(self):
        found = learn.summary(HERE / "learn.csv")
        with open(HERE / "learn.csv", newline="", encoding="utf-8") as file:
            self.assertEqual(len({x["seed"] for x in csv.DictReader(file)}), 5)
        last = {(panel, arm): points[-1][1:] for (panel, arm), points in found.items()}
        mean, half = last["all", "hints"]
        for control in ("none", "wrong"):
            self.assertGreater(mean - half, sum(last["all", control]), control)
        page = (HERE / "README.md").read_text("utf-8")
        for arm in learn.ARMS:
            cells = " | ".join(f"{last[panel, arm][0]:.2f} ± {last[panel, arm][1]:.2f}" for panel in ("all", *world.RIGHT))
            self.assertIn(f"| {arm} | {cells} |", page)
        self.assertEqual((HERE / "learn.svg").read_text("utf-8"), learn.svg(found))


if __name__ == "__main__":
    unittest.main()
