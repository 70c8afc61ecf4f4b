# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.linear against NumPy in double precision."""

from __future__ import annotations

import ml_dtypes
import pytest
from random_numbers import normal
from reference import nearest


@pytest.mark.parametrize("dynamic", [False, True])
def test_linear(evaluate, dynamic: bool) -> None:
    x, w, b = normal(2, 3, 64), normal(5, 64), normal(5)
    expected = x.astype(float) @ w.astype(float).T + b
    nearest(evaluate("nn.linear {0}, {1}, {2} : {types}", [x, w, b], (2, 3, 5), dynamic), expected)


def test_linear_bf16(evaluate) -> None:
    x, w = normal(3, 64).astype(ml_dtypes.bfloat16), normal(5, 64).astype(ml_dtypes.bfloat16)
    actual = evaluate("nn.linear {0}, {1} : {types}", [x, w], (3, 5), dtype=ml_dtypes.bfloat16)
    nearest(actual, x.astype(float) @ w.astype(float).T)
