"""Tests that TRL's SDFT and SDPO give their teacher the ids that are meant: those of the prompt, with the hint in its last message.

Needs NATGO_TEST_PRIVILEGED, the folder of a run that TestTRLPrivileged in textrows_test.go makes, and NATGO_TEST_MODEL.
"""

import os

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl.experimental.sdft import SDFTConfig, SDFTTrainer
from trl.experimental.sdpo import SDPOConfig, SDPOTrainer

import natgo

MODEL = os.environ["NATGO_TEST_MODEL"]
TOKENIZER = AutoTokenizer.from_pretrained(MODEL)
TRAINERS = pytest.mark.parametrize("trainer,config,own,hinted", [
    (SDFTTrainer, SDFTConfig, {"num_generations": 1}, "{prompt}\n\n{hint}"),
    (SDPOTrainer, SDPOConfig, {"num_generations": 2, "include_environment_feedback": True, "reprompt_template": "{prompt}{feedback}{solution}", "feedback_template": " {feedback_raw}"},
     "{prompt} {hint}"),
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
    text = TOKENIZER.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True)
    own = row["prompt"][-1]["content"]
    before, after = text.rsplit(own, 1)
    taught = before + hinted.format(prompt=own, hint=row["privileged_context"]) + after
    return tuple(tuple(TOKENIZER(x, add_special_tokens=False)["input_ids"]) for x in (text, taught))


def seen(trainer, config, own, output, rows, **options):
    watch = Seen()
    args = config(str(output), **own, **options, per_device_train_batch_size=len(rows) * own["num_generations"], max_steps=1, max_completion_length=4, report_to=[],
                  use_cpu=True, bf16=False, save_strategy="no", disable_tqdm=True, gradient_checkpointing=False)
    given = {"reward_funcs": lambda completions, **_: [0.0] * len(completions)} if trainer is SDPOTrainer else {}
    trainer(AutoModelForCausalLM.from_pretrained(MODEL), args=args, train_dataset=rows, processing_class=TOKENIZER, callbacks=[watch], **given).train()
    return watch


@TRAINERS
def test_the_teacher_is_given_what_is_meant(trainer, config, own, hinted, tmp_path):
    rows = natgo.rows(os.environ["NATGO_TEST_PRIVILEGED"], "privileged")
    want = [meant(row, hinted) for row in rows]
    assert len(want) == 4
    watch = seen(trainer, config, own, tmp_path, rows, max_prompt_length=None)
    times = own["num_generations"]
    assert sorted(watch.teacher) == sorted(taught for _, taught in want for _ in range(times))
    assert sorted(watch.student) == sorted(student for student, _ in want for _ in range(times))


def test_prompts_are_cut_unless_told_otherwise(tmp_path):
    rows = natgo.rows(os.environ["NATGO_TEST_PRIVILEGED"], "privileged").map(
        lambda row: {"prompt": [{"role": "user", "content": "word " * 600 + row["prompt"][-1]["content"]}]})
    watch = seen(SDFTTrainer, SDFTConfig, {"num_generations": 1}, tmp_path, rows)
    assert {len(ids) for ids in watch.student + watch.teacher} == {SDFTConfig(str(tmp_path), use_cpu=True, bf16=False).max_prompt_length} == {512}
