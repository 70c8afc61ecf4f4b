# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.nonzero against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from random_numbers import RNG


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("kind", ["some", "all", "none", "mask"])
def test_elements(evaluate, kind: str, dynamic: bool) -> None:
    x = RNG.integers(-1, 2, (5, 300)).astype(np.float32)
    x[1, 2], x[4, 299] = np.nan, -0.0
    x = {"some": x, "all": np.ones_like(x), "none": -np.zeros_like(x), "mask": x > 0}[kind]
    expected = np.argwhere(x)
    element = "i1" if kind == "mask" else "f32"
    sizes, elements = ("?x300", "?") if dynamic else ("5x300", "1500")
    text = f"nn.nonzero {{0}} : (tensor<{sizes}x{element}>) -> (tensor<{elements}x2xi64>, tensor<i64>)"
    count = evaluate(text, [x], (), dtype=np.int64, result_of=(1, 2), dynamic=dynamic)
    assert count == len(expected)
    indices = evaluate(text, [x], (1500, 2), dtype=np.int64, result_of=(0, 2), dynamic=dynamic)
    np.testing.assert_array_equal(indices[: len(expected)], expected)
    assert (indices[len(expected) :] == -1).all()
