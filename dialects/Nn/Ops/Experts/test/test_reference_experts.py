# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference lowering of nn.route and nn.experts against NumPy in double precision.

The lowering computes in f64 and rounds once, so that results are off by half a unit in the last place of f32. An
intermediate format quantizes values of f32, which 1e-5 allows for.
"""

from __future__ import annotations

import numpy as np
import pytest
from expert_formulas import experts, route
from random_numbers import normal
from reference import Reference


def quantized_to_8_bits(row: np.ndarray) -> np.ndarray:
    """Give the dequantized values of a row that is quantized to 8 bits, by blocks of 32."""
    blocks = np.pad(row, (0, -len(row) % 32)).reshape(-1, 32)
    scales = np.abs(blocks).max(1, keepdims=True) / np.float32(127)
    return (np.rint(blocks / np.where(scales == 0, 1, scales)) * scales).reshape(-1)[: len(row)]


@pytest.mark.parametrize("normalize", [False, True])
def test_route(tools, tmp_path, normalize: bool) -> None:
    logits = 3 * normal(7, 9)
    logits[1] = np.round(logits[1])  # ties
    logits[2] = 1
    logits[3, 4], logits[4] = np.nan, -np.inf
    logits[5, :6] = -np.inf
    logits[6, :2] = 0.0, -0.0
    attributes = "{normalize, top_k = 4 : i64}" if normalize else "{top_k = 4 : i64}"
    mlir = f"""
      func.func @f(%l: tensor<7x9xf32>) -> (tensor<7x4xi32>, tensor<7x4xf32>) {{
        %i, %w = nn.route %l {attributes} : (tensor<7x9xf32>) -> (tensor<7x4xi32>, tensor<7x4xf32>)
        return %i, %w : tensor<7x4xi32>, tensor<7x4xf32>
      }}"""
    reference = Reference(tools.path("intarsia-opt"), mlir, tmp_path)
    indices, weights = reference("f", [logits], [np.full((7, 4), -1, np.int32), np.full((7, 4), -1, np.float32)])
    wanted = route(logits, 4, normalize)
    np.testing.assert_array_equal(indices, wanted[0])
    np.testing.assert_allclose(weights, wanted[1], rtol=6.1e-8, atol=1e-12)
    assert np.isnan(weights[3]).all()
    assert not weights[4].any()


@pytest.mark.parametrize("kind", ["silu", "clamped_swiglu"])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("quantized", [False, True])
def test_experts(tools, tmp_path, kind: str, biases: bool, quantized: bool) -> None:
    x, gate_up, down = normal(4, 24), normal(5, 2, 48, 24), normal(5, 24, 48) / 7
    indices = np.array([[0, 4], [3, -1], [2, 3], [1, 5]], np.int32)
    weights, gate_up_bias, down_bias = normal(4, 2), normal(5, 2, 48), normal(5, 24)
    inputs = [x, indices, weights, gate_up, down] + ([gate_up_bias, down_bias] if biases else [])
    types = [f"tensor<{'x'.join(map(str, v.shape))}x{'i32' if v is indices else 'f32'}>" for v in inputs]
    limits = ", alpha = 1.5 : f32, limit = 2.0 : f32" if kind != "silu" else ""
    if quantized:
        limits += ", intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>"
    mlir = f"""
      func.func @f({", ".join(f"%a{i}: {t}" for i, t in enumerate(types))}) -> tensor<4x24xf32> {{
        %r = nn.experts %a0, %a1, %a2, %a3, %a4 {"gate_up_bias %a5 down_bias %a6 " if biases else ""}
            {{activation = #nn.gated_activation<{kind}>{limits}}} : ({", ".join(types)}) -> tensor<4x24xf32>
        return %r : tensor<4x24xf32>
      }}"""
    reference = Reference(tools.path("intarsia-opt"), mlir, tmp_path)
    actual = reference("f", inputs, [np.full((4, 24), 7, np.float32)])[0]
    settings = {"alpha": 1.5, "limit": 2.0} if kind != "silu" else {}
    if quantized:
        settings["rounding"] = quantized_to_8_bits
    wanted = experts(x, indices, weights, gate_up, down, *inputs[5:], kind=kind, **settings)
    np.testing.assert_allclose(actual, wanted, rtol=6.1e-8, atol=1e-5 if quantized else 1e-12)
    assert np.isnan(actual[3]).all(), "expert 5 is outside"
