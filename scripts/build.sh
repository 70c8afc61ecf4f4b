#!/usr/bin/env bash
# build.sh PRESET [TARGET…]: configures a preset of CMakePresets.json if needed, and builds it.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: build.sh PRESET [TARGET…]}
shift
build=build/$preset
if [ ! -f "$build/build.ninja" ] || [ CMakePresets.json -nt "$build/CMakeCache.txt" ]; then
  echo "==> Configuring ($preset)"
  mkdir -p "$build"
  if ! cmake --preset "$preset" >"$build/configure.log" 2>&1; then
    cat "$build/configure.log" >&2
    exit 1
  fi
fi
if [ "$(ninja -C "$build" -n "$@" 2>/dev/null | tail -n 1)" = "ninja: no work to do." ]; then
  exit 0
fi
echo "==> Building ($preset)"
NINJA_STATUS='[%f/%t] ' ninja -C "$build" -j "${JOBS:-$(nproc)}" "$@"
