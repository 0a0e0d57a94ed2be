"""Token ids equal those of the `tokenizers` library, for the real tokenizers and for files with other settings."""

import copy
import json
import random

import pytest
from tokenizers import Tokenizer

from mixed_text import SCRIPTS, code_documents, mixed_documents, random_documents, sample_documents
from paths import ROOT

QWEN3 = ROOT / "assets/qwen3-tokenizer"
SMOLLM2 = ROOT / "assets/smollm2-135m-instruct"
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@pytest.fixture
def same_ids(trine, tmp_path):
    def check(folder, documents):
        file = tmp_path / "documents.jsonl"
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
        ours = trine("tokenize", "--tokenizer", folder, "--file", file, "--ids").splitlines()
        theirs = Tokenizer.from_file(str(folder / "tokenizer.json")).encode_batch_fast(documents)
        for text, line, encoding in zip(documents, ours, theirs, strict=True):
            ids = [int(word) for word in line.split()]
            if ids != encoding.ids:
                place = next((i for i, pair in enumerate(zip(ids, encoding.ids)) if pair[0] != pair[1]), min(len(ids), len(encoding.ids)))
                begin = encoding.offsets[min(place, len(encoding.offsets) - 1)][0]
                pytest.fail(f"token {place}, near {text[max(0, begin - 20) : begin + 20]!r}: {ids[place : place + 5]}, expected "
                            f"{encoding.ids[place : place + 5]}")

    return check


@pytest.fixture
def changed(tmp_path):
    """A folder with the tokenizer.json of `source` after `change(json)`."""

    def make(source, change):
        content = json.loads((source / "tokenizer.json").read_text())
        change(content)
        folder = tmp_path / "changed"
        folder.mkdir(exist_ok=True)
        (folder / "tokenizer.json").write_text(json.dumps(content))
        return folder

    return make


@pytest.mark.parametrize("folder", [QWEN3, SMOLLM2], ids=["qwen3", "smollm2"])
def test_ids_equal_on_mixed_text_of_many_scripts(same_ids, folder):
    documents = mixed_documents()
    assert sum(len(text.encode()) for text in documents) > 5e6
    same_ids(folder, documents)


def some_documents():
    return [*sample_documents(0.2), *code_documents(0.1), *[script * 20 for script in SCRIPTS], *random_documents(11, 150)]


def test_ids_equal_with_llama3s_split_whole_pieces_first_and_a_begin_token(same_ids, changed):
    def change(content):
        content["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = LLAMA3_SPLIT
        content["model"]["ignore_merges"] = True
        content["model"]["merges"] = content["model"]["merges"][: len(content["model"]["merges"]) // 2]  # tokens that no merge reaches
        content["normalizer"] = None
        begin = {"id": "<|endoftext|>", "ids": [151643], "tokens": ["<|endoftext|>"]}
        content["post_processor"] = {
            "type": "Sequence",
            "processors": [
                content["post_processor"],
                {
                    "type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                    "special_tokens": {"<|endoftext|>": begin},
                },
            ],
        }

    same_ids(changed(QWEN3, change), some_documents())


def test_ids_equal_with_gpt2s_split(same_ids, changed):
    def change(content):
        content["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}

    same_ids(changed(SMOLLM2, change), some_documents())


# C5
def test_ids_equal_with_merges_written_as_strings(same_ids, changed):
    def change(content):
        content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]

    same_ids(changed(QWEN3, change), some_documents())


def test_ids_equal_with_an_unknown_token(same_ids, changed):
    def change(content):
        content["model"]["unk_token"] = "<|endoftext|>"

    same_ids(changed(SMOLLM2, change), some_documents())


@pytest.mark.parametrize("flags", [{"lstrip": True}, {"rstrip": True}, {"lstrip": True, "rstrip": True}, {"normalized": True}], ids=str)
def test_ids_equal_with_flags_on_added_tokens(same_ids, changed, flags):
    def change(content):
        for token in content["added_tokens"][::2]:
            token.update(flags)
        extra = copy.deepcopy(content["added_tokens"][0])
        content["added_tokens"].append(extra | {"id": 151669, "content": "<|im_start|>e\u0301", "special": False})

    draw = random.Random(3)
    pieces = ["<|im_start|>", "<|im_end|>", "<|im_start|>e\u0301", "<|im_start|>é", " ", "\n", "\u3000", "\t", "a", "<think>", "b ", "<"]
    same_ids(changed(QWEN3, change), ["".join(draw.choices(pieces, k=60)) for _ in range(200)])


def test_decoding_equals_for_any_ids(trine, tmp_path):
    draw = random.Random(5)
    for folder, size in ((QWEN3, 151936), (SMOLLM2, 49152)):
        ids = [draw.randrange(size) for _ in range(5000)]
        (tmp_path / "ids.txt").write_text(" ".join(map(str, ids)))
        ours = trine("tokenize", "--tokenizer", folder, "--decode", "--file", tmp_path / "ids.txt")
        assert ours == Tokenizer.from_file(str(folder / "tokenizer.json")).decode(ids, skip_special_tokens=False)


def test_special_tokens_read_as_text_equal(trine):
    tokenizer = Tokenizer.from_file(str(QWEN3 / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    text = "a <|im_start|>user\n<think> <|im_end|><|endoftext|>"
    ours = trine("tokenize", "--tokenizer", QWEN3, "--text", text, "--special-as-text", "--ids")
    assert [int(word) for word in ours.split()] == tokenizer.encode(text).ids


def test_one_text_cut_among_threads_gives_the_same_ids(trine, tmp_path):
    text = "\n".join(mixed_documents()[:400])
    (tmp_path / "text.txt").write_bytes(text.encode())
    one, four = (trine("tokenize", "--tokenizer", SMOLLM2, "--file", tmp_path / "text.txt", "--ids", "--threads", n) for n in (1, 4))
    assert one == four
