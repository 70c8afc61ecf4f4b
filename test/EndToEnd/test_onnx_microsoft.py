# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX files of quantized ops and ops of com.microsoft against ONNX Runtime (make_onnx_microsoft.py)."""

from __future__ import annotations

from pathlib import Path

import intarsia
import numpy as np
import pytest

FOLDER = Path(__file__).parent / "onnx"

#: Outputs of integers that are exact, and those that are rounded from numbers of f32: a number that is in the middle of
#: two integers but for an error of f32 may become either.
EXACT = ("ConvInteger", "QLinearConv", "MatMulInteger.", "QLinearMatMul", "MatMulInteger16", "DynamicQuantizeLinear",
         "NhwcMaxPool", "EmbedLayerNormalization")  # fmt: skip


@pytest.mark.parametrize("name", ["products", "elementwise", "blocks", "norms", "attention", "groups", "experts"])
def test_against_onnx_runtime(tmp_path, name):
    golden = dict(np.load(FOLDER / f"microsoft_{name}.npz"))
    expected = {key: golden.pop(key) for key in list(golden) if not key[1:].isdigit()}
    # The inputs of matrices in blocks are multiplied as they are, as ONNX Runtime does it.
    options = ["--quantize-activations=16"] if name == "blocks" else []
    module = intarsia.compile(FOLDER / f"microsoft_{name}.onnx", output=tmp_path / "m.itx", options=options)
    results = dict(zip(expected, module.main(**golden), strict=True))
    wrong = []
    for key, result in results.items():
        wanted = expected[key]
        if result.dtype != wanted.dtype or result.shape != wanted.shape:
            wrong.append(f"{key}: {result.dtype} {result.shape}, not {wanted.dtype} {wanted.shape}")
            continue
        is_defined = ~np.isnan(wanted)
        difference = np.abs(result.astype(np.float64) - wanted)[is_defined].max()
        is_integer = wanted.dtype.kind in "iu"
        limit = (0 if key.startswith(EXACT) else 1) if is_integer else 2e-5 * max(1, np.nanmax(np.abs(wanted)))
        if not difference <= limit:
            wrong.append(f"{key}: {difference}")
    assert not wrong
