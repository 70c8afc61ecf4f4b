# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bash completion for intarsia-compile, intarsia-quantize and intarsia-run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "completion.bash"
TOOLS = ["intarsia-compile", "intarsia-quantize", "intarsia-run"]


def complete(program: Path, line: str, folder: Path) -> list[str]:
    """Return what bash offers for the last word of a command line."""
    text = f"""source {SCRIPT}
COMP_LINE={line!r} COMP_POINT=${{#COMP_LINE}}
_intarsia {program}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    result = subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, check=True)
    return result.stdout.split()


@pytest.mark.parametrize("tool", TOOLS)
def test_every_flag_of_help_and_no_other(tools, tmp_path, tool):
    text = tools.run(tool, "--help").stdout
    flags = set(re.findall(r"^ +(?:-[a-z],)?(--[a-z][a-z-]*)", text, flags=re.MULTILINE))
    offered = complete(tools.path(tool), f"{tool} --", tmp_path)
    assert {word.rstrip("=") for word in offered} == flags
    assert {"compile": "--target=", "quantize": "--quantize=", "run": "--variant="}[tool.split("-")[1]] in offered
    assert "--version" in offered


def test_values(tools, tmp_path):
    program = tools.path("intarsia-compile")
    assert sorted(complete(program, "intarsia-compile m --emit=", tmp_path)) == ["bundle", "exe", "obj", "shared"]
    assert complete(program, "intarsia-compile m --stop-after=l", tmp_path) == ["lower"]


def test_files(tools, tmp_path):
    (tmp_path / "ids.npy").touch()
    (tmp_path / "m.itx").touch()
    program = tools.path("intarsia-run")
    assert complete(program, "intarsia-run m", tmp_path) == ["m.itx"]
    assert complete(program, "intarsia-run m.itx --input=input_ids=@i", tmp_path) == ["ids.npy"]
