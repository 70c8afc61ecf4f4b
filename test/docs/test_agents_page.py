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


BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def run_python(file, text):
    if "langgraph" in text:
        pytest.importorskip("langgraph.graph", reason="langgraph is not installed (pip install 'intarsia[langgraph]')")
    file.write_text(text)
    return subprocess.run([sys.executable, file], capture_output=True, text=True, env=os.environ)


@pytest.mark.parametrize("number", range(3))
def test_python(tools, tmp_path, number):
    assert len(BLOCKS) == 3
    run = run_python(tmp_path / "chat.py", BLOCKS[number])
    assert run.returncode == 0, run.stderr
    (tmp_path / "chat.mlir").write_text(run.stdout)
    tools.run("intarsia-opt", tmp_path / "chat.mlir", "--plan-decompose")


def test_what_langgraph_does_not_say(tools, tmp_path):
    """The block without its annotations and inputs is the message that the page shows; so is what it proposes."""
    text = re.sub(r"@langgraph.*\n", "", BLOCKS[1])
    text = re.sub(r"print\(.*\)\n", "print(agent.from_langgraph(builder))\n", text)
    shown = re.search(r"```\na\.py:\d+: (the graph does not say.*?)```", PAGE, re.S).group(1)
    said = run_python(tmp_path / "a.py", text).stderr.partition("AgentError: a.py:")[2].partition(": ")[2]
    assert " ".join(said.split()) == " ".join(shown.split())
    call = re.search(r"`(agent\.from_langgraph\(builder, assume=.*?\))`", PAGE).group(1)
    run = run_python(tmp_path / "a.py", text.replace("agent.from_langgraph(builder)", call))
    assert run.returncode == 0, run.stderr
    (tmp_path / "a.mlir").write_text(run.stdout)
    tools.run("intarsia-opt", tmp_path / "a.mlir", "--plan-decompose")


def test_refused_figure_of_the_page(tmp_path):
    call, message = re.search(r"`(Tool\([^`]*\))` is `chat\.py:7: ([^`]*)`", PAGE).groups()
    run = run_python(tmp_path / "chat.py", f"from intarsia.agent import Tool\n{call}\n")
    assert f"AgentError: chat.py:2: {' '.join(message.split())}" in run.stderr


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
