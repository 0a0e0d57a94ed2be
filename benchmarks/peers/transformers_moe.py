"""One layer's mixture of experts of Transformers' Qwen3-MoE: the peer of benchmarks/moe_bench.py; step_bench.py states the protocol.

Random weights in one dtype, forward and backward of y · dy for a random dy; gradients are dropped before each step, as zero_grad does.
"""

import argparse
import json
import sys
import time

import torch
import transformers
from transformers import Qwen3MoeConfig
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("tokens", "hidden", "experts", "top_k", "intermediate"):
        parser.add_argument(name, type=int)
    parser.add_argument("dtype", choices=["bfloat16", "float32"])
    parser.add_argument("--experts-implementation", choices=["grouped_mm", "eager", "batched_mm"], default="grouped_mm")
    return parser.parse_args()


def build_block(arguments):
    config = Qwen3MoeConfig(
        hidden_size=arguments.hidden,
        num_experts=arguments.experts,
        num_experts_per_tok=arguments.top_k,
        moe_intermediate_size=arguments.intermediate,
        norm_topk_prob=True,
    )
    config._experts_implementation = arguments.experts_implementation
    torch.manual_seed(0)
    block = Qwen3MoeSparseMoeBlock(config).to(getattr(torch, arguments.dtype))
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_(0, 0.02)
    return block


def main():
    arguments = parse_arguments()
    block = build_block(arguments)
    dtype = getattr(torch, arguments.dtype)

    def step():
        x, dy = (torch.randn(1, arguments.tokens, arguments.hidden).to(dtype) for _ in range(2))
        x.requires_grad_()
        started = time.perf_counter()
        block.zero_grad()
        y = block(x)
        middle = time.perf_counter()
        y.backward(dy)
        ended = time.perf_counter()
        return {"seconds": ended - started, "forward_seconds": middle - started, "loss": (y * dy).sum().item()}

    ready = {
        "name": f"Transformers {transformers.__version__}, torch {torch.__version__}, {arguments.experts_implementation}",
        "parameters": sum(parameter.numel() for parameter in block.parameters()),
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        if line.strip() != "step":
            sys.exit(f"unknown command {line.strip()!r}; expected step")
        print(json.dumps(step()), flush=True)


if __name__ == "__main__":
    main()
