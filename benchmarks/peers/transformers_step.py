"""A training step of Transformers' Qwen3 at the 0.6B shape, as it comes: the peer of benchmarks/step_bench.py, whose header states the protocol.

Random weights in bfloat16 throughout (parameters, gradients, AdamW moments), one row, clipping at norm 1, torch's fused AdamW.
"""

import argparse
import json
import sys
import time

import torch
import transformers
from transformers import AutoModelForCausalLM, Qwen3Config


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--seq-len", type=int, default=512)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    parser.add_argument("--compile", action="store_true", help="torch.compile forward with loss")
    return parser.parse_args()


def build_model(arguments):
    config = Qwen3Config(
        vocab_size=151936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=arguments.layers,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40960,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation=arguments.attention).train()


def peak_bytes():
    """The peak resident size since this program started (getrusage would include the parent's before exec)."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    model = build_model(arguments)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    generator = torch.Generator().manual_seed(0)

    def forward(ids_bs):
        return model(input_ids=ids_bs, labels=ids_bs, use_cache=False).loss

    if arguments.compile:
        forward = torch.compile(forward)

    def step():
        ids_bs = torch.randint(model.config.vocab_size, (1, arguments.seq_len), generator=generator)
        started = time.perf_counter()
        loss = forward(ids_bs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss = loss.item()
        return {"seconds": time.perf_counter() - started, "loss": loss}

    name = f"Transformers {transformers.__version__}, torch {torch.__version__}, {arguments.attention}"
    ready = {
        "name": name + (", torch.compile" if arguments.compile else ""),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        command = line.strip()
        if command == "quit":
            print(json.dumps({"peak_bytes": peak_bytes()}), flush=True)
            return
        if command != "step":
            sys.exit(f"unknown command {command!r}; expected step or quit")
        print(json.dumps(step()), flush=True)


if __name__ == "__main__":
    main()
