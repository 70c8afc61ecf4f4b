# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.pool against its formula, in NumPy and double precision."""

from __future__ import annotations

import numpy as np
import pytest
from random_numbers import normal
from reference import nearest
from windows import Pool

POOLS = {
    "max": Pool("max", (6, 7), (3, 2)),
    "max_pads": Pool("max", (7, 6), (3, 3), strides=(2, 2), low=(1, 1), high=(1, 2)),
    "max_dilations": Pool("max", (9,), (3,), strides=(2,), dilations=(2,), low=(1,), high=(1,)),
    "max_3d": Pool("max", (3, 4, 5), (2, 2, 2), strides=(1, 2, 3), low=(0, 1, 0), high=(1, 0, 1)),
    "average": Pool("average", (5, 6), (2, 3), strides=(2, 1)),
    "average_pads": Pool("average", (6, 6), (3, 3), strides=(2, 2), low=(1, 1), high=(1, 1)),
    "average_counted": Pool("average", (6, 6), (3, 3), low=(1, 1), high=(1, 0), flags="count_include_pad"),
    "average_ceil": Pool("average", (6,), (3,), strides=(2,), low=(1,), high=(1,), beyond=(1,), flags="count_include_pad"),
    "average_global": Pool("average", (3, 4), (3, 4)),
    "lp": Pool("lp", (5, 5), (2, 2), strides=(2, 2)),
    "lp_1": Pool("lp", (5,), (3,), low=(1,), high=(1,), p=1),
    "lp_3": Pool("lp", (5,), (3,), p=3),
}  # fmt: skip


def text(pool: Pool) -> str:
    return f"nn.pool <{pool.kind}>, {{0}} {{{pool.attributes()}}} : {{types}}"


@pytest.mark.parametrize("name", POOLS)
def test_pool(evaluate, name: str) -> None:
    pool = POOLS[name]
    x = normal(2, *pool.size, 3)
    nearest(evaluate(text(pool), [x], (2, *pool.result, 3)), pool.compute(x)[0])


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_special_values(evaluate, value: float) -> None:
    x = np.full((1, 4, 2), value, np.float32)
    x[0, 2] = 1
    expected = np.float32(
        [[[value] * 2, [np.nan if np.isnan(value) else 1] * 2, [np.nan if np.isnan(value) else 1] * 2]]
    )
    np.testing.assert_array_equal(evaluate(text(Pool("max", (4,), (2,))), [x], (1, 3, 2)), expected)
