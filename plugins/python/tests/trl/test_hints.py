"""Tests of HintTrainer and of weighted rows: losses beside nat-go's own, and which tokens a loss is over, read from the gradients.

Needs NATGO_TEST_TRL, the folder that TestTRLHints in trl_test.go makes, and NATGO_TEST_PROGRAM.
"""

import json
import math
import os
import pathlib
import random
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
from datasets import Dataset
from peft import LoraConfig
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import DPOConfig, KTOConfig, SFTConfig

import natgo
from natgo import kernel
from natgo.trl import DPOTrainer, HintConfig, HintTrainer, KTOTrainer, SFTTrainer, answers, demonstrations, hints, pairs
from natgo.trl import hint_trainer
from natgo.trl.losses import Objective, sdpo_loss
from natgo.trl.scoring import AtPositions, frozen
from tests.trl.made import random_rows

WORK = pathlib.Path(os.environ["NATGO_TEST_TRL"])
PROGRAM = os.environ["NATGO_TEST_PROGRAM"]
kernel.LIBRARY = os.environ["NATGO_TEST_LIBRARY"]
LONG = bool(os.environ.get("NATGO_LONG"))  # with the whole vocabulary
AIRLINE = (WORK / "airline").exists()
warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
QUIET = dict(report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True, bf16=False, gradient_checkpointing=False, logging_steps=1,
             lr_scheduler_type="constant")


def tokenizer():
    return AutoTokenizer.from_pretrained(WORK / "tiny" / "model")


def model(vocab, width=32, seed=0, layers=1):
    """A model whose predictions differ from context to context, as a trained one's do."""
    torch.manual_seed(seed)
    net = LlamaForCausalLM(LlamaConfig(vocab_size=vocab, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers, num_attention_heads=2,
                                       max_position_embeddings=32768, tie_word_embeddings=False))
    with torch.no_grad():
        net.lm_head.weight.mul_(8)
        for x in net.model.layers.parameters():
            x.mul_(4)
    return net


def vocabulary(rows):
    return max(max(max(x["student_input_ids"]) for x in rows), max(max(t) for x in rows for t in x["teacher_input_ids"])) + 1


def compact(data):
    """The same rows with their ids numbered anew from 0: what is compared stays, and a vocabulary of thousands does for the head."""
    ids = sorted({i for x in data for row in [x["student_input_ids"], *x["teacher_input_ids"]] for i in row})
    number = {i: n for n, i in enumerate(ids)}

    def renumber(x):
        return {**x, "student_input_ids": [number[i] for i in x["student_input_ids"]], "pair_target_id": [number[i] for i in x["pair_target_id"]],
                "teacher_input_ids": [[number[i] for i in row] for row in x["teacher_input_ids"]]}

    return data if LONG else data.map(renumber)


def nat_go(*args):
    done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Case(unittest.TestCase):
    def setUp(self):
        self.out = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.out)

    def hinted(self, net, data, **options):
        kind = {k: options.pop(k) for k in ("teacher_model", "peft_config") if k in options}
        args = HintConfig(self.out, **{**QUIET, "per_device_train_batch_size": 4, **options})
        return HintTrainer(net, args, train_dataset=data if isinstance(data, Dataset) else Dataset.from_list(data), processing_class=tokenizer(), **kind)

    def terms(self, trainer, batch):
        """The loss of a batch, and the logits that it was computed from."""
        seen = []
        plain = hint_trainer.sdpo_loss.__globals__["divergence"]

        def recorded(z, p, d):
            seen.append((z.detach(), p))
            return plain(z, p, d)

        hint_trainer.sdpo_loss.__globals__["divergence"] = recorded
        try:
            trainer.model.train()
            loss = trainer.compute_loss(trainer.model, dict(batch))
        finally:
            hint_trainer.sdpo_loss.__globals__["divergence"] = plain
        return (loss, *seen[0])

    def dump(self, name, tensors):
        path = f"{self.out}/{name}.safetensors"
        save_file({k: v.contiguous() for k, v in tensors.items()}, path)
        return path

    def beside(self, loss, batch, z, p, options, **more):
        """Compares a loss, and its gradient, with what `nat-go loss jsd` makes of the same logits."""
        given = self.dump("in", {"student_logits": z, "teacher_logits": p, "weights": batch["pair_weight"]})
        flags = [x for k, v in options.items() for x in (f"--{k.replace('_', '-')}", v)]
        said = nat_go("loss", "jsd", "--input", given, "--output", f"{self.out}/out.safetensors", *flags)
        self.assertLess(abs(float(loss.detach()) - said["loss"]), 1e-5 * max(1, abs(said["loss"])), options)
        return load_file(f"{self.out}/out.safetensors")["grad"]


class Losses(Case):
    def test_random_batches(self):
        rng, vocab = random.Random(3), 61
        trainer = self.hinted(model(vocab), random_rows(rng, 4, vocab))
        pairs = 0
        self.addCleanup(setattr, kernel, "_loaded", None)
        for n in range(200):
            kernel._loaded = None if n % 2 else (None, os.getpid())  # by the kernels and by torch
            batch = trainer.data_collator(random_rows(rng, rng.randint(1, 5), vocab))
            if float(batch["pair_weight"].sum()) == 0:
                batch["pair_weight"] += 1
            beta, temperature = rng.choice([0, 0.1, 0.5, 1]), rng.choice([1, 1, 0.7, 2])
            options, objective = {"jsd_beta": beta, "temperature": temperature}, Objective(jsd_beta=beta, temperature=temperature)
            if n % 3 == 1:
                objective.jsd_clip = rng.choice([0.01, 0.1])
                options.update(clip="token", clip_value=objective.jsd_clip)
            if n % 3 == 2:
                objective.top_k = rng.choice([1, 4, 60, 61])
                options.update(top_k=objective.top_k)
            trainer.objective = objective
            with torch.no_grad():
                trainer.model.lm_head.weight.copy_(torch.randn_like(trainer.model.lm_head.weight) * rng.choice([0.1, 1, 3]))
            loss, z, p = self.terms(trainer, batch)
            grad = self.beside(loss, batch, z, p, options)
            z.requires_grad_(True)
            ours = sdpo_loss.__globals__["divergence"](z, p, objective.divergence())
            (ours * batch["pair_weight"] / batch["pair_weight"].sum()).sum().backward()
            self.assertLess(float((z.grad - grad).abs().max()), 1e-5, options)
            pairs += len(z)
            # The logits are those at the pairs' places, as the plain forward has them.
            for side in ("student", "teacher"):
                ids = batch[f"{side}_input_ids"][batch[f"pair_{side}_row"], batch[f"pair_{side}_pos"] + 1]
                self.assertTrue(torch.equal(ids, batch["pair_target_id"]), side)
            if n % 10 == 0:
                whole = {}
                for side in ("student", "teacher"):
                    with torch.no_grad():
                        whole[f"{side}_logits"] = trainer.model(input_ids=batch[f"{side}_input_ids"], attention_mask=batch[f"{side}_attention_mask"]).logits
                    self.assertTrue(torch.allclose(whole[f"{side}_logits"][batch[f"pair_{side}_row"], batch[f"pair_{side}_pos"]], z if side == "student" else p, atol=1e-4))
        self.assertGreater(pairs, 2000)

    def test_stored_teacher(self):
        rng, vocab = random.Random(5), 61
        trainer = self.hinted(model(vocab), random_rows(rng, 4, vocab, stored=True), teacher="stored")
        for _ in range(50):
            batch = trainer.data_collator(random_rows(rng, rng.randint(1, 5), vocab, stored=True))
            if not float(batch["pair_weight"].sum()):
                continue
            loss, z, _ = self.terms(trainer, batch)
            batch_file = self.dump("batch", {k: v for k, v in batch.items() if k.startswith("pair_")})
            said = nat_go("loss", "composite", "--batch", batch_file, "--logits", self.dump("logits", {"student_logits": z}))
            self.assertLess(abs(float(loss.detach()) - said["loss/sdpo_kl"]), 1e-5)
        with self.assertRaisesRegex(ValueError, "at temperature 1, not 2"):
            trainer.objective = Objective(temperature=2)
            self.terms(trainer, batch)

    @unittest.skipUnless(AIRLINE, "no oracle data")
    def test_airline_sites(self):
        data = compact(hints(WORK / "airline"))
        vocab = vocabulary(data)
        trainer = self.hinted(model(vocab, width=16), data)
        off, sites = [], 0
        for row in data:
            batch = trainer.data_collator([row])
            with torch.no_grad():
                loss, z, p = self.terms(trainer, batch)
            given = self.dump("in", {"student_logits": z, "teacher_logits": p, "weights": batch["pair_weight"]})
            off.append(abs(float(loss) - nat_go("loss", "jsd", "--input", given)["loss"]))
            sites += len(set(row["pair_site"]))
        print(f"airline: {sites} sites, {sum(len(x) for x in data['pair_pos'])} pairs, vocabulary {vocab}: losses differ by at most {max(off):.1e}")
        self.assertGreater(sites, 25)
        self.assertLess(max(off), 1e-5)


class Gradients(Case):
    def wrong(self, trainer, rows):
        """How many tokens count that shouldn't, or the other way round, of how many; the teacher's rows may have none."""
        wrong = count = 0
        for row in rows:
            seen = []

            def forward(module, args, output):
                if output.last_hidden_state.requires_grad:
                    output.last_hidden_state.retain_grad()
                    seen.append(output.last_hidden_state)

            hook = trainer.model.model.register_forward_hook(forward)
            batch = trainer.data_collator([row])
            trainer.compute_loss(trainer.model.train(), batch).backward()
            hook.remove()
            trainer.model.zero_grad()
            self.assertEqual(len(seen), 1)  # the teacher has no graph
            over = set((seen[0].grad[0] != 0).any(-1).nonzero()[:, 0].tolist())
            want = {pos for pos, w in zip(row["pair_pos"], row["pair_weight"]) if w > 0}
            wrong += len(over ^ want)
            count += len(want)
        return wrong, count

    def test_tokens(self):
        for run in ("hints", *(["airline"] if AIRLINE else [])):
            with self.subTest(run):
                data = compact(hints(WORK / run))
                wrong, count = self.wrong(self.hinted(model(vocabulary(data), width=16), data), data)
                print(f"{run}: {count} tokens are trained, {wrong} wrongly")
                self.assertEqual(wrong, 0)
                self.assertGreater(count, 50)
        rows = random_rows(random.Random(1), 100, 61)
        self.assertEqual(self.wrong(self.hinted(model(61), rows), rows)[0], 0)

    def test_a_null_hint_is_exactly_0(self):
        data = hints(WORK / "null")
        for teacher in ("live", "frozen", "ema"):
            trainer = self.hinted(model(vocabulary(data), layers=2), data, teacher=teacher, max_steps=2, learning_rate=1e-2)
            before = {name: x.clone() for name, x in trainer.model.named_parameters()}
            trainer.train()
            self.assertEqual([x["loss"] for x in trainer.state.log_history if "loss" in x], [0.0, 0.0])
            for name, x in trainer.model.named_parameters():
                self.assertTrue(torch.equal(x, before[name]), name)


class Contrast(Case):
    """What a teacher with a right hint and one with a wrong hint say, as one teacher."""

    def batch(self, trainer, rows):
        batch = trainer.data_collator(rows)
        if float(batch["pair_weight"].sum()) == 0:
            batch["pair_weight"] += 1
        return batch

    def test_losses_beside_nat_go(self):
        rng, vocab = random.Random(11), 61
        trainer = self.hinted(model(vocab), random_rows(rng, 4, vocab), contrast=0.5)
        for n in range(60):
            batch = self.batch(trainer, random_rows(rng, rng.randint(1, 5), vocab))
            beta, temperature, alpha = rng.choice([0, 0.1, 0.5, 1]), rng.choice([1, 1, 0.7, 2]), rng.choice([0.1, 0.5, 2])
            options = {"jsd_beta": beta, "temperature": temperature, **({"top_k": 4} if n % 3 == 2 else {})}
            trainer.objective = Objective(contrast=alpha, **options)
            loss, z, p = self.terms(trainer, batch)
            right, wrong = (
                trainer.model(input_ids=batch[f"{side}_input_ids"], attention_mask=batch[f"{side}_attention_mask"]).logits[
                    batch["pair_teacher_row"], batch[f"pair_{side}_pos"]].detach().double().div(temperature).log_softmax(1) for side in ("teacher", "contrast")
            )
            meant = temperature * ((1 + alpha) * right - alpha * wrong.clamp(min=-30))  # as it is published
            self.beside(loss, batch, z, meant.float(), options)
            self.assertLess(float((p.double().softmax(1) - meant.softmax(1)).abs().max()), 1e-5)
            z.requires_grad_(True)
            (sdpo_loss.__globals__["divergence"](z, p, trainer.objective.divergence()) * batch["pair_weight"] / batch["pair_weight"].sum()).sum().backward()
            self.assertLess(float((z.grad - self.beside(loss, batch, z.detach(), p, options)).abs().max()), 1e-5)

    def test_equal_hints_change_nothing(self):
        rows = random_rows(random.Random(4), 5, 61)
        for row in rows:
            row.update(contrast_input_ids=row["teacher_input_ids"], pair_contrast_pos=row["pair_teacher_pos"])
        plain, contrasted = (self.hinted(model(61), rows, contrast=alpha) for alpha in (0.0, 0.5))
        batch = self.batch(plain, rows)
        self.assertEqual(float(self.terms(plain, batch)[0].detach()), float(self.terms(contrasted, batch)[0].detach()))
        data = hints(WORK / "null", contrast=True)
        trainer = self.hinted(model(vocabulary(data), layers=2), data, contrast=0.5, max_steps=2, learning_rate=1e-2)
        trainer.train()
        self.assertEqual([x["loss"] for x in trainer.state.log_history if "loss" in x], [0.0, 0.0])

    def test_rows_of_a_run(self):
        for run in ("contrast", "cumulative", *(["airline-contrast"] if AIRLINE else [])):
            data = hints(WORK / run, contrast=True)
            for row in data:
                self.assertEqual(len(row["contrast_input_ids"]), len(row["teacher_input_ids"]))
                for ids, told in zip(row["contrast_input_ids"], row["teacher_input_ids"]):
                    self.assertNotEqual(ids, told)
                for teacher, at, target in zip(row["pair_teacher"], row["pair_contrast_pos"], row["pair_target_id"]):
                    self.assertEqual(row["contrast_input_ids"][teacher][at + 1], target)
            about = [site for batch in natgo.load(WORK / run, "sdpo") for row in batch.line["row_info"] for site in row["sites"]]
            wrong = {tuple(site["contrast"]) for site in about}
            rows = [ids for row in data for ids in row["contrast_input_ids"]]
            self.assertTrue(all(any(tuple(ids[i : i + len(x)]) == x for x in wrong for i in range(len(ids))) for ids in rows))
            self.assertEqual(len(about), {"airline-contrast": 27}.get(run, 4))
            print(f"{run}: {len(about)} sites with a wrong hint, {len(rows)} rows")

    def test_gradients(self):
        data = hints(WORK / "contrast", contrast=True)
        vocab = max(vocabulary(data), max(max(ids) for x in data for ids in x["contrast_input_ids"]) + 1)
        self.assertEqual(Gradients.wrong(self, self.hinted(model(vocab, width=16), data, contrast=0.5), data)[0], 0)

    def test_refused(self):
        data = hints(WORK / "hints")
        for options, what in (
            ({"contrast": 0.5}, r"no column 'contrast_input_ids': make it with natgo.trl.hints\(contrast=True\)"),
            ({"contrast": -1.0}, "contrast is -1.0: expected a number of at least 0"),
            ({"contrast": 0.5, "teacher": "stored"}, "contrast can't be used with trees or a stored teacher"),
        ):
            with self.subTest(**options), self.assertRaisesRegex(ValueError, what):
                self.hinted(model(900), hints(WORK / "contrast", contrast=True) if options["contrast"] < 0 else data, **options)
        with self.assertRaisesRegex(natgo.BatchError, "has no wrong hints: set collator.contrast"):
            hints(WORK / "hints", contrast=True)


class Steps(Case):
    rows = random_rows(random.Random(9), 8, 61)

    def gradient(self, rows, **options):
        """The parameters after a step of SGD, and its loss."""
        trainer = self.hinted(model(61), rows, max_steps=1, optim="sgd", learning_rate=0.1, max_grad_norm=0.0, weight_decay=0.0, **options)
        trainer.train()
        loss = next(x["loss"] for x in trainer.state.log_history if "loss" in x)
        return torch.cat([x.detach().flatten() for x in trainer.model.parameters()]), loss

    def test_micro_batches_are_one_step(self):
        whole, loss = self.gradient(self.rows, per_device_train_batch_size=8)
        for size in (1, 2, 4):
            parts, parted = self.gradient(self.rows, per_device_train_batch_size=size, gradient_accumulation_steps=8 // size)
            self.assertLess(float((whole - parts).abs().max()), 1e-6)
            self.assertAlmostEqual(loss, parted, places=5)

    def test_two_processes_are_one(self):
        whole, loss = self.gradient(self.rows, per_device_train_batch_size=8)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        running = [subprocess.Popen([sys.executable, __file__, self.out], env={**env, "RANK": str(r), "LOCAL_RANK": str(r)}) for r in range(2)]
        self.assertEqual([p.wait(300) for p in running], [0, 0])
        got = torch.load(f"{self.out}/rank0")
        self.assertLess(float((whole - got["parameters"]).abs().max()), 1e-6)
        self.assertAlmostEqual(loss, got["loss"], places=5)

    def test_a_step_without_pairs_is_a_step(self):
        empty = {**self.rows[0], "teacher_input_ids": [], **{k: [] for k in self.rows[0] if k.startswith("pair_")}}
        trainer = self.hinted(model(61), [self.rows[0], empty], max_steps=2, learning_rate=1e-2, per_device_train_batch_size=1)
        before = [x.clone() for x in trainer.model.parameters()]
        trainer.train()
        self.assertEqual(trainer.state.global_step, 2)
        self.assertIn(0.0, [x["loss"] for x in trainer.state.log_history if "loss" in x])
        self.assertTrue(any(not torch.equal(a, b) for a, b in zip(before, trainer.model.parameters())))
        trainer = self.hinted(model(61), [empty, empty], max_steps=1, per_device_train_batch_size=2)
        before = [x.clone() for x in trainer.model.parameters()]
        trainer.train()
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters())))

    def test_teachers(self):
        batch = self.hinted(model(61), self.rows).data_collator(self.rows)
        start = model(61)
        with torch.no_grad():
            want = start(input_ids=batch["teacher_input_ids"], attention_mask=batch["teacher_attention_mask"]).logits[batch["pair_teacher_row"], batch["pair_teacher_pos"]]
        for options in ({"teacher": "frozen"}, {"teacher": "frozen", "teacher_model": model(61)}, {"teacher": "frozen", "peft_config": LoraConfig(r=4, target_modules=["q_proj", "v_proj"])},
                        {"teacher": "ema", "ema_decay": 1.0}):
            with self.subTest(**options):
                trainer = self.hinted(model(61), self.rows, max_steps=3, learning_rate=3e-2, **options)
                trainer.train()
                _, z, p = self.terms(trainer, batch)
                self.assertTrue(torch.allclose(p, want, atol=1e-5))
                self.assertFalse(torch.allclose(z, want, atol=1e-2))
        trainer = self.hinted(model(61), self.rows, max_steps=1, learning_rate=3e-2, teacher="ema", ema_decay=0.75)
        trainer.train()
        now, then = trainer.model.lm_head.weight, start.lm_head.weight
        self.assertTrue(torch.allclose(trainer.teacher.model.model.lm_head.weight, 0.75 * then + 0.25 * now, atol=1e-6))

    def test_dropout_is_the_students_alone(self):
        net = model(61)
        net.config.attention_dropout = 0.5
        for layer in net.model.layers:
            layer.self_attn.attention_dropout = 0.5
        trainer = self.hinted(net, self.rows)
        batch = trainer.data_collator(self.rows)
        (_, z1, p1), (_, z2, p2) = self.terms(trainer, batch), self.terms(trainer, batch)
        self.assertTrue(torch.equal(p1, p2))
        self.assertFalse(torch.equal(z1, z2))

    def test_padded_vocabularies(self):
        """A teacher whose head is padded to another width is cut to the common one; one of another vocabulary is refused."""
        n = len(tokenizer())
        rows = random_rows(random.Random(2), 4, 61)
        narrow = self.hinted(model(n), rows, teacher="frozen", teacher_model=model(n))
        wide = model(n + 5)
        with torch.no_grad():
            for a, b in zip(wide.parameters(), model(n).parameters()):
                a[tuple(slice(0, k) for k in b.shape)].copy_(b)
        padded = self.hinted(model(n), rows, teacher="frozen", teacher_model=wide)
        narrow.data_collator.pad_id = 0
        batch = narrow.data_collator(rows)
        self.assertAlmostEqual(float(self.terms(narrow, batch)[0].detach()), float(self.terms(padded, batch)[0].detach()), places=5)
        other = self.hinted(model(n), rows, teacher="frozen", teacher_model=model(n - 1))
        with self.assertRaisesRegex(ValueError, f"and the vocabulary has {n} entries"):
            self.terms(other, batch)

    def test_it_learns_what_the_hint_says(self):
        data = hints(WORK / "hints")
        trainer = self.hinted(model(vocabulary(data), layers=2), data, teacher="frozen", max_steps=40, learning_rate=3e-3)
        trainer.train()
        losses = [x["loss"] for x in trainer.state.log_history if "loss" in x]
        self.assertLess(losses[-1], 0.3 * losses[0])
        log = next(x for x in trainer.state.log_history if "loss" in x)
        self.assertTrue({"jsd", "pairs", "target_logp"} <= set(log))
        self.assertGreaterEqual(trainer.evaluate(data)["eval_loss"], 0)

    def test_refused(self):
        data = hints(WORK / "hints")
        for options, what in (
            ({"teacher": "stored"}, r"no column 'pair_teacher_topk_ids': make it with natgo.trl.hints\(stored=True\)"),
            ({"teacher": "best"}, "teacher 'best' is not one of live, frozen, ema and stored"),
            ({"packing": True}, "packing can't be used: a row has its own teachers"),
            ({"max_length": 8}, "max_length is 8: rows are not cut here"),
            ({"teacher_model": model(61)}, "teacher_model goes with teacher='frozen', not 'live'"),
        ):
            with self.subTest(**options), self.assertRaisesRegex(ValueError, what):
                self.hinted(model(vocabulary(data)), data, **options)
        with self.assertRaisesRegex(ValueError, "no column 'student_input_ids'"):
            self.hinted(model(61), [{"prompt": "a"}])
        with self.assertRaisesRegex(natgo.BatchError, "has no stored teacher"):
            hints(WORK / "hints", stored=True)
        with self.assertRaisesRegex(natgo.BatchError, "embeddings: the run was made for another model"):
            self.hinted(model(61), data).data_collator  # noqa: B018
            next(iter(self.hinted(model(61), data).get_train_dataloader()))


class Page(Case):
    def test_the_snippet_runs(self):
        page = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
        first, then = [b for b in re.findall(r"```python\n(.*?)```", page, re.S) if "HintTrainer" in b]
        os.symlink(WORK / "hints", f"{self.out}/first")
        os.symlink(WORK / "contrast", f"{self.out}/contrast")
        net = model(len(tokenizer()) + 700)
        net.save_pretrained(f"{self.out}/model")
        tokenizer().save_pretrained(f"{self.out}/model")
        names = {}
        for code, option in ((first, 'teacher="frozen"'), (then, "contrast=0.5")):
            code = code.replace("path/to/model", f"{self.out}/model").replace('"out/', f'"{self.out}/')
            exec(code.replace(f"{option})", f'{option}, max_steps=1, report_to=[], save_strategy="no", use_cpu=True, bf16=False)'), names)
            self.assertEqual(names["trainer"].state.global_step, 1)


class Weights(Case):
    """Rows of unequal weight: each trainer's loss is sum(w l) / sum(w), and micro-batches are one step."""

    folder = WORK / "tiny" / "weighted"

    def config(self, kind, **more):
        return kind(self.out, **{**QUIET, "max_length": None, "max_steps": 1, "optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 0.0, "weight_decay": 0.0, **more})

    def made(self, which):
        data = {"sft": demonstrations, "dpo": pairs, "kto": answers}[which](self.folder)
        if "row_weight" not in data.column_names:
            data = data.add_column("row_weight", [0.5 + i % 3 for i in range(len(data))])
        return data.select(range(4))

    def trainer(self, which, data, held=None, **more):
        kind, config = {"sft": (SFTTrainer, SFTConfig), "dpo": (DPOTrainer, DPOConfig), "kto": (KTOTrainer, KTOConfig)}[which]
        more = {"loss_type": "apo_zero_unpaired", **more} if which == "kto" else more  # without an estimate over the batch
        extra = {"ref_model": model(259, seed=1)} if which != "sft" else {}
        return kind(model(259), args=self.config(config, **more), train_dataset=data, eval_dataset=held, processing_class=tokenizer(), **extra)

    def step(self, which, data, **more):
        trainer = self.trainer(which, data, **more)
        trainer.train()
        return torch.cat([x.detach().flatten() for x in trainer.model.parameters()]), next(x["loss"] for x in trainer.state.log_history if "loss" in x)

    def test_the_run_has_weights(self):
        self.assertIn("row_weight", demonstrations(self.folder).column_names)
        self.assertNotIn("row_weight", demonstrations(self.folder, weights="ignore").column_names)
        self.assertNotIn("row_weight", demonstrations(WORK / "tiny" / "run").column_names)

    def test_means(self):
        for which in ("sft", "dpo", "kto"):
            with self.subTest(which):
                data, losses, total = self.made(which), 0.0, 0.0
                alone = data.remove_columns("row_weight")
                for i, w in enumerate(data["row_weight"]):
                    n = sum(x != -100 for x in data[i]["labels"][1:]) if which == "sft" else 1
                    losses += w * n * self.step(which, alone.select([i]), per_device_train_batch_size=1)[1]
                    total += w * n
                whole, loss = self.step(which, data, per_device_train_batch_size=4)
                self.assertAlmostEqual(loss, losses / total, places=4)
                for size in (1, 2):
                    parts, parted = self.step(which, data, per_device_train_batch_size=size, gradient_accumulation_steps=4 // size)
                    self.assertLess(float((whole - parts).abs().max()), 2e-5)
                    self.assertAlmostEqual(loss, parted, places=4)
                equal, _ = self.step(which, alone, per_device_train_batch_size=4)
                self.assertGreater(float((whole - equal).abs().max()), 1e-5)
                trainer = self.trainer(which, data, per_device_eval_batch_size=2)
                self.assertTrue(math.isfinite(trainer.evaluate(data)["eval_loss"]))

    def test_a_row_of_weight_0_trains_nothing(self):
        for which in ("sft", "dpo", "kto"):
            with self.subTest(which):
                data = self.made(which).remove_columns("row_weight").add_column("row_weight", [1.0, 1.0, 0.0, 0.0])
                got, loss = self.step(which, data, per_device_train_batch_size=4)
                want, alone = self.step(which, data.select([0, 1]).remove_columns("row_weight"), per_device_train_batch_size=2)
                self.assertLess(float((got - want).abs().max()), 2e-5)
                self.assertAlmostEqual(loss, alone, places=4)

    def test_one_of_the_sets_has_weights(self):
        for which in ("sft", "dpo", "kto"):
            data = self.made(which)
            alone = data.remove_columns("row_weight")
            for train, held in ((data, alone), (alone, data)):
                with self.subTest(which, weighted=train is data):
                    trainer = self.trainer(which, train, held, gradient_accumulation_steps=2, per_device_train_batch_size=2)
                    trainer.train()
                    self.assertTrue(math.isfinite(trainer.evaluate()["eval_loss"]))
                    want, _ = self.step(which, train, gradient_accumulation_steps=2, per_device_train_batch_size=2)
                    self.assertEqual(float((want - torch.cat([x.detach().flatten() for x in trainer.model.parameters()])).abs().max()), 0)

    def test_refused(self):
        with self.assertRaisesRegex(ValueError, "padding_free can't be used with rows of unequal weight"):
            self.trainer("sft", self.made("sft"), padding_free=True)
        with self.assertRaisesRegex(ValueError, "aot compares the rows of a batch"):
            self.trainer("dpo", self.made("dpo"), loss_type=["aot"])


def rank(out):
    case = Steps()
    case.out = out
    parameters, loss = case.gradient(Steps.rows, per_device_train_batch_size=2, gradient_accumulation_steps=2)
    if os.environ["RANK"] == "0":
        torch.save({"parameters": parameters, "loss": loss}, f"{out}/rank0")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    rank(sys.argv[1])
