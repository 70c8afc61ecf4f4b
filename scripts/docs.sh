#!/usr/bin/env bash
# docs.sh PRESET: writes the reference of dialects and passes, generated from TableGen, into docs/reference.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: docs.sh PRESET}
scripts/build.sh "$preset" intarsia-docs
rm -rf docs/reference
mkdir -p docs/reference
for page in "build/$preset/docs/"*.md; do
  name=$(basename "$page" .md)
  # The passes' pages begin without a title.
  case $name in *Passes) title="# ${name%Passes} passes" ;; *) title= ;; esac
  { [ -z "$title" ] || printf '%s\n\n' "$title"; cat "$page"; } >"docs/reference/$name.md"
done
{
  echo "# Reference, generated from TableGen"
  echo
  for page in docs/reference/*.md; do
    name=$(basename "$page" .md)
    [ "$name" = README ] || echo "- [$name]($name.md)"
  done
} >docs/reference/README.md
echo "==> $(find docs/reference -name '*.md' | wc -l) pages in docs/reference"
