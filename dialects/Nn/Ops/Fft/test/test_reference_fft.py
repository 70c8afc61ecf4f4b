# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.fft against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from random_numbers import normal


def parts(values: np.ndarray) -> np.ndarray:
    return np.stack([values.real, values.imag], -1)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("number", [1, 2, 9, 12])
def test_transforms(evaluate, number: int, dynamic: bool) -> None:
    x = normal(3, number, 2, 2)
    values = (x[..., 0] + 1j * x[..., 1]).astype(complex)
    for attributes, expected in (
        ("axis = 1", np.fft.fft(values, axis=1)),
        ("axis = 1, inverse", np.fft.ifft(values, axis=1)),
    ):
        y = evaluate(f"nn.fft {{0}} {{{{{attributes}}}}} : {{types}}", [x], (3, number, 2, 2), dynamic)
        np.testing.assert_allclose(y, parts(expected), 0, 1e-6)
    real = np.ascontiguousarray(x[..., :1])
    half = number // 2 + 1
    y = evaluate("nn.fft {0} {{axis = 1, onesided}} : {types}", [real], (3, half, 2, 2), dynamic)
    np.testing.assert_allclose(y, parts(np.fft.rfft(real[..., 0].astype(float), axis=1)), 0, 1e-6)
    spectrum = np.ascontiguousarray(x[:, :half])
    attributes = f"{{{{axis = 1, inverse, onesided, length = {number}}}}}"
    y = evaluate(f"nn.fft {{0}} {attributes} : {{types}}", [spectrum], (3, number, 2, 1))
    expected = np.fft.irfft(values[:, :half], number, axis=1)
    np.testing.assert_allclose(y[..., 0], expected, 0, 1e-6)
