"""Times a training step of Trine and of Transformers side by side: Qwen3-0.6B, one row of 512 tokens, bfloat16 throughout.

The two run as processes at the same time and take turns, step by step, so that a change of the machine's speed meets both. Each
speaks this protocol, one line of JSON per answer on standard output:

    start       PROGRAM FLAVOR SEQ_LEN DTYPE, with OMP_NUM_THREADS set
                builds the model from random weights, then prints {"name": TEXT, "parameters": N, "threads": T}
    "step\n"    runs one whole step (forward, backward, clipping, AdamW) on random tokens, then prints {"seconds": X, "loss": Y}
    end of input: the program ends

Peak memory is the process's VmHWM after its last step, read here for both. The first steps (--skip) touch memory for the first time and are
left out. The verdict is a ratio of medians over the same turns; the JSON under benchmarks/results/ has every step.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PEER = [sys.executable, str(ROOT / "benchmarks" / "peers" / "transformers_step.py")]
# Keeps glibc from giving memory back to the system between steps, and torch from small pages: the peer at its best, when asked for.
TUNED_MALLOC = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "99999999999",
    "MALLOC_TOP_PAD_": "268435456",
    "THP_MEM_ALLOC_ENABLE": "1",
}
SETTLE_SECONDS = 0.2  # idle threads of the one that has just run still spin for a moment


class Contestant:
    def __init__(self, key, command, environment):
        self.key, self.steps, self.losses = key, [], []
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
        self.facts = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.key} ended with code {self.process.wait()} before it answered")
        return json.loads(line)

    def step(self):
        time.sleep(SETTLE_SECONDS)
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        result = self.answer()
        self.steps.append(result["seconds"])
        self.losses.append(result["loss"])

    def finish(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            self.peak_bytes = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
        self.process.stdin.close()
        self.process.wait()

    def summary(self, skip, seq_len):
        kept = self.steps[skip:]
        return {
            **self.facts,
            "median_seconds": statistics.median(kept),
            "min_seconds": min(kept),
            "tokens_per_second": seq_len / statistics.median(kept),
            "peak_bytes": self.peak_bytes,
            "seconds": self.steps,
            "losses": self.losses,
        }


def cpu_name():
    with open("/proc/cpuinfo") as info:
        return next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), platform.machine())


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=6, help="steps of each side, those left out included")
    parser.add_argument("--skip", type=int, default=2, help="first steps left out of the figures")
    parser.add_argument("--flavor", default="0.6B", help="one that both sides know: 0.6B, 1.7B, debugmodel")
    parser.add_argument("--seq-len", type=int, default=512)
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16", help="of parameters, gradients and moments")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--trine", type=pathlib.Path, default=ROOT / "build" / "bin" / "step_bench_trine")
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa", help="the peer's attention")
    parser.add_argument("--compile", action="store_true", help="the peer under torch.compile")
    parser.add_argument("--tuned-malloc", action="store_true", help="the peer with glibc's allocator tuned")
    parser.add_argument("--peer-only", action="store_true", help="time the peer alone")
    arguments = parser.parse_args()
    if arguments.steps <= arguments.skip:
        parser.error(f"--steps {arguments.steps} leaves nothing after --skip {arguments.skip}")
    if not arguments.peer_only and not arguments.trine.exists():
        parser.error(f"{arguments.trine} does not exist; build it with `make build`, or give --peer-only")
    return arguments


def main():
    arguments = parse_arguments()
    what = [arguments.flavor, str(arguments.seq_len), arguments.dtype]
    environment = {"OMP_NUM_THREADS": str(arguments.threads)}
    peer_options = ["--attention", arguments.attention, *(["--compile"] if arguments.compile else [])]
    contestants = [Contestant("peer", [*PEER, *what, *peer_options], environment | (TUNED_MALLOC if arguments.tuned_malloc else {}))]
    if not arguments.peer_only:
        contestants.append(Contestant("trine", [str(arguments.trine), *what], environment))
    if len({contestant.facts["parameters"] for contestant in contestants}) > 1:
        sys.exit("the two sides built different models: " + ", ".join(f"{c.key} {c.facts['parameters']:,}" for c in contestants))
    for number in range(arguments.steps):
        for contestant in contestants:
            contestant.step()
        times = "  ".join(f"{contestant.key} {contestant.steps[-1]:.3f} s" for contestant in contestants)
        print(f"step {number + 1}/{arguments.steps}: {times}{'  (left out)' if number < arguments.skip else ''}", flush=True)
    for contestant in contestants:
        contestant.finish()

    results = {contestant.key: contestant.summary(arguments.skip, arguments.seq_len) for contestant in contestants}
    report = {"date": datetime.datetime.now().isoformat(timespec="seconds"), "cpu": cpu_name(), "arguments": vars(arguments), **results}
    print(f"\n{report['cpu']}, {arguments.threads} threads, {arguments.flavor}, {arguments.seq_len} tokens, {arguments.dtype}")
    for result in results.values():
        print(
            f"{result['name']}: median {result['median_seconds']:.3f} s, fastest {result['min_seconds']:.3f} s, "
            f"{result['tokens_per_second']:.1f} tokens/s, peak {result['peak_bytes'] / 2**30:.2f} GiB"
        )
    if "trine" in results:
        peer, trine = results["peer"], results["trine"]
        report["speed_ratio"] = peer["median_seconds"] / trine["median_seconds"]
        report["memory_ratio"] = trine["peak_bytes"] / peer["peak_bytes"]
        print(f"Trine is {report['speed_ratio']:.2f} times as fast and takes {report['memory_ratio']:.2f} of the memory")
    folder = ROOT / "benchmarks" / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"step_bench-{datetime.datetime.now():%Y%m%d-%H%M%S}.json"
    path.write_text(json.dumps(report, indent=2, default=str) + "\n")
    print(f"every step: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
