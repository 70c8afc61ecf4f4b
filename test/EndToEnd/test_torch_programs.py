# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules of PyTorch as torch-mlir lowers them, against what PyTorch computes (make_torch_programs.py)."""

from __future__ import annotations

from pathlib import Path

import intarsia
import numpy as np
import pytest

FOLDER = Path(__file__).parent / "torch_programs"
GOLDEN = np.load(FOLDER / "golden.npz")
NAMES = sorted({key.partition(".")[0] for key in GOLDEN.files})
#: The largest error of float32, as a share of the largest magnitude of a result.
TOLERANCE = 1e-5


def arrays(name: str, kind: str) -> list[np.ndarray]:
    keys = [key for key in GOLDEN.files if key.startswith(f"{name}.{kind}.")]
    return [GOLDEN[key] for key in keys]


def test_there_are_20():
    assert sorted(path.stem for path in FOLDER.glob("*.mlir")) == NAMES
    assert len(NAMES) >= 20


@pytest.mark.parametrize("device", ["cpu", "cpu:x86-64-v2", "reference", "emulated:sm_90a"])
def test_modules(tools, tmp_path, device):
    for name in NAMES:
        tools.compile(FOLDER / f"{name}.mlir", "-o", tmp_path / f"{name}.itx", f"--target={device}")
        got = getattr(intarsia.load(tmp_path / f"{name}.itx"), name)(*arrays(name, "input"))
        expected = arrays(name, "output")
        for number, (one, wanted) in enumerate(zip(got if isinstance(got, tuple) else (got,), expected, strict=True)):
            assert (one.shape, one.dtype) == (wanted.shape, wanted.dtype), (name, number)
            bound = TOLERANCE * max(1.0, np.abs(wanted.astype(np.float64)).max())
            np.testing.assert_allclose(one, wanted, rtol=0, atol=bound, err_msg=f"{name} {number}")


@pytest.mark.parametrize("rows", [1, 9])
def test_dynamic_sizes(tools, tmp_path, rows):
    """The rows of a module with a dynamic size do not depend on how many there are."""
    tools.compile(FOLDER / "mlp_dynamic.mlir", "-o", tmp_path / "m.itx", "--target=cpu")
    (x,), (y,) = arrays("mlp_dynamic", "input"), arrays("mlp_dynamic", "output")
    which = np.arange(rows) % len(x)
    np.testing.assert_allclose(intarsia.load(tmp_path / "m.itx").mlp_dynamic(x[which]), y[which], 0, TOLERANCE)
