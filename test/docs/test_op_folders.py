# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every op of nn has a folder that holds its definition, reference and tests, a line in NnOps.td and a row in the README."""

import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from op_folders import DIALECT, folders, missing, ops, table  # noqa: E402


def test_folders_are_whole():
    assert missing() == []


def test_readme():
    """Shows the ops of today; scripts/op_folders.py writes the table anew."""
    assert table() in (DIALECT / "Ops" / "README.md").read_text()


def test_ops_are_those_of_the_dialect(tools):
    """Nothing is defined elsewhere, and what is computed has a reference."""
    models = ROOT / "test" / "Reference" / "models.mlir"
    printed = tools.run("intarsia-test-opt", models, "--test-reference-models", "-o", "/dev/null").stdout
    compiled = {name: "reference" in rest for name, rest in re.findall(r"^nn\.(\w+) has (.*)$", printed, re.M)}
    assert compiled == {op.name: op.is_computed for op in ops()}


@pytest.mark.parametrize(
    ("path", "lacks"),
    [
        ("Ops/Rope/RopeReference.cpp", "Rope: RopeReference.cpp"),
        ("Ops/Rope/test/reference.mlir", "Rope: test/reference.mlir"),
        ("Ops/Rope/test/test_reference_rope.py", "Rope: nn.rope in a test/test_*.py, which compares it with NumPy"),
        ("Ops/Rope/Rope.td", "Rope: Rope.td"),
        ("NnOps.td", "Rope: its line in NnOps.td"),
    ],
)
def test_what_is_missing_is_found(tmp_path, path, lacks):
    dialect = shutil.copytree(DIALECT, tmp_path / "Nn")
    assert "Rope" in folders(dialect)
    if path == "NnOps.td":
        (dialect / path).write_text((dialect / path).read_text().replace("Ops/Rope/Rope.td", ""))
    else:
        (dialect / path).unlink()
    assert missing(dialect) == [lacks]
