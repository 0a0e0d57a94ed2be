"""Tokenizer speed: Trine, `tokenizers` and `bpe-qwen` on the same documents, in alternating rounds.

Each library is called as is best for it: with one thread, a loop over documents (Trine: encode_batch by one thread; tokenizers:
encode_batch_fast without its own threads; bpe-qwen: encode), and with all threads, its batch call. The first round warms caches and is left
out. CPU time is shown beside wall time, since it says more on a machine that others use too. Ids are compared first: a library that
splits text otherwise would be measured on other work.

Usage: tokenizer_bench.py --tokenizer FOLDER [--jsonl FILE ... | TEXT_FILE ...] [--rounds N] [--driver PATH]
"""

import argparse
import importlib.util
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # tokenizers' batch call then uses the calling thread only

import numpy as np  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402


class Trine:
    name = "trine"

    def __init__(self, driver, folder, documents):
        file = tempfile.NamedTemporaryFile()
        file.write(b"\0".join(text.replace("\0", "").encode() for text in documents))
        file.flush()
        self.documents_file = file
        self.process = subprocess.Popen([driver, folder, file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()

    def one_thread(self):
        return tuple(map(float, self.tell("encode 1")))

    def all_threads(self):
        return tuple(map(float, self.tell(f"encode {os.cpu_count()}")))

    def ids(self):
        with tempfile.NamedTemporaryFile() as file:
            self.tell(f"ids {file.name}")
            flat = np.fromfile(file.name, dtype=np.int32)
        return [part[1 if i else 0 :].tolist() for i, part in enumerate(np.split(flat, np.flatnonzero(flat == -1))[:-1])]


def timed(work):
    """Wall and CPU seconds of `work()` in this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    work()
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    return wall, after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime


class Tokenizers:
    name = "tokenizers"

    def __init__(self, folder, documents):
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.documents = documents

    def one_thread(self):
        return timed(lambda: self.tokenizer.encode_batch_fast(self.documents))

    def all_threads(self):
        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        try:
            return timed(lambda: self.tokenizer.encode_batch_fast(self.documents))
        finally:
            os.environ["TOKENIZERS_PARALLELISM"] = "false"

    def ids(self):
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(self.documents)]


class BpeQwen:
    name = "bpe-qwen"

    def __init__(self, folder, documents):
        from bpe_qwen import QwenTokenizer

        model = json.loads((folder / "tokenizer.json").read_text())["model"]
        with tempfile.TemporaryDirectory() as made:  # it reads the older pair of files
            pathlib.Path(made, "vocab.json").write_text(json.dumps(model["vocab"], ensure_ascii=False))
            pairs = (merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"])
            pathlib.Path(made, "merges.txt").write_text("#version: 0.2\n" + "\n".join(pairs) + "\n")
            self.tokenizer = QwenTokenizer(made)
        self.documents = documents

    def one_thread(self):
        return timed(lambda: [self.tokenizer.encode(text) for text in self.documents])

    def all_threads(self):
        return timed(lambda: self.tokenizer.encode_batch_parallel(self.documents, os.cpu_count()))

    def ids(self):
        return [list(self.tokenizer.encode(text)) for text in self.documents]


def read_documents(arguments):
    documents = [pathlib.Path(file).read_text() for file in arguments.text]
    for file in arguments.jsonl:
        documents += [json.loads(line)["text"] for line in open(file, encoding="utf-8")]
    return documents


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("text", nargs="*")
    parser.add_argument("--jsonl", nargs="*", default=[])
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
    parser.add_argument("--driver", default=ROOT / "build/bin/tokenizer_rounds")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--documents-by-line", action="store_true", help="cut text files into documents at empty lines")
    arguments = parser.parse_args()
    documents = read_documents(arguments)
    if arguments.documents_by_line:
        documents = [part for text in documents for part in text.split("\n\n") if part]
    megabytes = sum(len(text.encode()) for text in documents) / 1e6
    print(f"{megabytes:.2f} MB in {len(documents)} documents, {os.cpu_count()} threads, {arguments.rounds} rounds after one to warm up")

    libraries = [Trine(arguments.driver, arguments.tokenizer, documents), Tokenizers(arguments.tokenizer, documents)]
    regexes = (arguments.tokenizer / "tokenizer.json").read_text()
    if r"?\\p{L}+|\\p{N}| ?" not in regexes:
        print("bpe-qwen is left out: it knows Qwen's split only")
    elif not importlib.util.find_spec("bpe_qwen"):
        print("bpe-qwen is left out: it is not installed (no release for Python 3.13)")
    else:
        libraries.append(BpeQwen(arguments.tokenizer, documents))
    reference = libraries[1].ids()
    for library in libraries:
        different = sum(ours != theirs for ours, theirs in zip(library.ids(), reference, strict=True))
        print(f"{library.name}: ids differ from tokenizers' in {different} of {len(documents)} documents")

    for kind in ("one_thread", "all_threads"):
        seconds = {library.name: [] for library in libraries}
        for round_number in range(arguments.rounds + 1):
            for library in libraries:
                took = getattr(library, kind)()
                if round_number:
                    seconds[library.name].append(took)
        wall, cpu = ({name: megabytes / statistics.median(s[i] for s in took) for name, took in seconds.items()} for i in (0, 1))
        print(f"{kind.replace('_', ' ')}:")
        for name in seconds:
            ratio = ""
            if name != "trine":
                ratio = f"trine is {wall['trine'] / wall[name]:.2f} times as fast (CPU {cpu['trine'] / cpu[name]:.2f})"
            print(f"  {name:<11} {wall[name]:7.1f} MB/s wall  {cpu[name]:7.1f} MB per CPU second  {ratio}")


if __name__ == "__main__":
    main()
