#!/usr/bin/env bash
# sanitize.sh asan|asan-compiler|tsan: builds the runtime with sanitizers and runs its unit tests; with asan also the
# end-to-end tests of intarsia-run, on artifacts that the compiler of build/dev makes.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: sanitize.sh asan|asan-compiler|tsan}
build=$PWD/build/$preset
reports=$build/reports
status=0
scripts/build.sh "$preset"
rm -rf "$reports"
mkdir -p "$reports"

echo "==> Unit tests ($preset)"
# An exit code of its own, so that no test takes a finding for an ordinary refusal.
export ASAN_OPTIONS=exitcode=199:strict_string_checks=1 UBSAN_OPTIONS=exitcode=199:halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=exitcode=199:halt_on_error=1:second_deadlock_stack=1
GTEST_OUTPUT=xml:$reports/unit-gtest/ ctest --test-dir "$build" -j "${JOBS:-$(nproc)}" --output-on-failure \
  -E '^lit$' -LE slow --no-tests=error --output-junit "$reports/unit.xml" </dev/null >"$reports/unit.log" 2>&1 ||
  { status=1; cat "$reports/unit.log"; }
sed -n '/tests passed/p' "$reports/unit.log"

if [ "$preset" = asan ] && [ -x build/dev/bin/intarsia-compile ]; then
  echo "==> End-to-end tests of intarsia-run ($preset)"
  INTARSIA_RUN=$build/bin/intarsia-run INTARSIA_BUILD_DIR=$PWD/build/dev PYTHONPATH=$PWD/build/dev/python \
    .venv/bin/python -m pytest -q -p no:cacheprovider --junit-xml "$reports/pytest.xml" \
    test/EndToEnd/test_bad_inputs.py test/EndToEnd/test_minilm.py \
    -k 'test_bad_inputs or test_intarsia_run' </dev/null || status=1
fi
exit "$status"
