# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floats that a baseline processor cannot convert, and functions of the C library, against NumPy and ml_dtypes."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from random_numbers import RNG, normal
from reference_object import BF16, ReferenceObject, kernel


@pytest.fixture
def compiled(tools, tmp_path: Path):
    return lambda program: ReferenceObject(tools, program, tmp_path)


def conversion(op: str, source: str, target: str) -> str:
    a, b = f"tensor<?x{source}>", f"tensor<?x{target}>"
    sizes = '{nn.sizes = ["s0"]}'
    return kernel(
        "convert",
        "rows",
        f"%x: {a} {sizes}",
        f"{b} {sizes}",
        f"  %r = {op} %x : {a} to {b}\n  rt.yield %r : {b}",
        '"s0"',
    )


@pytest.mark.parametrize(
    ("element", "dtype"),
    [("bf16", BF16), ("f16", np.float16), ("f8E4M3FN", ml_dtypes.float8_e4m3fn), ("f8E5M2", ml_dtypes.float8_e5m2)],
)
def test_every_small_float_widens(compiled, element, dtype) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    x = np.arange(1 << bits, dtype=f"u{bits // 8}").view(dtype)
    [result] = compiled(conversion("arith.extf", element, "f32"))(0, [x], [np.empty(len(x), np.float32)], (len(x),))
    np.testing.assert_array_equal(result, x.astype(np.float32))


@pytest.mark.parametrize(("element", "dtype"), [("bf16", BF16), ("f16", np.float16)])
def test_floats_narrow(compiled, element, dtype) -> None:
    # Every small float, the middle to its neighbour, and values right beside that; then random bits.
    small = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        middle = ((small.astype(np.float64) + np.roll(small, 1)) / 2).astype(np.float32)
    beside = [np.nextafter(middle, np.float32(side)) for side in (-np.inf, np.inf)]
    bits = RNG.integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)
    x = np.concatenate([small, middle, *beside, bits])
    [result] = compiled(conversion("arith.truncf", "f32", element))(0, [x], [np.empty(len(x), dtype)], (len(x),))
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(dtype)
    isnan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(result), isnan)
    np.testing.assert_array_equal(result.view(np.uint16)[~isnan], expected.view(np.uint16)[~isnan])


@pytest.mark.parametrize(("element", "dtype"), [("bf16", BF16), ("f16", np.float16)])
def test_doubles_narrow_once(compiled, element, dtype) -> None:
    """Values whose nearest f32 is half way between two small floats, on either side of it."""
    infinity = 0x7F80 if element == "bf16" else 0x7C00
    small = np.arange(infinity, dtype=np.uint16).view(dtype).astype(np.float64)
    middle = (small[:-1] + small[1:]) / 2
    x = np.concatenate([middle * (1 + sign * 2.0**-40) for sign in (-1, 0, 1)])
    with np.errstate(over="ignore"):
        lower = np.concatenate([small[:-1]] * 3), np.concatenate([small[1:]] * 3)
    isEven = np.arange(len(middle)) % 2 == 0
    expected = np.where(np.concatenate([np.ones_like(isEven), isEven, np.zeros_like(isEven)]), *lower)
    x, expected = np.concatenate([x, -x]), np.concatenate([expected, -expected])
    beyond = np.array([1e300, -1e300, np.inf, -np.inf, 1e-300, -1e-300])
    x, expected = np.concatenate([x, beyond]), np.concatenate([expected, [np.inf, -np.inf] * 2, [0.0, -0.0]])
    [result] = compiled(conversion("arith.truncf", "f64", element))(0, [x], [np.empty(len(x), dtype)], (len(x),))
    np.testing.assert_array_equal(result.view(np.uint16), expected.astype(np.float32).astype(dtype).view(np.uint16))


@pytest.mark.parametrize(
    ("element", "dtype"), [("f8E4M3FN", ml_dtypes.float8_e4m3fn), ("f8E5M2", ml_dtypes.float8_e5m2)]
)
def test_floats_of_8_bits_narrow(compiled, element, dtype) -> None:
    small = np.arange(1 << 8, dtype=np.uint8).view(dtype).astype(np.float32)
    middle = (small + np.roll(small, 1)) / 2
    beside = [np.nextafter(middle, np.float32(side)) for side in (-np.inf, np.inf)]
    edges = np.array([464, 480, 61440, 65536, 1e30, 1e-30, 1e-45], np.float32)
    bits = RNG.integers(0, 1 << 32, 1 << 14, np.uint32).view(np.float32)
    x = np.concatenate([small, middle, *beside, edges, -edges, bits, normal(1 << 12)])
    [result] = compiled(conversion("arith.truncf", "f32", element))(0, [x], [np.empty(len(x), dtype)], (len(x),))
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(dtype)
    isnan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(result), isnan)
    np.testing.assert_array_equal(result.view(np.uint8)[~isnan], expected.view(np.uint8)[~isnan])


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_small_floats_move(compiled, element) -> None:
    """Selects, loops and constants, for which a code generator may convert a float that the processor lacks."""
    tensor, dtype = f"tensor<8x{element}>", BF16 if element == "bf16" else np.float16
    program = kernel(
        "moves",
        "generic",
        f"%x: {tensor}, %m: tensor<8xi1>",
        f"{tensor}, tensor<{element}>",
        f"""
  %c = arith.constant dense<[1.0, -2.0, 0.5, 3.0, 1.5, -1.0, 4.0, -8.0]> : {tensor}
  %s = arith.select %m, %x, %c : tensor<8xi1>, {tensor}
  %i = arith.constant dense<-100.0> : tensor<{element}>
  %r = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}}
      ins(%s : {tensor}) outs(%i : tensor<{element}>) {{
  ^bb0(%in: {element}, %out: {element}):
    %l = arith.cmpf ogt, %in, %out : {element}
    %v = arith.select %l, %in, %out : {element}
    linalg.yield %v : {element}
  }} -> tensor<{element}>
  rt.yield %s, %r : {tensor}, tensor<{element}>""",
    )
    x, mask = normal(8, dtype=dtype), np.array([0, 1, 0, 0, 1, 1, 0, 1], np.uint8)
    selected, largest = compiled(program)(0, [x, mask], [np.empty(8, dtype), np.empty((), dtype)])
    expected = np.where(mask, x, np.array([1, -2, 0.5, 3, 1.5, -1, 4, -8], dtype))
    np.testing.assert_array_equal(selected, expected)
    assert largest == expected.max()


@pytest.mark.parametrize(("op", "function"), [("exp", np.exp), ("log1p", np.log1p), ("expm1", np.expm1)])
def test_functions_are_rounded_once(compiled, op, function) -> None:
    x = np.abs(np.concatenate([normal(2000), np.exp2(-np.arange(140.0)).astype(np.float32)]))
    tensor = f"tensor<{len(x)}xf32>"
    program = kernel(
        "unary", "rows", f"%x: {tensor}", tensor, f"  %r = math.{op} %x : {tensor}\n  rt.yield %r : {tensor}"
    )
    [result] = compiled(program)(0, [x], [np.empty_like(x)])
    np.testing.assert_array_equal(result, function(x.astype(np.float64)).astype(np.float32))


def test_rounds_to_even(compiled) -> None:
    x = np.concatenate([np.arange(-9, 9, 0.25), [2**22 + 0.5, 2**23 + 1, -(2**22) - 1.5, 1e30, -0.0, np.inf, np.nan]])
    x = x.astype(np.float32)
    tensor = f"tensor<{len(x)}xf32>"
    program = kernel(
        "round", "rows", f"%x: {tensor}", tensor, f"  %r = math.roundeven %x : {tensor}\n  rt.yield %r : {tensor}"
    )
    kernels = compiled(program)
    [result] = kernels(0, [x], [np.empty_like(x)])
    np.testing.assert_array_equal(result, np.round(x))
    np.testing.assert_array_equal(np.signbit(result), np.signbit(x))
    assert "roundevenf" not in kernels.imports
