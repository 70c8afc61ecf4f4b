#!/usr/bin/env bash
# random-shapes.sh PRESET COUNT PROGRAMS: runs the kernels of GPUs on COUNT random shapes each, on emulated devices, the
# ops of images, sound and selections on as many on every kind of device, and PROGRAMS random programs on each too.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$PWD/build/${1:?usage: random-shapes.sh PRESET COUNT PROGRAMS}
export INTARSIA_RANDOM_SHAPES=${2:?usage: random-shapes.sh PRESET COUNT PROGRAMS}
export INTARSIA_RANDOM_PROGRAMS=${3:?usage: random-shapes.sh PRESET COUNT PROGRAMS}
echo "==> Kernels of GPUs and ops on $INTARSIA_RANDOM_SHAPES random shapes each, and $INTARSIA_RANDOM_PROGRAMS random programs"
INTARSIA_BUILD_DIR=$build PYTHONPATH=$build/python .venv/bin/python -m pytest -q -p no:cacheprovider \
  -n "${JOBS:-$(nproc)}" --dist worksteal -k random test/EndToEnd/test_{gpu_*,mlir_files}.py \
  test/EndToEnd/test_{random_ops,convolutions,byte_convolutions,recurrent}.py
