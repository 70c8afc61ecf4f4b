# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The references of nn.top_k and nn.sort against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from random_numbers import RNG, normal


def order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """Return the stable order: ranks of equal elements are equal, those of NaN the largest, as NumPy sorts."""
    ranks = np.unique(x, return_inverse=True, equal_nan=True)[1].reshape(x.shape)
    return np.argsort(-ranks if descending else ranks, axis, kind="stable")


def special() -> np.ndarray:
    x = np.round(normal(3, 13, 2))
    x[0, 3] = x[1, 7] = np.nan
    x[0, 5], x[0, 6], x[2, 1], x[2, 2] = np.inf, -np.inf, 0.0, -0.0
    return x


def check(evaluate, op: str, x: np.ndarray, expected: np.ndarray, axis: int, dynamic: bool = False) -> None:
    shape = expected.shape
    sizes = ["?" if dynamic and d < 2 else str(n) for d, n in enumerate(shape)]
    element = {"f": "f32", "l": "i64", "b": "i8", "i": "i32"}[x.dtype.char]
    inner = "x".join("?" if dynamic and d < 2 else str(n) for d, n in enumerate(x.shape))
    whole = "x".join(sizes)
    types = f"(tensor<{inner}x{element}>) -> (tensor<{whole}x{element}>, tensor<{whole}xi64>)"
    text = f"{op} : {types}"
    indices = evaluate(text, [x], shape, dynamic, np.int64, result_of=(1, 2))
    np.testing.assert_array_equal(indices, expected)
    values = evaluate(text, [x], shape, dynamic, x.dtype, result_of=(0, 2))
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis))


@pytest.mark.parametrize("dynamic", [False, True], ids=["", "dynamic"])
@pytest.mark.parametrize("descending", [False, True], ids=["", "descending"])
def test_sort(evaluate, descending: bool, dynamic: bool) -> None:
    x = special()
    flag = "{{axis = 1, descending}}" if descending else "{{axis = 1}}"
    check(evaluate, f"nn.sort {{0}} {flag}", x, order(x, 1, descending), 1, dynamic)


@pytest.mark.parametrize("k", [1, 3, 4, 13])
@pytest.mark.parametrize("smallest", [False, True], ids=["", "smallest"])
def test_top_k(evaluate, k: int, smallest: bool) -> None:
    x = special()
    flag = ", smallest" if smallest else ""
    check(evaluate, f"nn.top_k {{0}} {{{{axis = 1, k = {k}{flag}}}}}", x, order(x, 1, not smallest)[:, :k], 1)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_integers(evaluate, dtype) -> None:
    x = RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (2, 9), dtype, endpoint=True)
    x[0, 3], x[0, 5], x[1, 2:5] = np.iinfo(dtype).min, np.iinfo(dtype).max, 7
    check(evaluate, "nn.sort {0} {{axis = 1}}", x, order(x, 1, False), 1)
    check(evaluate, "nn.top_k {0} {{axis = 1, k = 5}}", x, order(x, 1, True)[:, :5], 1)


def test_nothing(evaluate) -> None:
    x = normal(2, 3)
    assert evaluate(
        "nn.top_k {0} {{axis = 1, k = 0}} : (tensor<2x3xf32>) -> (tensor<2x0xf32>, tensor<2x0xi64>)",
        [x],
        (2, 0),
        result_of=(0, 2),
    ).shape == (2, 0)
