"""A tiny tokenizer, corpus and recipe, so that a whole training run takes about a second."""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


# ChatML: every turn between <|im_start|>role and <|im_end|>.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def write_tokenizer(folder: Path) -> None:
    """Byte-level BPE with 256 byte symbols, a few merges and three added tokens (Tt of the fault list)."""
    folder.mkdir(parents=True, exist_ok=True)
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("i", "n"), ("a", "n"), ("Ġ", "the"), ("e", "r")]
    vocab = {symbol: i for i, symbol in enumerate(symbols)}
    for left, right in merges:
        vocab[left + right] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(__import__("tokenizers").Regex(PATTERN), "isolated", invert=False)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast",
              "chat_template": CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_corpus(file: Path, num_documents: int = 30) -> None:
    lines = [{"text": f"Document {i}: the rain in the land number {i * i} and then another {'line ' * (i % 7)}"} for i in range(num_documents)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_recipe(folder: Path) -> Path:
    """A recipe for the `tiny` flavor over its own tokenizer and corpus in `folder`."""
    write_tokenizer(folder / "tokenizer")
    write_corpus(folder / "train.jsonl")
    recipe = folder / "tiny_run.toml"
    recipe.write_text(
        f"""
[job]
dump_folder = "{folder}/run"
[model]
hf_assets_path = "{folder}/tokenizer"
flavor = "tiny"
[training]
steps = 8
seq_len = 32
local_batch_size = 2
mixed_precision_param = "float32"
[dataloader]
dataset = "jsonl"
dataset_path = "{folder}/train.jsonl"
shuffle_window = 8
[optimizer]
lr = 1e-2
[lr_scheduler]
warmup_steps = 2
[checkpoint]
enable = true
interval = 4
keep_latest_k = 0
[metrics]
log_freq = 1
"""
    )
    return recipe
