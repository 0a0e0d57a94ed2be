# Front door: `make demo`, `make test`. Everything is done by tools/, CMake and CTest; this names the ways in.
#   TORCH=2.14.1   builds against another torch than the pinned one      PREFIX=/usr/local   where `make install` puts things
SHELL := /bin/bash
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
BENCH_STEPS ?= 6
TORCH ?=

.PHONY: demo test build setup bench fuzz asan install clean

demo: build ## train a tiny Qwen3 on the sample corpus, then generate from its export
	@rm -rf runs/demo
	build/bin/trine train recipes/quickstart.toml --job.dump_folder runs/demo
	build/bin/trine generate runs/demo/export --prompt "In the beginning" --temperature 0.8 --top-k 40 --seed 1 --max-new-tokens 60

test: build ## every test; the last line is the total
	@.venv/bin/python tools/run_tests.py build

build: setup ## build/bin/trine and the tests
	@tools/build.sh release

setup: ## Debian packages, .venv, assets/
	@tools/setup.sh $(TORCH)

bench: build ## a Qwen3-0.6B training step beside Transformers, tokenizer speed beside tokenizers and bpe-qwen
	.venv/bin/python benchmarks/step_bench.py --steps $(BENCH_STEPS)
	.venv/bin/python benchmarks/tokenizer_bench.py --tokenizer assets/qwen3-tokenizer --jsonl assets/sample/train.jsonl

asan: setup ## every C++ test under the address and undefined-behaviour sanitizers
	@tools/build.sh asan
	ctest --test-dir build/asan --output-on-failure

fuzz: setup ## every fuzz target for FUZZ_SECONDS
	@tools/build.sh asan $(patsubst tests/fuzz/%.cpp,%,$(wildcard tests/fuzz/*_fuzz.cpp))
	@tools/run_fuzz.sh build/asan $(FUZZ_SECONDS)

install: build ## the program and its libtorch under PREFIX
	cmake --install build --prefix $(PREFIX)

clean: ## build/ only; .venv, assets/ and runs/ stay
	rm -rf build
