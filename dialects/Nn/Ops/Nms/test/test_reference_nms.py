# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.nms against its formula, in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from random_numbers import normal
from selection_formulas import nms, random_boxes


@pytest.mark.parametrize("centered", [False, True], ids=["corners", "centered"])
def test_boxes(evaluate, centered: bool) -> None:
    boxes, scores = random_boxes(2, 9, centered), np.round(normal(2, 3, 9) * 3)
    scores[0, 1, 2] = np.nan
    boxes[1, 4, 2] = np.nan
    limit, iou, least = np.array(4), np.array(0.3, np.float32), np.array(-0.5, np.float32)
    expected = nms(boxes, scores, 4, 0.3, -0.5, centered)
    types = "(tensor<2x9x4xf32>, tensor<2x3x9xf32>, tensor<i64>, tensor<f32>, tensor<f32>) -> (tensor<54x3xi64>, tensor<i64>)"
    op = f"nn.nms {{0}}, {{1}}, {{2}}, {{3}}, {{4}} {'{{centered}}' if centered else ''} : {types}"
    operands = [boxes, scores, limit, iou, least]
    rows = evaluate(op, operands, (54, 3), dtype=np.int64, result_of=(0, 2))
    assert evaluate(op, operands, (), dtype=np.int64, result_of=(1, 2)) == len(expected)
    np.testing.assert_array_equal(rows[: len(expected)], expected)
    assert (rows[len(expected) :] == -1).all()
