"""Tests that the trained turns of rows whose messages say what is trained, each with its whole context, are those of the token
batches, as Axolotl's and ms-swift's own preparation of data reads them.

Needs what test_text_rows.py needs.
"""

import os

import datasets
from test_text_rows import MODEL, RUN, STOP, TOKENIZER, of_batches, turns


END = TOKENIZER.encode("</think>\n\n", add_special_tokens=False)


def answers(rows):
    """Yields rows without the tags around reasoning, which the batches train: of a turn that thinks, only what follows."""
    for ids, trained in rows:
        for end in range(len(END), len(ids)):
            if ids[end - len(END) : end] == END:
                start = end - ids[end - 1 :: -1].index(STOP) if STOP in ids[:end] else 0
                trained[start:end] = [False] * (end - start)
        yield ids, trained


def trained(labels):
    return [label != -100 for label in labels]


def test_axolotl():
    from axolotl.prompt_strategies.chat_template import load
    from axolotl.utils.dict import DictDefault

    # Without the mappings Axolotl passes on only what it finds in the template, which is none of it here.
    keys = "role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name"
    of_rows = {"message_field_training": "train", "message_field_training_detail": "train_detail", "message_property_mappings": {key: key for key in keys}}
    config = DictDefault(chat_template="tokenizer_default", sequence_len=1 << 20, train_on_inputs=False)
    strategy = load(TOKENIZER, config, of_rows)
    rows = datasets.load_dataset("json", data_files=str(RUN / "dataset/axolotl/train.jsonl"), split="train")
    got = map(strategy.tokenize_prompt, rows)
    want = turns(answers(of_batches()))
    assert len(want) == int(os.environ["NATGO_TEST_TURNS"])
    assert turns((row["input_ids"], trained(row["labels"])) for row in got) == want


def test_ms_swift():
    from swift.dataset import load_dataset
    from swift.model import get_processor
    from swift.template import get_template

    processor = get_processor(MODEL, model_type="qwen2")
    template = get_template(processor, template_type="qwen2_5", agent_template="hermes", max_length=1 << 20)
    template.set_mode("train")
    rows, _ = load_dataset(str(RUN / "dataset/ms_swift/train.jsonl"), split_dataset_ratio=0, load_from_cache_file=False)
    got = map(template.encode, rows)
    assert turns((row["input_ids"], trained(row["labels"])) for row in got) == turns(of_batches())
