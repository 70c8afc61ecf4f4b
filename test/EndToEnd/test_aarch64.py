# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""AArch64: MiniLM cross-compiled here, run by a cross-built runtime under qemu."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).resolve().parents[2]
QEMU = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]
# As in test_minilm.py.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def runner() -> Path:
    """Build intarsia-run for AArch64."""
    result = subprocess.run(
        [SOURCE / "scripts" / "build.sh", "aarch64", "intarsia-run"], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return SOURCE / "build" / "aarch64" / "bin" / "intarsia-run"


@pytest.mark.parametrize("cpu", ["cortex-a72", "max"])
def test_minilm(tools, minilm_dir, minilm_golden, runner, scratch, cpu):
    artifact = scratch / "arm.itx"
    if not artifact.exists():
        tools.compile(minilm_dir, "-o", artifact, "--target=cpu:aarch64")
    rows = slice(0, 4)  # the emulator is about a hundred times slower than the machine
    mask = minilm_golden["attention_mask"][rows]
    length = int(mask.sum(1).max())
    for name in ("input_ids", "attention_mask"):
        np.save(scratch / f"arm-{name}.npy", np.ascontiguousarray(minilm_golden[name][rows, :length]))
    output = scratch / f"arm-{cpu}.npy"
    result = subprocess.run(
        [
            *QEMU,
            "-cpu",
            cpu,
            runner,
            artifact,
            f"--input=input_ids=@{scratch}/arm-input_ids.npy",
            f"--input=attention_mask=@{scratch}/arm-attention_mask.npy",
            f"--output=last_hidden_state=@{output}",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    expected = minilm_golden["last_hidden_state"][rows, :length]
    error = np.abs(np.load(output) - expected)[mask[:, :length] != 0].max()
    print(f"largest error on {cpu}: {error:.2e}")
    assert error <= TOLERANCE
