# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.cumulate against NumPy in double precision."""

from __future__ import annotations

import numpy as np
from random_numbers import normal
from reference import nearest


def test_sums(evaluate) -> None:
    x = normal(4, 16)
    nearest(evaluate("nn.cumulate <add>, {0} : {type}", [x], (4, 16), True), x.astype(float).cumsum(1))


def test_products_before(evaluate) -> None:
    x = normal(4, 16)
    before = np.concatenate([np.ones((4, 1)), x.astype(float).cumprod(1)[:, :-1]], 1)
    nearest(evaluate("nn.cumulate <mul>, {0} {{exclusive}} : {type}", [x], (4, 16)), before)


def test_smallest_to_come(evaluate) -> None:
    x = normal(4, 16)
    x[0, 3] = np.nan
    y = evaluate("nn.cumulate <minimumf>, {0} {{reverse}} : {type}", [x], (4, 16))
    np.testing.assert_array_equal(y, np.minimum.accumulate(x[:, ::-1], 1)[:, ::-1])
