"""A mixture of experts against Transformers, without training: names and shapes of the files it saves, which layers have experts,
config.json both ways."""

import json
import subprocess

import pytest
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM

from paths import BUILD_BIN
from test_model_spec import TINY, spec_of, write_folder

TINY_MOE = TINY | {
    "model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True,
    "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
WITHOUT_PATTERN = {key: value for key, value in TINY_MOE.items() if key not in ("decoder_sparse_step", "mlp_only_layers")}
CONFIGS = {
    "Tm": TINY_MOE,
    "tied": TINY_MOE | {"tie_word_embeddings": True},
    "step 2 (case A7)": TINY_MOE | {"num_hidden_layers": 4, "decoder_sparse_step": 2},
    "step 2, layer 3 dense (case A7)": TINY_MOE | {"num_hidden_layers": 4, "decoder_sparse_step": 2, "mlp_only_layers": [3]},
    "layer 0 dense": TINY_MOE | {"mlp_only_layers": [0]},
    "no pattern": WITHOUT_PATTERN,
    "null pattern": TINY_MOE | {"mlp_only_layers": None},
}


def saved_tensors(folder):
    shapes, data = {}, {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            for name in opened.keys():
                data[name] = opened.get_tensor(name)
                shapes[name] = list(data[name].shape)
    return shapes, data


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_names_and_shapes_equal_those_of_files_that_transformers_saves(tmp_path, config):
    folder = write_folder(tmp_path, config)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    (tmp_path / "saved").mkdir()
    model.save_pretrained(tmp_path / "saved")
    shapes, _ = saved_tensors(tmp_path / "saved")
    for described in (folder, tmp_path / "saved"):  # ours, and Transformers' own config.json (num_local_experts, case A9)
        spec = spec_of(described)
        assert spec["shapes"] == shapes
        assert spec["parameters"] == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("flavor", ["tiny_moe", "debugmodel_moe", "30B-A3B", "235B-A22B", "30B-A3B-4L64E"])
def test_transformers_opens_the_config_of_a_flavor(tmp_path, flavor):
    command = [BUILD_BIN / "model_spec_as_json", "--write", flavor, "bfloat16"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (tmp_path / "config.json").write_text(text)
    config = AutoConfig.from_pretrained(tmp_path)
    assert config.architectures == ["Qwen3MoeForCausalLM"] and config.dtype == torch.bfloat16
    assert config.rope_parameters["rope_theta"] == 1e6 and config.norm_topk_prob is True
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    spec = spec_of(tmp_path)
    assert spec["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    # Transformers holds the experts of a layer as two tensors, our names summed up by layer.
    assert values_by_layer(spec["shapes"]) == values_by_layer({name: list(p.shape) for name, p in model.named_parameters()})


def values_by_layer(shapes):
    result = {}
    for name, shape in shapes.items():
        part = name.split(".experts.")[0]
        result[part] = result.get(part, 0) + torch.Size(shape).numel()
    return result


@pytest.mark.parametrize("key", ["num_experts", "num_local_experts"])
def test_transformers_reads_a_rewritten_config_as_the_source(tmp_path, key):
    source = {name: value for name, value in TINY_MOE.items() if name != "num_experts"} | {key: 8, "torch_dtype": "bfloat16"}
    folder = write_folder(tmp_path, source)
    before = AutoConfig.from_pretrained(folder).to_dict()
    command = [BUILD_BIN / "model_spec_as_json", "--rewrite", folder / "config.json", "bfloat16"]
    rewritten = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (json.loads(rewritten)[key]) == 8
    (folder / "config.json").write_text(rewritten)
    assert AutoConfig.from_pretrained(folder).to_dict() == before
