"""`trine train` as a user meets it: resuming, stopping, protecting what was saved, and saying what went wrong.

Rows of the fault list: A11, C8, D5, E1, E3, I1, I2, I5, I7, I9.
"""

import json
import random
import shutil
import signal
import subprocess
import time

import pytest
from safetensors import safe_open

from conftest import ROOT, TRINE
from tiny import write_recipe
from test_frame import assert_user_error


@pytest.fixture
def recipe(tmp_path):
    return write_recipe(tmp_path)


def steps_of(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == "train"]


def start(recipe, *options):
    return subprocess.Popen([TRINE, "train", recipe, *map(str, options)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_steps(run, count, process):
    """Returns when metrics.jsonl holds `count` steps."""
    file = run / "metrics.jsonl"
    while not file.exists() or file.read_text().count("\n") < count:
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.01)


def hashes(checkpoint):
    files = json.loads((checkpoint / "manifest.json").read_text())["files"]
    return {name: xxh3 for name, _, xxh3 in files if name.endswith(".safetensors")}


def keep_only(run, step):
    """Leaves `run` as if it had been killed right after saving `step`."""
    for folder in (run / "checkpoint").glob("step-*"):
        if folder.name != f"step-{step}":
            shutil.rmtree(folder)


def assert_refused(result, *parts):
    """The user's mistake, found after the run has said what it would do: one error, on the last line."""
    assert result.returncode == 2, result.stderr
    errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and result.stderr.splitlines()[-1] == errors[0]
    for part in parts:
        assert part in errors[0]


def test_resuming_twice_equals_an_uninterrupted_run_to_the_last_bit(trine, recipe, tmp_path):  # D5, I5
    options = ["--training.steps", 20, "--checkpoint.interval", 7]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for run in (whole, parts):
        assert trine("train", recipe, *options, "--job.dump_folder", run).returncode == 0
    for step in (7, 14):
        keep_only(parts, step)
        again = trine("train", recipe, *options, "--job.dump_folder", parts)
        assert again.returncode == 0 and f"at step {step}" in again.stderr
    compared = trine("verify", "losses", whole, parts)
    assert compared.returncode == 0, compared.stdout
    assert len(steps_of(parts)) == 20
    assert hashes(whole / "checkpoint/step-20") == hashes(parts / "checkpoint/step-20")


def test_stochastic_rounding_trains_where_rounding_to_nearest_stands_still_and_resumes_exactly(trine, recipe, tmp_path):  # E8, D5
    options = ["--training.dtype", "bfloat16", "--training.mixed_precision_param", "bfloat16", "--optimizer.lr", 1e-4,
               "--lr_scheduler.warmup_steps", 0, "--training.steps", 6, "--checkpoint.interval", 3]
    whole, parts, nearest = (tmp_path / name for name in ("whole", "parts", "nearest"))
    for run in (whole, parts):
        done = trine("train", recipe, *options, "--optimizer.stochastic_rounding", "--job.dump_folder", run)
        assert done.returncode == 0 and "rounded up or down at random" in done.stderr and "round away" not in done.stderr
    keep_only(parts, 3)
    assert trine("train", recipe, *options, "--optimizer.stochastic_rounding", "--job.dump_folder", parts).returncode == 0
    assert hashes(whole / "checkpoint/step-6") == hashes(parts / "checkpoint/step-6")

    done = trine("train", recipe, *options, "--job.dump_folder", nearest)
    assert done.returncode == 0 and "round away" in done.stderr
    values = {}
    for run in (whole, nearest):
        with safe_open(run / "checkpoint/step-6/master-00000.safetensors", "pt") as file:
            values[run] = set(file.get_tensor("model.layers.0.input_layernorm.weight").tolist())
    assert values[nearest] == {1.0}  # no update of 1e-4 reaches half of the way to 255/256
    assert len(values[whole]) > 1


def test_kill_9_at_any_moment_loses_at_most_the_steps_since_the_last_save(trine, recipe, tmp_path):  # I1
    options = ["--training.steps", 30, "--checkpoint.interval", 2, "--checkpoint.keep_latest_k", 2]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert trine("train", recipe, *options, "--job.dump_folder", whole).returncode == 0
    rng = random.Random(7)
    for after in (3, 11, 20):
        process = start(recipe, *options, "--job.dump_folder", killed)
        wait_for_steps(killed, after, process)
        time.sleep(rng.random() * 0.05)
        process.kill()
        process.wait()
    assert trine("train", recipe, *options, "--job.dump_folder", killed).returncode == 0
    assert trine("verify", "losses", whole, killed).returncode == 0
    assert hashes(whole / "checkpoint/step-30") == hashes(killed / "checkpoint/step-30")
    assert sorted(f.name for f in (killed / "checkpoint").iterdir()) == ["step-28", "step-30"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_saves_and_ends_with_128_plus_its_number(trine, recipe, tmp_path, number):
    run = tmp_path / "run"
    process = start(recipe, "--training.steps", 100000, "--lr_scheduler.warmup_steps", 2, "--checkpoint.interval", 100000)
    wait_for_steps(run, 3, process)
    process.send_signal(number)
    output = process.communicate()[0]
    assert process.returncode == 128 + number
    assert number.name in output
    last = steps_of(run)[-1]["step"]
    assert (run / f"checkpoint/step-{last}/manifest.json").exists()


def test_the_time_limit_saves_and_exports_before_it_is_reached(trine, recipe, tmp_path):
    done = trine("train", recipe, "--training.steps", 1000000, "--training.time_limit", 4, "--checkpoint.interval", 1000000,
                 "--checkpoint.last_save_in_hf")
    assert done.returncode == 0 and "training.time_limit" in done.stderr
    last = steps_of(tmp_path / "run")[-1]["step"]
    assert last < 1000000
    assert (tmp_path / f"run/checkpoint/step-{last}").exists()
    assert (tmp_path / "run/export/model.safetensors").exists()


def test_the_end_of_the_data_saves(trine, recipe, tmp_path):
    done = trine("train", recipe, "--training.steps", 1000, "--dataloader.num_epochs", 1)
    assert done.returncode == 0 and "the data has ended" in done.stderr
    last = steps_of(tmp_path / "run")[-1]["step"]
    assert 0 < last < 1000
    assert (tmp_path / f"run/checkpoint/step-{last}").exists()


def test_a_run_folder_in_use_is_refused(trine, recipe, tmp_path):
    process = start(recipe, "--training.steps", 100000, "--checkpoint.interval", 100000)
    wait_for_steps(tmp_path / "run", 1, process)
    assert_user_error(trine("train", recipe), "is in use by another run", f"process {process.pid}")
    process.kill()
    process.wait()


def test_non_finite_values_stop_the_run_before_the_update_and_are_named(trine, recipe, tmp_path):
    done = trine("train", recipe, "--optimizer.lr", "1e30", "--training.max_norm", 0, "--checkpoint.interval", 1, "--lr_scheduler.warmup_steps", 0)
    assert done.returncode == 4, done.stderr
    assert "Stopped before the update" in done.stderr and "is the last good one" in done.stderr
    assert "error" in (tmp_path / "run/log.txt").read_text()


def test_expectations_are_checked_before_weights_and_before_the_first_update(trine, recipe, tmp_path):
    sizes = trine("train", recipe, "--expect.num_layers", 3, "--expect.parameters", 139712)
    assert sizes.returncode == 3
    assert "expect.num_layers = 3, but it is 2" in sizes.stderr and "expect.parameters" not in sizes.stderr
    loss = trine("train", recipe, "--expect.random_loss", 3.0)
    assert loss.returncode == 3 and "expect.random_loss = 3" in loss.stderr
    assert not list((tmp_path / "run/checkpoint").glob("step-*"))


def test_training_without_saving_warns_once_and_leaves_no_checkpoint(trine, recipe, tmp_path):
    done = trine("train", recipe, "--checkpoint.no-enable")
    assert done.returncode == 0
    assert done.stderr.count("nothing of this run is saved") == 1
    assert not (tmp_path / "run/checkpoint").exists()


def test_saving_off_in_a_folder_with_a_checkpoint_is_refused(trine, recipe):
    assert trine("train", recipe).returncode == 0
    assert_refused(trine("train", recipe, "--checkpoint.no-enable"), "holds a checkpoint", "--checkpoint.enable")


def test_a_named_but_missing_checkpoint_is_an_error(trine, recipe, tmp_path):
    missing = tmp_path / "nowhere/checkpoint/step-9"
    assert_refused(trine("train", recipe, "--checkpoint.initial_load_path", missing), str(missing))


def test_a_damaged_newest_checkpoint_is_passed_over_and_named(trine, recipe, tmp_path):  # I1, I2
    assert trine("train", recipe, "--training.steps", 12).returncode == 0
    newest = tmp_path / "run/checkpoint/step-12"
    with open(next(newest.glob("master-*")), "r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x77")
    done = trine("train", recipe, "--training.steps", 12)
    assert done.returncode == 0
    assert "step-12" in done.stderr and "resumed from" in done.stderr and "at step 8" in done.stderr


def test_a_changed_schedule_is_reported_on_resume(trine, recipe):  # I5
    assert trine("train", recipe).returncode == 0
    done = trine("train", recipe, "--training.steps", 16)
    assert done.returncode == 0 and "schedule differs" in done.stderr and "8 -> 16" in done.stderr


def test_splitting_a_batch_changes_nothing_beyond_rounding(trine, recipe, tmp_path):  # E1
    losses = []
    for local in (4, 2, 1):
        run = tmp_path / f"split-{local}"
        done = trine("train", recipe, "--job.dump_folder", run, "--training.local_batch_size", local, "--training.global_batch_size", 4)
        assert done.returncode == 0, done.stderr
        losses.append([(step["loss"], step["grad_norm"], step["tokens"]) for step in steps_of(run)])
    for split in losses[1:]:
        for (loss, norm, tokens), (other_loss, other_norm, other_tokens) in zip(losses[0], split, strict=True):
            assert loss == pytest.approx(other_loss, rel=1e-5)
            assert norm == pytest.approx(other_norm, rel=1e-4)
            assert tokens == other_tokens


def test_a_step_without_any_label_makes_no_update_and_says_so(trine, recipe, tmp_path):  # E3
    lines = [json.dumps({"text": "a"})] * 64 + [json.dumps({"text": "the rain in the land " * 40})]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    done = trine("train", recipe, "--dataloader.document_end", "none", "--dataloader.num_epochs", 1, "--dataloader.shuffle_window", 0,
                 "--training.steps", 3)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("no update is made") == 1
    assert [step["step"] for step in steps_of(tmp_path / "run")] == [1, 2, 3]


@pytest.mark.parametrize("dtype, code", [("bfloat16", "BF16"), ("float32", "F32"), ("float16", "F16")])
def test_the_export_has_the_type_asked_for_and_every_side_file(trine, recipe, tmp_path, dtype, code):  # I7, I9
    done = trine("train", recipe, "--checkpoint.last_save_in_hf", "--checkpoint.export_dtype", dtype)
    assert done.returncode == 0, done.stderr
    export = tmp_path / "run/export"
    with safe_open(export / "model.safetensors", "pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {code}
        assert file.metadata()["format"] == "pt"
    config = json.loads((export / "config.json").read_text())
    assert dtype in (config.get("dtype"), config.get("torch_dtype")) and config["tie_word_embeddings"] is False
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (export / name).read_bytes() == (tmp_path / "tokenizer" / name).read_bytes()


def test_training_goes_on_from_an_export(trine, recipe, tmp_path):
    assert trine("train", recipe, "--checkpoint.last_save_in_hf", "--checkpoint.export_dtype", "float32").returncode == 0
    done = trine("train", recipe, "--job.dump_folder", tmp_path / "next", "--checkpoint.initial_load_path", tmp_path / "run/export")
    assert done.returncode == 0, done.stderr
    assert "loaded 25/25 tensors" in done.stderr
    assert steps_of(tmp_path / "next")[0]["loss"] < steps_of(tmp_path / "run")[0]["loss"]


def test_a_tokenizer_larger_than_the_embedding_is_refused(trine, recipe):  # C8
    assert_user_error(trine("train", recipe, "--model.vocab_size", 200), "200 rows")


def test_several_ranks_are_refused_for_now(trine, recipe):
    assert_user_error(trine("train", recipe, "--ranks", 2), "cannot train on several ranks yet")


def test_training_on_chats_makes_the_export_stop_at_the_end_of_a_turn(trine, recipe, tmp_path):  # A11
    chat = {"messages": [{"role": "user", "content": "the rain"}, {"role": "assistant", "content": "in the land"}]}
    (tmp_path / "chat.jsonl").write_text((json.dumps(chat) + "\n") * 20)
    done = trine("train", recipe, "--dataloader.dataset", "chat", "--dataloader.dataset_path", tmp_path / "chat.jsonl",
                 "--training.seq_len", 128, "--checkpoint.last_save_in_hf")
    assert done.returncode == 0, done.stderr
    eos = json.loads((tmp_path / "run/export/config.json").read_text())["eos_token_id"]
    assert 264 in (eos if isinstance(eos, list) else [eos])  # <|im_end|>


def test_an_export_from_a_checkpoint_equals_the_one_at_the_end(trine, recipe, tmp_path):
    assert trine("train", recipe, "--checkpoint.last_save_in_hf").returncode == 0
    done = trine("export", tmp_path / "run", tmp_path / "again")
    assert done.returncode == 0, done.stderr
    for file in (tmp_path / "run/export").iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), file.name
    assert_user_error(trine("export", tmp_path / "tokenizer", tmp_path / "no"), "nothing to export")


def test_recomputation_changes_nothing(trine, recipe, tmp_path):
    for name, options in {"none": [], "full": ["--activation_checkpoint.mode", "full"],
                          "nth": ["--activation_checkpoint.mode", "selective", "--activation_checkpoint.selective_ac_option", 2]}.items():
        assert trine("train", recipe, "--job.dump_folder", tmp_path / name, *options).returncode == 0
    for name in ("full", "nth"):
        assert trine("verify", "losses", tmp_path / "none", tmp_path / name).returncode == 0


def test_a_chosen_step_leaves_a_trace(trine, recipe, tmp_path):
    assert trine("train", recipe, "--profiling.steps", "2").returncode == 0
    trace = json.loads((tmp_path / "run/trace-step-2.json").read_text())
    assert any("aten::" in event.get("name", "") for event in trace["traceEvents"])
    assert not (tmp_path / "run/trace-step-1.json").exists()


def test_a_trial_passes_every_stage_it_can_do_and_fails_what_is_not_as_expected(trine, recipe, tmp_path):
    folder = tmp_path / "trial"
    done = trine("trial", recipe, "--folder", folder, "--steps", 4, "--expect.num_layers", 2, "--expect.random_loss", 5.78)
    assert done.returncode == 0, done.stdout
    stages = {stage["stage"]: stage for stage in json.loads((folder / "trial.json").read_text())["stages"]}
    assert {number: stage["status"] for number, stage in stages.items()} == {
        1: "passed", 2: "passed", 3: "passed", 4: "skipped", 5: "passed", 6: "skipped", 7: "passed"}
    wrong = trine("trial", recipe, "--folder", folder, "--steps", 4, "--expect.num_layers", 3, "--expect.random_loss", 9)
    assert wrong.returncode == 3
    assert "2. model, ranks and layout: FAILED" in wrong.stdout and "3. weights in and out: FAILED" in wrong.stdout
    assert_user_error(trine("trial", recipe, "--folder", tmp_path / "tokenizer", "--expect.num_layers", 2), "holds something else")


def test_a_step_that_cannot_fit_into_memory_is_refused(trine, recipe):
    assert_user_error(trine("train", recipe, "--training.local_batch_size", 10**9), "needs", "training.local_batch_size")
