#!/usr/bin/env bash
# test-onnx.sh PRESET sample|all: the tests of the ONNX standard (test/EndToEnd/onnx_node_tests.py), in the environment
# .venv-onnx: all, or a sample drawn with a fixed seed; on the CPU and on devices that the CPU stands in for. On the CPU
# the sample has some whole models of the standard too, and tests in which all sizes of inputs are sizes of the call.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: test-onnx.sh PRESET sample|all} which=${2:?usage: test-onnx.sh PRESET sample|all}
export PYTHONPATH=$PWD/build/$preset/python OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS-1}
export INTARSIA_KERNEL_CACHE=${INTARSIA_KERNEL_CACHE-$PWD/build/$preset/kernel-cache}
status=0
run() {
  .venv-onnx/bin/python test/EndToEnd/onnx_node_tests.py --jobs "$(nproc)" "$@" </dev/null 2> >(grep -v "^remark: " >&2) ||
    status=1
}
echo "==> Tests of intarsia.onnx"
.venv-onnx/bin/python -m pytest -q -p no:cacheprovider --noconftest test/EndToEnd/onnx_backend_tests.py </dev/null || status=1
for target in cpu reference emulated:sm_90a emulated:gfx942; do
  tests=(--models)
  # Compiling for a GPU takes longer, and an emulated one is slow.
  [ "$which" = all ] || case $target in
  cpu) tests=(--sample 400) ;;
  reference) tests=(--sample 100) ;;
  *) tests=(--sample 50) ;;
  esac
  echo "==> Tests of the ONNX standard on $target"
  run --target "$target" "${tests[@]}"
done
if [ "$which" = sample ]; then
  echo "==> Models of the ONNX standard"
  run --models "^test_light_(inception_v1|resnet50|shufflenet|squeezenet)$"
fi
echo "==> Tests of the ONNX standard with sizes of the call"
sample=()
[ "$which" = all ] || sample=(--sample 50)
run --dynamic --least-share 0.8 "${sample[@]}"
exit "$status"
