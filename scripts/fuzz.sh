#!/usr/bin/env bash
# fuzz.sh [SECONDS]: builds the fuzzers of everything that parses bytes from outside and runs each for that long (30),
# as many at a time as there are cores. What they find is kept in build/fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-30}
targets=()
for source in test/fuzz/*.cpp; do
  targets+=("fuzz-$(basename "$source" .cpp)")
done
all=("${targets[@]}" fuzz-tokenizer)
scripts/build.sh fuzz "${targets[@]}"
scripts/build.sh dev IntarsiaPython
rm -rf build/fuzz/findings
mkdir -p build/fuzz/findings

fuzz() { # target
  if [ "$1" = fuzz-tokenizer ]; then # Python reads those
    PYTHONPATH=build/dev/python .venv/bin/python test/fuzz/tokenizer.py "$seconds"
    return
  fi
  local name=$1 seeds=test/fuzz/corpus/${1#fuzz-} grown=build/fuzz/grown/$1 log=build/fuzz/$1.log
  [ -n "$(ls -A "$seeds")" ] || { echo "error: no seeds in $seeds" >&2; return 1; }
  mkdir -p "$grown"
  # Deep and quadratic inputs are longer than seeds; what is read up to a limit of its own needs no more.
  local longest=$((1 << 20))
  case $name in
  fuzz-npy | fuzz-sequence) longest=$((1 << 16)) ;;
  fuzz-catalogue | fuzz-efficiency) longest=$((1 << 17)) ;;
  esac
  if ! "build/fuzz/bin/$name" -max_total_time="$seconds" -max_len="$longest" -len_control=0 -timeout=10 \
      -rss_limit_mb=2048 -print_final_stats=1 -close_fd_mask=1 \
      -artifact_prefix="build/fuzz/findings/$name-" "$grown" "$seeds" </dev/null >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "error: $name found something, see build/fuzz/findings" >&2
    return 1
  fi
  echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s," \
    "$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1) edges reached, nothing found"
}
export -f fuzz
export seconds
echo "==> Fuzzing ${#all[@]} parsers, $seconds s each"
printf '%s\n' "${all[@]}" | xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'fuzz {}'
