# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs docs/tutorial.md and docs/generate.md: every command must succeed and print what the page shows.

In the shown output ``...`` stands for any text, over several lines too; white space counts as one blank. Blocks of
other languages whose first line is a comment with a file name are written to that file before the commands that follow.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
PAGES = ("tutorial", "generate")
MARK = "--end of command--"


@dataclass
class Command:
    """A command with what the page shows as its output."""

    line: int
    text: str
    shown: list[str] = field(default_factory=list)


@dataclass
class File:
    """A block to be written to a file."""

    name: str
    text: str


def read_page(text: str) -> list[Command | File]:
    """Find commands and files in the page."""
    steps: list[Command | File] = []
    language, block = None, []
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"```(\w*)\s*$", line)
        if fence and language is None:
            language, block = fence[1] or "text", []
        elif fence:
            name = re.match(r"(?:#|//) (\S+\.\w+)$", block[0]) if block else None
            if language != "console" and name:
                steps.append(File(name[1], "\n".join(block) + "\n"))
            language = None
        elif language == "console":
            if line.startswith("$ "):
                steps.append(Command(number, line[2:]))
            elif line.startswith("> "):
                steps[-1].text += "\n" + line[2:]
            else:
                steps[-1].shown.append(line)
        elif language is not None:
            block.append(line)
    return steps


def matches(shown: list[str], printed: str) -> bool:
    """Compare as doctest does, with ``...`` and blanks."""
    if not any(line.strip() for line in shown):
        return True
    words = " ".join(" ".join(shown).split())
    pattern = re.escape(words).replace(r"\.\.\.", ".*").replace(r"\ ", " ")
    return re.fullmatch(pattern, " ".join(printed.split())) is not None


def test_matching():
    assert matches(["a  b", "..."], "a b\nc d")
    assert matches([], "anything")
    assert not matches(["a"], "a b")
    assert matches(["x = ... ms"], "x = 3.25 ms")


@pytest.mark.parametrize("page", PAGES)
def test_page(build_dir, page):
    steps = read_page((SOURCE / "docs" / f"{page}.md").read_text())
    assert len(steps) > 10
    shutil.rmtree(SOURCE / "build" / page, ignore_errors=True)
    with subprocess.Popen(
        ["bash", "--noprofile", "--norc"],
        cwd=SOURCE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
    ) as shell:
        for step in steps:
            if isinstance(step, File):
                (SOURCE / "build" / page / step.name).write_text(step.text)
                continue
            text = step.text.replace("$PWD/build/dev", str(build_dir))
            shell.stdin.write(f'{text}\necho "{MARK} $?"\n')
            shell.stdin.flush()
            printed = []
            for line in shell.stdout:
                if MARK in line:
                    code = int(line.rpartition(" ")[2])
                    printed.append(line[: line.index(MARK)])
                    break
                printed.append(line)
            output = "".join(printed)
            where = f"docs/{page}.md:{step.line}: {step.text}"
            assert code == 0, f"{where}\nended with {code} and printed:\n{output}"
            assert matches(step.shown, output), f"{where}\nprinted:\n{output}\nthe page shows:\n" + "\n".join(
                step.shown
            )
        shell.stdin.close()
