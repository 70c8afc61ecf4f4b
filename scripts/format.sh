#!/usr/bin/env bash
# Formats the C++ and Python sources of the repository; --check only lists unformatted files, and lints Python.
set -euo pipefail
cd "$(dirname "$0")/.."

# Includes files that git would track, so that a new file is checked before its first commit.
mapfile -t cpp < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.c' '*.cpp' '*.inc' | sort -u |
                   while read -r f; do [ ! -f "$f" ] || echo "$f"; done)
if [ "${1:-}" = --check ]; then
  clang-format-22 --dry-run -Werror "${cpp[@]}"
  .venv/bin/ruff format --check --quiet . || { .venv/bin/ruff format --diff .; exit 1; }
  .venv/bin/ruff check --quiet .
  echo "${#cpp[@]} C and C++ files and the Python files are formatted"
else
  clang-format-22 -i "${cpp[@]}"
  .venv/bin/ruff format .
  .venv/bin/ruff check --fix --quiet .
fi
