"""Tests that wrong models, rows, batches and settings are one error each, which says what to do, before a step of training.

Needs NATGO_TEST_TRL, the folder that TestTRLHints in trl_test.go makes.
"""

import hashlib
import json
import os
import pathlib
import random
import shutil
import warnings

import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, LlamaModel
from trl import DPOConfig, KTOConfig, SFTConfig

import natgo
from natgo.loss import jsd
from natgo.trl import CompositeConfig, CompositeTrainer, DPOTrainer, HintConfig, HintTrainer, KTOTrainer, SFTTrainer, answers, demonstrations, hints, pairs
from natgo.trl.microbatch import Batch, read
from tests.trl.made import random_rows

WORK = pathlib.Path(os.environ["NATGO_TEST_TRL"])
RUN, HINTS = WORK / "tiny" / "run", WORK / "hints"
QUIET = dict(report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True, bf16=False, gradient_checkpointing=False, logging_steps=1, max_steps=1)
MADE = {"sft": (SFTTrainer, SFTConfig, demonstrations), "dpo": (DPOTrainer, DPOConfig, pairs), "kto": (KTOTrainer, KTOConfig, answers), "hints": (HintTrainer, HintConfig, hints)}
EACH = pytest.mark.parametrize("which", MADE)
warnings.filterwarnings("ignore")


def model(vocab=700, kind=LlamaForCausalLM, **more):
    torch.manual_seed(0)
    return kind(LlamaConfig(**{**dict(vocab_size=vocab, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2), **more}))


def rows_of(which):
    return MADE[which][2](HINTS if which == "hints" else RUN)


def trainer(which, out, net, rows, **options):
    kind, config, _ = MADE[which]
    args, reference = config(str(out), **{**QUIET, "max_length": None, **options}), {"ref_model": model()} if which in ("dpo", "kto") else {}
    return kind(net, args=args, train_dataset=rows, processing_class=AutoTokenizer.from_pretrained(WORK / "tiny" / "model"), **reference)


@EACH
def test_a_model_of_fewer_tokens(which, tmp_path):
    with pytest.raises(natgo.BatchError, match=r"a row has the id \d+, but the model has only 90 embeddings: the run was made for another model"):
        trainer(which, tmp_path, model(90), rows_of(which))


@EACH
@pytest.mark.parametrize("rows", ["out/first", [{"input_ids": [1, 2]}]])
def test_rows_that_are_no_data_set(which, rows, tmp_path):
    with pytest.raises(ValueError, match=f"expected a datasets.Dataset of rows, got {type(rows).__name__}: make it of a run"):
        trainer(which, tmp_path, model(), rows)


@EACH
def test_rows_of_another_trainer(which, tmp_path):
    other = rows_of("sft" if which == "hints" else "hints")
    for rows in (other, other.to_iterable_dataset(), Dataset.from_list([{"a": 1}]).to_iterable_dataset().map(lambda x: x)):
        with pytest.raises(ValueError, match=f"has no column .*: make it with natgo.trl.{MADE[which][2].__name__}"):
            trainer(which, tmp_path, model(), rows)


@EACH
def test_one_row_in_a_large_batch(which, tmp_path):
    one = trainer(which, tmp_path, model(), rows_of(which).select([0]), per_device_train_batch_size=2 if which == "kto" else 8, gradient_accumulation_steps=4)
    one.train()
    assert one.state.global_step == 1


def copied(tmp_path, run, channel, change):
    """A run whose batches of a channel were changed, with an index that has their hashes."""
    own = tmp_path / "changed"
    shutil.copytree(run / "batches", own)
    lines = [json.loads(line) for line in open(own / "index.jsonl", encoding="utf-8")]
    for line in lines:
        if line["channel"] == channel:
            tensors = load_file(own / line["file"])
            change(tensors)
            save_file(tensors, own / line["file"])
            line["proof"]["sha256"] = hashlib.sha256((own / line["file"]).read_bytes()).hexdigest()
    (own / "index.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return own


def test_weights_that_are_all_0(tmp_path):
    for which, channel, column in (("sft", "sft", "row_weight"), ("dpo", "dpo", "row_weight"), ("hints", "sdpo", "pair_weight")):
        own = copied(tmp_path / which, HINTS if which == "hints" else RUN, channel, lambda t: t[column].zero_())
        with pytest.raises(natgo.BatchError, match="so that nothing is trained"):
            MADE[which][2](own)


@pytest.mark.parametrize("which,change,why", [
    ("hints", lambda t: t["pair_target_id"].add_(1), "pair 0: student_input_ids"),
    ("hints", lambda t: t["pair_teacher_pos"].add_(10**6), "pair_teacher_pos: outside its row"),
    ("hints", lambda t: t.pop("pair_site"), "has no tensor 'pair_site'"),
    ("sft", lambda t: t["labels"].add_(1), "labels: differ from the ids"),
    ("sft", lambda t: t.pop("labels"), "has no tensor 'labels'"),
])
def test_damaged_batches(which, change, why, tmp_path):
    own = copied(tmp_path, HINTS if which == "hints" else RUN, {"hints": "sdpo", "sft": "sft"}[which], change)
    with pytest.raises(natgo.BatchError, match=why):
        MADE[which][2](own)


def test_unchecked_rows_are_not_kept_for_checked_ones(tmp_path):
    """Rows of a file that was changed, read with verify=False, aren't what a checked run of the same index gives later."""
    own = tmp_path / "run"
    shutil.copytree(RUN / "batches", own)
    (line, *_) = [json.loads(x) for x in open(own / "index.jsonl", encoding="utf-8") if json.loads(x)["channel"] == "sft"]
    file, before = own / line["file"], (own / line["file"]).read_bytes()
    tensors = load_file(file)
    tensors["input_ids"][0, 0] += 1
    save_file(tensors, file)
    changed = demonstrations(own, verify=False)[0]["input_ids"][0]
    file.write_bytes(before)
    assert demonstrations(own)[0]["input_ids"][0] == changed - 1


@pytest.mark.parametrize("options,why", [
    ({"jsd_beta": 1.5}, "the divergence's beta is 1.5: expected a number from 0 to 1"),
    ({"jsd_beta": float("nan")}, "the divergence's beta is nan"),
    ({"temperature": 0.0}, "the divergence's temperature is 0.0: expected a number above 0"),
    ({"token_clip": -1.0}, "the divergence's clip is -1.0: expected a number of at least 0"),
    ({"top_k": -3}, "the divergence's top_k is -3: expected a number of at least 0"),
    ({"teacher": "ema", "ema_decay": 2.0}, "ema_decay is 2.0: expected a number from 0 to 1"),
])
def test_settings_of_hints(options, why, tmp_path):
    with pytest.raises(ValueError, match=why):
        trainer("hints", tmp_path, model(), rows_of("hints"), **options)


def test_settings_of_the_divergence():
    logits = torch.randn(2, 5, dtype=torch.float64)  # which torch computes
    for options, why in (({"beta": -0.1}, "beta is -0.1"), ({"temperature": -1.0}, "temperature is -1.0"), ({"clip": float("nan")}, "clip is nan")):
        with pytest.raises(ValueError, match=f"the divergence's {why}: expected"):
            jsd(logits, logits, **options)


@pytest.mark.parametrize("pack", [None, "tree"])
def test_a_loss_that_is_not_finite(pack, tmp_path):
    net = model()
    with torch.no_grad():
        net.lm_head.weight[3] = float("nan")
    rows = rows_of("hints").select([0])
    args = HintConfig(str(tmp_path), **QUIET)
    before = net.model.layers[0].mlp.up_proj.weight.clone()
    with pytest.raises(natgo.BatchError, match="the loss of step 1 is nan, and the weights were left as they are: load a model in float16"):
        HintTrainer(net, args, pack=pack, train_dataset=rows, processing_class=AutoTokenizer.from_pretrained(WORK / "tiny" / "model")).train()
    assert torch.equal(before, net.model.layers[0].mlp.up_proj.weight)


def test_a_model_without_a_head(tmp_path):
    with pytest.raises(TypeError, match="LlamaModel has no head that predicts tokens: load it with AutoModelForCausalLM"):
        trainer("hints", tmp_path, model(kind=LlamaModel), rows_of("hints")).train()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bf16", [False, True])
def test_low_precision_on_the_cpu(dtype, bf16, tmp_path):
    made = trainer("hints", tmp_path, model().to(dtype), Dataset.from_list(random_rows(random.Random(1), 4, 61)), bf16=bf16)
    made.train()
    assert made.state.log_history[0]["loss"] > 0


def test_no_rows(tmp_path):
    for which in ("sft", "hints"):
        with pytest.raises(ValueError, match="the data set has no rows: nothing could be trained"):
            trainer(which, tmp_path, model(), rows_of(which).select([]))


def hinted(out, teacher_model=None, **options):
    args = HintConfig(str(out), **{**QUIET, **options})
    return HintTrainer(model(), args, teacher_model, train_dataset=rows_of("hints"), processing_class=AutoTokenizer.from_pretrained(WORK / "tiny" / "model"))


def test_teachers_that_can_not_be_used(tmp_path):
    with pytest.raises(ValueError, match="teacher_model: expected a model, got 'path/to/model': load it with"):
        hinted(tmp_path, "path/to/model", teacher="frozen")
    with pytest.raises(natgo.BatchError, match="but the model has only 90 embeddings"):
        hinted(tmp_path, model(90), teacher="frozen")


def test_a_resumed_run_has_the_ema_teacher_that_it_stopped_with(tmp_path):
    options = dict(teacher="ema", ema_decay=0.5, max_steps=4, save_strategy="steps", save_steps=2, learning_rate=1e-2, lr_scheduler_type="constant")
    whole, resumed = (hinted(tmp_path, **options) for _ in range(2))
    whole.train()
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    for name, x in whole.teacher.model.state_dict().items():
        assert torch.equal(x, resumed.teacher.model.state_dict()[name]), name
    for a, b in zip(whole.model.parameters(), resumed.model.parameters()):
        assert torch.equal(a, b)
    (tmp_path / "checkpoint-2" / "ema_teacher.pt").unlink()
    with pytest.raises(natgo.BatchError, match="ema_teacher.pt: No such file or directory; a resumed run"):
        hinted(tmp_path, **options).train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


def composite(out, net, batches, **options):
    return CompositeTrainer(net, CompositeConfig(str(out), **{**QUIET, "alpha_sdpo": 1.0, **options}), batches)


@pytest.mark.parametrize("net,batches,why", [
    (lambda: "path/to/model", lambda: read(HINTS), "expected a model, got 'path/to/model': load it with AutoModelForCausalLM"),
    (model, lambda: str(HINTS), r"expected batches of natgo.trl.microbatch, as microbatch.read\(run\) makes them"),
    (model, lambda: natgo.load(HINTS, "sdpo"), "expected batches of natgo.trl.microbatch"),
    (model, lambda: read(HINTS, "dpo"), "nothing to train on: .*; there are batches of dpo"),
    (model, lambda: [], "nothing to train on: .*; there are batches of no channel"),
    (lambda: model(90), lambda: read(HINTS, "sdpo"), "but the model has only 90 embeddings"),
])
def test_composite(net, batches, why, tmp_path):
    with pytest.raises((ValueError, natgo.BatchError), match=why):
        composite(tmp_path, net(), batches())


def test_a_composite_loss_that_is_not_finite(tmp_path):
    net = model()
    with torch.no_grad():
        net.lm_head.weight[3] = float("nan")
    with pytest.raises(natgo.BatchError, match="the loss of step 1 is nan"):
        composite(tmp_path, net, read(HINTS, "sdpo")).train()


def test_a_resumed_composite_run_continues_with_the_next_batches(tmp_path):
    options = dict(max_steps=4, micro_rows=1, save_strategy="steps", save_steps=2, learning_rate=1e-2, lr_scheduler_type="constant")
    whole, resumed = (composite(tmp_path, model(), read(HINTS, "sdpo"), **options) for _ in range(2))
    assert len(whole.pools["sdpo"]) > 2
    whole.train()
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    for a, b in zip(whole.model.parameters(), resumed.model.parameters()):
        assert torch.equal(a, b)


def test_composite_settings(tmp_path):
    with pytest.raises(ValueError, match="the divergence's beta is 7"):
        composite(tmp_path, model(), read(HINTS, "sdpo"), sdpo_jsd_beta=7)


def test_a_batch_of_the_folder_of_a_run_is_that_of_its_batches():
    assert all(isinstance(b, Batch) for b in read(HINTS)) and [b.line for b in read(HINTS)] == [b.line for b in read(HINTS / "batches")]
