"""`trine verify losses`: what a user sees of two runs that agree or not."""

import json

LINE = {
    "kind": "train", "step": 1, "loss": 2.5, "grad_norm": 1.0, "lr": 1e-3, "tokens": 8, "valid_tokens": 7, "tps": 1.0, "tflops": None,
    "mfu": None, "memory_gib": 1.0, "seconds": 1.0, "data_seconds": 0.0,
}  # fmt: skip


def write_run(folder, losses):
    folder.mkdir()
    lines = [json.dumps(LINE | {"step": i + 1, "loss": loss, "tps": id(loss) % 97}) for i, loss in enumerate(losses)]
    (folder / "metrics.jsonl").write_text("".join(line + "\n" for line in lines))
    return folder


def test_equal_runs_pass(trine, tmp_path):
    a, b = write_run(tmp_path / "a", [2.5, 2.25]), write_run(tmp_path / "b", [2.5, 2.25])
    result = trine("verify", "losses", a, b / "metrics.jsonl")
    assert result.returncode == 0 and "equal: 2 steps" in result.stdout


def test_the_last_bit_counts(trine, tmp_path):
    a, b = write_run(tmp_path / "a", [2.5, 2.25]), write_run(tmp_path / "b", [2.5, 2.2500000000000004])
    result = trine("verify", "losses", a, b, "--json")
    assert result.returncode == 3
    assert "step 2: loss 2.25 and 2.2500000000000004" in result.stderr
    first = json.loads(result.stdout)["first"]
    assert first == {"kind": "train", "step": 2, "field": "loss", "a": "2.25", "b": "2.2500000000000004"}


def test_a_shorter_run_differs_unless_only_common_steps_count(trine, tmp_path):
    a, b = write_run(tmp_path / "a", [2.5, 2.25]), write_run(tmp_path / "b", [2.5])
    assert trine("verify", "losses", a, b).returncode == 3
    assert trine("verify", "losses", a, b, "--common").returncode == 0


def test_a_missing_run_is_the_users_mistake(trine, tmp_path):
    result = trine("verify", "losses", tmp_path / "a", tmp_path / "b")
    assert result.returncode == 2 and str(tmp_path / "a") in result.stderr
