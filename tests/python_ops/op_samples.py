"""Sample inputs for every registered op: test_registered_ops.py fails for one that has none.

A function per op, by its name, that takes a dtype and gives argument tuples. The public, differentiable ones are DIFFERENTIABLE: their
floating-point arguments require gradients (tables of a rotation and labels aside) and are checked against finite differences.
"""

import torch

from trine_library import ops

DIFFERENTIABLE = {
    "rms_norm", "add_rms_norm", "rope", "qk_norm_rope", "swiglu", "attention", "linear_cross_entropy", "router", "grouped_experts",
}  # fmt: skip


class Draw:
    """Numbers of one dtype from a seed, so that samples of two dtypes are the same up to rounding."""

    def __init__(self, dtype):
        self.dtype, self.generator = dtype, torch.Generator().manual_seed(1)

    def __call__(self, *shape, requires_grad=False):
        drawn = torch.randn(*shape, generator=self.generator, dtype=torch.float64).to(self.dtype)
        return drawn.requires_grad_(requires_grad)


def rotation_tables(rows, half):
    angles = torch.arange(rows).unsqueeze(1) * torch.tensor([1000.0 ** (-i / half) for i in range(half)])
    return angles.cos(), angles.sin()


POSITIONS = torch.tensor([[0, 1, 2, 0, 1], [5, 6, 0, 1, 2]])


def rms_norm(dtype, grad=True):
    draw = Draw(dtype)
    yield draw(3, 4, 8, requires_grad=grad), draw(8, requires_grad=grad), 1e-6
    yield draw(8, 5, requires_grad=grad).t(), draw(8, requires_grad=grad), 1e-5
    yield draw(0, 8, requires_grad=grad), draw(8, requires_grad=grad), 1e-6


def rms_norm_forward(dtype):
    yield from rms_norm(dtype, grad=False)


def rms_norm_backward(dtype):
    draw = Draw(dtype)
    for x, weight, eps in rms_norm(dtype, grad=False):
        yield draw(*x.shape), x, weight, ops.rms_norm_forward(x, weight, eps)[1]


def add_rms_norm(dtype, grad=True):
    draw = Draw(dtype)
    yield *(draw(3, 4, 8, requires_grad=grad) for _ in range(2)), draw(8, requires_grad=grad), 1e-6
    yield draw(8, 5, requires_grad=grad).t(), draw(5, 8, requires_grad=grad), draw(8, requires_grad=grad), 1e-6


def add_rms_norm_forward(dtype):
    yield from add_rms_norm(dtype, grad=False)


def add_rms_norm_backward(dtype):
    draw = Draw(dtype)
    for x, residual, weight, eps in add_rms_norm(dtype, grad=False):
        total, _, rstd = ops.add_rms_norm_forward(x, residual, weight, eps)
        yield draw(*x.shape), draw(*x.shape), total, weight, rstd


def rope(dtype, grad=True):
    draw = Draw(dtype)
    cos, sin = rotation_tables(7, 3)
    yield draw(2, 4, 5, 6, requires_grad=grad), cos[:5], sin[:5], None, "bhsd"
    yield draw(2, 5, 4, 6, requires_grad=grad), cos, sin, POSITIONS, "bshd"
    yield draw(2, 5, 4, 6, requires_grad=grad).transpose(1, 2), cos[POSITIONS], sin[POSITIONS], None, "bhsd"


def rope_backward(dtype):
    yield from rope(dtype, grad=False)


def qk_norm_rope(dtype, grad=True):
    draw = Draw(dtype)
    cos, sin = rotation_tables(7, 3)
    yield draw(2, 5, 4, 6, requires_grad=grad), draw(6, requires_grad=grad), cos, sin, POSITIONS, 1e-6
    yield draw(2, 5, 9, 6, requires_grad=grad)[:, :, 2:6], draw(6, requires_grad=grad), cos[:5], sin[:5], None, 1e-6


def qk_norm_rope_forward(dtype):
    yield from qk_norm_rope(dtype, grad=False)


def qk_norm_rope_backward(dtype):
    draw = Draw(dtype)
    for x, weight, cos, sin, positions, eps in qk_norm_rope(dtype, grad=False):
        y, rstd = ops.qk_norm_rope_forward(x, weight, cos, sin, positions, eps)
        yield draw(*y.shape), x, weight, cos, sin, positions, rstd


def swiglu(dtype, grad=True):
    draw = Draw(dtype)
    yield draw(3, 4, requires_grad=grad), draw(3, 4, requires_grad=grad)
    yield draw(2, 3, 8, requires_grad=grad).chunk(2, -1)
    yield draw(0, 3, requires_grad=grad), draw(0, 3, requires_grad=grad)


def swiglu_backward(dtype):
    draw = Draw(dtype)
    for gate, up in swiglu(dtype, grad=False):
        yield draw(*gate.shape), gate, up


def attention(dtype, grad=True):
    """Heads in groups, any strides, documents, and a query that sees nothing (its first visible key lies behind it)."""
    draw = Draw(dtype)
    first_visible = torch.tensor([[0, 0, 2, 2, 4], [5, 0, 0, 0, 5]])
    yield draw(2, 4, 5, 6, requires_grad=grad), *(draw(2, 2, 5, 6, requires_grad=grad) for _ in range(2))
    by_token = [draw(2, 5, heads, 8, requires_grad=grad).transpose(1, 2) for heads in (4, 2, 2)]
    yield *by_token, first_visible
    yield *(draw(1, 3, 3, 4, requires_grad=grad).transpose(2, 3) for _ in range(3)), None
    yield *(draw(0, 2, 5, 6, requires_grad=grad) for _ in range(3)), None


def attention_forward(dtype):
    yield from attention(dtype, grad=False)


def attention_backward(dtype):
    draw = Draw(dtype)
    for q, k, v, *rest in attention(dtype, grad=False):
        first_visible = rest[0] if rest else None
        out, lse = ops.attention_forward(q, k, v, first_visible)
        yield draw(*q.shape), q, k, v, out, lse, first_visible


LABELS = torch.tensor([3, -100, 0, 10, 3, -100])


def linear_cross_entropy(dtype, grad=True):
    draw = Draw(dtype)
    for reduction in ("mean", "sum", "none"):
        yield draw(6, 8, requires_grad=grad), draw(11, 8, requires_grad=grad), LABELS, -100, reduction
    yield draw(6, 8, requires_grad=grad), draw(11, 8, requires_grad=grad), torch.full((6,), -1), -1, "mean"


def linear_cross_entropy_forward(dtype):
    for x, weight, labels, ignore_index, _ in linear_cross_entropy(dtype, grad=False):
        yield x, weight, labels, ignore_index


def linear_cross_entropy_backward(dtype):
    draw = Draw(torch.float32)
    for x, weight, labels, ignore_index in linear_cross_entropy_forward(dtype):
        lse = ops.linear_cross_entropy_forward(x, weight, labels, ignore_index)[1]
        yield draw(6).to(lse.dtype), x, weight, labels, lse, ignore_index


def router(dtype, grad=True):
    draw = Draw(dtype)
    yield draw(5, 7, requires_grad=grad), 3, True
    yield draw(7, 4, requires_grad=grad).t(), 2, False
    yield draw(5, 7, requires_grad=grad), 7, True, Draw(torch.float32)(7), False
    yield draw(5, 7, requires_grad=grad), 3, True, None, True
    yield draw(0, 7, requires_grad=grad), 3, True


def router_backward(dtype):
    draw = Draw(torch.float64 if dtype == torch.float64 else torch.float32)
    for logits, top_k, norm_topk_prob, *_ in router(dtype, grad=False):
        weights, experts, probs = ops.router(logits, top_k, norm_topk_prob)
        yield draw(*weights.shape), draw(*probs.shape), probs, experts, norm_topk_prob


def grouped_experts(dtype, grad=True):
    """Experts without tokens (1 and 3 of 4), all choices on one, no tokens at all; views."""
    draw, draw_weights = Draw(dtype), Draw(torch.float64 if dtype == torch.float64 else torch.float32)

    def stacks():
        return draw(4, 6, 5, requires_grad=grad), draw(4, 5, 3, requires_grad=grad)

    some, one, none = torch.tensor([[0, 2], [2, 0], [2, 2]]), torch.full((3, 1), 3), torch.empty(0, 2, dtype=torch.int64)
    yield draw(3, 5, requires_grad=grad), *stacks(), some, draw_weights(3, 2, requires_grad=grad)
    yield draw(5, 3, requires_grad=grad).t(), *stacks(), one, draw_weights(1, 3, requires_grad=grad).t()
    yield draw(0, 5, requires_grad=grad), *stacks(), none, draw_weights(0, 2, requires_grad=grad)


def grouped_experts_forward(dtype):
    yield from grouped_experts(dtype, grad=False)


def grouped_experts_backward(dtype):
    draw = Draw(dtype)
    for inputs in grouped_experts(dtype, grad=False):
        yield draw(*inputs[0].shape), *inputs, ops.grouped_experts_forward(*inputs)[1]


def grouped_experts_backward_into(dtype):
    for add, arguments in zip([False, True, True], grouped_experts_backward(dtype)):
        gate_up, down = arguments[2:4]
        yield *arguments, torch.zeros_like(gate_up), add, torch.zeros_like(down), not add


def adamw_(dtype):
    """Parameters, gradients and moments of every dtype they come in together; with and without random rounding of a bf16 parameter."""
    draw, wide = Draw(dtype), Draw(torch.float32)
    settings = (3e-3, 0.9, 0.95, 1e-8, 0.1)
    yield draw(3, 4), draw(3, 4), draw(3, 4), draw(3, 4).square(), 1, *settings
    yield draw(7), wide(7), wide(7), wide(7).square(), 5, *settings, 0.5
    yield draw(0), draw(0), draw(0), draw(0), 1, *settings
    if dtype == torch.bfloat16:
        yield draw(3, 4), draw(3, 4), wide(3, 4), wide(3, 4).square(), 2, *settings, 1.0, 2**63 - 1, 1000


def grad_norm(dtype):
    draw = Draw(dtype)
    yield ([draw(3, 4), draw(5, 2).t(), draw(0), Draw(torch.float32)(7)],)
