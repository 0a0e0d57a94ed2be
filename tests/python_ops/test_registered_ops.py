"""Every operator of the namespace trine: its schema, Meta shapes, autograd and compiled form, and gradients by finite differences."""

import pytest
import torch

import op_samples
from trine_library import ops, registered_names

NAMES = registered_names()


def samples(name, dtype):
    make = getattr(op_samples, name, None)
    assert make, f"trine::{name} is registered, and op_samples.py has no sample inputs for it"
    found = [tuple(arguments) for arguments in make(dtype)]
    assert found, f"op_samples.{name} gives no samples"
    return found


def test_the_library_registers_ops():
    assert "rms_norm" in NAMES
    assert op_samples.DIFFERENTIABLE <= set(NAMES)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_op_keeps_the_promises_of_its_schema(name, dtype):
    for arguments in samples(name, dtype):
        # Compiled with dynamic shapes as well: a Meta function that reads a size as a number fails there.
        torch.library.opcheck(getattr(ops, name).default, arguments)


def is_leaf_input(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def floating(outputs):
    return tuple(y for y in ([outputs] if isinstance(outputs, torch.Tensor) else outputs) if y.is_floating_point())


@pytest.mark.parametrize("name", sorted(op_samples.DIFFERENTIABLE))
def test_gradients_equal_finite_differences(name):
    op = getattr(ops, name)
    for arguments in samples(name, torch.float64):
        assert any(map(is_leaf_input, arguments))
        # gradcheck stumbles over outputs of whole numbers, such as chosen experts.
        assert torch.autograd.gradcheck(lambda *inputs: floating(op(*inputs)), arguments, eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", sorted(op_samples.DIFFERENTIABLE))
def test_kernels_agree_with_float64(name, dtype):
    """float64 runs the plain formula of the op, the other dtypes its kernel."""
    op = getattr(ops, name)
    tolerance = {torch.float32: 2e-6, torch.bfloat16: 2e-2}[dtype]
    for arguments in samples(name, dtype):
        wide = [value.detach().double().requires_grad_() if is_leaf_input(value) else value for value in arguments]
        results = {kind: op(*inputs) for kind, inputs in (("kernel", arguments), ("float64", wide))}
        outputs = {kind: [y] if isinstance(y, torch.Tensor) else list(y) for kind, y in results.items()}
        outputs = {kind: [y for y in ys if y.requires_grad] for kind, ys in outputs.items()}
        assert len(outputs["kernel"]) == len(outputs["float64"]) > 0
        generator = torch.Generator().manual_seed(2)
        upper = [torch.randn(y.shape, generator=generator).to(y.dtype) for y in outputs["kernel"]]
        gradients = torch.autograd.grad(outputs["kernel"], list(filter(is_leaf_input, arguments)), upper)
        expected = torch.autograd.grad(outputs["float64"], list(filter(is_leaf_input, wide)), [dy.double() for dy in upper])
        for ours, reference in zip([*outputs["kernel"], *gradients], [*outputs["float64"], *expected], strict=True):
            assert ours.shape == reference.shape
            assert (ours.double() - reference).norm() <= tolerance * reference.norm()
