"""Times one layer's mixture of experts in Trine and in Transformers side by side: router, experts, forward and backward, bfloat16.

The shape is that of Qwen3-30B-A3B with half of its experts and choices: hidden 2048, 64 experts of 768, 4 for each token. Tokens, and so
the routing, are new in every step. The two sides take turns, step by step, under step_bench.py's protocol; figures of a shape are medians
over the same turns. The JSON under benchmarks/results/ has every step.
"""

import argparse
import datetime
import json
import os
import pathlib
import sys

from step_bench import ROOT, TUNED_MALLOC, Contestant, cpu_name

PEER = [sys.executable, str(ROOT / "benchmarks" / "peers" / "transformers_moe.py")]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--experts", type=int, default=64)
    parser.add_argument("--top-k", type=int, default=4)
    parser.add_argument("--intermediate", type=int, default=768)
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--steps", type=int, default=8, help="steps of each side, those left out included")
    parser.add_argument("--skip", type=int, default=2, help="first steps left out of the figures")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--trine", type=pathlib.Path, default=ROOT / "build" / "bin" / "moe_bench_trine")
    parser.add_argument("--experts-implementation", choices=["grouped_mm", "eager", "batched_mm"], default="grouped_mm", help="the peer's")
    parser.add_argument("--tuned-malloc", action="store_true", help="the peer with glibc's allocator tuned")
    arguments = parser.parse_args()
    if arguments.steps <= arguments.skip:
        parser.error(f"--steps {arguments.steps} leaves nothing after --skip {arguments.skip}")
    if not arguments.trine.exists():
        parser.error(f"{arguments.trine} does not exist; build it with `make build`")
    return arguments


def measure(arguments, tokens):
    shape = [str(size) for size in (tokens, arguments.hidden, arguments.experts, arguments.top_k, arguments.intermediate)]
    environment = {"OMP_NUM_THREADS": str(arguments.threads)}
    peer = [*PEER, *shape, arguments.dtype, "--experts-implementation", arguments.experts_implementation]
    contestants = [
        Contestant("peer", peer, environment | (TUNED_MALLOC if arguments.tuned_malloc else {})),
        Contestant("trine", [str(arguments.trine), *shape, arguments.dtype], environment),
    ]
    if len({contestant.facts["parameters"] for contestant in contestants}) > 1:
        sys.exit("the two sides built different layers: " + ", ".join(f"{c.key} {c.facts['parameters']:,}" for c in contestants))
    for number in range(arguments.steps):
        for contestant in contestants:
            contestant.step()
        times = "  ".join(f"{contestant.key} {contestant.steps[-1]:.3f} s" for contestant in contestants)
        print(f"{tokens} tokens, step {number + 1}/{arguments.steps}: {times}{'  (left out)' if number < arguments.skip else ''}", flush=True)
    for contestant in contestants:
        contestant.finish()
    return {contestant.key: contestant.summary(arguments.skip, tokens) for contestant in contestants}


def main():
    arguments = parse_arguments()
    report = {"date": datetime.datetime.now().isoformat(timespec="seconds"), "cpu": cpu_name(), "arguments": vars(arguments)}
    report["tokens"] = {}
    for tokens in arguments.tokens:
        result = measure(arguments, tokens)
        ratio = result["peer"]["median_seconds"] / result["trine"]["median_seconds"]
        report["tokens"][tokens] = {**result, "speed_ratio": ratio}
        for side in result.values():
            print(f"  {side['name']}: {side['tokens_per_second']:,.0f} tokens/s, peak {side['peak_bytes'] / 2**30:.2f} GiB")
        print(f"  Trine is {ratio:.2f} times as fast")
    folder = ROOT / "benchmarks" / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"moe_bench-{datetime.datetime.now():%Y%m%d-%H%M%S}.json"
    path.write_text(json.dumps(report, indent=2, default=str) + "\n")
    print(f"{report['cpu']}, {arguments.threads} threads; every step: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
