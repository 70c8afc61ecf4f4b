#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ops of nn by their folders: what each folder of dialects/Nn/Ops defines, and what it lacks.

``scripts/op_folders.py`` writes the table of dialects/Nn/Ops/README.md from the definitions.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DIALECT = ROOT / "dialects" / "Nn"

DEFINITION = re.compile(r'^def Nn_\w+Op\s*:\s*(\w+)<"(\w+)"(.*?)^(?=def |class |//|#endif)', re.M | re.S)
TABLE = re.compile(r"^\| op \|.*?\n\n", re.M | re.S)


class Op(NamedTuple):
    """An op as its folder defines it."""

    name: str  # without "nn."
    folder: str
    summary: str
    #: False for ops that compute nothing: weights by name, and what holds other ops.
    is_computed: bool


def folders(dialect: Path = DIALECT) -> list[str]:
    """Return the names of the folders of ops."""
    return sorted(path.name for path in (dialect / "Ops").iterdir() if path.is_dir() and not path.name.startswith("_"))


def ops_of(folder: str, dialect: Path = DIALECT) -> list[Op]:
    """Return the ops that a folder defines."""
    found = []
    text = (dialect / "Ops" / folder / f"{folder}.td").read_text()
    for kind, name, rest in DEFINITION.findall(text):
        summary = re.search(r'let summary = "([^"]*)"', rest)
        formula = re.match(r', "([^"]*)"', rest)
        line = summary[1] if summary else f"`{formula[1]}`" if formula else ""
        found.append(Op(name, folder, line, kind != "Nn_Op" or "CostOpInterface" in rest.split("let ")[0]))
    return found


def ops(dialect: Path = DIALECT) -> list[Op]:
    """Return all ops of the dialect."""
    return [op for folder in folders(dialect) for op in ops_of(folder, dialect)]


def table(dialect: Path = DIALECT) -> str:
    """Return the table of ops, a row each."""
    rows = [f"| `nn.{op.name}` | {op.summary} | [{op.folder}]({op.folder}) |\n" for op in ops(dialect)]
    return "| op | what it is | folder |\n|---|---|---|\n" + "".join(rows) + "\n"


def missing(dialect: Path = DIALECT) -> list[str]:
    """Return what folders of ops lack."""
    lacks = []
    umbrella = (dialect / "NnOps.td").read_text()
    for folder in folders(dialect):
        place = dialect / "Ops" / folder
        files = [f"{folder}.td", f"{folder}.cpp", "test/ops.mlir", "test/invalid.mlir"]
        if not (place / files[0]).exists():
            lacks.append(f"{folder}: {files[0]}")
            continue
        found = ops_of(folder, dialect)
        if not found:
            lacks.append(f"{folder}: an op in {files[0]}")
        if any(op.is_computed for op in found):
            files += [f"{folder}Reference.cpp", "test/reference.mlir"]
        lacks += [f"{folder}: {file}" for file in files if not (place / file).exists()]
        if f'include "dialects/Nn/Ops/{folder}/{folder}.td"' not in umbrella:
            lacks.append(f"{folder}: its line in NnOps.td")
        syntax = "".join(path.read_text() for path in place.glob("test/ops.mlir"))
        numbers = "".join(path.read_text() for path in place.glob("test/test_*.py"))
        for op in found:
            if not re.search(rf"\bnn\.{op.name}\b", syntax):
                lacks.append(f"{folder}: nn.{op.name} in test/ops.mlir")
            if op.is_computed and not re.search(rf"\b{op.name}\b", numbers):
                lacks.append(f"{folder}: nn.{op.name} in a test/test_*.py, which compares it with NumPy")
            if not op.summary:
                lacks.append(f"{folder}: a summary of nn.{op.name}")
    return lacks


def main() -> None:
    """Write the table."""
    page = DIALECT / "Ops" / "README.md"
    page.write_text(TABLE.sub(lambda _: table(), page.read_text(), count=1))
    print(f"==> {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
