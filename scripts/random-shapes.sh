#!/usr/bin/env bash
# random-shapes.sh PRESET COUNT: runs the kernels of GPUs on COUNT random shapes each, on emulated devices.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$PWD/build/${1:?usage: random-shapes.sh PRESET COUNT}
export INTARSIA_RANDOM_SHAPES=${2:?usage: random-shapes.sh PRESET COUNT}
echo "==> Kernels of GPUs on $INTARSIA_RANDOM_SHAPES random shapes each"
INTARSIA_BUILD_DIR=$build PYTHONPATH=$build/python .venv/bin/python -m pytest -q -p no:cacheprovider \
  -n "${JOBS:-$(nproc)}" --dist worksteal -k random test/EndToEnd/test_gpu_*.py
