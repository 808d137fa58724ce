"""Tests that TRL's SDFT and SDPO give their teacher the ids that are meant: those of the prompt, with the hint in its last message.

Needs what TestTRLPrivileged in textrows_test.go makes: NATGO_TEST_PRIVILEGED, the folder of a run; NATGO_TEST_FROM, a folder with
the traces and the tokenizer that it was made from; and NATGO_TEST_ROWS, the number of its rows.
"""

import json
import os
import pathlib

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl.experimental.sdft import SDFTConfig, SDFTTrainer
from trl.experimental.sdpo import SDPOConfig, SDPOTrainer

import natgo

RUN, FROM = pathlib.Path(os.environ["NATGO_TEST_PRIVILEGED"]), pathlib.Path(os.environ["NATGO_TEST_FROM"])
TOKENIZER = PreTrainedTokenizerFast.from_pretrained(FROM / "tokenizer")
(TOOLS,) = ({json.dumps(json.loads(line)["tools"]) for line in open(FROM / "traces.jsonl", encoding="utf-8")})
TEMPLATE = {"tools": json.loads(TOOLS)}
TRAINERS = pytest.mark.parametrize("trainer,config,own,hinted", [
    (SDFTTrainer, SDFTConfig, {"num_generations": 1}, "{prompt}\n\n{hint}"),
    (SDPOTrainer, SDPOConfig, {"num_generations": 2, "include_environment_feedback": True, "max_reprompt_len": 65536, "reprompt_template": "{prompt}{feedback}{solution}",
                               "feedback_template": " {feedback_raw}"}, "{prompt} {hint}"),
])


class Seen(TrainerCallback):
    def __init__(self):
        self.teacher, self.student = [], []

    def on_self_distillation_batch_prepared(self, *_, prompt_ids, completion_ids, teacher_input_ids, teacher_attention_mask, **__):
        for ids, here in zip(teacher_input_ids, teacher_attention_mask):
            prompt = slice(0, len(ids) - completion_ids.shape[1])
            self.teacher.append(tuple(ids[prompt][here[prompt].bool()].tolist()))
        self.student += [tuple(i for i in ids.tolist() if i != TOKENIZER.pad_token_id) for ids in prompt_ids]


def meant(row, hinted):
    """The ids of the rendered prompt, in whose text the last message has the hint beside it; of the student and of the teacher."""
    text = TOKENIZER.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True, **TEMPLATE)
    own = row["prompt"][-1]["content"]
    before, after = text.rsplit(own, 1)
    taught = before + hinted.format(prompt=own, hint=row["privileged_context"]) + after
    return tuple(tuple(TOKENIZER(x, add_special_tokens=False)["input_ids"]) for x in (text, taught))


def in_batches():
    """The rollouts of the run's token batches, each up to the first token that one of its hints is about."""
    for batch in natgo.load(RUN, "sdpo"):
        for site in np.unique(batch["pair_site"]):
            first = np.flatnonzero(batch["pair_site"] == site)[0]
            yield tuple(batch["student_input_ids"][batch["pair_student_row"][first], : batch["pair_student_pos"][first] + 1].tolist())


def seen(trainer, config, own, output, rows, **options):
    """What a trainer's student and teacher were given, a row a step."""
    torch.manual_seed(0)
    sizes = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=65536)
    LlamaForCausalLM(LlamaConfig(vocab_size=len(TOKENIZER), **sizes)).save_pretrained(output / "model")  # from which TRL loads the teacher, too
    watch = Seen()
    args = config(str(output), **own, **options, per_device_train_batch_size=own["num_generations"], max_steps=len(rows), max_completion_length=4, report_to=[], use_cpu=True,
                  bf16=False, save_strategy="no", disable_tqdm=True, gradient_checkpointing=False)
    given = {"reward_funcs": lambda completions, **_: [0.0] * len(completions)} if trainer is SDPOTrainer else {}
    trainer(AutoModelForCausalLM.from_pretrained(output / "model"), args=args, train_dataset=rows, processing_class=TOKENIZER, callbacks=[watch], **given).train()
    return watch


@TRAINERS
def test_the_teacher_is_given_what_is_meant(trainer, config, own, hinted, tmp_path):
    rows = natgo.rows(RUN, "privileged")
    written = [json.loads(line) for line in open(RUN / "dataset" / "privileged" / "train.jsonl", encoding="utf-8")]
    want = [meant(row, hinted) for row in written]
    assert len(want) == int(os.environ["NATGO_TEST_ROWS"])
    watch = seen(trainer, config, own, tmp_path, rows, max_prompt_length=None, chat_template_kwargs=TEMPLATE)
    times = own["num_generations"]
    assert sorted(watch.teacher) == sorted(taught for _, taught in want for _ in range(times))
    assert sorted(watch.student) == sorted(student for student, _ in want for _ in range(times))
    assert set(watch.student) <= set(in_batches())
    print(f"{trainer.__name__}: {len(watch.teacher) // times} of {len(want)} teachers' prompts are those meant, of {min(map(len, watch.teacher))} to {max(map(len, watch.teacher))} tokens")


def test_prompts_are_cut_unless_told_otherwise(tmp_path):
    rows = natgo.rows(RUN, "privileged").select(range(2)).map(
        lambda row: {"prompt": [{"role": "user", "content": "word " * 600 + row["prompt"][-1]["content"]}]})
    watch = seen(SDFTTrainer, SDFTConfig, {"num_generations": 1}, tmp_path, rows)
    assert {len(ids) for ids in watch.student + watch.teacher} == {SDFTConfig(str(tmp_path), use_cpu=True, bf16=False).max_prompt_length} == {512}
