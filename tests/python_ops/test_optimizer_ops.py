"""adamw_ against torch's optimizer, grad_norm against its clipping."""

import pytest
import torch

from trine_library import ops

SETTINGS = dict(lr=3e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1)


def torch_adamw(parameter):
    return torch.optim.AdamW([parameter], lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-14), (torch.float32, 2e-6)], ids=str)
def test_adamw_equals_torchs(dtype, tolerance):
    generator = torch.Generator().manual_seed(1)
    ours = torch.randn(31, 17, generator=generator, dtype=torch.float64).to(dtype)
    theirs = torch.nn.Parameter(ours.double())
    exp_avg, exp_avg_sq = torch.zeros_like(ours), torch.zeros_like(ours)
    optimizer = torch_adamw(theirs)
    for step in range(1, 31):
        gradient = torch.randn(31, 17, generator=generator, dtype=torch.float64).to(dtype)
        theirs.grad = gradient.double()
        optimizer.step()
        ops.adamw_(ours, gradient, exp_avg, exp_avg_sq, step, **SETTINGS)
    state = optimizer.state[theirs]
    for mine, yours in ((ours, theirs), (exp_avg, state["exp_avg"]), (exp_avg_sq, state["exp_avg_sq"])):
        assert (mine.double() - yours).norm() <= tolerance * yours.norm()


def test_adamw_is_an_in_place_op_of_autograd():
    """A value that backward needs is known to have changed, and what requires gradients is only updated under no_grad."""
    weight = torch.ones(4, requires_grad=True)
    loss = (weight * weight).sum()
    moments = torch.zeros(4), torch.zeros(4)
    with pytest.raises(RuntimeError, match="no_grad"):
        ops.adamw_(weight, torch.ones(4), *moments, 1, **SETTINGS)
    with torch.no_grad():
        ops.adamw_(weight, torch.ones(4), *moments, 1, **SETTINGS)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_compiled_update_equals_an_eager_one():
    generator = torch.Generator().manual_seed(1)
    results = []
    start, gradient = torch.randn(2, 600, generator=generator).bfloat16()
    for wrap in (lambda f: f, lambda f: torch.compile(f, fullgraph=True, backend="aot_eager")):
        weight, exp_avg, exp_avg_sq = start.clone(), torch.zeros(600), torch.zeros(600)

        @wrap
        def update(weight, gradient, exp_avg, exp_avg_sq):
            ops.adamw_(weight, gradient * 2, exp_avg, exp_avg_sq, 3, **SETTINGS, rounding_seed=5)
            return weight * 2

        results.append((update(weight, gradient, exp_avg, exp_avg_sq), weight, exp_avg, exp_avg_sq))
    for eager, compiled in zip(*results, strict=True):
        assert torch.equal(eager, compiled)
    assert not torch.equal(results[0][1], start)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_grad_norm_is_that_of_torchs_clipping(dtype):
    generator = torch.Generator().manual_seed(1)
    parameters = [torch.nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in ((300, 70), (5,), (0, 3), (4, 4, 4))]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(dtype)
    norm = ops.grad_norm([parameter.grad for parameter in parameters])
    assert norm.dtype == torch.float64 and norm.shape == ()
    theirs = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    assert norm.item() == pytest.approx(theirs.item(), rel=1e-12 if dtype == torch.float64 else 1e-6)


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan"), 2e19])
def test_grad_norm_is_as_bad_as_torchs(bad):
    parameter = torch.nn.Parameter(torch.zeros(100))
    parameter.grad = torch.ones(100)
    parameter.grad[57] = bad
    norm = ops.grad_norm([parameter.grad])
    theirs = torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    assert norm.item() == theirs.item() or (norm.isnan() and theirs.isnan())
    assert not norm.isfinite()
