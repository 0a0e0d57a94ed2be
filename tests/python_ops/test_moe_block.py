"""Router and experts against Transformers' Qwen3MoeSparseMoeBlock with its plain loop over experts: outputs, gradients, loads."""

import pytest
import torch
from transformers import Qwen3MoeConfig
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

from trine_library import ops

NUM_EXPERTS = 12


def make_block(top_k, norm_topk_prob, dtype):
    config = Qwen3MoeConfig(
        hidden_size=64, num_experts=NUM_EXPERTS, num_experts_per_tok=top_k, moe_intermediate_size=40, norm_topk_prob=norm_topk_prob
    )
    config._experts_implementation = "eager"
    block = Qwen3MoeSparseMoeBlock(config)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_(0, 0.2, generator=generator)
    return block.to(dtype)


def inputs(dtype):
    generator = torch.Generator().manual_seed(4)
    return (torch.randn(2, 29, 64, generator=generator).to(dtype) for _ in range(2))


def run_theirs(block, x, dy):
    x = x.clone().requires_grad_()
    logits, _, experts = block.gate(x)
    y = block(x)
    y.backward(dy)
    gradients = {"x": x.grad, **{name: parameter.grad for name, parameter in block.named_parameters()}}
    return logits.detach(), experts, y.detach(), gradients


def run_ours(block, x, dy):
    parameters = {name: parameter.detach().clone().requires_grad_() for name, parameter in block.named_parameters()}
    x = x.clone().requires_grad_()
    x_th = x.flatten(0, 1)
    logits = x_th @ parameters["gate.weight"].t()
    weights, experts, _ = ops.router(logits, block.gate.top_k, block.gate.norm_topk_prob)
    y = ops.grouped_experts(x_th, parameters["experts.gate_up_proj"], parameters["experts.down_proj"], experts, weights).view_as(x)
    y.backward(dy)
    gradients = {"x": x.grad, **{name: parameter.grad for name, parameter in parameters.items()}}
    return logits.detach(), experts, y.detach(), gradients


def difference(ours, theirs):
    return ((ours.double() - theirs.double()).norm() / theirs.double().norm()).item()


@pytest.mark.parametrize("norm_topk_prob", [True, False])
@pytest.mark.parametrize("top_k", [1, 4, NUM_EXPERTS])
def test_fp32_outputs_gradients_and_loads_equal_transformers(top_k, norm_topk_prob):
    block = make_block(top_k, norm_topk_prob, torch.float32)
    x, dy = inputs(torch.float32)
    logits, experts, y, gradients = run_ours(block, x, dy)
    their_logits, their_experts, their_y, their_gradients = run_theirs(block, x, dy)
    assert difference(logits, their_logits) < 1e-6
    assert torch.equal(experts.flatten().bincount(minlength=NUM_EXPERTS), their_experts.flatten().bincount(minlength=NUM_EXPERTS))
    assert torch.equal(experts, their_experts)
    assert difference(y, their_y) < 1e-5
    assert set(gradients) == set(their_gradients)
    for name, gradient in gradients.items():
        if name == "gate.weight" and top_k == 1 and norm_topk_prob:  # case F2: its weight is 1 whatever the logits
            assert gradient.norm() < 1e-6 * gradients["experts.down_proj"].norm()
        else:
            assert difference(gradient, their_gradients[name]) < 1e-5, name


def test_bf16_agrees_with_transformers_within_its_rounding():
    block = make_block(4, True, torch.bfloat16)
    x, dy = inputs(torch.bfloat16)
    logits, experts, y, gradients = run_ours(block, x, dy)
    their_logits, their_experts, their_y, their_gradients = run_theirs(block, x, dy)
    assert torch.equal(logits, their_logits) and torch.equal(experts, their_experts)
    assert difference(y, their_y) < 1e-2
    for name, gradient in gradients.items():
        assert difference(gradient, their_gradients[name]) < 2e-2, name


def test_the_compiled_block_equals_the_eager_one():
    block = make_block(4, True, torch.float32)
    x, dy = inputs(torch.float32)
    eager = run_ours(block, x, dy)
    routed = torch.compile(lambda logits: ops.router(logits, 4, True), fullgraph=True, backend="aot_eager")
    experts_of = torch.compile(ops.grouped_experts, fullgraph=True, backend="aot_eager")
    parameters = {name: parameter.detach().clone().requires_grad_() for name, parameter in block.named_parameters()}
    x_th = x.flatten(0, 1)
    weights, experts, _ = routed(x_th @ parameters["gate.weight"].t())
    y = experts_of(x_th, parameters["experts.gate_up_proj"], parameters["experts.down_proj"], experts, weights)
    y.backward(dy.flatten(0, 1))
    assert torch.equal(y.view_as(x), eager[2])
    for name, parameter in parameters.items():
        assert torch.equal(parameter.grad, eager[3][name]), name
