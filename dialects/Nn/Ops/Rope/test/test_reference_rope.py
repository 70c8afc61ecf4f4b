# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.rope against NumPy in double precision, by equation 15 of arXiv 2104.09864."""

from __future__ import annotations

import numpy as np
import pytest
from random_numbers import RNG, normal
from reference import nearest


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope(evaluate, interleaved: bool) -> None:
    """Features 8 and 9 are beyond the rotated ones."""
    x, positions = normal(2, 5, 3, 10), RNG.integers(0, 100, (2, 5))
    frequencies = (10000.0 ** (-np.arange(4) / 4)).astype(np.float32)
    angles = (positions[..., None].astype(np.float32) * frequencies)[:, :, None, :].astype(float)
    pairs = x[..., :8].astype(float)
    first, second = (pairs[..., 0::2], pairs[..., 1::2]) if interleaved else (pairs[..., :4], pairs[..., 4:])
    turned = 1.5 * (first + 1j * second) * np.exp(1j * angles)
    expected = x.astype(float)
    if interleaved:
        expected[..., 0:8:2], expected[..., 1:8:2] = turned.real, turned.imag
    else:
        expected[..., :4], expected[..., 4:8] = turned.real, turned.imag
    flags = ("interleaved, " if interleaved else "") + "attention_factor = 1.5 : f32"
    text = f"nn.rope {{0}}, {{1}}, {{2}} {{{{{flags}}}}} : {{types}}"
    nearest(evaluate(text, [x, positions, frequencies], x.shape, True), expected)
