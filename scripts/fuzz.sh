#!/usr/bin/env bash
# fuzz.sh SECONDS [compiler | NAME…]: builds the fuzzers of everything that parses external bytes and runs each for that
# long, as many at a time as there are cores: those that need no MLIR; those of the compiler, which are a long build; or
# some by name. Findings are kept in build/fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: fuzz.sh SECONDS [compiler | NAME…]}
shift
namesIn() { # folder
  basename -a -s .cpp "$1"/*.cpp
}
names=("$@")
case "$*" in
"") mapfile -t names < <(namesIn test/fuzz; echo tokenizer) ;;
compiler) mapfile -t names < <(namesIn test/fuzz/compiler) ;;
esac
base=() compiler=()
for name in "${names[@]}"; do
  if [ -f "test/fuzz/compiler/$name.cpp" ]; then
    compiler+=("fuzz-$name")
  elif [ -f "test/fuzz/$name.cpp" ]; then
    base+=("fuzz-$name")
  elif [ "$name" != tokenizer ]; then
    echo "error: there is no fuzzer '$name'; test/fuzz has them" >&2
    exit 1
  fi
done
[ ${#base[@]} -eq 0 ] || scripts/build.sh fuzz "${base[@]}"
[ ${#compiler[@]} -eq 0 ] || scripts/build.sh fuzz-compiler "${compiler[@]}"
scripts/build.sh dev IntarsiaPython
mkdir -p build/fuzz/findings

fuzz() { # target
  if [ "$1" = tokenizer ]; then # this fuzzer is in Python
    PYTHONPATH=build/dev/python .venv/bin/python test/fuzz/tokenizer.py "$seconds"
    return
  fi
  local name=fuzz-$1 seeds=test/fuzz/corpus/$1 grown=build/fuzz/grown/fuzz-$1 log=build/fuzz/fuzz-$1.log
  local program=build/fuzz/bin/$name
  [ ! -f "test/fuzz/compiler/$1.cpp" ] || program=build/fuzz-compiler/bin/$name
  rm -f "build/fuzz/findings/$name-"*
  [ -n "$(ls -A "$seeds")" ] || { echo "error: no seeds in $seeds" >&2; return 1; }
  mkdir -p "$grown"
  # Deep and quadratic inputs are longer than seeds; parsers with their own limit need no more.
  local longest=$((1 << 20))
  case $name in
  fuzz-npy | fuzz-sequence) longest=$((1 << 16)) ;;
  fuzz-catalogue | fuzz-efficiency) longest=$((1 << 17)) ;;
  esac
  local flags=(-max_total_time="$seconds" -max_len="$longest" -len_control=0 -timeout=10 -rss_limit_mb=2048
    -print_final_stats=1 -close_fd_mask=1 -artifact_prefix="build/fuzz/findings/$name-")
  # MLIR's own reader does not withstand hostile bytecode: its crashes are ignored, and the search continues.
  [ "$name" != fuzz-bytecode ] || flags+=(-fork=1 -ignore_crashes=1 -ignore_ooms=1 -ignore_timeouts=1)
  if ! "$program" "${flags[@]}" "$grown" "$seeds" </dev/null >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "error: $name found something, see build/fuzz/findings" >&2
    return 1
  fi
  local upstream=0
  for finding in "build/fuzz/findings/$name-"*; do
    [ -f "$finding" ] || continue
    # A finding is ours if a function of Intarsia is above the call of MLIR's reader.
    if "$program" -timeout=10 -rss_limit_mb=2048 "$finding" </dev/null 2>&1 | sed '/intarsia::parseMlir/,$d' |
      grep -q '^ *#[0-9]* .* in intarsia::'; then
      echo "error: $name found $finding" >&2
      return 1
    fi
    rm "$finding"
    upstream=$((upstream + 1))
  done
  local inputs
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p; s/^#\([0-9]*\): cov: .*/\1/p' "$log" | tail -n 1)
  echo "$name: $inputs inputs in $seconds s, $(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1) edges reached," \
    "nothing found$([ $upstream -eq 0 ] || echo " ($upstream findings in MLIR's reader)")"
}
export -f fuzz
export seconds
echo "==> Fuzzing ${#names[@]} parsers, $seconds s each"
printf '%s\n' "${names[@]}" | xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'fuzz {}'
