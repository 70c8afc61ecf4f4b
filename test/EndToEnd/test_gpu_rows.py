# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementwise and row-wise kernels of random shapes on emulated GPUs, against NumPy in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from programs import build, close, in_turn, random_cases
from random_numbers import RNG, normal
from test_ops import UNARY, group_norm, softmax

pytestmark = pytest.mark.cpu_only

# One architecture for each size of a warp and each vendor.
ARCHITECTURES = ("sm_80", "gfx942", "gfx1100")
# Element types, and the rounding of one operation.
TYPES = {"f32": (np.float32, 2.0**-24), "f16": (np.float16, 2.0**-11)}


def random_size(largest: int, least: int = 1) -> int:
    return int(RNG.integers(least, largest + 1))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_elementwise(tools, tmp_path, monkeypatch, architecture: str) -> None:
    names = list(UNARY)
    for number in random_cases(monkeypatch, usual=4):
        op = names[number % len(names)]
        module = build(
            tools,
            tmp_path,
            f"""func.func @main(%x: tensor<?x?xf32> {{nn.name = "x", nn.sizes = ["a", "b"]}},
                               %s: tensor<?x?xf32> {{nn.name = "s", nn.sizes = ["a", "b"]}})
              -> (tensor<?x?xf32> {{nn.name = "y", nn.sizes = ["a", "b"]}}) {{
              %r = arith.mulf %x, %s : tensor<?x?xf32>
              %y = {op} : tensor<?x?xf32>
              return %y : tensor<?x?xf32> }}""",
            target=f"emulated:{architecture}",
        )
        shape = random_size(40), random_size(300)
        x, s = normal(*shape), normal(*shape)
        expected = UNARY[op]((x * s).astype(np.float64))
        close(module.main(x, s), expected, 4e-7 * max(1.0, np.abs(expected).max()))


def normed(x: np.ndarray, norm: str, groups: int) -> np.ndarray:
    if norm == "rms_norm":
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    return group_norm(x, groups, 1e-5)


@pytest.mark.parametrize(
    ("norm", "element", "architecture"),
    in_turn(itertools.product(["layer_norm", "rms_norm", "group_norm"], TYPES), ARCHITECTURES),
)
def test_random_norms(tools, tmp_path, monkeypatch, architecture: str, norm: str, element: str) -> None:
    """A norm and a product with it; rows shorter and longer than a warp reads at once."""
    dtype, unit = TYPES[element]
    for _ in random_cases(monkeypatch, usual=2):
        groups = random_size(8) if norm == "group_norm" else 1
        # Two features at least: the deviation of one is zero.
        features = groups * random_size(600 // groups, least=2)
        scale, bias = normal(features).astype(dtype), normal(features).astype(dtype)
        row, vector = f"tensor<?x{features}x{element}>", f"tensor<{features}x{element}>"
        operands = ["%x", "%g"] + ([] if norm == "rms_norm" else ["%b"])
        types = [row] + [vector] * (len(operands) - 1)
        attributes = "epsilon = 1.0e-5 : f32" + (f", groups = {groups}" if norm == "group_norm" else "")
        module = build(
            tools,
            tmp_path,
            f"""func.func @main(%x: {row} {{nn.name = "x", nn.sizes = ["rows", ""]}},
                               %f: {row} {{nn.name = "f", nn.sizes = ["rows", ""]}})
              -> ({row} {{nn.name = "y", nn.sizes = ["rows", ""]}}) {{
              %g = nn.weight @weights["g"] : {vector}
              %b = nn.weight @weights["b"] : {vector}
              %n = nn.{norm} {", ".join(operands)} {{{attributes}}} : ({", ".join(types)}) -> {row}
              %y = arith.mulf %n, %f : {row}
              return %y : {row} }}""",
            {"g": scale, "b": bias},
            f"emulated:{architecture}",
        )
        rows = random_size(70)
        x, factor = (normal(rows, features) + 1).astype(dtype), normal(rows, features).astype(dtype)
        exact, wide = x.astype(np.float64), scale.astype(np.float64)
        expected = normed(exact, norm, groups) * wide + (0 if norm == "rms_norm" else bias)
        expected = expected * factor.astype(np.float64)
        # As in test_ops.py: roundings of the input are as large, relative to the deviation, as it is small.
        spread = np.sqrt(exact.reshape(rows, groups, -1).var(-1) + 1e-5).min() if norm != "rms_norm" else 1.0
        error = 8 * unit * np.abs(exact).max() / spread * np.abs(wide).max()
        tolerance = (error + 4 * unit * np.abs(expected).max()) * max(1.0, np.abs(factor).max())
        close(module.main(x, factor), expected, tolerance)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_softmax(tools, tmp_path, monkeypatch, architecture: str) -> None:
    for number in random_cases(monkeypatch, usual=4):
        # Rows of a known length stay in registers, those of any length do not.
        columns = random_size(700)
        row = f"tensor<?x{columns if number % 2 else '?'}xf32>"
        name = "" if number % 2 else "b"
        module = build(
            tools,
            tmp_path,
            f"""func.func @main(%x: {row} {{nn.name = "x", nn.sizes = ["a", "{name}"]}})
              -> ({row} {{nn.name = "y", nn.sizes = ["a", "{name}"]}}) {{
              %y = nn.softmax %x : {row}
              return %y : {row} }}""",
            target=f"emulated:{architecture}",
        )
        x = normal(random_size(40), columns) * 10
        close(module.main(x), softmax(x.astype(np.float64)), 3e-7)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_rope_of_embeddings(tools, tmp_path, monkeypatch, architecture: str) -> None:
    """Rows of a table, then rotations of their heads."""
    for number in random_cases(monkeypatch, usual=2):
        heads, half, rest = random_size(5), random_size(40), random_size(20, least=0)
        dim, vocabulary, interleaved = 2 * half + rest, random_size(50), number % 2 == 1
        # Angles that a float32 product rounds by no more than its last bit.
        frequencies = (1e4 ** (-np.arange(half) / half)).astype(np.float32)
        table = normal(vocabulary, heads * dim)
        rows, split = f"tensor<?x?x{heads * dim}xf32>", f"tensor<?x?x{heads}x{dim}xf32>"
        index = "tensor<?x?xi64>"
        module = build(
            tools,
            tmp_path,
            f"""func.func @main(
                %i: {index} {{nn.name = "i", nn.sizes = ["b", "s"], nn.range = array<i64: 0, {vocabulary}>}},
                %p: {index} {{nn.name = "p", nn.sizes = ["b", "s"]}}) -> ({split} {{nn.name = "y"}}) {{
              %c0 = arith.constant 0 : index
              %c1 = arith.constant 1 : index
              %b = tensor.dim %i, %c0 : {index}
              %s = tensor.dim %i, %c1 : {index}
              %t = nn.weight @weights["t"] : tensor<{vocabulary}x{heads * dim}xf32>
              %f = nn.weight @weights["f"] : tensor<{half}xf32>
              %e = nn.embedding %t, %i : (tensor<{vocabulary}x{heads * dim}xf32>, {index}) -> {rows}
              %x = tensor.expand_shape %e [[0], [1], [2, 3]] output_shape [%b, %s, {heads}, {dim}] : {rows} into {split}
              %y = nn.rope %x, %p, %f {{attention_factor = 1.5 : f32{", interleaved" if interleaved else ""}}}
                : ({split}, {index}, tensor<{half}xf32>) -> {split}
              return %y : {split} }}""",
            {"t": table, "f": frequencies},
            f"emulated:{architecture}",
        )
        shape = random_size(3), random_size(40)
        ids, positions = RNG.integers(0, vocabulary, shape), RNG.integers(0, 5000, shape)
        angle = (positions[:, :, None].astype(np.float32) * frequencies)[:, :, None].astype(np.float64)
        cosine, sine = np.cos(angle) * 1.5, np.sin(angle) * 1.5
        expected = table[ids].reshape(*shape, heads, dim).astype(np.float64)
        first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
        if not interleaved:
            first, second = slice(0, half), slice(half, 2 * half)
        a, c = expected[..., first].copy(), expected[..., second].copy()
        expected[..., first], expected[..., second] = a * cosine - c * sine, c * cosine + a * sine
        close(module.main(i=ids, p=positions), expected, 2e-6 * max(1.0, np.abs(expected).max()))
