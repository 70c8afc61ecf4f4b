# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linears of E4M3 by E4M3 on emulated GPUs, against NumPy in float64 with what ml_dtypes quantizes."""

from __future__ import annotations

import os

import numpy as np
import pytest
from block_formats import quantize_weight
from programs import (
    LARGE_FEATURES,
    LARGE_ROWS,
    SCHEDULES,
    assert_large,
    between_norm_and,
    build,
    close,
    matmul_error,
    one_of_each_vendor,
    random_cases,
)
from random_numbers import RNG, normal
from test_quantized_linears import E4M3_VALUES, program, quantize_to_e4m3, weight_of

pytestmark = pytest.mark.cpu_only

# Instructions of 8-bit floats differ between these, or there are none: sm_80, gfx90a and gfx1100 multiply f16.
ARCHITECTURES = ("sm_80", "sm_89", "sm_90a", "sm_120a", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
WITH_INSTRUCTIONS = ("sm_89", "sm_90a", "gfx942", "gfx950", "gfx1201")
FLAGS = ("--quantize=fp8", "--quantize-activations=fp8")
# Functions for one row, for a few, for the least and for small tiles; rows that fill no tile.
ROWS = (1, 3, 5, 70)


def truncation(architecture: str, depth: int) -> float:
    """The share of a sum of magnitudes by which instructions of four warps on a real Hopper may be off.

    Its tensor cores cut sums to 14 bits (arXiv 2412.19437, section 3.3.2) with each instruction, which multiplies 32
    elements of the depth; an emulated one does not.
    """
    is_real = os.environ.get("INTARSIA_TEST_GPU") and architecture == "sm_90a"
    return -(-depth // 32) * 2.0**-13 if is_real else 0.0


def compiled(tools, folder, architecture, weight, bias, text=""):
    text = text or program(*weight.shape)
    return build(tools, folder, text, {"w": weight, "b": bias}, f"emulated:{architecture}", *FLAGS)


def check(tools, folder, architecture, features, depth, rows) -> None:
    weight, bias = weight_of(features, depth), normal(features)
    module = compiled(tools, folder, architecture, weight, bias)
    dequantized = quantize_weight("fp8", weight)
    for count in rows:
        x = normal(count, depth)
        # Rows are quantized one by one: their magnitudes differ much.
        x *= np.exp2(RNG.integers(-30, 30, (count, 1))).astype(np.float32)
        inputs = quantize_to_e4m3(x).astype(np.float64)
        y = module["main"](x)
        wanted = inputs @ dequantized.T.astype(np.float64) + bias
        rounding = 2.0**-23 * (depth + 8) + truncation(architecture, depth)
        bound = rounding * (np.abs(inputs) @ np.abs(dequantized).T.astype(np.float64) + np.abs(bias))
        assert (np.abs(y - wanted) <= bound).all()
        assert (np.abs(wanted) > bound).any(), "zeros would pass"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_shapes(tools, scratch, architecture):
    check(tools, scratch / architecture, architecture, 70, 288, ROWS)


@pytest.mark.parametrize("architecture", WITH_INSTRUCTIONS)
def test_random_shapes(tools, scratch, monkeypatch, architecture):
    """Depths that are no whole step or tile, features that are no multiple of a vector."""
    for _ in random_cases(monkeypatch, usual=3):
        depth, features = (int(size) for size in RNG.integers([4, 2], 400))
        rows = [int(count) for count in RNG.integers(1, 150, 2)]
        check(tools, scratch / f"random-{architecture}", architecture, features, depth, rows)


@pytest.mark.parametrize("architecture", WITH_INSTRUCTIONS)
def test_large_tiles(tools, scratch, architecture):
    """More rows than small tiles are used for."""
    folder = scratch / f"large-{architecture}"
    check(tools, folder, architecture, LARGE_FEATURES[architecture], 64, (LARGE_ROWS,))
    assert_large(tools, folder, architecture, *FLAGS)


@pytest.mark.parametrize("architecture", ["sm_89", "gfx942", "gfx1201"])
def test_split_depth(tools, scratch, architecture):
    """Blocks share the depth, fewer of them where rows fill two tiles: parts of sums get their scales when they are
    added up."""
    check(tools, scratch / f"split-{architecture}", architecture, 72, 2080, (6, 64, 65))


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
@pytest.mark.parametrize("architecture", one_of_each_vendor(*WITH_INSTRUCTIONS))
def test_schedules(tools, scratch, monkeypatch, architecture, schedule):
    """A missing barrier shows when warps run one after the other."""
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    check(tools, scratch / f"{architecture}-{schedule}", architecture, 72, 640, (2, 20, 67))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_element_is_exact(tools, scratch, architecture):
    """All finite bit patterns of E4M3 by 448, in the input as in the weight, with scales of one and of powers of two."""
    depth, largest = len(E4M3_VALUES), np.float32(448)
    weight = np.stack([E4M3_VALUES, E4M3_VALUES[::-1] * np.float32(2.0**-20), np.roll(E4M3_VALUES, 7)])
    zeros = np.zeros(len(weight), np.float32)
    module = compiled(tools, scratch / f"weights-{architecture}", architecture, weight, zeros)
    np.testing.assert_array_equal(module["main"](np.eye(depth, dtype=np.float32) * largest), weight.T * largest)
    np.testing.assert_array_equal(module["main"](np.eye(depth, dtype=np.float32)[:3] * largest), weight.T[:3] * largest)

    module = compiled(tools, scratch / f"inputs-{architecture}", architecture,
                      np.eye(depth, dtype=np.float32) * largest, np.zeros(depth, np.float32))  # fmt: skip
    x = np.stack([np.roll(E4M3_VALUES, shift) * np.float32(2.0 ** (shift % 9)) for shift in range(20)])
    for count in (1, 4, 20):
        np.testing.assert_array_equal(module["main"](x[:count]), x[:count] * largest)


@pytest.mark.parametrize("architecture", ["sm_89", "sm_90a", "gfx942", "gfx1201", "sm_80"])
def test_rows_that_are_not_finite(tools, scratch, architecture):
    """NaN and infinity make their row NaN, and no other; rows of zeros and of the smallest numbers are what they are."""
    weight = weight_of(40, 96)
    module = compiled(tools, scratch / f"special-{architecture}", architecture, weight, np.zeros(40, np.float32))
    for count in (4, 24):
        x = normal(count, 96)
        x[0, 5], x[1, 7], x[2], x[3] = np.nan, -np.inf, 0, 1e-45
        y = module["main"](x)
        assert np.isnan(y[:2]).all()
        np.testing.assert_array_equal(y[2:4], 0)
        inputs = quantize_to_e4m3(x[4:])
        if count > 4:
            bound = matmul_error(inputs, weight.T, 64)
            bound += truncation(architecture, 96) * float((np.abs(inputs) @ np.abs(weight.T)).max())
            close(y[4:], inputs.astype(np.float64) @ quantize_weight("fp8", weight).T, bound)


@pytest.mark.parametrize("architecture", ["sm_89", "gfx942", "sm_80"])
def test_norm_before_and_ops_after(tools, scratch, architecture):
    features, depth = 64, 288
    text = between_norm_and(program(features, depth), "nn.relu", features, depth)
    weight, bias, gain = weight_of(features, depth), normal(features), normal(depth)
    tensors = {"w": weight, "b": bias, "g": gain}
    module = build(tools, scratch / f"norm-{architecture}", text, tensors, f"emulated:{architecture}", *FLAGS)
    dequantized = quantize_weight("fp8", weight).T.astype(np.float64)
    for count in (1, 33):
        x = normal(count, depth)
        normed = (x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5) * gain).astype(np.float32)
        wanted = np.maximum(quantize_to_e4m3(normed).astype(np.float64) @ dequantized + bias, 0)
        # A norm that differs in its last bit may round to the element beside: a sixteenth of it.
        largest = float((np.abs(normed)[:, :, None] * np.abs(dequantized)).max())
        close(module["main"](x), wanted, largest / 16)
