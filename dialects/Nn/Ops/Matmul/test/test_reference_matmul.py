# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.matmul against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from random_numbers import normal
from reference import nearest


@pytest.mark.parametrize("flags", ["", "transpose_lhs", "transpose_rhs", "transpose_lhs, transpose_rhs"])
def test_matmul(evaluate, flags: str) -> None:
    a, b = normal(2, 3, 16), normal(2, 16, 4)
    lhs = np.ascontiguousarray(a.swapaxes(1, 2)) if "lhs" in flags else a
    rhs = np.ascontiguousarray(b.swapaxes(1, 2)) if "rhs" in flags else b
    text = "nn.matmul {0}, {1} " + (f"{{{{{flags}}}}} " if flags else "") + ": {types}"
    nearest(evaluate(text, [lhs, rhs], (2, 3, 4), dynamic=not flags), a.astype(float) @ b.astype(float))
