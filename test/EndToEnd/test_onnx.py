# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX files, compiled and run, against ONNX's reference evaluator (make_onnx.py); and files that are no models."""

from __future__ import annotations

import subprocess
from pathlib import Path

import intarsia
import numpy as np
import pytest

FOLDER = Path(__file__).parent / "onnx"


@pytest.mark.parametrize("name", ["mlp", "convolutions", "shapes", "functions"])
def test_models(tmp_path, name):
    golden = dict(np.load(FOLDER / f"{name}.npz"))
    expected = golden.pop("result")
    module = intarsia.compile(FOLDER / f"{name}.onnx", output=tmp_path / "m.itx")
    # Sums of up to 72 products of numbers around 1, in f32.
    np.testing.assert_allclose(module.main(**golden), expected, rtol=0, atol=2e-5)


def test_sizes_of_calls(tmp_path):
    """A call is held to sizes that the model names, and takes any others."""
    module = intarsia.compile(FOLDER / "shapes.onnx", output=tmp_path / "m.itx")
    for batch, length in [(1, 1), (3, 7)]:
        x = np.random.default_rng(0).standard_normal((batch, length, 16)).astype(np.float32)
        heads = x.reshape(batch, length, 4, 4).transpose(0, 2, 1, 3)
        scores = heads @ heads.transpose(0, 1, 3, 2)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        expected = (weights @ heads).transpose(0, 2, 1, 3).reshape(batch, length, 16) + x
        np.testing.assert_allclose(module.main(x), expected, rtol=0, atol=2e-5)
    with pytest.raises(intarsia.Error, match="x"):
        module.main(np.zeros((2, 5, 8), np.float32))


def test_damaged_files(tools, tmp_path):
    """A damaged file is imported or refused in words that name it, wherever it is damaged."""
    good = (FOLDER / "convolutions.onnx").read_bytes()
    bad = tmp_path / "bad.onnx"
    for at in np.random.default_rng(0).integers(1, len(good), 12):
        damaged = bytearray(good[: int(at)] if at % 2 else good)
        damaged[int(at) - 1] ^= 0xFF
        bad.write_bytes(damaged)
        compiler = tools.path("intarsia-compile")
        done = subprocess.run(
            [compiler, bad, "--stop-after=import", "-o", tmp_path / "m.mlir"], capture_output=True, text=True
        )
        assert done.returncode in (0, 1), at
        assert done.returncode == 0 or "bad.onnx: " in done.stderr.splitlines()[0]
