# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs in which "build.einsum" and others are what importers build of several ops (test/passes)."""

from __future__ import annotations

from pathlib import Path

from programs import build


def expanded(tools, folder: Path, text: str) -> str:
    """Return a program in which such ops are built."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "compositions.mlir").write_text(text)
    flags = ("--allow-unregistered-dialect", "--test-compositions")
    return tools.run("intarsia-test-opt", folder / "compositions.mlir", *flags).stdout


def built(tools, folder: Path, text: str, target: str):
    """Compile the program and load it."""
    return build(tools, folder, expanded(tools, folder, text), target=target)
