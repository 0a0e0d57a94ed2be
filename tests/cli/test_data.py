"""trine data against rows made here in Python with the `tokenizers` library, and Parquet files written by pyarrow."""

import json
import subprocess
import sys

import pyarrow
import pyarrow.parquet
from tokenizers import Tokenizer

TOKENIZER = "assets/qwen3-tokenizer"
END = 151643  # <|endoftext|>


def recipe(folder, dataset, path, **dataloader):
    options = {"dataset": dataset, "dataset_path": str(path), "shuffle_window": 0, "num_epochs": 1} | dataloader
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in options.items())
    file = folder / "recipe.toml"
    file.write_text(f'[model]\nhf_assets_path = "{TOKENIZER}"\nflavor = "0.6B"\n[training]\nseq_len = 64\n[dataloader]\n{lines}\n')
    return file


def data(trine, recipe_file, *words):
    result = trine("data", recipe_file, "--json", "--rows", 1000, *words)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def texts(count):
    with open("assets/sample/heldout.jsonl", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line, _ in zip(lines, range(count))]


def jsonl(folder, documents, name="text.jsonl", **kwargs):
    file = folder / name
    file.write_text("".join(json.dumps({"text": text}, **kwargs) + "\n" for text in documents), encoding="utf-8")
    return file


def test_rows_are_those_of_the_rule_written_out_in_python(trine, tmp_path):
    documents = texts(20)
    tokenizer = Tokenizer.from_file(f"{TOKENIZER}/tokenizer.json")
    stream, labels = [], []
    for text in documents:
        ids = tokenizer.encode(text).ids + [END]
        stream += ids
        labels += ids[1:] + [-100]
    found = data(trine, recipe(tmp_path, "jsonl", jsonl(tmp_path, documents)))
    assert found["num_tokens"] == len(stream)
    assert found["num_valid"] == len(stream) - len(documents)
    padding = -len(stream) % 64
    assert sum((row["input_ids"] for row in found["rows"]), []) == stream + [0] * padding
    assert sum((row["labels"] for row in found["rows"]), []) == labels + [-100] * padding
    for row in found["rows"]:
        for piece in row["pieces"]:
            begin, end = piece["start"], piece["start"] + piece["length"]
            assert row["positions"][begin:end] == list(range(piece["length"]))


def test_text_of_the_pieces_is_the_text_of_the_documents(trine, tmp_path):
    documents = ["ascii only", "and more of it, " * 40]
    found = data(trine, recipe(tmp_path, "jsonl", jsonl(tmp_path, documents)))
    by_document = {}
    for piece in (piece for row in found["rows"] for piece in row["pieces"] if "document" in piece):
        by_document.setdefault(piece["document"], []).append(piece["text"])
        assert piece["where"].endswith(f"text.jsonl:{piece['document'] + 1}")
    assert ["".join(pieces) for pieces in by_document.values()] == [text + "<|endoftext|>" for text in documents]


def test_lines_show_what_is_learned_and_what_is_only_read(trine, tmp_path):
    result = trine("data", recipe(tmp_path, "jsonl", jsonl(tmp_path, ["one two", "three"])))
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert '    - "one"' in lines
    assert '    + " two<|endoftext|>"' in lines
    assert "row 0: 5 tokens, 3 labels, 59 padding" in lines


def test_parquet_gives_the_rows_of_jsonl(trine, tmp_path):
    documents = texts(30) + [""]
    options = ("--dataloader.shuffle_window", 10)
    expected = data(trine, recipe(tmp_path, "jsonl", jsonl(tmp_path, documents)), *options)
    kinds = {"snappy": pyarrow.string(), "zstd": pyarrow.large_string(), "none": pyarrow.dictionary(pyarrow.int32(), pyarrow.string())}
    for compression, type in kinds.items():
        table = pyarrow.table({"other": range(31), "text": pyarrow.array(documents).cast(type)})
        pyarrow.parquet.write_table(table, tmp_path / "text.parquet", compression=compression, row_group_size=7)
        found = data(trine, recipe(tmp_path, "parquet", tmp_path / "text.parquet"), *options)
        assert [row["input_ids"] for row in found["rows"]] == [row["input_ids"] for row in expected["rows"]], type


def test_parquet_that_does_not_fit_is_refused(trine, tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"txet": ["a"], "number": [1]}), tmp_path / "a.parquet")
    file = recipe(tmp_path, "parquet", tmp_path / "a.parquet")
    result = trine("data", file)
    assert result.returncode == 2 and 'no column "text"' in result.stderr and 'Did you mean "txet"?' in result.stderr
    result = trine("data", file, "--dataloader.text_field", "number")
    assert result.returncode == 2 and 'column "number" holds int64, expected strings' in result.stderr
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a", None, "b"]}), tmp_path / "a.parquet")
    result = trine("data", file)
    assert result.returncode == 2 and 'a.parquet:2: column "text" is null' in result.stderr
    assert data(trine, file, "--dataloader.on_bad_record", "skip")["num_skipped"] == 1
    whole = (tmp_path / "a.parquet").read_bytes()
    for broken in (b"", whole[:-5], whole[: len(whole) // 2] + whole[len(whole) // 2 + 3 :]):
        (tmp_path / "a.parquet").write_bytes(broken)
        result = trine("data", file)
        assert result.returncode == 2 and "a.parquet: " in result.stderr, result


def test_the_converter_gives_the_jsonl_of_a_parquet_file(trine, tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a", "\u00e9\n"], "id": [1, 2]}), tmp_path / "a.parquet")
    subprocess.run([sys.executable, "tools/parquet_to_jsonl.py", tmp_path / "a.parquet", tmp_path / "a.jsonl"], check=True)
    assert [json.loads(line) for line in (tmp_path / "a.jsonl").read_text("utf-8").splitlines()] == [{"text": "a"}, {"text": "\u00e9\n"}]


def test_chats_have_the_ids_that_transformers_gives_them(trine, tmp_path):
    from transformers import AutoTokenizer

    folder = "assets/smollm2-135m-instruct"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chats = [
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
        [{"role": "system", "content": "be brief"}, {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"},
         {"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "it is 4"}],
    ]
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in chats))
    options = ("--model.hf_assets_path", folder, "--training.seq_len", 128)
    recipe_file = recipe(tmp_path, "chat", file)
    recipe_file.write_text(recipe_file.read_text().replace('flavor = "0.6B"\n', ""))
    found = data(trine, recipe_file, *options)
    pieces = [(row, piece) for row in found["rows"] for piece in row["pieces"] if "document" in piece]
    assert len(pieces) == 2
    learned = []
    for (row, piece), messages in zip(pieces, chats):
        begin, end = piece["start"], piece["start"] + piece["length"]
        assert row["input_ids"][begin:end] == tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False)
        learned.append(tokenizer.decode([label for label in row["labels"][begin:end] if label != -100]))
    assert learned == ["hello<|im_end|>", "2<|im_end|>it is 4<|im_end|>"]


def test_mistakes_are_one_message(trine, tmp_path):
    file = jsonl(tmp_path, ["good"])
    file.write_text(file.read_text() + "bad\n")
    result = trine("data", recipe(tmp_path, "jsonl", file))
    assert result.returncode == 2 and f"{file}:2: not valid JSON" in result.stderr
    result = trine("data", recipe(tmp_path, "c4_test", tmp_path))
    assert result.returncode == 2 and "holds no data.json" in result.stderr and "dataset sample" in result.stderr
