# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linears whose inputs have blocks of 8 and of 4 bits, their features in the order of their ranges (FMPQ), against NumPy
in float64 with the same quantized values."""

from __future__ import annotations

import numpy as np
import pytest
from block_formats import quantize_weight, quotient
from programs import between_norm_and, build, close, matmul_error
from random_numbers import RNG, normal

BLOCK = 128
GPUS = ("sm_80", "sm_90a", "gfx942", "gfx1100")
PROCESSORS = ["cpu:x86-64", "cpu:x86-64-v3", "cpu:x86-64-v4"]
#: Weight formats by name: what nn.block_format says, the bytes of a value in a tensor, and features of a scale.
FORMATS = {"int4": ("i4, f16, 32", "i4", 32), "int8": ("i8, f16, 32", "i8", 32), "int4-g128": ("i4, f16, 128", "i4", 128),
           "int4-channel": ("i4, f16, 0", "i4", 0)}  # fmt: skip


def program(features: int, depth: int, order: np.ndarray, wide: int, name: str = "int4") -> str:
    form, stored, block = FORMATS[name]
    groups = -(-depth // block) if block else 1
    blocks = -(-depth // BLOCK)
    of_input = f"format = #nn.block_format<i8, f32, {BLOCK}, axis = 1>"
    of_weight = f"{{format = #nn.block_format<{form}, axis = 1>}}"
    x, w = f"tensor<?x{depth}xf32>", f"tensor<{features}x{depth}xf32>"
    return f"""
func.func @main(%x: {x} {{nn.name = "x", nn.sizes = ["rows", ""]}}) -> (tensor<?x{features}xf32> {{nn.name = "y"}}) {{
  %p = arith.constant dense<{order.tolist()}> : tensor<{depth}xi32>
  %w = nn.weight @weights["w"] : {w}
  %b = nn.weight @weights["b"] : tensor<{features}xf32>
  %u, %t = nn.quantize %w channels %p {of_weight} : ({w}, tensor<{depth}xi32>) -> (tensor<{features}x{depth}x{stored}>, tensor<{features}x{groups}xf16>)
  %v = nn.dequantize %u, %t {of_weight} : (tensor<{features}x{depth}x{stored}>, tensor<{features}x{groups}xf16>) -> {w}
  %q, %s = nn.quantize %x channels %p {{{of_input}, wide_blocks = {wide}}} : ({x}, tensor<{depth}xi32>) -> (tensor<?x{depth}xi8>, tensor<?x{blocks}xf32>)
  %d = nn.dequantize %q, %s {{{of_input}}} : (tensor<?x{depth}xi8>, tensor<?x{blocks}xf32>) -> {x}
  %y = nn.linear %d, %v, %b : ({x}, {w}, tensor<{features}xf32>) -> tensor<?x{features}xf32>
  return %y : tensor<?x{features}xf32>
}}
"""


def blocks_of(x: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return rows [tokens, features] as [tokens, blocks, 128] in the order of channels, zeros behind the last one."""
    return np.pad(x[:, order], ((0, 0), (0, -len(order) % BLOCK))).reshape(len(x), -1, BLOCK)


def largest_integers(blocks: int, wide: int) -> np.ndarray:
    return np.where(np.arange(blocks) < wide, 127, 7).astype(np.float32)[None, :, None]


def dequantized(x: np.ndarray, order: np.ndarray, wide: int) -> np.ndarray:
    """Return what the input is dequantized to, in the order of channels."""
    blocks = blocks_of(x, order)
    highest, largest = largest_integers(blocks.shape[1], wide), np.abs(blocks).max(-1, keepdims=True)
    integers = np.rint(blocks * quotient(np.broadcast_to(highest, largest.shape), largest))
    assert np.abs(integers[:, wide:]).max(initial=0) <= 7
    return (integers * (largest / highest)).reshape(len(x), -1)[:, : len(order)]


def activations(rows: int, order: np.ndarray, wide: int) -> np.ndarray:
    """Return activations with outliers, no quotient of which lies so near a half that its rounding would decide."""
    x = normal(rows, len(order))
    x[:, order[:5]] *= 40
    blocks = blocks_of(x, order)
    quotients = blocks * largest_integers(blocks.shape[1], wide) / np.abs(blocks).max(-1, keepdims=True)
    near = np.abs(np.abs(quotients - np.trunc(quotients)) - 0.5) < 1e-3
    sorted_rows = np.where(near, 0, blocks).reshape(rows, -1)[:, : len(order)]
    result = np.empty_like(x)
    result[:, order] = sorted_rows
    return result


def check(module, x, weight, bias, order, wide, name="int4") -> np.ndarray:
    inputs, matrix = dequantized(x, order, wide), quantize_weight(name, weight[:, order])
    y = module["main"](x)
    close(y, inputs.astype(np.float64) @ matrix.T.astype(np.float64) + bias, matmul_error(inputs, matrix.T, 64))
    return y


def check_case(tools, folder, target, features, depth, wide, rows, name="int4"):
    order = RNG.permutation(depth).astype(np.int32)
    weight, bias = normal(features, depth), normal(features)
    module = build(tools, folder, program(features, depth, order, wide, name), {"w": weight, "b": bias}, target)
    results = [check(module, activations(count, order, wide), weight, bias, order, wide, name) for count in rows]
    assert np.abs(results[-1]).max() > 1


@pytest.mark.parametrize(("features", "depth", "wide", "name"), [
    (64, 256, 1, "int4"), (70, 300, 2, "int8"), (33, 1200, 0, "int4-g128"), (33, 384, 3, "int4-channel"),
    (16, 3, 1, "int4"), (40, 100, 0, "int4"),
])  # fmt: skip
def test_shapes(tools, scratch, features, depth, wide, name):
    """Depths that are no multiple of 128 end with a shorter block; all blocks may have 8 bits, or none."""
    check_case(tools, scratch / f"{depth}-{wide}", "cpu", features, depth, wide, (1, 2, 3, 9, 17, 130), name)


@pytest.mark.cpu_only
@pytest.mark.parametrize("target", PROCESSORS)
def test_processors(tools, scratch, target):
    check_case(tools, scratch / target.replace(":", "-"), target, 70, 400, 1, (1, 4, 40))


@pytest.mark.cpu_only
@pytest.mark.parametrize("architecture", GPUS)
def test_gpus(tools, scratch, architecture):
    check_case(tools, scratch / architecture, f"emulated:{architecture}", 40, 400, 1, (1, 3, 34))


@pytest.mark.cpu_only
def test_reference(tools, scratch):
    """The formulas of the ops, as plain loops."""
    check_case(tools, scratch / "reference", "reference", 24, 300, 1, (1, 7))


@pytest.mark.cpu_only
@pytest.mark.parametrize("target", ["cpu", "emulated:sm_80", "emulated:gfx1100"])
def test_sums_are_exact(tools, scratch, target):
    """Integers at the ends of their ranges, scales that are powers of two: not one bit may be lost."""
    features, depth, wide = 32, 512, 2
    order = RNG.permutation(depth).astype(np.int32)
    weight = RNG.choice([-8, 6, 7, 0], (features, depth)).astype(np.float32)
    weight[:, order[::32]] = -8
    x = np.empty((20, depth), np.float32)
    x[:, order[: wide * BLOCK]] = RNG.choice([-127, 127, 126, 0, -1], (20, wide * BLOCK))
    x[:, order[wide * BLOCK :]] = RNG.choice([-7, 7, 6, 0, -1], (20, depth - wide * BLOCK))
    x[:, order[: wide * BLOCK : BLOCK]], x[:, order[wide * BLOCK :: BLOCK]] = 127, 7
    module = build(tools, scratch / f"exact-{target.replace(':', '-')}", program(features, depth, order, wide),
                   {"w": weight, "b": np.zeros(features, np.float32)}, target)  # fmt: skip
    for count in (1, 3, 20):
        np.testing.assert_array_equal(module["main"](x[:count]), x[:count] @ weight.T)


@pytest.mark.cpu_only
@pytest.mark.parametrize("target", ["cpu", "emulated:sm_80"])
def test_norm_before(tools, scratch, target):
    """What is computed before a linear is computed in its kernel, whatever the order of features."""
    features, depth, wide = 32, 300, 1
    order = RNG.permutation(depth).astype(np.int32)
    weight, bias, gain = normal(features, depth), normal(features), normal(depth)
    text = program(features, depth, order, wide).replace("nn.quantize %x", "nn.quantize %n")
    norm = between_norm_and("  %y = nn.linear %x\n  return", "nn.silu", features, depth).split("  %z")[0]
    text = text.replace("  %q, %s", norm + "  %q, %s")
    module = build(tools, scratch / f"norm-{target.replace(':', '-')}", text, {"w": weight, "b": bias, "g": gain},
                   target)  # fmt: skip
    x = normal(9, depth)
    rows = (x / np.sqrt(np.square(x.astype(np.float64)).mean(-1, keepdims=True) + 1e-5) * gain).astype(np.float32)
    inputs, matrix = dequantized(rows, order, wide), quantize_weight("int4", weight[:, order])
    expected = inputs.astype(np.float64) @ matrix.T + bias
    # A norm that differs in its last bit may round to the next integer, one or two in a row.
    step = float(np.abs(blocks_of(rows, order)[:, wide:]).max()) / 7 * float(np.abs(matrix).max())
    error = np.abs(module["main"](x) - expected)
    assert error.max() < 2 * step
    assert np.median(error) < 1e-3 * step


@pytest.mark.cpu_only
@pytest.mark.parametrize("target", ["cpu", "emulated:sm_80", "reference"])
def test_rows_of_zeros_and_of_no_numbers(tools, scratch, target):
    features, depth, wide = 24, 300, 1
    order = RNG.permutation(depth).astype(np.int32)
    weight, bias = normal(features, depth), normal(features)
    module = build(tools, scratch / f"special-{target.replace(':', '-')}", program(features, depth, order, wide),
                   {"w": weight, "b": bias}, target)  # fmt: skip
    x = activations(6, order, wide)
    x[0], x[2, order[5]], x[3, order[299]] = 0, np.nan, np.nan
    y = module["main"](x)
    np.testing.assert_array_equal(y[0], bias)
    assert np.isnan(y[2:4]).all()
    assert np.isfinite(y[4:]).all()
