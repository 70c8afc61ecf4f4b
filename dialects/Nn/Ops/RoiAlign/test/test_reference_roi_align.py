# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.roi_align against its formula, in NumPy and double precision."""

from __future__ import annotations

import numpy as np
import pytest
from image_formulas import roi_align
from random_numbers import RNG, normal


@pytest.mark.parametrize("largest", [False, True], ids=["", "largest"])
@pytest.mark.parametrize("half_pixel", [False, True], ids=["", "half_pixel"])
def test_regions(evaluate, half_pixel: bool, largest: bool) -> None:
    x, images = normal(2, 9, 8, 3), np.array([0, 1, 1, 0, 1])
    low = RNG.uniform(-4, 14, (5, 2))
    boxes = np.concatenate([low, low + RNG.uniform(0, 12, (5, 2))], 1).astype(np.float32)
    boxes[4] = [3, 3, 3, 3]
    flags = (", half_pixel" if half_pixel else "") + (", largest" if largest else "")
    attributes = f"{{{{sizes = array<i64: 3, 2>, samples = 2, spatial_scale = 0.5 : f32{flags}}}}}"
    y = evaluate(f"nn.roi_align {{0}}, {{1}}, {{2}} {attributes} : {{types}}", [x, boxes, images], (5, 3, 2, 3))
    np.testing.assert_allclose(y, roi_align(x, boxes, images, (3, 2), 2, 0.5, half_pixel, largest), 0, 3e-6)


def test_image_that_is_not_there(evaluate) -> None:
    x, boxes = normal(2, 4, 4, 1), np.array([[0, 0, 2, 2]] * 3, np.float32)
    attributes = "{{sizes = array<i64: 1, 1>, samples = 1}}"
    y = evaluate(
        f"nn.roi_align {{0}}, {{1}}, {{2}} {attributes} : {{types}}", [x, boxes, np.array([-1, 0, 2])], (3, 1, 1, 1)
    )
    np.testing.assert_array_equal(np.isnan(y).ravel(), [True, False, True])
