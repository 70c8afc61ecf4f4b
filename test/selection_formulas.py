# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Formulas of ops that select elements, in plain loops."""

from __future__ import annotations

import numpy as np
from random_numbers import RNG


def random_boxes(batch: int, boxes: int, centered: bool) -> np.ndarray:
    """Boxes of which many overlap; corners are in any order, and some have no area."""
    x = RNG.uniform(0, 10, (batch, boxes, 2, 2)).round(1)
    if centered:
        x[..., 1, :] = x[..., 1, :] / 2 - 0.5
    return x.reshape(batch, boxes, 4).astype(np.float32)


def overlap(x: np.ndarray, y: np.ndarray, centered: bool) -> float:
    """The area in both boxes over the area in either, 0 without one."""
    corners = []
    for box in (x, y):
        first, second = box[:2].astype(np.float32), box[2:].astype(np.float32)
        if centered:
            corners.append((first - second / np.float32(2), first + second / np.float32(2)))
        else:
            corners.append((np.minimum(first, second), np.maximum(first, second)))
    (low, high), (other_low, other_high) = corners
    both = np.minimum(high, other_high) - np.maximum(low, other_low)
    if not (both > 0).all():
        return 0
    area = both[0] * both[1]
    either = (high - low)[0] * (high - low)[1] + (other_high - other_low)[0] * (other_high - other_low)[1] - area
    return float(area / either) if either > 0 else 0


def nms(
    boxes: np.ndarray, scores: np.ndarray, limit: int, iou: float, least: float | None, centered: bool
) -> np.ndarray:
    """Rows (batch, class, box) as nn.nms gives them (NonMaxSuppression of ONNX 11)."""
    rows = []
    for batch, kind in np.ndindex(*scores.shape[:2]):
        taken: list[int] = []
        of_class = scores[batch, kind]
        for box in sorted(np.flatnonzero(~np.isnan(of_class)), key=lambda number: -of_class[number]):
            if len(taken) >= limit or (least is not None and not of_class[box] > np.float32(least)):
                break
            if all(overlap(boxes[batch, box], boxes[batch, other], centered) <= np.float32(iou) for other in taken):
                taken.append(box)
        rows += [(batch, kind, box) for box in taken]
    return np.array(rows, np.int64).reshape(-1, 3)
