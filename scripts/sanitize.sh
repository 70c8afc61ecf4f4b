#!/usr/bin/env bash
# sanitize.sh asan|guard|asan-compiler|tsan|tsan-compiler [all]: builds with sanitizers and runs the tests in which they
# can find errors.
#   asan           the runtime: unit tests, the end-to-end tests of intarsia-run on artifacts of build/dev's compiler, and
#                  intarsia-worker without a model
#   guard          the runtime and its Python module, generated code between pages that fault: decoders and experts end
#                  to end; with `all` every end-to-end test
#   asan-compiler  the compiler too: unit tests, lit, ops, programs and architectures end to end (a long build)
#   tsan           the runtime: unit tests, eight callers of compiled models
#   tsan-compiler  the compiler: packing beside code generation (a long build)
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: sanitize.sh asan|guard|asan-compiler|tsan|tsan-compiler [all]}
extent=${2:-}
build=$PWD/build/$preset
reports=$build/reports
jobs=${JOBS:-$(nproc)}
status=0
scripts/build.sh "$preset"
rm -rf "$reports"
mkdir -p "$reports"

export INTARSIA_KERNEL_CACHE=${INTARSIA_KERNEL_CACHE-$PWD/build/dev/kernel-cache}

# A separate exit code, so that no test mistakes a finding for an ordinary refusal.
export ASAN_OPTIONS=exitcode=199:strict_string_checks=1 UBSAN_OPTIONS=exitcode=199:halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=exitcode=199:halt_on_error=1:second_deadlock_stack=1
# LLVM's libraries are not instrumented: vectors and allocators that both sides change look overrun to our side.
[ "$preset" != asan-compiler ] || ASAN_OPTIONS+=:detect_container_overflow=0:allow_user_poisoning=0
[ "$preset" != tsan-compiler ] || TSAN_OPTIONS+=:suppressions=$PWD/scripts/tsan-compiler.supp
case $preset in
tsan*)
  echo "==> Compiling models"
  [ "$preset" = tsan-compiler ] || scripts/build.sh dev intarsia-compile
  models=$build/models
  rm -rf "$models"
  mkdir -p "$models"
  compiler=$build/bin/intarsia-compile
  [ -x "$compiler" ] || compiler=build/dev/bin/intarsia-compile
  "$compiler" test/EndToEnd/models/bert -o "$models/encoder.itx" || status=1
  "$compiler" examples/glossary -o "$models/decoder.itx" --quantize=int4 || status=1
  # Layers that alternate between two devices, whose work starts after random delays.
  "$compiler" test/EndToEnd/models/bert -o "$models/mixed.itx" --target=cpu,reference '--place=*layer.[02]*=@reference' ||
    status=1
  export INTARSIA_TEST_ARTIFACTS=$models/encoder.itx:$models/decoder.itx:$models/mixed.itx
  export ITX_REFERENCE_DELAY_MICROSECONDS=100
  ;;
esac
[ "$preset" != tsan-compiler ] || exit "$status"

echo "==> Unit tests ($preset)"
GTEST_OUTPUT=xml:$reports/unit-gtest/ ctest --test-dir "$build" -j "$jobs" --output-on-failure \
  -E '^lit$' -LE slow --no-tests=error --output-junit "$reports/unit.xml" </dev/null >"$reports/unit.log" 2>&1 ||
  { status=1; cat "$reports/unit.log"; }
sed -n '/tests passed/p' "$reports/unit.log"

# Runs end-to-end tests with this build's tools; other tools, and a missing Python package, come from build/dev.
end_to_end() { # pytest's arguments…
  echo "==> End-to-end tests ($preset)"
  scripts/build.sh dev intarsia-compile intarsia-run IntarsiaPython
  local package=$build/python
  [ -d "$package" ] || package=$PWD/build/dev/python
  INTARSIA_BUILD_DIR=$PWD/build/dev PYTHONPATH=$package LD_PRELOAD=${preload:-} .venv/bin/python -m pytest -q \
    -p no:cacheprovider -n "$jobs" --dist worksteal --junit-xml "$reports/pytest.xml" "$@" </dev/null || status=1
}

case $preset in
asan)
  INTARSIA_RUN=$build/bin/intarsia-run INTARSIA_WORKER=$build/bin/intarsia-worker \
    end_to_end test/EndToEnd test/python/test_worker.py -k 'bad_inputs or intarsia_run or test_worker.py'
  ;;
guard)
  tests=(test/EndToEnd/test_{decoders,experts}.py)
  # Leaves out tests that compile for another machine or several gigabytes, and tests of messages.
  [ "$extent" != all ] || tests=(test/EndToEnd --ignore-glob='*test_aarch64.py' --ignore-glob='*test_large_archive.py' \
    --ignore-glob='*test_bad_*.py' --ignore-glob='*test_interrupted.py' --ignore-glob='*test_completion.py')
  # Python never frees some of its memory.
  ASAN_OPTIONS+=:detect_leaks=0:allocator_may_return_null=1
  preload=$(clang++-22 -print-file-name=libclang_rt.asan-x86_64.so)
  INTARSIA_RUN=$build/bin/intarsia-run INTARSIA_COMPILE=$PWD/build/dev/bin/intarsia-compile end_to_end "${tests[@]}"
  ;;
asan-compiler)
  echo "==> IR and driver tests ($preset)"
  # LLVM's `not` accepts any exit code as a refusal, but no signal.
  ASAN_OPTIONS+=:abort_on_error=1 UBSAN_OPTIONS+=:abort_on_error=1 \
    .venv/bin/lit -s -v -j "$jobs" --xunit-xml-output "$reports/lit.xml" "$build/test" "$build/dialects" </dev/null || status=1
  INTARSIA_RUN=$build/bin/intarsia-run INTARSIA_COMPILE=$build/bin/intarsia-compile \
    end_to_end test/EndToEnd/test_{ops,programs,architectures}.py
  ;;
esac
exit "$status"
