"""A training step of Transformers' Qwen3, as it comes: the peer of benchmarks/step_bench.py, whose header states the protocol.

Random weights in one dtype throughout (parameters, gradients, AdamW moments), one row, clipping at norm 1, torch's fused AdamW.
"""

import argparse
import json
import sys
import time

import torch
import transformers
from transformers import AutoModelForCausalLM, Qwen3Config


# hidden, layers, heads, key and value heads, head_dim, feed-forward, vocabulary; all tied
SHAPES = {
    "debugmodel": (256, 8, 16, 8, 128, 3072, 2048),
    "0.6B": (1024, 28, 16, 8, 128, 3072, 151936),
    "1.7B": (2048, 28, 16, 8, 128, 6144, 151936),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("flavor", choices=SHAPES)
    parser.add_argument("seq_len", type=int)
    parser.add_argument("dtype", choices=["bfloat16", "float32"])
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    parser.add_argument("--compile", action="store_true", help="torch.compile forward with loss")
    return parser.parse_args()


def build_model(arguments):
    hidden, layers, heads, kv_heads, head_dim, intermediate, vocabulary = SHAPES[arguments.flavor]
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=40960,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=getattr(torch, arguments.dtype), attn_implementation=arguments.attention).train()


def main():
    arguments = parse_arguments()
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
        if line.strip() != "step":
            sys.exit(f"unknown command {line.strip()!r}; expected step")
        print(json.dumps(step()), flush=True)


if __name__ == "__main__":
    main()
