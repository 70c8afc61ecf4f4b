# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.embedding against NumPy."""

from __future__ import annotations

import numpy as np
from random_numbers import RNG, normal


def test_embedding(evaluate) -> None:
    table, ids = normal(50, 7), RNG.integers(0, 50, (3, 4))
    np.testing.assert_array_equal(evaluate("nn.embedding {0}, {1} : {types}", [table, ids], (3, 4, 7)), table[ids])
