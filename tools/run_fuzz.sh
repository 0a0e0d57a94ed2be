#!/usr/bin/env bash
# Runs every fuzz target (bin/*_fuzz) of a build folder from its seeds in tests/fuzz/seeds/NAME, if any. What is found on the way is kept in
# .cache/fuzz/NAME for the next time; a finding stops the run and stays in .cache/fuzz. Usage: tools/run_fuzz.sh BUILD_FOLDER SECONDS
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 seconds=$2
shopt -s nullglob
targets=("$build"/bin/*_fuzz)
((${#targets[@]})) || { echo "no fuzz target in $build/bin" >&2; exit 2; }
for target in "${targets[@]}"; do
  name=$(basename "$target" _fuzz)
  folders=(".cache/fuzz/$name")
  [[ -d tests/fuzz/seeds/$name ]] && folders+=("tests/fuzz/seeds/$name")
  mkdir -p "${folders[0]}"
  echo "fuzz: $name for $seconds s"
  "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix=".cache/fuzz/finding-$name-" "${folders[@]}" >".cache/fuzz/$name.log" 2>&1 || {
    tail -n 40 ".cache/fuzz/$name.log"
    echo "fuzz: $name found something; its input is .cache/fuzz/finding-$name-*" >&2
    exit 1
  }
  grep number_of_executed_units ".cache/fuzz/$name.log"
done
