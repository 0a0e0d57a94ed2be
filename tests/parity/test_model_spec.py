"""The spec tree, the rotary frequencies and the written config.json against Transformers, without any weights."""

import json
import subprocess

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from paths import BUILD_BIN

TINY = {
    "model_type": "qwen3", "vocab_size": 320, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": False,
    "max_position_embeddings": 4096, "eos_token_id": [258, 257],
}  # fmt: skip
LLAMA = {key: value for key, value in TINY.items() if key != "head_dim"} | {"model_type": "llama"}
CONFIGS = {
    "qwen3 untied": TINY,
    "qwen3 tied": TINY | {"tie_word_embeddings": True},
    "qwen3 without tie_word_embeddings": {key: value for key, value in TINY.items() if key != "tie_word_embeddings"},
    "qwen3 without head_dim": {key: value for key, value in TINY.items() if key != "head_dim"},
    "qwen3 with all heads for keys": TINY | {"num_key_value_heads": None},
    "llama": LLAMA,
    "llama with head_dim": LLAMA | {"head_dim": 24, "tie_word_embeddings": True},
    "llama without num_key_value_heads": {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"},
    "qwen3 with defaults for sizes": {"model_type": "qwen3", "rope_theta": 1e6},
    "llama with defaults for sizes": {"model_type": "llama", "rope_theta": 1e4},
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
ROPES = {
    "default": {},
    "linear": {"rope_type": "linear", "factor": 3.0},
    "yarn": YARN,
    "yarn of the Qwen3 page": YARN | {"original_max_position_embeddings": 32768},
    "yarn, attention_factor": YARN | {"attention_factor": 1.0},
    "yarn, mscale": YARN | {"mscale": 0.707, "mscale_all_dim": 1.2},
    "yarn, betas": YARN | {"beta_fast": 8, "beta_slow": 2},
    "yarn, not truncated": YARN | {"truncate": False},
    "yarn, factor null": YARN | {"factor": None},
    "yarn, length of the model": {"rope_type": "yarn", "factor": 2.0},
    "yarn, old names": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
    "llama3": LLAMA3,
    "llama3, uneven": LLAMA3 | {"factor": 32.0, "high_freq_factor": 3.0, "original_max_position_embeddings": 500},
}


def write_folder(folder, config):
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def spec_of(folder):
    result = subprocess.run([BUILD_BIN / "model_spec_as_json", folder / "config.json"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_names_and_shapes_equal_transformers(tmp_path, config):
    folder = write_folder(tmp_path, config)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    expected = {name: list(parameter.shape) for name, parameter in model.named_parameters()}  # a tied head is not listed again
    spec = spec_of(folder)
    assert spec["shapes"] == expected
    assert spec["parameters"] == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("head_dim", [32, 96, 128])
@pytest.mark.parametrize("theta", [1e4, 5e5, 1e6])
@pytest.mark.parametrize("rope", ROPES.values(), ids=ROPES.keys())
def test_rotary_frequencies_equal_transformers(tmp_path, rope, theta, head_dim):
    scaling = {"rope_scaling": rope} if rope else {}
    folder = write_folder(tmp_path, TINY | scaling | {"head_dim": head_dim, "rope_theta": theta})
    config = AutoConfig.from_pretrained(folder)
    rope_type = config.rope_parameters["rope_type"]
    if rope_type == "default":
        from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

        inv_freq, scaling = Qwen3RotaryEmbedding.compute_default_rope_parameters(config)
    else:
        inv_freq, scaling = ROPE_INIT_FUNCTIONS[rope_type](config)
    spec = spec_of(folder)
    ours = torch.tensor(spec["inv_freq_bits"], dtype=torch.int64)
    theirs = inv_freq.view(torch.int32).to(torch.int64)
    # torch's vectorised power is now and then one unit off the correctly rounded one, on which ours stands; through 1/x and the
    # mixing of two frequencies that grows to two. Everything else is the same operation in the same order.
    off = (ours - theirs).abs()
    assert off.max() <= 2, off
    assert (off != 0).sum() <= 2, off
    assert spec["attention_scaling"] == scaling


@pytest.mark.parametrize("flavor", ["tiny", "debugmodel", "0.6B", "4B", "8B", "32B"])
def test_transformers_opens_the_config_of_a_flavor(tmp_path, flavor):
    command = [BUILD_BIN / "model_spec_as_json", "--write", flavor, "bfloat16"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (tmp_path / "config.json").write_text(text)
    config = AutoConfig.from_pretrained(tmp_path)
    assert config.architectures == ["Qwen3ForCausalLM"] and config.dtype == torch.bfloat16
    assert config.tie_word_embeddings == json.loads(text)["tie_word_embeddings"]
    assert config.rope_parameters["rope_theta"] == 1e6
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert {name: list(p.shape) for name, p in model.named_parameters()} == spec_of(tmp_path)["shapes"]


def test_transformers_reads_a_rewritten_config_as_the_source(tmp_path):
    source = TINY | {"rope_scaling": YARN, "torch_dtype": "bfloat16", "architectures": ["Qwen3ForCausalLM"], "pad_token_id": 3}
    folder = write_folder(tmp_path, source)
    before = AutoConfig.from_pretrained(folder).to_dict()
    command = [BUILD_BIN / "model_spec_as_json", "--rewrite", folder / "config.json", "float32"]
    (folder / "config.json").write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    after = AutoConfig.from_pretrained(folder).to_dict()
    assert after.pop("dtype") == "float32" and before.pop("dtype") == "bfloat16"
    assert after == before
