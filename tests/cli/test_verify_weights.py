"""`trine verify weights`: exit codes and what is printed, on folders written by the safetensors library."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

SMOLLM2 = Path(__file__).resolve().parents[2] / "assets/smollm2-135m-instruct"


def test_published_weights_pass_every_check(trine):
    result = trine("verify", "weights", SMOLLM2)
    assert result.returncode == 0, result.stderr
    assert "FAIL" not in result.stdout and "272 of 272" in result.stdout


def test_a_failed_check_ends_with_exit_code_3_and_names_it(trine, tmp_path):
    save_file({"w": np.zeros((2, 2), np.float32)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((SMOLLM2 / "config.json").read_text())
    result = trine("verify", "weights", tmp_path, "--json")
    assert result.returncode == 3 and "failed: keys and shapes" in result.stderr
    report = json.loads(result.stdout)
    assert report["passed"] is False and report["dtypes"] == {"F32": 1}
    detail = {check["name"]: check["detail"] for check in report["checks"]}["keys and shapes"]
    assert "of 272 wanted, 272 are missing" in detail and "1 are unexpected" in detail


def write_pair(tmp_path, scale):
    a = {"x": np.arange(1, 7, dtype=np.float32).reshape(2, 3), "y": np.ones(4, np.float32)}
    for name, tensors in (("a", a), ("b", {**a, "y": a["y"] * scale})):
        (tmp_path / name).mkdir()
        save_file(tensors, tmp_path / name / "model.safetensors")
    return tmp_path / "a", tmp_path / "b"


def test_two_folders_are_compared_tensor_by_tensor(trine, tmp_path):
    a, b = write_pair(tmp_path, 1.25)
    result = trine("verify", "weights", a, "--against", b, "--json")
    assert result.returncode == 0  # how far apart is all right is for the user to say
    drifts = json.loads(result.stdout)["drifts"]
    assert drifts[0] == {"name": "y", "relative": 0.25, "largest": 0.25, "different": 4}
    assert drifts[1]["relative"] == 0
    assert trine("verify", "weights", a, "--against", b, "--tolerance", 0.3).returncode == 0
    result = trine("verify", "weights", a, "--against", b, "--tolerance", 0.2)
    assert result.returncode == 3 and "0.25 in y" in result.stderr


def test_a_tensor_that_only_one_folder_has_fails(trine, tmp_path):
    a, b = write_pair(tmp_path, 1)
    tensors = load_file(b / "model.safetensors")
    del tensors["y"]
    save_file(tensors, b / "model.safetensors")
    result = trine("verify", "weights", a, "--against", b)
    assert result.returncode == 3 and "only in the first: y" in result.stdout


def test_a_tolerance_without_a_second_folder_is_refused(trine, tmp_path):
    assert trine("verify", "weights", tmp_path, "--tolerance", 1).returncode == 2
