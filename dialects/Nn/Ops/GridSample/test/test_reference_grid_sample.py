# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.grid_sample against its formula, in NumPy and double precision."""

from __future__ import annotations

import numpy as np
import pytest
from image_formulas import grid_sample
from random_numbers import RNG, normal


@pytest.mark.parametrize("corners", [False, True], ids=["", "corners"])
@pytest.mark.parametrize("outside", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("kind", ["nearest", "linear", "cubic"])
def test_kinds(evaluate, kind: str, outside: str, corners: bool) -> None:
    x, grid = normal(2, 5, 4, 3), RNG.uniform(-2.5, 2.5, (2, 6, 3, 2)).astype(np.float32)
    attributes = " {{corners}}" if corners else ""
    y = evaluate(f"nn.grid_sample <{kind}>, <{outside}>, {{0}}, {{1}}{attributes} : {{types}}", [x, grid], (2, 6, 3, 3))
    np.testing.assert_allclose(y, grid_sample(x, grid, kind, outside, corners), 0, 3e-6)


@pytest.mark.parametrize("shape", [(7,), (3, 4, 2)], ids=["1d", "3d"])
def test_ranks(evaluate, shape: tuple[int, ...]) -> None:
    rank = len(shape)
    x, grid = normal(2, *shape, 3), RNG.uniform(-1.2, 1.2, (2, *range(2, 2 + rank), rank)).astype(np.float32)
    y = evaluate("nn.grid_sample <linear>, <zeros>, {0}, {1} : {types}", [x, grid], (*grid.shape[:-1], 3))
    np.testing.assert_allclose(y, grid_sample(x, grid, "linear", "zeros", False), 0, 3e-6)


def test_far(evaluate) -> None:
    """Coordinates that no integer holds read what lies outside."""
    x, grid = (
        normal(1, 3, 3, 1),
        np.array([np.inf, -np.inf, np.nan, 1e30], np.float32)[None, :, None, None].repeat(2, 3),
    )
    y = evaluate("nn.grid_sample <cubic>, <border>, {0}, {1} : {types}", [x, grid], (1, 4, 1, 1))
    np.testing.assert_allclose(y.ravel(), x[0, [2, 0, 0, 2], [2, 0, 0, 2], 0], 0, 3e-6)
