#!/usr/bin/env bash
# sanitize.sh asan|tsan: builds the runtime and its unit tests with sanitizers and runs them.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: sanitize.sh asan|asan-compiler|tsan}
scripts/build.sh "$preset"
echo "==> Unit tests ($preset)"
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
reports=$PWD/build/$preset/reports
rm -rf "$reports"
mkdir -p "$reports"
GTEST_OUTPUT=xml:$reports/unit-gtest/ ctest --test-dir "build/$preset" -j "${JOBS:-$(nproc)}" --output-on-failure -E "^lit$" --no-tests=error \
  --output-junit "$reports/unit.xml" </dev/null
