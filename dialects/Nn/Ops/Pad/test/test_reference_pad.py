# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.pad against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from random_numbers import normal


def pad(kind: str, low: tuple[int, ...], high: tuple[int, ...], value: str = "") -> str:
    amounts = [f"{name} = array<i64: {', '.join(map(str, each))}>" for name, each in (("low", low), ("high", high))]
    return f"nn.pad <{kind}>, {{0}} {{{{{', '.join(amounts)}{value}}}}} : {{types}}"


@pytest.mark.parametrize(
    ("low", "high"), [((0, 2, 1), (3, 0, 2)), ((0, 9, 8), (1, 7, 11)), ((0, 0, 0), (0, 0, 1))], ids=["", "far", "one"]
)
@pytest.mark.parametrize("kind", ["reflect", "edge", "wrap"])
def test_kinds(evaluate, kind: str, low: tuple[int, ...], high: tuple[int, ...]) -> None:
    x = normal(1, 4, 3)
    expected = np.pad(x, list(zip(low, high, strict=True)), kind)
    np.testing.assert_array_equal(evaluate(pad(kind, low, high), [x], expected.shape), expected)


def test_constant(evaluate) -> None:
    x = normal(5, 4, 3)
    expected = np.pad(x[1:, :, 1:2], ((0, 0), (2, 3), (0, 0)), constant_values=-1.5)
    y = evaluate(pad("constant", (-1, 2, -1), (0, 3, -1), ", value = -1.5 : f32"), [x], expected.shape)
    np.testing.assert_array_equal(y, expected)


def test_zeros_of_integers(evaluate) -> None:
    x = np.arange(6).reshape(2, 3)
    y = evaluate(pad("constant", (1, 0), (0, -3)), [x], (3, 0), dtype=np.int64)
    assert y.shape == (3, 0)
    y = evaluate(pad("constant", (1, 2), (0, -1)), [x], (3, 4), dtype=np.int64)
    np.testing.assert_array_equal(y, np.pad(x[:, :2], ((1, 0), (2, 0))))
