"""Loads rows as their consumers do: consumers.py trl|files|verl|verl_tools|verl_states|nemo_gym DIR. Prints one line of JSON: what was loaded."""
import glob, json, os, sys, tempfile

os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=tempfile.mkdtemp(), TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="")
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

TOOLS = (
    "{% if tools %}{{ '<|im_start|>system\n' }}{% for t in tools %}{{ t | tojson }}{% endfor %}{{ '<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '') }}"
    "{% for c in m.tool_calls or [] %}{{ '<tool_call>' + c.function.name + ' ' + c.function.arguments | tojson }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tokenizer():
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    t = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|pad|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.chat_template = CHATML
    return fast


def trl(root):
    from datasets import load_dataset
    from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, SFTConfig, SFTTrainer

    tok, out, folder = tokenizer(), {}, tempfile.mkdtemp()
    size = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2)
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tok), **size)).save_pretrained(folder)
    for name, file, trainer, conf in [
        ("dpo", "trl/train.jsonl", DPOTrainer, DPOConfig),
        ("sft", "trl/sft.jsonl", SFTTrainer, SFTConfig),
        ("kto", "kto/train.jsonl", KTOTrainer, KTOConfig),
    ]:
        data = load_dataset("json", data_files=os.path.join(root, file), split="train")
        args = conf(output_dir=tempfile.mkdtemp(), max_steps=1, per_device_train_batch_size=4, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, bf16=False, gradient_checkpointing=False)
        t = trainer(model=LlamaForCausalLM.from_pretrained(folder), args=args, train_dataset=data, processing_class=tok)
        first = t.train_dataset[0]
        out[name] = dict(rows=len(data), loss=t.train().training_loss, labels=sorted(set(data["label"])) if name == "kto" else None,
                         completion=tok.decode(first["completion_ids"]) if name == "kto" else None)
    return out


def files(root):
    """Has TRL prepare each file of its rows below a folder, and returns how many rows each has. Each trainer trains a step."""
    from datasets import load_dataset
    from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

    tok, took, trained, folder = tokenizer(), {}, set(), tempfile.mkdtemp()
    tok.chat_template = TOOLS
    size = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2)
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tok), **size)).save_pretrained(folder)
    for path in sorted(glob.glob(os.path.join(root, "**/dataset/*/*.jsonl"), recursive=True, include_hidden=True)):
        if os.path.basename(path) == "rows.jsonl" or "/openai_sft/" in path:
            continue
        data = load_dataset("json", data_files=path, split="train")
        trainer, conf = (DPOTrainer, DPOConfig) if "chosen" in data.column_names else (SFTTrainer, SFTConfig)
        args = conf(output_dir=tempfile.mkdtemp(), max_steps=1, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, bf16=False, gradient_checkpointing=False)
        t = trainer(model=LlamaForCausalLM.from_pretrained(folder), args=args, train_dataset=data, processing_class=tok)
        if trainer not in trained:
            t.train()
        trained.add(trainer)
        took[path] = len(t.train_dataset)
    return took


def verl(root):
    from omegaconf import OmegaConf
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset
    from verl.utils.dataset.rl_dataset import RLHFDataset

    tok = tokenizer()
    conf = OmegaConf.create(dict(max_prompt_length=512, cache_dir=tempfile.mkdtemp(), filter_overlong_prompts_workers=1, max_length=512))
    rl = RLHFDataset(os.path.join(root, "verl/train.parquet"), tok, conf)
    sft = MultiTurnSFTDataset(os.path.join(root, "verl/sft.parquet"), tok, conf)
    row, lesson = rl[0], sft[0]
    return dict(
        rl=dict(rows=len(rl), prompt=row["raw_prompt"], index=row["index"], truth=row["reward_model"], source=row["data_source"]),
        sft=dict(rows=len(sft), trained=tok.decode(lesson["input_ids"][lesson["loss_mask"].bool()])),
    )


def verl_tools(root):
    from natgo.verl import Conversations
    from omegaconf import OmegaConf

    tok = tokenizer()
    tok.chat_template = TOOLS
    rows = Conversations(os.path.join(root, "verl/sft.parquet"), tok, OmegaConf.create(dict(max_length=4096, pad_mode="no_padding")))
    return [dict(text=tok.decode(r["input_ids"]), trained=tok.decode(r["input_ids"][r["loss_mask"].bool()])) for r in (rows[i] for i in range(len(rows)))]


def verl_states(root):
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset

    tok = tokenizer()
    tok.chat_template = TOOLS
    conf = OmegaConf.create(dict(max_prompt_length=4096, cache_dir=tempfile.mkdtemp(), filter_overlong_prompts_workers=1))
    (row,) = RLHFDataset(os.path.join(root, "verl/states_train.parquet"), tok, conf)
    text = tok.apply_chat_template(row["raw_prompt"], tokenize=False, add_generation_prompt=True)
    return dict(text=text, prompt=row["raw_prompt"], state=row["extra_info"]["state"])


def nemo_gym(root):
    from nemo_gym.base_resources_server import BaseRunRequest

    with open(os.path.join(root, "nemo_gym/train.jsonl")) as file:
        (row,) = [BaseRunRequest.model_validate_json(line).responses_create_params for line in file]
    return dict(types=[item.type for item in row.input], tools=[tool["name"] for tool in row.tools])


result = {"trl": trl, "files": files, "verl": verl, "verl_tools": verl_tools, "verl_states": verl_states, "nemo_gym": nemo_gym}[sys.argv[1]](sys.argv[2])
print("\n" + json.dumps(result))
