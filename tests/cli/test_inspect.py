"""`trine inspect`: files and folders written by the safetensors library, as a user sees them."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

TENSORS = {"b": np.zeros((2, 3), np.float32), "a": np.arange(4, dtype=np.int64), "scalar": np.array(1, np.float16)}


@pytest.fixture
def file(tmp_path):
    save_file(TENSORS, tmp_path / "model.safetensors", metadata={"format": "pt", "note": "x"})
    return tmp_path / "model.safetensors"


def test_a_file_is_listed_with_types_shapes_sizes_and_totals(trine, file):
    facts = json.loads(trine("inspect", file, "--json").stdout)
    listed = {t["name"]: (t["dtype"], t["shape"], t["bytes"]) for t in facts["tensors"]}
    assert listed == {"b": ("F32", [2, 3], 24), "a": ("I64", [4], 32), "scalar": ("F16", [], 2)}
    assert facts["values"] == 11 and facts["bytes"] == 58
    assert facts["files"][0]["metadata"] == {"format": "pt", "note": "x"}
    text = trine("inspect", file).stdout
    assert "[2, 3]" in text and "total: 3 tensors, 11 values" in text


def test_a_model_folder_names_its_model(trine, tmp_path, file):
    config = {"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
              "intermediate_size": 128, "vocab_size": 320, "max_position_embeddings": 512, "rope_theta": 1e6,
              "tie_word_embeddings": True}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = trine("inspect", tmp_path)
    assert result.returncode == 0 and "qwen3, 2 layers" in result.stdout and "119,232" in result.stdout
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "qwen2"}))
    result = trine("inspect", tmp_path)
    assert result.returncode == 0 and '"qwen2" is not supported' in result.stdout


def test_what_cannot_be_inspected_is_the_users_mistake(trine, tmp_path, file):
    assert trine("inspect", tmp_path / "absent").returncode == 2
    file.write_bytes(file.read_bytes()[:-1])
    result = trine("inspect", tmp_path)
    assert result.returncode == 2 and str(file) in result.stderr and "cut short" in result.stderr
