# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pages of documentation that are run: every command must succeed and print what the page shows.

In the shown output ``...`` stands for any text, over several lines too; white space counts as one blank. Blocks of
other languages whose first line is a comment with a file name are written to that file before the commands that follow.
A block whose opening line names a file behind the language is quoted from that file of the repository.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
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


@dataclass
class Quotation:
    """A block that is quoted from a file."""

    line: int
    name: str
    text: str


def read_page(text: str) -> list[Command | File | Quotation]:
    """Find commands, files and quotations in the page."""
    steps: list[Command | File | Quotation] = []
    language, quoted, begin, block = None, None, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"```(\w*)(?: (\S+))?\s*$", line)
        if fence and language is None:
            language, quoted, begin, block = fence[1] or "text", fence[2], number, []
        elif fence:
            name = re.match(r"(?:#|//) (\S+\.\w+)$", block[0]) if block else None
            if quoted:
                steps.append(Quotation(begin, quoted, "\n".join(block)))
            elif language != "console" and name:
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


def run_page(page: str, build_dir: Path) -> None:
    """Run the commands of docs/`page`.md in one shell, from the top of the repository; files lie in build/`page`."""
    folder = SOURCE / "build" / page
    shutil.rmtree(folder, ignore_errors=True)
    with subprocess.Popen(
        ["bash", "--noprofile", "--norc"],
        cwd=SOURCE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
    ) as shell:
        for step in read_page((SOURCE / "docs" / f"{page}.md").read_text()):
            if isinstance(step, Quotation):
                continue
            if isinstance(step, File):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / step.name).write_text(step.text)
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
