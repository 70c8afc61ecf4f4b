# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code that the programs about language models share: options, compilation and reports."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from harness import machine

ROOT = Path(__file__).resolve().parent.parent.parent


class NotMeasuredError(Exception):
    """The reason why a figure is left out."""


def some_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """Returns the type of an option that takes some of `known`, separated by commas."""

    def listed(text: str) -> list[str]:
        given = [entry for entry in text.split(",") if entry]
        if unknown := [entry for entry in given if entry not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return given

    return listed


def add_options(parser: argparse.ArgumentParser, pairs: int) -> None:
    """Adds the options for paths and for how thoroughly to measure."""
    add = parser.add_argument
    add("--build", type=Path, default=ROOT / "build/release", help="build folder to measure")
    add("--cache", type=Path, default=ROOT / "build/bench/models", help="where models are made")
    add("--work", type=Path, default=ROOT / "build/bench/work", help="artifacts, logs")
    add("--output", type=Path, default=ROOT / "build/bench", help="folder of the results, Markdown and JSON")
    add("--pairs", type=int, default=pairs, help="pairs of rounds a ratio (default: %(default)s)")
    add("--threads", type=int, default=2)


def compile_model(build: Path, source: Path, artifact: Path, *flags: str) -> None:
    """Compiles, unless the artifact is newer than compiler and model; its name contains the flags."""
    compiler = build / "bin/intarsia-compile"
    read = [compiler, *(source.iterdir() if source.is_dir() else [source])]
    if artifact.exists() and artifact.stat().st_mtime > max(path.stat().st_mtime for path in read):
        return
    artifact.parent.mkdir(parents=True, exist_ok=True)
    command = [str(compiler), str(source), "-o", str(artifact), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")


def report(
    arguments: argparse.Namespace, described: dict[str, Any], name: str, title: str, body: str, results: dict[str, Any]
) -> None:
    """Prints a page, and writes it and the results beside each other; `described` is the machine at the start."""
    page = f"## {title}\n\n{machine.processor(described)}; {arguments.threads} threads.\n\n{body}"
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / f"{name}.md").write_text(page)
    (arguments.output / f"{name}.json").write_text(json.dumps({"machine": described, **results}, indent=1) + "\n")
    print(page)
