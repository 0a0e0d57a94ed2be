"""`trine generate`, `trine eval` and `trine export` on what a run leaves: run folder, checkpoint and export are one model."""

import json
import shutil
import subprocess

import pytest
from safetensors import safe_open

from conftest import ROOT, TRINE
from test_frame import assert_user_error
from tiny import write_corpus, write_recipe


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of 8 steps with an export, and a held-out file."""
    folder = tmp_path_factory.mktemp("trained")
    recipe = write_recipe(folder)
    options = ["--checkpoint.last_save_in_hf", "true", "--checkpoint.export_dtype", "float32"]
    result = subprocess.run([TRINE, "train", recipe, *options], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    write_corpus(folder / "heldout.jsonl", 6)
    return folder


def evaluate(trine, model, data, *options):
    result = trine("eval", model, "--data", data, "--seq-len", 32, "--dtype", "float32", "--json", *options)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_run_checkpoint_and_exports_have_one_loss(trine, trained):
    run, data = trained / "run", trained / "heldout.jsonl"
    exported = trine("export", run, trained / "again", "--dtype", "float32")
    assert exported.returncode == 0, exported.stderr
    results = [evaluate(trine, model, data) for model in (run, run / "checkpoint/step-8", run / "export", trained / "again")]
    assert len({result["loss"] for result in results}) == 1
    assert results[0]["valid_tokens"] > 100
    earlier = evaluate(trine, run / "checkpoint/step-4", data)
    assert earlier["loss"] > results[0]["loss"], "the run learned between its checkpoints"


def test_the_cut_into_batches_does_not_change_the_loss(trine, trained):
    one = evaluate(trine, trained / "run", trained / "heldout.jsonl")
    three = evaluate(trine, trained / "run", trained / "heldout.jsonl", "--rows", 3)
    assert three["valid_tokens"] == one["valid_tokens"]
    assert three["loss"] == pytest.approx(one["loss"], rel=1e-6)


def test_exports_have_the_dtype_asked_for_and_that_of_the_run_by_default(trine, trained):  # case I7
    for dtype, word in [("F32", "float32"), ("BF16", "bfloat16"), ("F16", "float16")]:
        option = [] if word == "float32" else ["--dtype", word]
        result = trine("export", trained / "run/checkpoint/step-8", trained / "out", *option)
        assert result.returncode == 0, result.stderr
        with safe_open(trained / "out/model.safetensors", "pt") as file:
            assert {file.get_slice(name).get_dtype() for name in file.keys()} == {dtype}
        assert json.loads((trained / "out/config.json").read_text())["dtype"] == word
        assert (trained / "out/tokenizer.json").read_bytes() == (trained / "tokenizer/tokenizer.json").read_bytes()


def test_generation_streams_text_and_is_repeatable(trine, trained):
    words = ["generate", trained / "run", "--prompt", "Document 1", "--max-new-tokens", 12, "--temperature", 1, "--seed", 5]
    first, second = trine(*words), trine(*words)
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    as_json = json.loads(trine(*words, "--json").stdout)
    assert as_json["text"] + "\n" == first.stdout
    assert 1 <= len(as_json["ids"]) <= 12
    assert trine(*words[:-1], 6).stdout != first.stdout, "another seed"


def test_a_chat_is_rendered_by_the_template_of_the_tokenizers_folder(trine, trained):
    chat = trained / "chat.json"
    chat.write_text(json.dumps({"messages": [{"role": "user", "content": "the rain"}]}))
    result = trine("generate", trained / "run", "--chat", chat, "--max-new-tokens", 2, "--json")
    assert result.returncode == 0, result.stderr
    text = "<|im_start|>user\nthe rain<|im_end|>\n<|im_start|>assistant\n"
    rendered = trine("tokenize", "--tokenizer", trained / "tokenizer", "--text", text, "--ids")
    assert json.loads(result.stdout)["prompt_ids"] == [int(word) for word in rendered.stdout.split()]


def test_a_chat_run_exports_the_token_that_ends_a_turn(trine, trained):  # case A11
    folder = trained / "chats"
    recipe = write_recipe(folder)
    messages = [{"role": "user", "content": "the"}, {"role": "assistant", "content": "rain"}]
    (folder / "train.jsonl").write_text((json.dumps({"messages": messages}) + "\n") * 8)
    result = trine("train", recipe, "--dataloader.dataset", "chat", "--training.steps", 1, "--training.seq_len", 64)
    assert result.returncode == 0, result.stderr
    assert trine("export", folder / "run", folder / "out").returncode == 0
    added = {token["content"]: token["id"] for token in json.loads((folder / "out/tokenizer.json").read_text())["added_tokens"]}
    eos = json.loads((folder / "out/config.json").read_text())["eos_token_id"]
    assert added["<|im_end|>"] in (eos if isinstance(eos, list) else [eos])


def test_a_random_start_says_so_and_is_near_the_loss_expected_of_it(trine, trained):
    words = ["eval", trained / "run/export", "--data", trained / "heldout.jsonl", "--seq-len", 32, "--random", "--json"]
    results = [trine(*words, "--seed", seed) for seed in (1, 1, 2)]
    losses = [json.loads(result.stdout)["loss"] for result in results]
    assert "RANDOM INIT" in results[0].stderr
    expected = float(results[0].stderr.split("first loss near ")[1].split()[0])
    assert losses[0] == pytest.approx(expected, abs=0.15)
    assert losses[0] == losses[1] != losses[2]


def test_a_flavors_sizes_go_with_a_folder_that_has_a_tokenizer_only(trine, trained):
    words = ["eval", trained / "tokenizer", "--data", trained / "heldout.jsonl", "--seq-len", 32]
    assert trine(*words, "--flavor", "tiny", "--json").returncode == 0
    assert_user_error(trine(*words), "no config.json")
    result = trine(*words, "--flavor", "tny")
    assert result.returncode == 2 and "tiny" in result.stderr


def test_mistakes_are_told(trine, trained, tmp_path):
    run, data = trained / "run", trained / "heldout.jsonl"
    assert_user_error(trine("eval", tmp_path / "nothing", "--data", data), "does not exist")
    assert_user_error(trine("eval", tmp_path, "--data", data), "neither a Hugging Face folder")
    assert_user_error(trine("generate", run), "--prompt")
    assert_user_error(trine("generate", run, "--prompt", "a", "--top-k", 5), "--temperature")
    assert_user_error(trine("generate", run, "--prompt", "a", "--dtype", "int8"), "float32 or bfloat16")
    assert_user_error(trine("export", run / "export", tmp_path / "out"), "nothing to export")
    bare = tmp_path / "bare"
    shutil.copytree(run / "export", bare)
    (bare / "model.safetensors").unlink()
    result = trine("eval", bare, "--data", data)
    assert result.returncode == 2 and "holds no weights" in result.stderr, result.stderr
    result = trine("eval", run, "--data", data, "--seq-len", 10**6)
    assert result.returncode == 2 and "max_position_embeddings" in result.stderr


def test_inspect_and_verify_see_a_run_its_checkpoints_and_its_export_as_one_model(trine, trained):
    run = trained / "run"
    facts = json.loads(trine("inspect", run, "--json").stdout)
    assert [checkpoint["step"] for checkpoint in facts["checkpoints"]] == [4, 8]
    assert all("fault" not in checkpoint for checkpoint in facts["checkpoints"])
    checkpoint = json.loads(trine("inspect", run / "checkpoint/step-8", "--json").stdout)
    export = json.loads(trine("inspect", run / "export", "--json").stdout)
    assert checkpoint["kinds"] == ["exp_avg", "exp_avg_sq", "master"] and checkpoint["step"] == 8
    assert sorted(t["name"] for t in checkpoint["tensors"]) == sorted(t["name"] for t in export["tensors"])
    assert checkpoint["model"] == export["model"]
    same = trine("verify", "weights", run / "export", "--against", run, "--tolerance", 0)
    assert same.returncode == 0, same.stderr
    earlier = trine("verify", "weights", run / "checkpoint/step-4", "--against", run, "--tolerance", 0)
    assert earlier.returncode == 3
