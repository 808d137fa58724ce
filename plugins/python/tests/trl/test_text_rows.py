"""Tests that the trained turns of text rows, each with its whole context, are those of the token batches, as TRL's own preparation
of data reads them.

Needs NATGO_TEST_TEXT_ROWS, the folder of a run that TestTRLTextRows in textrows_test.go makes, and NATGO_TEST_MODEL.
"""

import os
import pathlib

from transformers import AutoModelForCausalLM, AutoTokenizer
import trl

import natgo
from natgo.trl import SFTTrainer, demonstrations

RUN = pathlib.Path(os.environ["NATGO_TEST_TEXT_ROWS"])
MODEL = os.environ["NATGO_TEST_MODEL"]
TOKENIZER = AutoTokenizer.from_pretrained(MODEL)
STOP = TOKENIZER.convert_tokens_to_ids("<|im_end|>")
PLAIN = dict(report_to=[], use_cpu=True, bf16=False, max_length=None)


def turns(rows):
    """Returns each trained turn: where it begins, and all tokens to its stop token. What a template writes after that is no part of it."""
    out = []
    for ids, trained in rows:
        ids, at = list(map(int, ids)), 0
        while at < len(ids):
            if not trained[at]:
                at += 1
                continue
            start = at
            while ids[at] != STOP:
                assert trained[at], "the turn has a hole"
                at += 1
            assert trained[at], "its stop token is not trained"
            out.append((start, tuple(ids[: at + 1])))
            at += 1
            while at < len(ids) and trained[at] and TOKENIZER.decode([ids[at]]).isspace():
                at += 1
    return sorted(out)


def of_batches():
    for batch in natgo.load(RUN, "sft"):
        for ids, labels, here in zip(batch["input_ids"], batch["labels"], batch["attention_mask"]):
            n = int(here.sum())
            yield ids[:n].tolist(), (labels[:n] != -100).tolist()


def prepared(trainer):
    """Returns the ids and the trained tokens of a trainer's batches of one row."""
    for row in trainer.train_dataset:
        batch = trainer.data_collator([row])
        yield batch["input_ids"][0].tolist(), (batch["labels"][0] != -100).tolist()


def of_trl(output):
    rows = natgo.rows(RUN, "trl")
    model, args = AutoModelForCausalLM.from_pretrained(MODEL), trl.SFTConfig(str(output), **PLAIN)
    return prepared(trl.SFTTrainer(model, args=args, train_dataset=rows, processing_class=TOKENIZER))


def test_trl(tmp_path):
    want = turns(of_batches())
    assert len(want) == int(os.environ["NATGO_TEST_TURNS"])
    assert turns(of_trl(tmp_path)) == want


def test_trained_tokens(tmp_path):
    want = sorted((tuple(ids), tuple(trained)) for ids, trained in of_batches())
    got = [(row["input_ids"], [label != -100 for label in row["labels"]]) for row in natgo.rows(RUN, "sft_parquet")]
    assert sorted((tuple(ids), tuple(trained)) for ids, trained in got) == want
    args = trl.SFTConfig(str(tmp_path), **PLAIN)
    ours = SFTTrainer(AutoModelForCausalLM.from_pretrained(MODEL), args=args, train_dataset=demonstrations(RUN), processing_class=TOKENIZER)
    assert sorted((tuple(ids), tuple(trained)) for ids, trained in prepared(ours)) == want
