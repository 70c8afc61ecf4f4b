# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds rotated boxes around the regions of a map of probabilities. It needs NumPy only.

The detector marks the middle of each line of text; boxes grow by as much as it was trained to shrink them
("Real-time Scene Text Detection with Differentiable Binarization", arXiv 1911.08947, section 3.4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Probability from which on a pixel is text, the mean that a box must have, and how boxes grow.
PIXEL, MEAN, GROWTH = 0.3, 0.5, 1.6
#: The least height of a region, in pixels.
LEAST = 3


@dataclass
class Box:
    """A rotated rectangle: corners [4, 2] as (x, y), clockwise from the upper left, and the mean probability."""

    corners: np.ndarray
    score: float

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in pixels."""
        return float(np.hypot(*(self.corners[1] - self.corners[0]))), float(
            np.hypot(*(self.corners[3] - self.corners[0]))
        )


def regions(mask: np.ndarray) -> list[np.ndarray]:
    """Return the pixels [count, 2] as (y, x) of each region of neighbours, diagonal ones included.

    Runs of a row are joined with those of the row before that they touch.
    """
    parents: list[int] = []
    runs: list[tuple[int, int, int]] = []

    def root(run: int) -> int:
        while parents[run] != run:
            parents[run] = parents[parents[run]]
            run = parents[run]
        return run

    before: list[int] = []
    padded = np.pad(mask, [(0, 0), (1, 1)]).astype(np.int8)
    for y, row in enumerate(np.diff(padded, axis=1)):
        here = []
        for begin, end in zip(np.flatnonzero(row == 1), np.flatnonzero(row == -1), strict=True):
            run = len(runs)
            runs.append((y, int(begin), int(end)))
            parents.append(run)
            here.append(run)
            for other in before:
                if runs[other][1] <= end and begin <= runs[other][2]:
                    parents[root(other)] = root(run)
        before = here
    pixels: dict[int, list[np.ndarray]] = {}
    for run, (y, begin, end) in enumerate(runs):
        columns = np.arange(begin, end)
        pixels.setdefault(root(run), []).append(np.stack([np.full_like(columns, y), columns], 1))
    return [np.concatenate(parts) for parts in pixels.values()]


def smallest_rectangle(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return middle, half sizes and angle of the smallest of the rectangles around points (x, y), by half degrees."""
    angles = np.deg2rad(np.arange(-45, 45, 0.5))
    axes = np.stack([np.cos(angles), np.sin(angles)], 1)
    along, across = points @ axes.T, points @ np.stack([-axes[:, 1], axes[:, 0]], 1).T
    widths, heights = np.ptp(along, axis=0) + 1, np.ptp(across, axis=0) + 1
    best = int(np.argmin(widths * heights))
    u, v = axes[best], np.array([-axes[best, 1], axes[best, 0]])
    middle = (
        u * (along[:, best].max() + along[:, best].min()) / 2 + v * (across[:, best].max() + across[:, best].min()) / 2
    )
    return middle, np.array([widths[best], heights[best]]) / 2, float(angles[best])


def find_boxes(probabilities: np.ndarray) -> list[Box]:
    """Return the boxes of a map [height, width], from top to bottom."""
    boxes = []
    for pixels in regions(probabilities > PIXEL):
        score = float(probabilities[pixels[:, 0], pixels[:, 1]].mean())
        middle, half, angle = smallest_rectangle(pixels[:, ::-1].astype(np.float64))
        if 2 * half.min() < LEAST or score < MEAN:
            continue
        # Each side moves out by area * GROWTH / perimeter.
        half += half[0] * half[1] * GROWTH / (half[0] + half[1])
        u, v = np.array([np.cos(angle), np.sin(angle)]) * half[0], np.array([-np.sin(angle), np.cos(angle)]) * half[1]
        boxes.append(Box(np.stack([middle - u - v, middle + u - v, middle + u + v, middle - u + v]), score))
    return sorted(boxes, key=lambda box: float(box.corners[:, 1].mean()))
