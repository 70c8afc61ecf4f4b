# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of norms against NumPy in double precision, by the formulas of the papers that define them."""

from __future__ import annotations

import numpy as np
import pytest
from random_numbers import normal
from reference import nearest


@pytest.mark.parametrize("dynamic", [False, True])
def test_layer_norm(evaluate, dynamic: bool) -> None:
    x, g, b = normal(2, 3, 64) + 3, normal(64), normal(64)
    y = x.astype(float)
    epsilon = float(np.float32(1e-5))
    expected = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + epsilon) * g + b
    text = "nn.layer_norm {0}, {1}, {2} {{epsilon = 1.0e-5 : f32}} : {types}"
    nearest(evaluate(text, [x, g, b], (2, 3, 64), dynamic), expected)


def test_rms_norm(evaluate) -> None:
    x, g = normal(2, 3, 64), normal(64)
    y = x.astype(float)
    expected = y / np.sqrt((y * y).mean(-1, keepdims=True) + float(np.float32(1e-6))) * g
    nearest(evaluate("nn.rms_norm {0}, {1} {{epsilon = 1.0e-6 : f32}} : {types}", [x, g], (2, 3, 64), True), expected)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("groups", [2, 8, 64])
def test_group_norm(evaluate, groups: int, dynamic: bool) -> None:
    """Section 3.1 of arXiv 1803.08494, for rows that are one position each."""
    x, g, b = normal(2, 3, 64) + 3, normal(64), normal(64)
    y = x.astype(float).reshape(2, 3, groups, -1)
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + float(np.float32(1e-5)))
    expected = y.reshape(2, 3, 64) * g + b
    text = f"nn.group_norm {{0}}, {{1}}, {{2}} {{{{epsilon = 1.0e-5 : f32, groups = {groups}}}}} : {{types}}"
    nearest(evaluate(text, [x, g, b], (2, 3, 64), dynamic), expected)
