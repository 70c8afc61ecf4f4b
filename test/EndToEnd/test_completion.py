# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bash completion for intarsia and its programs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import intarsia
import pytest
from intarsia.commands.main import COMMANDS

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


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The program `intarsia`, which `pip install` makes."""
    program = tmp_path_factory.mktemp("bin") / "intarsia"
    package = Path(intarsia.__file__).absolute().parents[1]
    program.write_text(f'#!/bin/sh\nPYTHONPATH={package} exec {sys.executable} -m intarsia "$@"\n')
    program.chmod(0o755)
    return program


def test_commands(command, tmp_path):
    (tmp_path / "m.itx").touch()
    assert complete(command, "intarsia ", tmp_path) == list(COMMANDS)
    assert complete(command, "intarsia com", tmp_path) == ["compile"]
    assert complete(command, "intarsia bench ", tmp_path) == ["llm", "deployment"]
    assert complete(command, "intarsia bench llm ", tmp_path) == ["m.itx"]
    assert complete(command, "intarsia generate ", tmp_path) == ["m.itx"]
    assert complete(command, "intarsia generate m.itx --max", tmp_path) == ["--max-tokens="]
    assert complete(command, "intarsia bench llm m.itx --re", tmp_path) == []
    assert complete(command, "intarsia bench llm m.itx --ro", tmp_path) == ["--rounds="]
    assert complete(command, "intarsia --v", tmp_path) == ["--version"]
    assert complete(command, "intarsia engines p.json --engine=v", tmp_path) == ["vllm"]
    # Programs have their own help.
    assert complete(command, "intarsia compile m --stop-after=l", tmp_path) == ["lower"]


def test_files(tools, tmp_path):
    (tmp_path / "ids.npy").touch()
    (tmp_path / "m.itx").touch()
    program = tools.path("intarsia-run")
    assert complete(program, "intarsia-run m", tmp_path) == ["m.itx"]
    assert complete(program, "intarsia-run m.itx --input=input_ids=@i", tmp_path) == ["ids.npy"]
