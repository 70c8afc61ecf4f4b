# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of functions of each element against Python's math, by the formulas of the papers that define them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reference import nearest

ACTIVATIONS = {
    "gelu {0} {{form = #nn.gelu_form<erf>}}": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    "gelu {0} {{form = #nn.gelu_form<tanh>}}": lambda x: (
        x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "silu {0}": lambda x: x / (1 + math.exp(-x)),
    "relu {0}": lambda x: max(x, 0.0),
    "tanh {0}": math.tanh,
    "sigmoid {0}": lambda x: 1 / (1 + math.exp(-x)),
}


@pytest.mark.parametrize("op", ACTIVATIONS)
def test_activation(evaluate, op: str) -> None:
    x = np.linspace(-9, 9, 256, dtype=np.float32)
    nearest(evaluate(f"nn.{op} : {{type}}", [x], (256,)), np.vectorize(ACTIVATIONS[op])(x.astype(float)))


@pytest.mark.parametrize("form", ["erf", "tanh"])
def test_gelu_far_below_zero(evaluate, form: str) -> None:
    """Values so near zero that 1 + erf and 1 + tanh have no digit of them."""
    x = np.linspace(-12, -5, 64, dtype=np.float32)
    y = x.astype(float)
    expected = [v / 2 * math.erfc(-v / math.sqrt(2)) for v in y]
    if form == "tanh":
        expected = y / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
    actual = evaluate(f"nn.gelu {{0}} {{{{form = #nn.gelu_form<{form}>}}}} : {{type}}", [x], (64,))
    np.testing.assert_allclose(actual, expected, rtol=6e-8, atol=1e-45)


def test_relu_keeps_nan(evaluate) -> None:
    assert np.isnan(evaluate("nn.relu {0} : {type}", [np.array([np.nan], np.float32)], (1,))[0])
