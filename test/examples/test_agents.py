# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The example agents print the IR that lies beside them, and it becomes pieces."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "agents"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py"))


def test_there_are_ten_and_one_of_langgraph():
    assert len(EXAMPLES) == 11
    assert sorted(path.stem for path in FOLDER.glob("*.mlir")) == EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_prints_what_lies_beside_it(name):
    if name == "from_langgraph":
        pytest.importorskip("langgraph.graph", reason="langgraph is not installed (pip install 'intarsia[langgraph]')")
    run = subprocess.run([sys.executable, FOLDER / f"{name}.py"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == (FOLDER / f"{name}.mlir").read_text(), f"run python {name}.py > {name}.mlir"


@pytest.mark.parametrize("name", EXAMPLES)
def test_becomes_pieces(name, tools, tmp_path):
    result = tools.run(
        "intarsia-test-opt",
        FOLDER / f"{name}.mlir",
        "--plan-decompose",
        "--test-agent-graph",
        "-o",
        tmp_path / "plan.mlir",
    )
    plan = (tmp_path / "plan.mlir").read_text()
    for whole in ("agent.llm", "agent.retrieve ", "agent.call"):
        assert whole not in plan
    assert "agent.decode" in plan
    # Each answer comes from somewhere.
    assert "-> answer" in result.stdout
