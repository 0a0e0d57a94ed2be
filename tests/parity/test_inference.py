"""`trine eval` and `trine generate` against Transformers: published weights, and a random start that was exported.

The rows of an evaluation are cut by this file itself, from docs/data.md.
"""

import json
import sys

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from paths import ROOT

sys.path.append(str(ROOT / "tests/cli"))
from tiny import write_corpus, write_recipe  # noqa: E402

IGNORED = -100
SMOLLM2 = ROOT / "assets/smollm2-135m-instruct"
HELDOUT = ROOT / "assets/sample/heldout.jsonl"


def rows_of(tokenizer_folder, data, seq_len, num_rows):
    """Rows as docs/data.md defines them: documents, each with its end token, form one stream; a piece begins with its document or row."""
    tokenizer = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    end = tokenizer.token_to_id("<|endoftext|>")
    stream = []
    for document, line in enumerate(data.read_text().splitlines()):
        stream += [(id, document) for id in tokenizer.encode(json.loads(line)["text"]).ids + [end]]
        if len(stream) > num_rows * seq_len:
            break
    rows = []
    for first in range(0, num_rows * seq_len, seq_len):
        ids, labels, positions = [], [], []
        for place in range(first, first + seq_len):
            id, document = stream[place]
            new_piece = place == first or stream[place - 1][1] != document
            positions.append(0 if new_piece else positions[-1] + 1)
            goes_on = place + 1 < len(stream) and stream[place + 1][1] == document
            labels.append(stream[place + 1][0] if goes_on else IGNORED)
            ids.append(id)
        rows.append((ids, labels, positions))
    return rows


def transformers_loss(folder, rows):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    total, count = 0.0, 0
    with torch.no_grad():
        for ids, labels, positions in rows:
            logits = model(input_ids=torch.tensor([ids]), position_ids=torch.tensor([positions]), use_cache=False).logits[0]
            total += torch.nn.functional.cross_entropy(logits, torch.tensor(labels), ignore_index=IGNORED, reduction="sum").item()
            count += sum(label != IGNORED for label in labels)
    return total / count, count


def evaluate(trine, model, data, seq_len, num_rows, *options):
    words = ["--data", data, "--seq-len", seq_len, "--batches", num_rows, "--dtype", "float32", "--json", *options]
    result = json.loads(trine("eval", model, *words))
    return result["loss"], result["valid_tokens"]


def test_published_weights_have_the_loss_that_transformers_gives(trine):
    seq_len, num_rows = 128, 4
    loss, count = transformers_loss(SMOLLM2, rows_of(SMOLLM2, HELDOUT, seq_len, num_rows))
    ours, our_count = evaluate(trine, SMOLLM2, HELDOUT, seq_len, num_rows)
    assert our_count == count
    assert ours == pytest.approx(loss, rel=1e-5)


def test_a_random_start_has_the_loss_that_transformers_gives_on_its_export(trine, tmp_path):
    recipe, data = write_recipe(tmp_path), tmp_path / "heldout.jsonl"
    write_corpus(data, 12)
    options = ["--training.steps", 1, "--optimizer.lr", 0, "--debug.seed", 3]  # a learning rate of 0 leaves the random values as they are
    trine("train", recipe, *options, "--checkpoint.last_save_in_hf", "--checkpoint.export_dtype", "float32")
    export = tmp_path / "run/export"
    loss, count = transformers_loss(export, rows_of(tmp_path / "tokenizer", data, 32, 8))
    ours, our_count = evaluate(trine, export, data, 32, 8, "--random", "--seed", 3)
    assert our_count == count
    assert ours == pytest.approx(loss, rel=1e-5)
    assert evaluate(trine, export, data, 32, 8)[0] == pytest.approx(ours, rel=1e-7)


def test_published_weights_answer_a_chat_with_the_tokens_that_transformers_generates(trine, tmp_path):
    messages = [{"role": "user", "content": "Name three colours of the rainbow."}]
    (tmp_path / "chat.json").write_text(json.dumps({"messages": messages}))
    words = ["--chat", tmp_path / "chat.json", "--max-new-tokens", 24, "--dtype", "float32", "--json"]
    ours = json.loads(trine("generate", SMOLLM2, *words))

    tokenizer = AutoTokenizer.from_pretrained(SMOLLM2)
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    assert ours["prompt_ids"] == prompt["input_ids"][0].tolist()
    model = AutoModelForCausalLM.from_pretrained(SMOLLM2, dtype=torch.float32)
    theirs = model.generate(**prompt, max_new_tokens=24, do_sample=False)
    assert ours["ids"] == theirs[0, prompt["input_ids"].shape[1] :].tolist()
