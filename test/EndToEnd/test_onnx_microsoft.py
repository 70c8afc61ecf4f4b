# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX files of quantized ops and ops of com.microsoft against ONNX Runtime (make_onnx_microsoft.py)."""

from __future__ import annotations

import math
from pathlib import Path

import intarsia
import numpy as np
import pytest
from onnx_wire import MICROSOFT, UINT8, field, graph, model, node, tensor, value

FOLDER = Path(__file__).parent / "onnx"

#: Outputs of integers that are exact, and those that are rounded from numbers of f32: a number that is in the middle of
#: two integers but for an error of f32 may become either.
EXACT = ("ConvInteger", "QLinearConv", "MatMulInteger.", "QLinearMatMul", "MatMulInteger16", "DynamicQuantizeLinear",
         "NhwcMaxPool", "EmbedLayerNormalization")  # fmt: skip


@pytest.mark.parametrize("name", ["products", "elementwise", "blocks", "norms", "attention", "groups", "experts"])
def test_against_onnx_runtime(tmp_path, name):
    golden = dict(np.load(FOLDER / f"microsoft_{name}.npz"))
    expected = {key: golden.pop(key) for key in list(golden) if not key[1:].isdigit()}
    # The inputs of matrices in blocks, of experts too, are multiplied as they are, as ONNX Runtime does it.
    options = ["--quantize-activations=16"] if name in ("blocks", "experts") else []
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


def microsoft(op: str, inputs: str, outputs: str, **attributes: object) -> bytes:
    """Return a node of com.microsoft."""
    return node(op, inputs, outputs, **attributes) + field(7, MICROSOFT)


def test_by_formulas(tmp_path):
    """Ops that ONNX Runtime has no kernels for on processors."""
    random = np.random.default_rng(0)
    x, image = random.standard_normal((2, 3, 8), np.float32), random.standard_normal((2, 5, 4, 6), np.float32)
    rows, bytes_of = (
        random.standard_normal((2, 4, 2, 3, 8), np.float32),
        random.integers(0, 256, (3, 4)).astype(np.uint8),
    )
    g, h, w = (random.standard_normal(shape).astype(np.float32) for shape in [(8,), (6,), (4, 3, 3, 3)])
    stored = {
        "g": g,
        "four": g[:4],
        "h": h,
        "w": w,
        "z": tensor(9, "z", "u1"),
        "s": tensor(0.1, "s", "f4"),
        "t": tensor(0.2, "t", "f4"),
    }
    stored = {name: made if isinstance(made, bytes) else tensor(made, name, "f4") for name, made in stored.items()}
    nodes = [
        microsoft("BiasSplitGelu", "x g", "a"),
        microsoft("ScaledSiLU", "x", "b", alpha=0.5),
        microsoft("GatedRMSNorm", "x four x", "c", epsilon=1e-5),
        microsoft("BiasSoftmax", "x g", "d", axis=2, is_inner_broadcast=1),
        microsoft("SkipGroupNorm", "i h h i h", "e f", groups=2, activation=1),
        microsoft("NhwcFusedConv", "i w", "k", group=2, activation="Relu"),
        microsoft("MultiHeadAttention", "r", "l", num_heads=2),
        microsoft("MulInteger", "q z q z", "m"),
        microsoft("QLinearReduceMean", "q s z t z", "n", axes=[1], keepdims=0),
    ]
    inputs = [
        value("x", ["b", 3, 8]),
        value("i", [2, 5, 4, 6]),
        value("r", [2, "s", 2, 3, 8]),
        value("q", [3, 4], UINT8),
    ]
    (tmp_path / "m.onnx").write_bytes(model(graph(nodes, inputs, "a b c d e f k l m n", stored)))
    results = dict(
        zip(
            "abcdefklmn",
            intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx").main(x, image, rows, bytes_of),
            strict=True,
        )
    )

    def sigmoid(v: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-v))

    def softmax(v: np.ndarray) -> np.ndarray:
        power = np.exp(v - v.max(-1, keepdims=True))
        return power / power.sum(-1, keepdims=True)

    erf = np.vectorize(math.erf)
    left, right = np.split((x + g).astype(np.float64), 2, -1)
    split = x.reshape(2, 3, 2, 4)
    normal = split / np.sqrt((split**2).mean(-1, keepdims=True) + 1e-5) * g[:4]
    skipped = (image * 2 + h).astype(np.float64)
    grouped = skipped.reshape(2, 20, 2, 3)
    grouped = (grouped - grouped.mean((1, 3), keepdims=True)) / np.sqrt(grouped.var((1, 3), keepdims=True) + 1e-5)
    grouped = grouped.reshape(skipped.shape) * h + h
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2)).reshape(2, 3, 2, 2, 3, 3, 3)
    sums = np.einsum("nyxgcij,gocij->nyxgo", windows, w.reshape(2, 2, 3, 3, 3)).reshape(2, 3, 2, 4)
    query, key, val = (rows[:, :, :, part].transpose(0, 2, 1, 3) for part in range(3))
    heads = softmax(query @ key.transpose(0, 1, 3, 2) / np.sqrt(8)) @ val
    moved = bytes_of.astype(np.int32) - 9
    expected = {
        "a": left * right * (1 + erf(right / np.sqrt(2))) / 2,
        "b": x / 2 * sigmoid(x / 2),
        "c": normal.reshape(x.shape) * x * sigmoid(x),
        "d": softmax(x + g),
        "e": grouped * sigmoid(grouped),
        "f": skipped,
        "k": np.maximum(sums, 0),
        "l": heads.transpose(0, 2, 1, 3).reshape(2, 4, 16),
        "m": moved * moved,
        "n": np.clip(np.rint(moved.mean(1) / 2) + 9, 0, 255),
    }
    for name, wanted in expected.items():
        np.testing.assert_allclose(results[name], wanted, rtol=0, atol=2e-5 * np.abs(wanted).max(), err_msg=name)
