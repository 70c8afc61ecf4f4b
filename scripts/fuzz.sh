#!/usr/bin/env bash
# fuzz.sh [SECONDS]: builds the fuzzers of everything that parses bytes from outside and runs each for that long (30)
# on a copy of its seed corpus.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-30}
scripts/build.sh fuzz
mapfile -t fuzzers < <(find build/fuzz/bin -maxdepth 1 -type f -executable -name '*fuzz*' | sort)
if [ "${#fuzzers[@]}" -eq 0 ]; then
  echo "error: build/fuzz/bin holds no fuzzer" >&2
  exit 1
fi
for fuzzer in "${fuzzers[@]}"; do
  name=$(basename "$fuzzer")
  what=${name#fuzz-}
  corpus=build/fuzz/corpus/$what
  mkdir -p "$corpus" build/fuzz/findings
  if [ -d "test/fuzz/corpus/$what" ]; then
    cp -r "test/fuzz/corpus/$what/." "$corpus/"
  else
    echo "error: no seed corpus test/fuzz/corpus/$what" >&2
    exit 1
  fi
  echo "==> $name, $seconds s"
  "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$name-" "$corpus" >"build/fuzz/$name.log" 2>&1 </dev/null ||
    { tail -n 40 "build/fuzz/$name.log"; echo "error: $name found something, see build/fuzz/findings" >&2; exit 1; }
  grep -E 'number_of_executed_units' "build/fuzz/$name.log" | sed 's/stat::/    /'
done
