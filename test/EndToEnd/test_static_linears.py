# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linears whose inputs have integers of 8 bits with factors that are known, against NumPy in float64 with the same
quantized values."""

from __future__ import annotations

import numpy as np
import pytest
from block_formats import quantize_weight
from programs import build, close, matmul_error
from random_numbers import RNG, normal

TARGETS = ["cpu", "cpu:x86-64", "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v3+avxvnni", "cpu:x86-64-v4+avx512vnni"]


def constant(values: np.ndarray) -> str:
    """Return an arith.constant of f32 with exactly these bits."""
    return f'arith.constant dense<"0x{values.astype("<f4").tobytes().hex().upper()}"> : tensor<{values.size}xf32>'


def quantized(source: str, name: str, shape: str, scales: str, of: str, factors: str, depth: int, attribute="") -> str:
    """Return %name, which is %source times factors, quantized with one scale for each row and dequantized."""
    form = f"#nn.block_format<i8, {of}, 0, axis = {shape.count('x') + 1}>"
    types = f"tensor<{shape}x{depth}xi8>, tensor<{scales}x1x{of}>"
    return f"""
  %{name}_q, %{name}_s = nn.quantize %{source} factors %{factors} {{format = {form}{attribute}}}
      : (tensor<{shape}x{depth}xf32>, tensor<{depth}xf32>) -> ({types})
  %{name} = nn.dequantize %{name}_q, %{name}_s {{format = {form}}} : ({types}) -> tensor<{shape}x{depth}xf32>"""


def linear(source: str, name: str, key: str, features: int, depth: int, factors: np.ndarray) -> str:
    """Return %name, the linear of %source by the weight of an archive."""
    return f"""
  %{name}_r = {constant(np.float32(1) / factors)}
  %{name}_f = {constant(factors)}
  %{name}_w = nn.weight @weights["{key}"] : tensor<{features}x{depth}xf32>
{quantized(source, f"{name}_x", "?", "?", "f32", f"{name}_r", depth, ", unit_scale")}
{quantized(f"{name}_w", f"{name}_v", str(features), str(features), "f16", f"{name}_f", depth)}
  %{name} = nn.linear %{name}_x, %{name}_v
      : (tensor<?x{depth}xf32>, tensor<{features}x{depth}xf32>) -> tensor<?x{features}xf32>"""


def program(features: int, depth: int, factors: np.ndarray) -> str:
    return f"""
func.func @main(%x: tensor<?x{depth}xf32> {{nn.name = "x", nn.sizes = ["rows", ""]}})
    -> (tensor<?x{features}xf32> {{nn.name = "y"}}) {{
{linear("x", "y", "w", features, depth, factors)}
  return %y : tensor<?x{features}xf32>
}}
"""


def integers_of(x: np.ndarray, factors: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x * (np.float32(1) / factors)), -128, 127)


def activations(rows: int, factors: np.ndarray) -> np.ndarray:
    """Return inputs some of which are beyond the range, no quotient of which lies near a half."""
    x = normal(rows, factors.size) * 50 * factors
    quotients = x / factors
    return np.where(np.abs(np.abs(quotients - np.trunc(quotients)) - 0.5) < 1e-3, 0, x).astype(np.float32)


def some_factors(depth: int) -> np.ndarray:
    return np.exp2(RNG.uniform(-6, 6, depth)).astype(np.float32)


def check(module, x: np.ndarray, weight: np.ndarray, factors: np.ndarray) -> np.ndarray:
    inputs, matrix = integers_of(x, factors), quantize_weight("int8-channel", weight * factors)
    y = module["main"](x)
    close(y, inputs.astype(np.float64) @ matrix.T.astype(np.float64), matmul_error(inputs, matrix.T, 64))
    return y


@pytest.mark.parametrize(("features", "depth"), [(64, 256), (70, 200), (33, 2400), (16, 3)])
def test_shapes(tools, scratch, features, depth):
    weight, factors = normal(features, depth), some_factors(depth)
    module = build(tools, scratch / f"{features}-{depth}", program(features, depth, factors), {"w": weight}, "cpu")
    rows = [activations(count, factors) for count in (1, 2, 3, 5, 8, 9, 33, 300)]
    results = [check(module, x, weight, factors) for x in rows]
    integers = integers_of(rows[-1], factors)
    assert integers.min() == -128 or integers.max() == 127
    for x, y in zip(rows, results, strict=True):  # a row has the same results whatever else is computed with it
        np.testing.assert_array_equal(module["main"](x[-1:])[0], y[-1])


@pytest.mark.cpu_only
@pytest.mark.parametrize("target", [*TARGETS[1:], "reference"])
def test_targets(tools, scratch, target):
    features, depth = 40, 300
    weight, factors = normal(features, depth), some_factors(depth)
    folder = scratch / target.replace(":", "-")
    module = build(tools, folder, program(features, depth, factors), {"w": weight}, target)
    for count in (1, 2, 7, 40):
        check(module, activations(count, factors), weight, factors)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64", "cpu:x86-64-v3"])
def test_sums_are_exact(tools, scratch, target):
    """Integers at the ends of their range, and beyond: not one bit may be lost, and no sum may overflow."""
    features, depth = 32, 1000
    weight = RNG.choice([-127, 127, 126, 0], (features, depth)).astype(np.float32)
    weight[:, 0], weight[0], weight[1] = 127, 127, -127
    x = RNG.choice([-1000, -128, -127, 127, 126, 0, -1, 300], (40, depth)).astype(np.float32)
    x[0], x[1] = 127, -128
    factors = np.exp2(RNG.integers(-5, 5, depth)).astype(np.float32)
    module = build(tools, scratch / f"exact-{target.replace(':', '-')}", program(features, depth, factors),
                   {"w": weight / factors}, target)  # fmt: skip
    expected = np.clip(x, -128, 127).astype(np.float64) @ weight.T.astype(np.float64)
    for count in (1, 2, 40):
        np.testing.assert_array_equal(module["main"](x[:count] * factors), expected[:count].astype(np.float32))


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_what_is_no_number(tools, scratch, target):
    """Infinity is beyond the range, and NaN is the lowest integer: scales do not see the input."""
    features, depth = 40, 96
    weight, factors = normal(features, depth), some_factors(depth)
    module = build(tools, scratch / f"special-{target}", program(features, depth, factors), {"w": weight}, target)
    x = activations(4, factors)
    x[0, 5], x[1, 90], x[2, 0], x[3] = np.nan, np.inf, -np.inf, 0
    known = x.copy()
    known[0, 5], known[1, 90], known[2, 0] = -500 * factors[5], 500 * factors[90], -500 * factors[0]
    np.testing.assert_array_equal(module["main"](x), module["main"](known))
    np.testing.assert_array_equal(module["main"](x)[3], 0)


def pair(hidden: int, depth: int, factors: tuple[np.ndarray, np.ndarray], returns_both: bool) -> str:
    """Two linears; what lies between stays in floats where it is a result too."""
    also = f', tensor<?x{hidden}xf32> {{nn.name = "h"}}' if returns_both else ""
    return f"""
func.func @main(%x: tensor<?x{depth}xf32> {{nn.name = "x", nn.sizes = ["rows", ""]}})
    -> (tensor<?x40xf32> {{nn.name = "y"}}{also}) {{
{linear("x", "l", "u", hidden, depth, factors[0])}
  %h = nn.silu %l : tensor<?x{hidden}xf32>
{linear("h", "y", "d", 40, hidden, factors[1])}
  return %y{", %h" if returns_both else ""} : tensor<?x40xf32>{f", tensor<?x{hidden}xf32>" if returns_both else ""}
}}
"""


@pytest.mark.cpu_only
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("hidden", "depth"), [(512, 256), (768, 72), (100, 64)])
def test_a_result_is_quantized_where_it_is_computed(tools, scratch, target, hidden, depth):
    """The same bits as of a result that is written as floats and quantized where it is read; and what NumPy computes."""
    weights = {"u": normal(hidden, depth), "d": normal(40, hidden)}
    # So that most of what is between is in the range, and some is not.
    factors = some_factors(depth), (some_factors(hidden) * 40).astype(np.float32)
    folder = scratch / f"pair-{target.replace(':', '-')}-{hidden}"
    apart = build(tools, folder / "apart", pair(hidden, depth, factors, True), weights, target)
    module = build(tools, folder / "inside", pair(hidden, depth, factors, False), weights, target)
    matrix = quantize_weight("int8-channel", weights["d"] * factors[1])
    for count in (1, 2, 21, 200):
        x = activations(count, factors[0])
        y, h = apart["main"](x)
        np.testing.assert_array_equal(module["main"](x), y)
        expected = integers_of(h, factors[1]).astype(np.float64) @ matrix.T.astype(np.float64)
        close(y, expected, matmul_error(integers_of(h, factors[1]), matrix.T, 64))
