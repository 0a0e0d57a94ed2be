"""`trine config`: the whole configuration of a run, and exit code 2 with one message for every mistake in it (cases J6)."""

import json
import tomllib

import pytest

from test_frame import assert_user_error


def test_prints_toml_that_reads_back_to_the_same(trine, tmp_path):
    options = ["--training.steps=300", "--optimizer.no_decay", "a,b", "--debug.deterministic"]
    first = trine("config", "recipes/quickstart.toml", *options)
    assert first.returncode == 0 and first.stderr == ""
    assert tomllib.loads(first.stdout)["training"]["steps"] == 300
    (tmp_path / "again.toml").write_text(first.stdout)
    assert trine("config", tmp_path / "again.toml").stdout == first.stdout


def test_json_and_toml_say_the_same(trine):
    as_json = json.loads(trine("config", "recipes/qwen3_4b_native.toml", "--json").stdout)
    as_toml = tomllib.loads(trine("config", "recipes/qwen3_4b_native.toml").stdout)
    assert as_toml == {s: v for s, o in as_json.items() if (v := {k: x for k, x in o.items() if x is not None})}
    assert as_json["expect"]["first_loss"] == 6.54
    assert as_json["model"]["hidden_size"] is None


def test_options_may_stand_anywhere(trine):
    before = trine("config", "--debug.deterministic", "--training.steps", "300", "recipes/quickstart.toml")
    after = trine("config", "recipes/quickstart.toml", "--training.steps", "300", "--debug.deterministic")
    assert before.returncode == 0 and before.stdout == after.stdout


@pytest.mark.parametrize(
    "recipe, parts",
    [
        ("[optimizer]\nlearning_rte = 1\n", [":2: ", "optimizer.learning_rte", "optimizer.lr"]),
        ("[training]\nlr = 1\n", [":2: ", "training.lr", "wrong section", "optimizer.lr"]),
        ("[optimizer]\nlr = '1'\n", [":2: ", 'optimizer.lr = "1"', "a number"]),
        ("[training]\nsteps = -4\n", [":2: ", "training.steps = -4", "at least 1"]),
        ("[training\n", [":1: ", "not valid TOML"]),
        ("[compile]\nenable = true\n", [":2: ", "compile.enable", "cannot compile models yet"]),
    ],
)
def test_mistakes_in_a_recipe(trine, tmp_path, recipe, parts):
    file = tmp_path / "bad.toml"
    file.write_text(recipe)
    assert_user_error(trine("config", file), str(file), *parts)


@pytest.mark.parametrize(
    "words, parts",
    [
        (["--training.setps", "3"], ["command line", "training.setps", "training.steps"]),
        (["--training.steps", "x"], ["command line", 'training.steps = "x"', "whole number"]),
        (["--training.steps"], ["needs a value"]),
        (["--trainig_steps", "3"], ['no flag "--trainig_steps"']),
        (["--lora.rank", "8"], ["LoRA"]),
        (["--json", "--list"], ["one of --json, --list and --markdown"]),
        (["no/such.toml"], ["no/such.toml"]),
    ],
)
def test_mistakes_on_the_command_line(trine, words, parts):
    assert_user_error(trine("config", *words), *parts)


def test_help_of_options_shows_default_and_what_is_allowed(trine):
    text = trine("config", "--list").stdout
    assert "[training]" in text and "--training.seq_len" in text and "default 2048" in text and "at least 1" in text
