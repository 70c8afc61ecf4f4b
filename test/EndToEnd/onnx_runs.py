# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs of the compiler on ONNX files, for tests of what it refuses and of the memory that it takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

# A process begins with the memory of the one that it is forked from, which is a small one here.
MEASURED = """import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stderr=subprocess.DEVNULL)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""


def compiler(tools: Any, *arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run the compiler."""
    return subprocess.run([tools.path("intarsia-compile"), *arguments], capture_output=True, text=True)


def imported(tools: Any, folder: Path, data: bytes) -> subprocess.CompletedProcess[str]:
    """Import a file, which is bad.onnx to messages."""
    (folder / "bad.onnx").write_bytes(data)
    return compiler(tools, folder / "bad.onnx", "--stop-after=import", "-o", folder / "m.mlir")


def check_refused(tools: Any, folder: Path, data: bytes, message: str) -> None:
    """Check that a file is refused with one line that names it."""
    done = imported(tools, folder, data)
    assert done.returncode == 1, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "bad.onnx: " in done.stderr, done.stderr
    assert message in done.stderr


def peak(tools: Any, *arguments: Any) -> tuple[int, int]:
    """Return the exit status of the compiler, and the most memory that it took, in MiB."""
    command = [sys.executable, "-c", MEASURED, tools.path("intarsia-compile"), *arguments]
    status, kibibytes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return int(status), int(kibibytes) >> 10
