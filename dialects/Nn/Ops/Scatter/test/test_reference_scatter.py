# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The references of nn.scatter and nn.scatter_nd against their formulas, in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from random_numbers import RNG, normal
from reference import nearest

KINDS = {
    "set": lambda a, b: b,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "min": np.minimum,
    "max": np.maximum,
}


def scattered(kind: str, x: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int) -> np.ndarray:
    y = x.astype(float)
    for at in np.ndindex(updates.shape):
        to = (*at[:axis], indices[at], *at[axis + 1 :])
        y[to] = KINDS[kind](y[to], updates[at].astype(float))
    return y


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_scatter(evaluate, kind: str, axis: int) -> None:
    x, shape = normal(5, 7), (12, 7) if axis == 0 else (5, 12)
    indices, updates = RNG.integers(0, x.shape[axis], shape), normal(*shape)
    y = evaluate(
        f"nn.scatter <{kind}>, {{0}}, {{1}}, {{2}} {{{{axis = {axis}}}}} : {{types}}", [x, indices, updates], (5, 7)
    )
    nearest(y, scattered(kind, x, indices, updates, axis))


@pytest.mark.parametrize("kind", KINDS)
def test_scatter_nd(evaluate, kind: str) -> None:
    x, updates = normal(3, 4, 5), normal(14, 5)
    indices = [RNG.integers(0, 3, 14), RNG.integers(0, 4, 14)]
    expected = x.astype(float)
    for i in range(14):
        at = (indices[0][i], indices[1][i])
        expected[at] = KINDS[kind](expected[at], updates[i].astype(float))
    y = evaluate(f"nn.scatter_nd <{kind}>, {{0}}[{{1}}, {{2}}], {{3}} : {{types}}", [x, *indices, updates], (3, 4, 5))
    nearest(y, expected)


def test_integers(evaluate) -> None:
    x, indices, updates = np.arange(6), np.array([2, 2, 0]), np.array([10, 20, -5])
    y = evaluate("nn.scatter <max>, {0}, {1}, {2} {{axis = 0}} : {types}", [x, indices, updates], (6,), dtype=np.int64)
    np.testing.assert_array_equal(y, [0, 1, 20, 3, 4, 5])


@pytest.mark.parametrize("kind", ["set", "min"])
def test_outside_and_nan(evaluate, kind: str) -> None:
    x, indices = np.ones((4, 2), np.float32), np.array([-1, 4, 2, 1, 2])
    updates = np.array([[7, 7], [7, 7], [np.nan, 0], [5, 5], [-1, -2]], np.float32)
    expected = x.copy()
    expected[1] = 5 if kind == "set" else 1
    expected[2] = [-1, -2] if kind == "set" else [np.nan, -2]
    y = evaluate(f"nn.scatter_nd <{kind}>, {{0}}[{{1}}], {{2}} : {{types}}", [x, indices, updates], (4, 2))
    np.testing.assert_array_equal(y, expected)


def test_nothing(evaluate) -> None:
    x = normal(4, 2)
    y = evaluate(
        "nn.scatter_nd <set>, {0}[{1}], {2} : {types}", [x, np.zeros(0, np.int64), np.zeros((0, 2), "f")], (4, 2)
    )
    np.testing.assert_array_equal(y, x)
