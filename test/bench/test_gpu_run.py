# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/gpu/run.py on the emulated device: each problem has a time, and the page stays as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import intarsia
import pytest

SOURCE = Path(__file__).resolve().parents[2]
PAGE = SOURCE / "docs" / "benchmarks.md"

pytestmark = [
    pytest.mark.cpu_only,
    pytest.mark.skipif(
        any(device["name"] in ("cuda", "hip") for device in intarsia.devices()), reason="a GPU would be measured"
    ),
]


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SOURCE / "bench" / "gpu" / "run.py"), *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_every_problem_is_timed() -> None:
    result = run("--rounds=1")
    assert result.returncode == 0, result.stderr
    times = dict(re.findall(r"^\| ([^|]+?) \| ([\d.]+) µs \|", result.stdout, re.MULTILINE))
    assert [name.split()[0] for name in times] == ["GEMM", "attention", "W4A16", "W4A16", "decode", "prefill"]
    assert all(float(time) > 0 for time in times.values())


def test_times_of_the_emulated_device_are_not_published() -> None:
    before = PAGE.read_bytes()
    result = run("--update-docs")
    assert result.returncode == 1
    assert "error: --update-docs: this machine has no GPU" in result.stderr
    assert PAGE.read_bytes() == before
