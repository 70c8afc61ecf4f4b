# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.resize against its formula, in NumPy and double precision."""

from __future__ import annotations

import numpy as np
import pytest
from image_formulas import Axis, Resize
from random_numbers import normal
from reference import nearest


def half_pixel(*sizes: tuple[int, int], scale: float | None = None) -> tuple[Axis, ...]:
    return tuple(Axis(axis, size, scale, 0.5, -0.5) for axis, size in sizes)


def template(resize: Resize) -> str:
    return resize.text().replace("{", "{{").replace("}", "}}").replace("%x", "{0}") + " : {types}"


# Weights are multiples of a power of two, which f32 holds.
EXACT = {
    "linear_up": Resize("linear", half_pixel((1, 16), (2, 12))),
    "linear_down": Resize("linear", half_pixel((1, 4), (2, 3))),
    "linear_corners": Resize("linear", (Axis(1, 15, corners=True),)),
    "linear_asymmetric": Resize("linear", (Axis(2, 12),)),
    "cubic_up": Resize("cubic", half_pixel((2, 12), (1, 16))),
    "cubic_down": Resize("cubic", half_pixel((1, 4))),
    "one": Resize("linear", (Axis(1, 1, corners=True), Axis(2, 1, corners=True))),
    "none": Resize("linear", (Axis(1, 0),)),
    "first_axis": Resize("cubic", half_pixel((0, 4))),
    "outside": Resize("linear", (Axis(1, 8, 1.5, 0, -2), Axis(2, 4, 0.5, 0, 0.25)), outside=7),
    "antialias": Resize("linear", half_pixel((1, 4)), antialias=True),
}
NEAR = {
    "antialias_excluded": Resize("linear", half_pixel((1, 4)), antialias=True, exclude_outside=True),
    "cubic_excluded": Resize("cubic", half_pixel((1, 13), (2, 5)), exclude_outside=True),
    "cubic_antialias": Resize("cubic", half_pixel((1, 3), (2, 4)), antialias=True, exclude_outside=True, coefficient=-0.5),
    "cubic_antialias_edges": Resize("cubic", half_pixel((1, 3)), antialias=True),
    "linear_thirds": Resize("linear", half_pixel((1, 24), (2, 2))),
    "antialias_up": Resize("linear", half_pixel((1, 11)), antialias=True),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_exact(evaluate, name: str) -> None:
    x = normal(2, 8, 6, 3)
    resize = EXACT[name]
    y = evaluate(template(resize), [x], resize.result(x.shape))
    nearest(y, resize.compute(x))


@pytest.mark.parametrize("name", NEAR)
def test_near(evaluate, name: str) -> None:
    x = normal(2, 8, 6, 3)
    resize = NEAR[name]
    y = evaluate(template(resize), [x], resize.result(x.shape))
    np.testing.assert_allclose(y, resize.compute(x), 0, 1e-6)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "half_down", "half_up"])
def test_nearest(evaluate, rounding: str) -> None:
    x = np.arange(2 * 7 * 4, dtype=np.int64).reshape(2, 7, 4)
    resize = Resize("nearest", (Axis(1, 14, shift=0.5, offset=-0.5), Axis(2, 2, shift=0.5, offset=-0.5)), rounding)
    y = evaluate(template(resize), [x], resize.result(x.shape), dtype=np.int64)
    np.testing.assert_array_equal(y, resize.compute(x))
