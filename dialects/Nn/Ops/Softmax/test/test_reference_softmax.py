# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.softmax against NumPy in double precision."""

from __future__ import annotations

import numpy as np
from random_numbers import normal
from reference import nearest


def test_softmax(evaluate) -> None:
    x = normal(4, 16) * 10
    x[1], x[2, 3:] = -np.inf, -np.inf
    y = np.where(np.isinf(x.max(-1, keepdims=True)), -1e9, x.astype(float))
    expected = np.exp(y - y.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    expected[1] = 0
    nearest(evaluate("nn.softmax {0} : {type}", [x], (4, 16), True), expected)
