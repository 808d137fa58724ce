"""Tests that TRL's losses are over exactly the tokens of the files. The gradients show which tokens a loss is over: with natgo.trl,
and for comparison with TRL alone on the same conversations.

Needs NATGO_TEST_TRL, the folder that TestTRL in trl_test.go makes.
"""

import difflib
import json
import math
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import warnings

import torch
import transformers
from datasets import Dataset, Features
from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from trl import DPOConfig, KTOConfig, SFTConfig
import trl

import natgo
from natgo.textrows import _MAX_DEPTH, _feature, _joined, _shape_of
from natgo.trl import DPOTrainer, KTOTrainer, SFTTrainer, answers, demonstrations, pairs, rollouts

WORK = pathlib.Path(os.environ["NATGO_TEST_TRL"])
LONG = bool(os.environ.get("NATGO_LONG"))
TEMPLATES = sorted(p.parent.name for p in WORK.glob("*/model"))
warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
QUIET = dict(report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True, bf16=False, gradient_checkpointing=False, logging_steps=1)


# A mask over 20,000 tokens takes 1.6 GB per row and layer. Padding comes after the tokens, where causal attention never looks, so
# the long form needs none: transformers makes no mask for an attention that it has no mask function for.
AttentionInterface.register("causal", sdpa_attention_forward)


def model(name):
    return AutoModelForCausalLM.from_pretrained(WORK / name / "model", attn_implementation="causal" if LONG else None)


def tokenizer(name):
    return AutoTokenizer.from_pretrained(WORK / name / "model")


def config(kind, output, **more):
    # Batching a row of 20,000 tokens with short ones would be mostly attention over padding, so the long form takes one row at a time.
    rows = 1 if LONG else 2
    return kind(str(output), **{**QUIET, "max_length": None, "per_device_train_batch_size": rows, **more})


def contributing(trainer, batch):
    """Returns the loss, and for each sequence of a batch its ids and the positions of the tokens that the loss is over.

    The loss depends on a token through the hidden state before it: if the gradient there is not 0, the token counts.
    """
    seen = []

    def forward(module, args, output):
        if output.last_hidden_state.requires_grad:
            output.last_hidden_state.retain_grad()
            seen.append(output.last_hidden_state)

    net = trainer.accelerator.unwrap_model(trainer.model)
    hook = net.model.register_forward_hook(forward)
    try:
        trainer.model.train()
        loss = trainer.compute_loss(trainer.model, dict(batch))
        loss.backward()
    finally:
        hook.remove()
    trainer.model.zero_grad()
    assert len(seen) == 1, "want one forward pass of the policy with a gradient"
    over = (seen[0].grad != 0).any(-1)  # [R, T]: the next token counts
    if "position_ids" in batch:  # padding-free: sequences end to end
        starts = (batch["position_ids"][0] == 0).nonzero().flatten().tolist() + [batch["position_ids"].shape[1]]
        places = [(0, a, b) for a, b in zip(starts, starts[1:])]
    else:
        places = [(row, 0, int(n)) for row, n in enumerate(batch["attention_mask"].sum(1))]
    out = []
    for row, a, b in places:
        assert not over[row, b - 1], "the last token predicts nothing"
        out.append((tuple(batch["input_ids"][row, a:b].tolist()), tuple(at - a + 1 for at in range(a, b - 1) if over[row, at])))
    return float(loss.detach()), out


def everything(trainer):
    """Returns what contributing finds in all batches of an epoch."""
    return [row for batch in trainer.get_train_dataloader() for row in contributing(trainer, batch)[1]]


def of_files(name, channel, sides, folder="run"):
    """Returns the same from the files: ids, and the positions whose label is not -100."""
    return [row for batch in natgo.load(WORK / name / folder, channel) for side in sides for row in of_batch(batch, side)]


def of_batch(batch, side):
    out = []
    for ids, labels, here in zip(batch[side + "input_ids"], batch[side + "labels"], batch[side + "attention_mask"]):
        n = int(here.sum())
        out.append((tuple(ids[:n].tolist()), tuple((labels[:n] != -100).nonzero()[0].tolist())))
    return out


def log_probs(net, sequences):
    """Computes by hand the sum of log-probs over the positions of each sequence, in float64 from the model's logits."""
    sums = []
    for ids, places in sequences:
        with torch.no_grad():
            logits = net(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        sums.append(sum(float(logits[at - 1, ids[at]]) for at in places))
    return sums


def plain(kind, name, output):
    """Returns a trainer of TRL alone, on the conversations that the rows were made from, in their order."""
    path = WORK / {"dpo": "pairs.jsonl", "sft": "traces.jsonl"}[kind]
    keep = ("prompt", "chosen", "rejected", "messages", "tools")
    rows = [{k: x[k] for k in keep if k in x} for x in map(json.loads, path.read_text().splitlines())]
    shape = None
    for row in rows:
        shape = _joined(shape, _shape_of(row, _MAX_DEPTH))
    data = Dataset.from_list(rows, features=Features({k: _feature(k, v) for k, v in shape.items()}))
    if kind == "dpo":
        return trl.DPOTrainer(model(name), args=config(DPOConfig, output), train_dataset=data, processing_class=tokenizer(name))
    return trl.SFTTrainer(model(name), args=config(SFTConfig, output, shuffle_dataset=False), train_dataset=data, processing_class=tokenizer(name))


def in_order(trainer):
    """Returns the sequences of each row of a trainer's data set, and which of their tokens count."""
    trainer._set_signature_columns_if_needed()
    data = trainer.train_dataset
    data = data.select_columns([c for c in data.column_names if c in trainer._signature_columns])
    return [contributing(trainer, trainer.data_collator([row]))[1] for row in data]


def by_example(name, channel, sides):
    """Returns, for each example, its sequences in the files and which of their tokens are trained."""
    out = {}
    for batch in natgo.load(WORK / name / "run", channel):
        infos = batch.line["row_info"]
        rows = [of_batch(batch, side) for side in sides]
        for at, info in enumerate(infos):
            out.setdefault(info["example"], []).append([r[at] for r in rows])
    return out


def wrong_tokens(ours, theirs):
    """Counts the tokens that one side trains and the other doesn't, including trained tokens that only one side has."""
    (a, on_a), (b, on_b) = ours, theirs
    on_a, on_b, same = set(on_a), set(on_b), set()
    start = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    end = 0
    if LONG:  # a common end of thousands of tokens is matched here, since the matcher takes quadratic time
        end = next((i for i, (x, y) in enumerate(zip(reversed(a[start:]), reversed(b[start:]))) if x != y), min(len(a), len(b)) - start)
    blocks = difflib.SequenceMatcher(None, a[start : len(a) - end], b[start : len(b) - end], autojunk=False).get_matching_blocks()
    ends = [(0, 0, start), (len(a) - end, len(b) - end, end)]
    for x, y, n in ends + [(start + x, start + y, n) for x, y, n in blocks]:
        same.update((x + i, y + i) for i in range(n))
    wrong = sum((x in on_a) != (y in on_b) for x, y in same)
    left_a, left_b = on_a - {x for x, _ in same}, on_b - {y for _, y in same}
    return wrong + len(left_a) + len(left_b)


def table(output):
    """Returns the lines of the page: for each template and trainer, the trained tokens, and the wrong ones with natgo.trl and with TRL alone."""
    lines = []
    for kind, trainer, sides in (("dpo", DPOTrainer, ["chosen_", "rejected_"]), ("sft", SFTTrainer, [""])):
        for name in TEMPLATES:
            made = pairs if kind == "dpo" else demonstrations
            exact = trainer(model(name), args=config(DPOConfig if kind == "dpo" else SFTConfig, output), train_dataset=made(WORK / name / "run"),
                            processing_class=tokenizer(name))
            files = by_example(name, kind, sides)
            rows = [row for batch in natgo.load(WORK / name / "run", kind) for row in zip(*(of_batch(batch, s) for s in sides))]
            off = sum(wrong_tokens(a, b) for row, got in zip(rows, in_order(exact)) for a, b in zip(row, got))
            path = WORK / {"dpo": "pairs.jsonl", "sft": "traces.jsonl"}[kind]
            examples = [json.loads(text)["id"] for text in path.read_text().splitlines()]
            alone = 0
            for example, got in zip(examples, in_order(plain(kind, name, output))):
                if len(files[example]) == 1:  # if there are more, TRL alone has one sequence for several
                    alone += sum(wrong_tokens(a, b) for a, b in zip(files[example][0], got))
                else:  # compare with the closest one
                    alone += min(wrong_tokens(row[0], got[0]) for row in files[example])
            trained = sum(len(on) for row in rows for _, on in row)
            lines.append(f"| {kind.upper()} | {name} | {len(rows)} | {trained} | {off} | {alone} |")
    return lines


class Case(unittest.TestCase):
    def setUp(self):
        self.out = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.out)

    def trained(self, trainer):
        """Trains ten steps and returns the losses."""
        trainer.train()
        losses = [x["loss"] for x in trainer.state.log_history if "loss" in x]
        self.assertEqual(trainer.state.global_step, 10)
        self.assertTrue(all(math.isfinite(x) for x in losses))
        return losses


class DPO(Case):
    def trainer(self, name, folder="run", **options):
        reference = options.pop("reference", False)
        data = pairs(WORK / name / folder, reference=reference)
        return DPOTrainer(model(name), args=config(DPOConfig, self.out, **options), train_dataset=data, processing_class=tokenizer(name))

    def test_positions(self):
        for name in TEMPLATES:
            with self.subTest(name):
                want = of_files(name, "dpo", ["chosen_", "rejected_"])
                self.assertTrue(any(b - a > 1 for _, places in want for a, b in zip(places, places[1:])), "no row has a gap in what is trained")
                if LONG:
                    self.assertGreater(max(len(ids) for ids, _ in want), 20_000)
                self.assertEqual(sorted(everything(self.trainer(name))), sorted(want))

    def test_first_loss_and_ten_steps(self):
        for name in TEMPLATES[:2]:
            with self.subTest(name):
                trainer = self.trainer(name, max_steps=10, learning_rate=1e-2, lr_scheduler_type="constant")
                losses = self.trained(trainer)
                self.assertAlmostEqual(losses[0], math.log(2), places=4)
                if not LONG:  # ten rows, one at a time, are too few for the single head of the long form
                    self.assertLess(sum(losses[5:]) / 5, losses[0])

    def test_loss_by_hand(self):
        name = TEMPLATES[0]
        trainer = self.trainer(name)
        with torch.no_grad():  # make the policy differ from its reference
            for x in trainer.model.parameters():
                x.add_(0.02 * torch.randn_like(x))
        batch = next(iter(trainer.get_train_dataloader()))
        loss, sequences = contributing(trainer, batch)
        policy, reference = log_probs(trainer.model.eval(), sequences), log_probs(model(name), sequences)
        ratio = [p - r for p, r in zip(policy, reference)]
        n = len(ratio) // 2
        by_hand = sum(math.log1p(math.exp(-0.1 * (ratio[i] - ratio[n + i]))) for i in range(n)) / n
        self.assertAlmostEqual(loss, by_hand, places=4)

    def test_reference_of_the_files(self):
        name = TEMPLATES[0]
        trainer = self.trainer(name, "referred", reference=True, precompute_ref_log_probs=True, max_steps=10, learning_rate=1e-2)
        self.assertIsNone(trainer.ref_model)
        self.assertEqual(sorted(everything(trainer)), sorted(of_files(name, "dpo", ["chosen_", "rejected_"])))
        self.assertAlmostEqual(self.trained(trainer)[0], math.log(2), places=4)

    def test_precomputed_reference(self):
        trainer = self.trainer(TEMPLATES[0], precompute_ref_log_probs=True, max_steps=10)
        self.assertAlmostEqual(self.trained(trainer)[0], math.log(2), places=4)

    def test_padded_to_a_multiple(self):
        trainer = self.trainer(TEMPLATES[0], pad_to_multiple_of=64)
        self.assertEqual(next(iter(trainer.get_train_dataloader()))["input_ids"].shape[1] % 64, 0)
        self.assertEqual(sorted(everything(trainer)), sorted(of_files(TEMPLATES[0], "dpo", ["chosen_", "rejected_"])))

    def test_refused(self):
        with self.assertRaisesRegex(ValueError, "padding_free can't be used"):
            self.trainer(TEMPLATES[0], padding_free=True)
        with self.assertRaisesRegex(ValueError, r"a row has \d+ tokens, and max_length is 8"):
            self.trainer(TEMPLATES[0], max_length=8)
        with self.assertRaisesRegex(ValueError, "set precompute_ref_log_probs=True to use them"):
            self.trainer(TEMPLATES[0], "referred", reference=True)
        with self.assertRaisesRegex(natgo.BatchError, "has no reference log-probs"):
            self.trainer(TEMPLATES[0], reference=True)
        with self.assertRaisesRegex(ValueError, "has no column 'chosen_input_ids': make it with natgo.trl.pairs"):
            DPOTrainer(model(TEMPLATES[0]), args=config(DPOConfig, self.out), train_dataset=Dataset.from_list([{"prompt": "a"}]),
                       processing_class=tokenizer(TEMPLATES[0]))


class KTO(Case):
    def trainer(self, name, folder="run", reference=False, **options):
        args = config(KTOConfig, self.out, **{"train_sampling_strategy": "sequential", "per_device_train_batch_size": 2 if LONG else 4, **options})
        return KTOTrainer(model(name), args=args, train_dataset=answers(WORK / name / folder, reference=reference), processing_class=tokenizer(name))

    def test_positions(self):
        for name in TEMPLATES[:1]:
            with self.subTest(name):
                trainer = self.trainer(name)
                self.assertEqual(sorted(everything(trainer)), sorted(of_files(name, "dpo", ["chosen_", "rejected_"])))

    def test_rollouts(self):
        """Checks that exactly the model's turns of scored rollouts are trained, and that TRL alone trains what was read between them, too."""
        name = TEMPLATES[0]
        args = config(KTOConfig, self.out, train_sampling_strategy="sequential", per_device_train_batch_size=2 if LONG else 3)
        data = rollouts(WORK / name / "run")
        self.assertEqual((sum(data["label"]), len(data)), (len(data) // 2, len((WORK / "traces.jsonl").read_text().splitlines())))
        ours = everything(KTOTrainer(model(name), args=args, train_dataset=data, processing_class=tokenizer(name)))
        want = []
        for batch in natgo.load(WORK / name / "run", "rl", rendered=True):
            for ids, mask, here in zip(batch["input_ids"], batch["response_mask"], batch["attention_mask"]):
                n = int(here.sum())
                want.append((tuple(ids[:n].tolist()), tuple(mask[:n].nonzero()[0].tolist())))
        self.assertEqual(sorted(ours), sorted(want))
        rows = []
        for at, trace in enumerate(map(json.loads, (WORK / "traces.jsonl").read_text().splitlines())):
            first = next(i for i, m in enumerate(trace["messages"]) if m["role"] == "assistant")
            rows.append({"prompt": trace["messages"][:first], "completion": trace["messages"][first:], "label": at % 2 == 1})
        shape = None
        for row in rows:
            shape = _joined(shape, _shape_of(row, _MAX_DEPTH))
        plain_data = Dataset.from_list(rows, features=Features({k: _feature(k, v) for k, v in shape.items()}))
        alone = everything(trl.KTOTrainer(model(name), args=args, train_dataset=plain_data, processing_class=tokenizer(name)))
        trained, theirs = (sum(len(places) for _, places in x) for x in (ours, alone))
        print(f"KTO on rollouts: natgo.trl trains {trained} tokens, TRL alone {theirs}")
        self.assertGreater(theirs, trained)

    def test_mismatched_answers(self):
        trainer = self.trainer(TEMPLATES[0])
        rows = [trainer.train_dataset[i] for i in range(4)]
        batch = trainer.data_collator(rows)
        for at, row in enumerate(rows):
            other = rows[at - 1]
            start, from_ = row["mask"].index(True), other["mask"].index(True)
            n = int(batch["KL_attention_mask"][at].sum())
            self.assertEqual(batch["KL_input_ids"][at, :n].tolist(), row["input_ids"][:start] + other["input_ids"][from_:])
            self.assertEqual(batch["KL_completion_mask"][at, :n].tolist(), [0] * start + [int(x) for x in other["mask"][from_:]])

    def test_first_loss_and_ten_steps(self):
        losses = self.trained(self.trainer(TEMPLATES[0], max_steps=10, learning_rate=1e-2))
        self.assertAlmostEqual(losses[0], 0.5, places=4)  # 1 - sigmoid(0): policy and reference are the same

    def test_reference_of_the_files(self):
        trainer = self.trainer(TEMPLATES[0], "referred", True, loss_type="apo_zero_unpaired", precompute_ref_log_probs=True, max_steps=10)
        self.assertEqual(sorted(everything(trainer)), sorted(of_files(TEMPLATES[0], "dpo", ["chosen_", "rejected_"])))
        self.assertAlmostEqual(self.trained(trainer)[0], 0.5, places=4)

    def test_refused(self):
        with self.assertRaisesRegex(ValueError, "made batch by batch"):
            self.trainer(TEMPLATES[0], precompute_ref_log_probs=True)
        with self.assertRaisesRegex(ValueError, "max_length is 8"):
            self.trainer(TEMPLATES[0], max_length=8)


class SFT(Case):
    def trainer(self, name, **options):
        return SFTTrainer(model(name), args=config(SFTConfig, self.out, **options), train_dataset=demonstrations(WORK / name / "run"),
                          processing_class=tokenizer(name))

    def test_positions(self):
        for name in TEMPLATES:
            for free in (False, True):
                with self.subTest(name, padding_free=free):
                    want = of_files(name, "sft", [""])
                    if LONG:
                        self.assertGreater(max(len(ids) for ids, _ in want), 20_000)
                    self.assertEqual(sorted(everything(self.trainer(name, padding_free=free))), sorted(want))

    def test_loss_by_hand_and_ten_steps(self):
        name = TEMPLATES[0]
        for free in (False, True):
            with self.subTest(padding_free=free):
                trainer = self.trainer(name, padding_free=free, max_steps=10, learning_rate=1e-2)
                loss, sequences = contributing(trainer, next(iter(trainer.get_train_dataloader())))
                by_hand = -sum(log_probs(trainer.model.eval(), sequences)) / sum(len(places) for _, places in sequences)
                self.assertAlmostEqual(loss, by_hand, places=4)
                losses = self.trained(trainer)
                self.assertLess(losses[-1], losses[0])

    def test_refused(self):
        with self.assertRaisesRegex(ValueError, "packing can't be used"):
            self.trainer(TEMPLATES[0], packing=True)
        with self.assertRaisesRegex(ValueError, "max_length is 8"):
            self.trainer(TEMPLATES[0], max_length=8)


class Table(Case):
    def test_the_page_shows_it(self):
        lines = table(self.out)
        print("\n".join(lines))
        rows = sum(int(line.split(" | ")[2]) for line in lines)
        self.assertGreaterEqual(rows, 200 if LONG else 48)
        self.assertTrue(all(line.split(" | ")[4] == "0" for line in lines), "natgo.trl trains a wrong token")
        self.assertTrue(all(int(line.split(" | ")[5].rstrip(" |")) > 0 for line in lines), "TRL alone trains no wrong token")
        if not LONG:
            page = pathlib.Path(__file__).parents[2] / "README.md"
            shown = [line for line in page.read_text().splitlines() if line.startswith(("| DPO |", "| SFT |"))]
            self.assertEqual(len(set(shown)), 4)
            self.assertLessEqual(set(shown), set(lines))


KINDS = {"dpo": DPO, "kto": KTO, "sft": SFT}


class Page(Case):
    def test_the_snippet_runs(self):
        page = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
        blocks = [b for b in re.findall(r"```python\n(.*?)```", page, re.S) if "import DPOTrainer" in b]
        self.assertEqual(len(blocks), 1)
        os.symlink(WORK / TEMPLATES[0] / "run", f"{self.out}/first")
        code = blocks[0].replace("path/to/model", str(WORK / TEMPLATES[0] / "model")).replace('"out/', f'"{self.out}/')
        code = code.replace("max_length=None", "max_length=None, max_steps=1, report_to=[], save_strategy='no', use_cpu=True, bf16=False")
        names = {}
        exec(code, names)
        self.assertEqual(names["trainer"].state.global_step, 1)


class TwoProcesses(Case):
    def test_positions(self):
        """Checks that two processes joined by gloo train the tokens of the files, each row once (and some twice, to fill the last batch)."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        running = [
            subprocess.Popen([sys.executable, __file__, f"{self.out}/{r}"], env={**env, "RANK": str(r), "LOCAL_RANK": str(r)}) for r in range(2)
        ]
        try:
            self.assertEqual([p.wait(900) for p in running], [0, 0])
        finally:
            for p in running:
                p.kill()
                p.wait()
        both = [json.loads(pathlib.Path(f"{self.out}/{r}").read_text()) for r in range(2)]
        for kind in KINDS:
            with self.subTest(kind):
                got = [tuple(map(tuple, row)) for rows in both for row in rows[kind]]
                sides = [""] if kind == "sft" else ["chosen_", "rejected_"]
                want = of_files(TEMPLATES[0], "sft" if kind == "sft" else "dpo", sides)
                self.assertEqual(set(got), set(want))
                self.assertLessEqual(len(got) - len(want), 16)
                self.assertTrue(all(rows[kind] for rows in both), "a process had no row")


def rank(path):
    got = {}
    for kind, of in KINDS.items():
        case = of()
        case.out = path + ".out"
        trainer = case.trainer(TEMPLATES[0])
        assert trainer.accelerator.num_processes == 2 and torch.distributed.get_backend() == "gloo"
        got[kind] = everything(trainer)
    pathlib.Path(path).write_text(json.dumps(got))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    rank(sys.argv[1])
