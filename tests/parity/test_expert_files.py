"""Files of experts in the forms that Transformers and others write, read as one model: compared tensor by tensor, in every value."""

import json
import re
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from paths import BUILD_BIN
from test_model_spec import write_folder
from test_moe_spec import TINY_MOE

# gate_up_proj is not square, so that a transposed one can be told by its shape.
CONFIG = TINY_MOE | {"num_hidden_layers": 4, "mlp_only_layers": [3], "moe_intermediate_size": 24}
FUSED = re.compile(r"experts\.(gate_up|down)_proj$")


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def model(request, tmp_path):
    torch.manual_seed(3)
    return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(write_folder(tmp_path, CONFIG)), dtype=request.param)


def trine(*words):
    return subprocess.run([BUILD_BIN / "trine", *map(str, words)], capture_output=True, text=True)


def write(folder, tensors):
    folder.mkdir()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    write_folder(folder, CONFIG)
    return folder


def saved(model, folder):
    model.save_pretrained(folder)
    return folder


def in_memory(model):
    """What Transformers 5 computes with: gate_up_proj [E, 2I, H] and down_proj [E, H, I] per layer."""
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert tensors["model.layers.0.mlp.experts.gate_up_proj"].shape == (8, 48, 64)
    assert tensors["model.layers.0.mlp.experts.down_proj"].shape == (8, 64, 24)
    return tensors


def transposed(tensors):
    return {name: tensor.transpose(1, 2) if FUSED.search(name) else tensor for name, tensor in tensors.items()}


def mixed(tensors, others):
    """Layer 0 of the first form, the rest of the second."""

    def of(which, layer_0):
        return {name: tensor for name, tensor in which.items() if name.startswith("model.layers.0.") == layer_0}

    return of(tensors, True) | of(others, False)


def test_save_pretrained_writes_a_tensor_per_expert_and_trine_takes_them_all(model, tmp_path):
    folder = saved(model, tmp_path / "saved")
    names = load_file(folder / "model.safetensors").keys()
    assert "model.layers.0.mlp.experts.7.gate_proj.weight" in names and not any(FUSED.search(name) for name in names)
    report = json.loads(trine("verify", "weights", folder, "--json").stdout)
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["keys and shapes"]["passed"] and report["tensors"] == len(names)


def test_every_form_holds_the_same_values(model, tmp_path):
    folder = saved(model, tmp_path / "saved")
    separate, fused = load_file(folder / "model.safetensors"), in_memory(model)
    forms = {"fused": fused, "transposed": transposed(fused), "fused first": mixed(fused, separate),
             "transposed first": mixed(transposed(fused), fused)}  # fmt: skip
    for name, tensors in forms.items():
        other = write(tmp_path / name, tensors)
        for pair in ((folder, other), (other, folder)):
            result = trine("verify", "weights", pair[0], "--against", pair[1], "--json")
            assert result.returncode == 0, result.stderr
            report = json.loads(result.stdout)
            assert report["equal"] == report["compared"] == len(separate), name
        report = json.loads(trine("verify", "weights", other, "--json").stdout)
        checks = {check["name"]: check for check in report["checks"]}
        assert checks["keys and shapes"]["passed"] and checks["files"]["passed"], name
        assert any("fused experts of" in note for note in report["notes"])


def test_transformers_reads_the_fused_form_alike(model, tmp_path):
    """That the plain layout above is what Transformers means by it, and not only what its memory looks like."""
    folder = write(tmp_path / "fused", in_memory(model))
    again = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.equal(again[name], tensor), name


def test_inspect_shows_a_line_per_matrix_of_a_layer(model, tmp_path):
    folder = write(tmp_path / "fused", in_memory(model))
    text = trine("inspect", folder).stdout
    dtype = {torch.float32: "F32", torch.bfloat16: "BF16"}[model.dtype]
    lines = [line.split() for line in text.splitlines() if "layers.0.mlp.experts" in line and not line.startswith("note")]
    assert [(line[0], " ".join(line[1:5]), line[-1]) for line in lines] == [
        (dtype, "[64, 24] x 8", "model.layers.0.mlp.experts.{0..7}.down_proj.weight"),
        (dtype, "[24, 64] x 8", "model.layers.0.mlp.experts.{0..7}.gate_proj.weight"),
        (dtype, "[24, 64] x 8", "model.layers.0.mlp.experts.{0..7}.up_proj.weight"),
    ]
    assert "note: fused experts of 3 layers" in text
    facts = json.loads(trine("inspect", folder, "--json").stdout)
    assert len(facts["tensors"]) == len(load_file(saved(model, tmp_path / "saved") / "model.safetensors"))


def test_a_renamed_or_doubled_expert_is_named(model, tmp_path):
    separate = load_file(saved(model, tmp_path / "saved") / "model.safetensors")
    renamed = dict(separate)
    renamed["model.layers.1.mlp.experts.8.up_proj.weight"] = renamed.pop("model.layers.1.mlp.experts.2.up_proj.weight")
    result = trine("verify", "weights", write(tmp_path / "renamed", renamed))
    assert result.returncode == 3 and "1 are missing" in result.stdout and "1 are unexpected" in result.stdout
    assert "model.layers.1.mlp.experts.2.up_proj.weight" in result.stdout

    doubled = write(tmp_path / "doubled", in_memory(model) | {name: t for name, t in separate.items() if "layers.2.mlp.experts" in name})
    result = trine("verify", "weights", doubled)
    assert result.returncode == 3 and "FAIL  files" in result.stdout
    assert "model.layers.2.mlp.experts.gate_up_proj" in result.stdout and "model.layers.2.mlp.experts.{0..7}" in result.stdout
    text = trine("inspect", doubled).stdout  # can still be looked at, as it is
    assert "model.layers.2.mlp.experts.gate_up_proj" in text and "single experts of that layer too" in text


def test_a_list_of_what_only_one_side_has_is_a_line_per_matrix(model, tmp_path):
    separate = load_file(saved(model, tmp_path / "saved") / "model.safetensors")
    fewer = {name: tensor for name, tensor in separate.items() if "layers.2.mlp.experts" not in name}
    result = trine("verify", "weights", tmp_path / "saved", "--against", write(tmp_path / "fewer", fewer))
    lines = [line for line in result.stdout.splitlines() if line.startswith("only in the first")]
    assert result.returncode == 3 and len(lines) == 3
    assert "only in the first: model.layers.2.mlp.experts.{0..7}.gate_proj.weight" in lines


def checks_of(folder):
    report = json.loads(trine("verify", "weights", folder, "--json").stdout)
    return {check["name"]: check for check in report["checks"]}


def test_the_pattern_of_sparse_layers_must_be_that_of_the_files(model, tmp_path):  # A7
    folder = saved(model, tmp_path / "saved")
    config = json.loads((folder / "config.json").read_text())
    write_folder(folder, config | {"mlp_only_layers": [2]})
    check = checks_of(folder)["keys and shapes"]
    assert not check["passed"] and "decoder_sparse_step and mlp_only_layers" in check["detail"]
    missing, unexpected = re.search(r"missing: (.*)\n  unexpected: (.*)\n", check["detail"]).groups()
    assert "model.layers.3.mlp.experts.{0..7}.down_proj.weight" in missing and "model.layers.2.mlp.gate_proj.weight" in missing
    assert re.search(r"model\.layers\.2\.mlp\.experts\.\{0\.\.7\}\.\w+_proj\.weight", unexpected)


@pytest.mark.parametrize("key", ["num_experts", "num_local_experts"])
def test_the_number_of_experts_is_read_under_either_name_and_needed(model, tmp_path, key):  # A9
    folder = write(tmp_path / "fused", in_memory(model))
    config = {name: value for name, value in CONFIG.items() if name != "num_experts"}
    write_folder(folder, config | {key: 8})
    assert checks_of(folder)["keys and shapes"]["passed"]
    write_folder(folder, config | {key: 6})
    check = checks_of(folder)["keys and shapes"]
    assert not check["passed"] and "model.layers.0.mlp.experts.{6..7}.gate_proj.weight" in check["detail"]
    write_folder(folder, config)
    check = checks_of(folder)["config"]
    assert not check["passed"] and "num_experts" in check["detail"] and "num_local_experts" in check["detail"]


def test_the_head_of_a_mixture_follows_the_same_rules(model, tmp_path):  # B11
    fused, tied = in_memory(model), CONFIG | {"tie_word_embeddings": True}
    headless = {name: tensor for name, tensor in fused.items() if name != "lm_head.weight"}
    folder = write(tmp_path / "headless", headless)
    check = checks_of(folder)["keys and shapes"]
    assert not check["passed"] and "lm_head.weight" in check["detail"]
    write_folder(folder, tied)
    assert all(checks_of(folder)[name]["passed"] for name in ("keys and shapes", "tied head"))
    equal = write_folder(write(tmp_path / "equal", headless | {"lm_head.weight": fused["model.embed_tokens.weight"].clone()}), tied)
    assert checks_of(equal)["tied head"]["passed"]
    other = write_folder(write(tmp_path / "other", fused), tied)
    assert "holds other values" in checks_of(other)["tied head"]["detail"]
