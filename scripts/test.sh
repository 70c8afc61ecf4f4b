#!/usr/bin/env bash
# test.sh PRESET: runs every test of a built preset (GoogleTest through CTest, lit, pytest) and prints the sums.
# The reports are JUnit XML files in build/PRESET/reports.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: test.sh PRESET}
build=$PWD/build/$preset
reports=$build/reports
rm -rf "$reports"
mkdir -p "$reports"
jobs=${JOBS:-$(nproc)}
status=0
export INTARSIA_KERNEL_CACHE=${INTARSIA_KERNEL_CACHE-$build/kernel-cache} # many tests have the same kernels
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS-1} # NumPy's threads would wait for each other: each core has a test

echo "==> Unit tests (GoogleTest)"
GTEST_OUTPUT=xml:$reports/unit-gtest/ ctest --test-dir "$build" -j "$jobs" --output-on-failure -E "^lit$" -LE slow --no-tests=error --output-junit "$reports/unit.xml" \
  </dev/null >"$reports/unit.log" 2>&1 || status=1
tail -n 40 "$reports/unit.log" | sed -n '/tests passed/,$p;/No tests/p'

expected=(unit)
if [ -f "$build/test/lit.site.cfg.py" ]; then
  echo "==> IR and driver tests (lit)"
  expected+=(lit)
  .venv/bin/lit -s -v -j "$jobs" --xunit-xml-output "$reports/lit.xml" "$build/test" "$build/dialects" </dev/null || status=1
fi
if [ -d "$build/python/intarsia" ]; then
  echo "==> Python and end-to-end tests (pytest)"
  expected+=(pytest)
  INTARSIA_BUILD_DIR=$build PYTHONPATH=$build/python \
    .venv/bin/python -m pytest -q -rs -p no:cacheprovider -n "$jobs" --dist worksteal --junit-xml "$reports/pytest.xml" \
    test dialects </dev/null || status=1
  echo "==> The same models on the reference device (pytest)"
  expected+=(reference)
  INTARSIA_TEST_TARGET=reference INTARSIA_BUILD_DIR=$build PYTHONPATH=$build/python \
    .venv/bin/python -m pytest -q -p no:cacheprovider -n "$jobs" --dist worksteal \
    --junit-xml "$reports/reference.xml" test/EndToEnd/test_{architectures,decoders,experts,quantized_caches,gguf,images}.py \
    </dev/null || status=1
fi

.venv/bin/python scripts/summary.py "${expected[@]/#/$reports/}" || status=1
exit "$status"
