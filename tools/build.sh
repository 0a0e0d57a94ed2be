#!/usr/bin/env bash
# Configures (once) and builds a preset of CMakePresets.json. Usage: tools/build.sh release|debug|asan [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
folder=build
[[ $preset == release ]] || folder=build/$preset

# A torch file takes about 1.5 GB to compile: no more jobs than the memory holds.
cores=$(nproc)
fitting=$(awk '/MemAvailable/ { print int($2 / 1572864) }' /proc/meminfo)
jobs=$((fitting < 1 ? 1 : fitting < cores ? fitting : cores))

# CMake remembers which torch it found; another one in .venv means to configure again.
torch=$(sed -n "s/^__version__ = '\(.*\)'/\1/p" .venv/lib/python3*/site-packages/torch/version.py)
if [[ ! -f $folder/build.ninja || ! -f $folder/torch.stamp || $(<"$folder/torch.stamp") != "$torch" ]]; then
  mkdir -p "$folder"
  cmake --preset "$preset" >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log"; exit 1; }
  printf '%s' "$torch" >"$folder/torch.stamp"
fi
exec ninja -C "$folder" -j "$jobs" "$@"
