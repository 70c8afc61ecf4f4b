# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/agents.md: its Python prints IR that verifies, and so does its fleet. So are the examples of the dialects' ops."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
PAGE = (SOURCE / "docs" / "agents.md").read_text()


def test_python(tools, tmp_path):
    block = re.search(r"```python\n(.*?)```", PAGE, re.S).group(1)
    (tmp_path / "chat.py").write_text(block)
    run = subprocess.run([sys.executable, tmp_path / "chat.py"], capture_output=True, text=True, env=os.environ)
    assert run.returncode == 0, run.stderr
    (tmp_path / "chat.mlir").write_text(run.stdout)
    tools.run("intarsia-opt", tmp_path / "chat.mlir", "--plan-decompose")


def test_figures_of_the_page(tools):
    result = tools.run("intarsia-opt", SOURCE / "examples" / "agents" / "react.mlir", "--plan-decompose").stdout
    shown = re.search(r"cached_tokens = (\S+ tokens, p95 = \S+>),\s+new_tokens = (\S+ tokens, p95 = \S+>)", PAGE)
    for figure in shown.groups():
        assert figure in result


@pytest.mark.parametrize("block", re.findall(r"```mlir\n(fleet.*?)```", PAGE, re.S))
def test_fleet(tools, tmp_path, block):
    (tmp_path / "fleet.mlir").write_text(block)
    tools.run("intarsia-opt", tmp_path / "fleet.mlir")


@pytest.mark.parametrize("dialect", ["Agent", "Fleet"])
def test_whole_examples_of_the_dialect(tools, tmp_path, dialect):
    count = 0
    for file in sorted((SOURCE / "dialects" / dialect).glob("*.td")):
        for block in re.findall(r"```mlir\n(.*?)```", file.read_text(), re.S):
            # Those that stand alone: declarations, graphs, systems.
            if re.match(r"\s*(agent\.(model|tool|memory|graph)|fleet\.system)", block):
                (tmp_path / "example.mlir").write_text(block)
                tools.run("intarsia-opt", tmp_path / "example.mlir")
                count += 1
    assert count >= {"Agent": 4, "Fleet": 2}[dialect]
