"""`trine tokenize` counts, lists, decodes and writes shards, and says what is wrong with its words."""

import gzip
import json

import pytest

TOKENIZER = "assets/qwen3-tokenizer"


@pytest.fixture
def tokenize(trine):
    return lambda *words: trine("tokenize", "--tokenizer", TOKENIZER, *words)


def test_ids_and_text_are_each_others_inverse(tokenize):
    ids = tokenize("--text", "Hello, 世界!\n", "--ids").stdout
    assert tokenize("--decode", "--text", ids).stdout == "Hello, 世界!\n"
    assert tokenize("--decode", "--text", "[9707, 11]").stdout == "Hello,"


def test_a_text_is_listed_token_by_token(tokenize):
    lines = [line.split(None, 1) for line in tokenize("--text", "Hello\n<|im_end|>").stdout.splitlines()]
    assert [(int(i), json.loads(piece)) for i, piece in lines] == [(9707, "Hello"), (198, "\n"), (151645, "<|im_end|>")]


def test_counts_are_those_of_the_documents(tokenize, tmp_path):
    file = tmp_path / "two.jsonl"
    file.write_text('{"text": "Hello"}\n\n{"text": "Hello, world"}\n{"text": ""}\n')
    facts = json.loads(tokenize("--file", file, "--json").stdout)
    assert (facts["documents"], facts["tokens"]) == (2, 4)
    assert tokenize("--file", file, "--ids").stdout == "9707\n9707 11 1879\n"


def test_a_text_file_may_be_compressed_and_begin_with_a_byte_order_mark(tokenize, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfHello")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"Hello, world"))
    (tmp_path / "c.txt").write_bytes(b"")
    assert tokenize("--file", tmp_path, "--dataset", "text", "--ids").stdout == "9707\n9707 11 1879\n"


def test_a_bad_record_is_named_by_file_and_line(tokenize, tmp_path):
    file = tmp_path / "bad.jsonl"
    file.write_text('{"text": "a"}\n{"txt": "b"}\n')
    done = tokenize("--file", file)
    assert done.returncode == 2 and f"{file}:2" in done.stderr


def test_shards_hold_the_documents(tokenize, tmp_path):
    (tmp_path / "d.jsonl").write_text('{"body": "Hello"}\n{"body": "Hello, world"}\n')
    done = tokenize("--file", tmp_path / "d.jsonl", "--text-field", "body", "--to-shards", tmp_path / "d.tokens", "--json")
    assert done.returncode == 0, done.stderr
    content = (tmp_path / "d.tokens").read_bytes()
    assert content[:8] == b"TRNSHARD" and len(content) > 16 + 4 * 4
    assert [int.from_bytes(content[16 + 4 * i : 20 + 4 * i], "little") for i in range(4)] == [9707, 9707, 11, 1879]


@pytest.mark.parametrize(
    "words, part",
    [
        ([], "one of --file, --text and --chat"),
        (["--text", "a", "--file", "b"], "one of --file, --text and --chat"),
        (["--text", "1 x", "--decode"], '"x" at byte 2'),
        (["--file", "README.md", "--to-shards", "out.bin"], ".tokens"),
        (["--text", "a", "--threads", "-1"], "--threads"),
        (["--file", "absent.txt"], "absent.txt"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_are_the_users_mistake(tokenize, words, part):
    done = tokenize(*words)
    assert done.returncode == 2 and part in done.stderr and not done.stdout


def test_a_folder_without_tokenizer_is_named(trine, tmp_path):
    done = trine("tokenize", "--tokenizer", tmp_path, "--text", "a")
    assert done.returncode == 2 and "no tokenizer.json" in done.stderr
