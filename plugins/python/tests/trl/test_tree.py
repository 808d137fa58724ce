"""Tests of natgo.tree: trees beside TRL's own, and gradients beside those of single rows.

NATGO_LONG=1 tries 10,000 forests in float64 instead of 200. The trainers' tests need NATGO_TEST_TRL, the folder that TestTRLTrees makes.
"""

import os
import pathlib
import random
import re
import shutil
import tempfile
import unittest

import torch
from datasets import Dataset
from peft import LoraConfig
from torch import nn
from transformers import AutoModelForCausalLM, CONFIG_MAPPING
from trl import SFTConfig

from natgo import tree
from natgo.trl import CompositeConfig, CompositeTrainer, HintConfig, HintTrainer, SFTTrainer
from natgo.trl.composite import pad_only
from natgo.trl.microbatch import Batch
from tests.trl.made import random_rows

LONG = bool(os.environ.get("NATGO_LONG"))
torch.set_num_threads(1)


def forest(rng, count, vocab=5, longest=24):
    """Rows that share beginnings of any length, some of them whole rows, some the beginning of another."""
    rows = []
    for _ in range(count):
        ids = list(rng.choice(rows).ids) if rows and rng.random() < 0.8 else []
        ids = ids[: rng.randint(0, len(ids))] + [rng.randrange(vocab) for _ in range(rng.choice([0, 1, 3, 8]))]
        ids = (ids or [0])[:longest]
        trained = [at > 0 and rng.random() < 0.5 for at in range(len(ids))]
        old = [-rng.random() if on else 0.0 for on in trained]
        rows.append(tree.Row(ids, trained, rng.choice([0.0, 0.5, 1.0, 3.0]), rng.uniform(-1, 1), old))
    return rows


def segments(one):
    """The stretches of nodes without a branch, and all nodes on the way to the end of each, as TRL has them."""
    starts = [at for at in range(len(one.ids)) if at == 0 or one.depth[at] != one.depth[at - 1] + 1 or one.end[at] != one.end[at - 1]]
    bounds = [*starts, len(one.ids)]
    ways = [((torch.arange(b) <= b - 1) & (one.end[:b] > b - 1)).nonzero().flatten().tolist() for b in bounds[1:]]
    return bounds, ways


def as_trl(one, rows):
    bounds, ways = segments(one)
    labels = torch.full_like(one.ids, -100)
    labels[one.terms.position] = one.terms.target
    ends = [0]
    for way in ways:
        ends.append(ends[-1] + len(way))
    return {
        "input_ids": one.ids, "position_ids": one.depth, "shift_labels": labels, "tree_kv_index": torch.tensor(sum(ways, [])),
        "tree_cu_seqlens_q": torch.tensor(bounds, dtype=torch.int32), "tree_cu_seqlens_k": torch.tensor(ends, dtype=torch.int32),
        "tree_max_seqlens": torch.tensor([max(b - a for a, b in zip(bounds, bounds[1:])), max(map(len, ways))]),
        "token_index": one.terms.position, "old_log_probs": one.terms.old.float(), "advantages": one.terms.advantage.float(), "segment_id": one.terms.row,
    }


class Packs(unittest.TestCase):
    def test_fields_are_those_of_trl(self):
        try:
            from trl.experimental.async_grpo.packing import TreeRow
        except ImportError:
            self.skipTest("this TRL has no trees of its own")
        rng = random.Random(1)
        for group in range(1000):
            rows = forest(rng, rng.randint(1, 12), rng.choice([2, 5, 50]))
            theirs = TreeRow()
            for row in rows:
                theirs.add({"input_ids": torch.tensor(row.ids), "completion_mask": torch.tensor(row.trained).long(), "group_id": 0,
                            "old_log_probs": torch.tensor(row.old), "advantage": row.advantage})
            (one,) = tree.pack(rows, 10**6)
            ours = as_trl(one, rows)
            for name, want in theirs.pack().items():
                self.assertEqual(ours[name].dtype, want.dtype, name)
                self.assertEqual(ours[name].tolist(), want.tolist(), (group, name))
            for number, nodes in enumerate(theirs.sample_nodes):
                self.assertEqual(one.ids[one.places[number]].tolist(), list(rows[number].ids))
                self.assertEqual(one.depth[one.places[number]].tolist(), list(range(len(nodes))))

    def test_packs(self):
        rng = random.Random(2)
        for _ in range(300):
            rows = forest(rng, rng.randint(1, 20))
            together = [rng.randrange(8) for _ in rows] if rng.random() < 0.5 else None
            limit = rng.randint(24, 60) * (1 if together is None else 6)
            packs = tree.pack(rows, limit, together)
            self.assertEqual(sorted(row for one in packs for row in one.places), list(range(len(rows))))
            self.assertTrue(all(len(one.ids) <= limit for one in packs))
            where = {row: n for n, one in enumerate(packs) for row in one.places}
            for a in range(len(rows)):
                for b in range(a):
                    self.assertFalse(together and together[a] == together[b] and where[a] != where[b])

    def test_the_cut_is_the_cheapest(self):
        """A cut within the first pair of rows would forward three nodes twice."""
        rows = [tree.Row(ids, [False] * len(ids)) for ids in ([1, 2, 3, 4, 5], [1, 2, 3, 4, 6], [7, 8, 9], [7, 8, 5])]
        self.assertEqual([sorted(one.places) for one in tree.pack(rows, 9)], [[0, 1], [2, 3]])
        self.assertEqual([sorted(one.places) for one in tree.pack(rows, 12)], [[0, 1, 2, 3]])

    def test_refused(self):
        with self.assertRaisesRegex(ValueError, "needs 3 tokens, and tree_tokens is 2: rows are not cut"):
            tree.pack([tree.Row([1, 2, 3], [False] * 3)], 2)
        with self.assertRaisesRegex(ValueError, "row 1: has 2 tokens and 3 marks"):
            tree.pack([tree.Row([1], [False]), tree.Row([1, 2], [False] * 3)], 9)
        with self.assertRaisesRegex(ValueError, "trains its first token"):
            tree.pack([tree.Row([1, 2], [True, True])], 9)
        with self.assertRaisesRegex(ValueError, "row 0: expected an old log-prob for each of 2 tokens, got 1"):
            tree.pack([tree.Row([1, 2], [False, True], old=[-0.5])], 9)
        with self.assertRaisesRegex(ValueError, "expected an entry for each of 1 rows, got 2"):
            tree.pack([tree.Row([1, 2], [False, True])], 9, together=["a", "b"])
        self.assertEqual(tree.pack([], 9), [])

    def test_terms_are_merged_only_where_they_are_at_one_place(self):
        rows = [tree.Row([1, 2, 3, 4], [False, True, True, True], 0.5), tree.Row([1, 2, 3, 5], [False, True, False, True], 2.0)]
        (one,) = tree.pack(rows, 9)
        self.assertEqual(len(one.terms.position), 5)
        merged = one.terms.merged()
        self.assertEqual((merged.target.tolist(), merged.weight.tolist()), ([2, 3, 4, 5], [2.5, 0.5, 0.5, 2.0]))


class Decoder(nn.Module):
    """Two layers with rotary positions in float64, of which the second slides."""

    def __init__(self, vocab=5, width=8, window=6):
        super().__init__()
        self.window, made = window, lambda *shape: nn.Parameter(torch.randn(*shape, dtype=torch.float64) * 0.6)
        self.embed, self.head = made(vocab, width), made(width, vocab)
        self.layers = nn.ParameterList([made(width, width) for _ in range(10)])

    def forward(self, ids, depth, mask):
        x, angle = self.embed[ids], depth[:, None].double() * torch.tensor([1.0, 0.3, 0.1, 0.03], dtype=torch.float64)
        turn = lambda y: torch.cat((y[:, :4] * angle.cos() - y[:, 4:] * angle.sin(), y[:, :4] * angle.sin() + y[:, 4:] * angle.cos()), 1)
        for layer in range(2):
            q, k, v, out, mlp = self.layers[5 * layer : 5 * layer + 5]
            scores = turn(x @ q) @ turn(x @ k).T / 8**0.5
            x = x + scores.masked_fill(~mask(self.window if layer else None), -torch.inf).softmax(1) @ (x @ v) @ out
            x = x + (x @ mlp).tanh()
        return x @ self.head


def rows_mask(n):
    at = torch.arange(n)
    return lambda window: (at <= at[:, None]) & (at[:, None] - at < (window or n))


LOSSES = ("token", "sequence", "constant", "ratio", "whole")


def of_terms(kind, logp, t, counts):
    """The step's loss but for its denominator; counts has the number of each row's trained tokens."""
    w, n = t.weight, counts[t.row]
    if kind in ("token", "constant"):
        return -(w * logp).sum()
    if kind == "sequence":
        return -(w * logp / n).sum()
    ratio = (logp - t.old).exp()
    if kind == "ratio":
        return -(w * torch.minimum(ratio * t.advantage, ratio.clamp(0.8, 1.2) * t.advantage)).sum()
    rows, own = t.row.unique(return_inverse=True)
    sums = lambda x: logp.new_zeros(len(rows)).index_add(0, own, x)
    whole = (sums(logp - t.old) / counts[rows]).exp()  # one ratio a row, as in GSPO
    weight, advantage = (logp.new_zeros(len(rows)).index_put((own,), x) for x in (w, t.advantage))
    return -(weight * torch.minimum(whole * advantage, whole.clamp(0.9, 1.1) * advantage)).sum()


class Gradients(unittest.TestCase):
    def of_rows(self, net, rows, kind, counts, whole):
        """The gradient of each parameter from the rows, one after another."""
        for number, row in enumerate(rows):
            ids, at = torch.tensor(row.ids), torch.tensor(row.trained).nonzero().flatten()
            full = lambda x: torch.full((len(at),), x, dtype=torch.int64 if isinstance(x, int) else torch.float64)
            terms = tree.Terms(at - 1, ids[at], full(row.weight), full(row.advantage), torch.tensor(row.old, dtype=torch.float64)[at], full(number))
            logp = net(ids, torch.arange(len(ids)), rows_mask(len(ids))).log_softmax(1)[terms.position, terms.target]
            (of_terms(kind, logp, terms, counts) / whole).backward()
        return {name: x.grad.clone() for name, x in net.named_parameters()}

    def test_float64(self):
        rng, worst = random.Random(3), 0.0
        torch.manual_seed(0)
        for trial in range(10_000 if LONG else 200):
            rows, kind = forest(rng, rng.randint(1, 8)), LOSSES[trial % len(LOSSES)]
            net, counts = Decoder(window=rng.choice([2, 6, 30])), torch.tensor([max(sum(row.trained), 1) for row in rows]).double()
            whole = max(sum(row.weight * (1 if kind in ("sequence", "whole") else sum(row.trained)) for row in rows), 1e-3)
            want = self.of_rows(net, rows, kind, counts, whole)
            packs = tree.pack(rows, rng.choice([10**6, 40, 24]))
            net.zero_grad()
            for one in packs:
                one = one.padded(rng.choice([1, 7]), 0)
                terms = one.terms.merged() if kind == "token" else one.terms
                logp = net(one.ids, one.depth, one.mask).log_softmax(1)[terms.position, terms.target]
                (of_terms(kind, logp, terms, counts) / whole).backward()
            largest = max(float(g.abs().max()) for g in want.values()) or 1.0
            for name, x in net.named_parameters():  # a gradient that cancels out has no scale of its own
                scale = max(float(want[name].abs().max()), 1e-4 * largest)
                worst = max(worst, float((x.grad - want[name]).abs().max()) / scale)
        print(f"float64: {trial + 1} forests, max|dg| / max|g| at most {worst:.2g}")
        self.assertLessEqual(worst, 1e-9)


TINY = dict(vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8, pad_token_id=0)
MOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, decoder_sparse_step=1)
LONG_FACTORS = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "rope_theta": 10000.0, "original_max_position_embeddings": 8}
# What is refused, and why; None: nothing is.
CONFIGS = {
    "llama": ("llama", {}, None),
    "qwen3": ("qwen3", {}, None),
    "mistral, whose window slides": ("mistral", {"sliding_window": 5}, None),
    "gemma3, with layers of both kinds": ("gemma3_text", {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"] * 2}, None),
    "qwen3_moe": ("qwen3_moe", MOE, None),
    "gpt2, whose positions are learnt": ("gpt2", dict(n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0), None),
    "qwen3_next": ("qwen3_next", {**MOE, "layer_types": ["linear_attention", "full_attention"] * 2}, "it has layers of linear_attention"),
    "lfm2": ("lfm2", {"layer_types": ["conv", "full_attention"] * 2}, "it has layers of conv"),
    "mamba2": ("mamba2", dict(hidden_size=32, num_hidden_layers=2, num_heads=8, head_dim=8, state_size=8, n_groups=1), "it has layers of linear_attention"),
    "gpt_oss": ("gpt_oss", dict(num_local_experts=4, num_experts_per_tok=2), "it has attention sinks"),
    "llama, dynamic": ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}, "max_position_embeddings": 8}, "it has dynamic positions"),
    "phi3, longrope": ("phi3", {"rope_parameters": LONG_FACTORS, "original_max_position_embeddings": 8, "max_position_embeddings": 64}, "it has longrope positions"),
    "bloom": ("bloom", dict(hidden_size=32, n_layer=2, n_head=4), "takes distances from the order of the tokens"),
    "cpmant": ("cpmant", {}, "takes distances from the order of the tokens"),
    "rembert": ("rembert", {}, "it attends to later tokens"),
    "xlstm": ("xlstm", {"num_heads": 4}, "it has recurrent or convolutional layers"),
    "llama with dropout": ("llama", {"attention_dropout": 0.1}, r"it has dropout, .* \(attention_dropout\)"),
    "qwen3_moe with a router loss": ("qwen3_moe", {**MOE, "output_router_logits": True}, "it has a router loss"),
}
# The models among those refused whose logits in a tree are others than in rows, in eager attention without dropout.
DIFFER = {"cpmant", "rembert", "xlstm", "mamba2", "llama, dynamic", "phi3, longrope"}


def tiny(kind, more, attention="sdpa"):
    torch.manual_seed(0)
    own = {} if kind in ("gpt2", "bloom", "mamba2") else TINY
    config = CONFIG_MAPPING[kind](**{**own, "vocab_size": 50, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **more})
    net = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    with torch.no_grad():
        for x in net.parameters():  # so that what is attended to matters, as in a trained one
            x.mul_(8 if x.dim() > 1 else 1)
    return net


class Models(unittest.TestCase):
    rows = forest(random.Random(4), 10, 50) + [tree.Row(list(range(3, n)), [False] + [True] * (n - 4)) for n in (7, 27)]

    def of_rows(self, net):
        """The logits of the rows, one after another."""
        return [net(input_ids=torch.tensor(row.ids)[None], use_cache=False).logits[0] for row in self.rows]

    def of_tree(self, net):
        (one,) = tree.pack(self.rows, 10**6)
        mask = tree.masks(net.config, one)
        logits = net(input_ids=one.ids[None], attention_mask=mask, position_ids=one.depth[None], use_cache=False).logits[0]
        return one, logits

    def test_accepted(self):
        for name, (kind, more, refusal) in CONFIGS.items():
            for attention in ("sdpa", "eager") if refusal is None else ():
                with self.subTest(name, attention=attention):
                    net = tiny(kind, more, attention)
                    tree.check(net.config)
                    loss = sum(
                        -row.weight * logits.log_softmax(1)[at - 1, row.ids[at]]
                        for row, logits in zip(self.rows, self.of_rows(net)) for at, on in enumerate(row.trained) if on
                    )
                    loss.backward()
                    want = {n: x.grad.clone() for n, x in net.named_parameters() if x.grad is not None}
                    net.zero_grad()
                    one, logits = self.of_tree(net)
                    t = one.terms.merged()
                    tree_loss = -(t.weight * logits.log_softmax(1)[t.position, t.target]).sum()
                    tree_loss.backward()
                    self.assertLess(abs(float(tree_loss - loss) / float(loss)), 1e-5)
                    worst = max(float((x.grad - want[n]).abs().max()) / max(float(want[n].abs().max()), 1e-3) for n, x in net.named_parameters() if n in want)
                    print(f"{name}, {attention}: max|dg| / max|g| {worst:.2g}")
                    self.assertLess(worst, 1e-5)

    def test_refused(self):
        for name, (kind, more, refusal) in CONFIGS.items():
            if refusal:
                with self.subTest(name):
                    net = tiny(kind, more, "eager")
                    with self.assertRaisesRegex(ValueError, refusal):
                        tree.check(net.config)
                    if name in DIFFER:
                        with torch.no_grad():
                            one, logits = self.of_tree(net.eval())
                            off = max(float((logits[one.places[n]] - own).abs().max()) for n, own in enumerate(self.of_rows(net)))
                        self.assertGreater(off, 1e-4)

    def test_attention_without_masks(self):
        net = tiny("llama", {})
        net.config._attn_implementation = "flash_attention_2"
        with self.assertRaisesRegex(ValueError, "it runs flash_attention_2, which takes no mask of a tree"):
            tree.check(net.config)


QUIET = dict(report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True, bf16=False, gradient_checkpointing=False, logging_steps=1,
             optim="sgd", learning_rate=0.1, lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=0.0, num_train_epochs=1)


class Trainers(unittest.TestCase):
    """A step with trees changes the weights as one with rows does, whatever is accumulated and wherever trees are cut."""

    def setUp(self):
        self.out = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.out)

    def changed(self, trainer):
        before = [x.detach().clone() for x in trainer.model.parameters()]
        trainer.train()
        self.losses = [x["loss"] for x in trainer.state.log_history if "loss" in x]
        return torch.cat([(x.detach() - y).flatten() for x, y in zip(trainer.model.parameters(), before)])

    def equal(self, rows, trees, losses):
        self.assertGreater(float(rows.abs().max()), 1e-4)
        self.assertLess(float((rows - trees).abs().max() / rows.abs().max()), 1e-5)
        for a, b in zip(losses, self.losses):
            self.assertAlmostEqual(a, b, delta=1e-4 * max(1, abs(a)))

    def demonstrations(self, weighted):
        rows = [row for row in forest(random.Random(5), 40, 50) if any(row.trained)][:16]
        data = {"input_ids": [list(row.ids) for row in rows], "labels": [[i if on else -100 for i, on in zip(row.ids, row.trained)] for row in rows]}
        return Dataset.from_dict({**data, **({"row_weight": [row.weight for row in rows]} if weighted else {})})

    def sft(self, data, **more):
        args = SFTConfig(self.out, **{**QUIET, "max_length": None, "dataset_kwargs": None, **{k: more.pop(k) for k in list(more) if hasattr(SFTConfig, k)}})
        return SFTTrainer(tiny("llama", {}), args=args, train_dataset=data, eval_dataset=data, processing_class=pad_only(0), **more)

    def test_sft(self):
        for weighted in (False, True):
            data = self.demonstrations(weighted)
            for steps in (1, 4):
                batch = dict(per_device_train_batch_size=4 if steps == 4 else 8, gradient_accumulation_steps=steps)
                rows = self.sft(data, **batch)
                want, losses = self.changed(rows), self.losses
                held = rows.evaluate()["eval_loss"]
                for tree_tokens in (1000, 30):
                    with self.subTest(weighted=weighted, steps=steps, tree_tokens=tree_tokens):
                        trees = self.sft(data, pack="tree", tree_tokens=tree_tokens, **batch)
                        self.equal(want, self.changed(trees), losses)
                        if weighted:  # TRL's mean is over batches
                            self.assertAlmostEqual(trees.evaluate()["eval_loss"], held, places=4)
                        self.assertTrue(all(x["tokens_a_node"] > 1 for x in trees.state.log_history if "tokens_a_node" in x))

    def test_sft_refused(self):
        data = self.demonstrations(False)
        for more, why in (
            (dict(padding_free=True), "padding_free can't be used"), (dict(loss_type="dft"), "the loss of a tree is the NLL"),
            (dict(neftune_noise_alpha=5.0), "neftune_noise_alpha can't be used"), (dict(tree_tokens=8), "and tree_tokens is 8: rows are not cut here"),
            (dict(peft_config=LoraConfig(lora_dropout=0.1)), "an adapter's"), (dict(pack="trees"), "pack 'trees' is neither"),
        ):
            with self.subTest(why), self.assertRaisesRegex(ValueError, why):
                self.sft(data, **{"pack": "tree", **more})

    def hints(self, data, **more):
        args = HintConfig(self.out, **{**QUIET, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, **more.pop("args", {})})
        return HintTrainer(tiny("llama", {}), args=args, train_dataset=data, processing_class=pad_only(0), **more)

    def test_hints(self):
        data = Dataset.from_list(random_rows(random.Random(6), 8, 50))
        want, losses = self.changed(self.hints(data)), self.losses
        for tree_tokens in (1000, 100):
            with self.subTest(tree_tokens=tree_tokens):
                self.equal(want, self.changed(self.hints(data, pack="tree", tree_tokens=tree_tokens)), losses)
        with self.assertRaisesRegex(ValueError, "teacher='frozen' can't be used with trees"):
            self.hints(data, pack="tree", args={"teacher": "frozen"})

    def rollouts(self):
        rows = [row for row in forest(random.Random(7), 30, 50) if any(row.trained)][:8]
        wide = max(len(row.ids) for row in rows)
        grid = lambda values, kind: torch.tensor([list(v) + [0] * (wide - len(v)) for v in values], dtype=kind)
        t = {"input_ids": grid([row.ids for row in rows], torch.int64), "attention_mask": grid([[1] * len(row.ids) for row in rows], torch.int64),
             "position_ids": grid([range(len(row.ids)) for row in rows], torch.int64), "response_mask": grid([row.trained for row in rows], torch.int64),
             "old_logprobs": grid([row.old for row in rows], torch.float32) * 8, "advantage": torch.tensor([row.advantage for row in rows]),
             "row_weight": torch.tensor([row.weight for row in rows]), "reward": torch.zeros(8), "reward_null": torch.zeros(8, dtype=torch.int64)}
        return Batch("rl", {"pad_id": 0, "vocab_size": 50}, t)

    def composite(self, steps, **more):
        args = CompositeConfig(self.out, **{**QUIET, "learning_rate": 10.0, "gradient_accumulation_steps": steps, "micro_rows": 8 // steps, "loss_type": "dapo", "beta": 0.0, "epsilon": 0.3})
        return CompositeTrainer(tiny("llama", {}), args, [self.rollouts()], **more)

    def test_rollouts(self):
        for steps in (1, 4):
            want, losses = self.changed(self.composite(steps)), self.losses
            for tree_tokens in (1000, 30):
                with self.subTest(steps=steps, tree_tokens=tree_tokens):
                    self.equal(want, self.changed(self.composite(steps, pack="tree", tree_tokens=tree_tokens)), losses)


class Page(unittest.TestCase):
    def test_the_snippet_runs(self):
        page = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
        (block,) = [b for b in re.findall(r"```python\n(.*?)```", page, re.S) if "from natgo import tree" in b]
        names = {"model": tiny("llama", {})}
        exec(block, names)
        self.assertEqual((len(names["one"].ids), names["terms"].weight.tolist()), (6, [1.0, 1.0, 2.0]))
