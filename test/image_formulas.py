# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ops that read images between their elements compute, by the formulas of their descriptions, in double precision.

Coordinates are those of f32, rounded as the descriptions say: they decide which elements are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

F = np.float32


def cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Equation 3 of R. Keys, Cubic convolution interpolation for digital image processing (1981), with a for -1/2."""
    d = np.abs(distance)
    inner = (a + 2) * d**3 - (a + 3) * d**2 + 1
    outer = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, inner, np.where(d < 2, outer, 0))


@dataclass(frozen=True)
class Axis:
    """How nn.resize resamples one axis."""

    axis: int
    size: int
    scale: float | None = None
    shift: float = 0
    offset: float = 0
    corners: bool = False

    def coordinates(self, size: int) -> np.ndarray:
        if self.scale is not None:
            scale = F(self.scale)
        elif self.corners:
            scale = F(size - 1) / F(self.size - 1) if self.size > 1 else F(0)
        else:
            scale = F(size) / F(max(self.size, 1))
        return ((np.arange(self.size) + float(F(self.shift))) * float(scale) + float(F(self.offset))).astype(F)

    def step(self, size: int) -> float:
        one = replace(self, shift=0, offset=0, size=2) if self.scale is not None else None
        if one is not None:
            return float(one.coordinates(size)[1])
        if self.corners:
            return (size - 1) / (self.size - 1) if self.size > 1 else 0
        return size / max(self.size, 1)


@dataclass(frozen=True)
class Resize:
    kind: str
    axes: tuple[Axis, ...]
    rounding: str = "floor"
    coefficient: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    outside: float | None = None

    def text(self, like: bool = False) -> str:
        def array(name: str, kind: str, values: list[float]) -> list[str]:
            return [
                f"{name} = array<{kind}: {', '.join(f'{v:.17g}' if kind == 'i64' else repr(float(v)) for v in values)}>"
            ]

        parts = array("axes", "i64", [a.axis for a in self.axes])
        parts += [] if like else array("sizes", "i64", [a.size for a in self.axes])
        if self.axes and self.axes[0].scale is not None:
            parts += array("scales", "f32", [a.scale for a in self.axes])
        if any(a.shift for a in self.axes):
            parts += array("shifts", "f32", [a.shift for a in self.axes])
        if any(a.offset for a in self.axes):
            parts += array("offsets", "f32", [a.offset for a in self.axes])
        parts += ["corners"] if self.axes and self.axes[0].corners else []
        parts += [f"rounding = #nn.nearest_rounding<{self.rounding}>"] if self.rounding != "floor" else []
        parts += [f"coefficient = {self.coefficient} : f32"] if self.coefficient != -0.75 else []
        parts += ["exclude_outside"] if self.exclude_outside else []
        parts += ["antialias"] if self.antialias else []
        parts += [f"outside = {float(self.outside)} : f32"] if self.outside is not None else []
        return f"nn.resize <{self.kind}>, %x{' like %like' if like else ''} {{{', '.join(parts)}}}"

    def result(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        sizes = list(shape)
        for axis in self.axes:
            sizes[axis.axis] = axis.size
        return tuple(sizes)

    def matrix(self, axis: Axis, size: int) -> np.ndarray:
        """Return the weight of each element of the input for each position of the result."""
        x = axis.coordinates(size)
        weights = np.zeros((axis.size, size))
        if self.kind == "nearest":
            half = F(0.5)
            places = {
                "floor": np.floor(x),
                "ceil": np.ceil(x),
                "half_down": np.ceil(x - half),
                "half_up": np.floor(x + half),
            }[self.rounding]
            weights[np.arange(axis.size), np.clip(places.astype(int), 0, size - 1)] = 1
            return weights
        wide = max(1.0, axis.step(size)) if self.antialias else 1.0
        for o, at in enumerate(x.astype(float)):
            reach = int(2 * wide) + 2
            near = np.arange(int(np.floor(at)) - reach, int(np.floor(at)) + reach + 1)
            distance = (near - at) / wide
            w = np.maximum(1 - np.abs(distance), 0) if self.kind == "linear" else cubic(distance, self.coefficient)
            if self.exclude_outside:
                w = np.where((near >= 0) & (near < size), w, 0)
            if self.exclude_outside or self.antialias:
                w = w / w.sum()
            np.add.at(weights[o], np.clip(near, 0, size - 1), w)
        return weights

    def compute(self, x: np.ndarray) -> np.ndarray:
        y = x if self.kind == "nearest" else x.astype(float)
        far = np.zeros(self.result(x.shape), bool)
        for axis in self.axes:
            size = x.shape[axis.axis]
            if self.kind == "nearest":
                y = np.take(y, self.matrix(axis, size).argmax(1), axis.axis)
            else:
                y = np.moveaxis(np.tensordot(self.matrix(axis, size), y, (1, axis.axis)), 0, axis.axis)
            at = axis.coordinates(size)
            far |= np.expand_dims((at < 0) | (at > size - 1), [d for d in range(x.ndim) if d != axis.axis])
        return y if self.outside is None else np.where(far, self.outside, y)


def grid_sample(x: np.ndarray, grid: np.ndarray, kind: str, outside: str, corners: bool) -> np.ndarray:
    """Sample [batch, spatial…, channels] at [batch, result…, coordinates], which are -1 to 1, the last axis first."""
    spatial = x.ndim - 2
    sizes = x.shape[1:-1]
    y = np.zeros((*grid.shape[:-1], x.shape[-1]))

    def inside(at: float, size: int) -> float:
        if outside == "reflection":
            low, span = (F(0), F(size - 1)) if corners else (F(-0.5), F(size))
            if span > 0:
                distance = abs(F(at) - low)
                turns = np.floor(distance / span)
                rest = distance - turns * span
                at = (span - rest if turns % 2 else rest) + low
        return at if outside == "zeros" else min(max(at, 0), size - 1)

    def taps(g: float, size: int) -> list[tuple[int, float]]:
        at = (F(g) + F(1)) * F(0.5) * F(size - 1) if corners else ((F(g) + F(1)) * F(size) - F(1)) * F(0.5)
        if kind == "nearest":
            found = [(int(np.round(inside(at, size))), 1.0)]
        elif kind == "linear":
            at = inside(at, size)
            below = int(np.floor(at))
            found = [(below, 1 - (at - below)), (below + 1, at - below)]
        else:
            below = int(np.floor(at))
            found = [(int(inside(below + t, size)), float(cubic(float(at - below) - t, -0.75))) for t in range(-1, 3)]
        return [(i, w) for i, w in found if 0 <= i < size]

    for place in np.ndindex(*grid.shape[:-1]):
        reads = [((place[0],), 1.0)]
        for d in range(spatial):
            along = taps(grid[place][spatial - 1 - d], sizes[d])
            reads = [((*at, i), weight * w) for at, weight in reads for i, w in along]
        for at, weight in reads:
            y[place] += weight * x[at].astype(float)
    return y


def roi_align(
    x: np.ndarray, boxes: np.ndarray, images: np.ndarray, sizes: tuple[int, int], samples: int, scale: float,
    half_pixel: bool, largest: bool,
) -> np.ndarray:  # fmt: skip
    """Section 3 of arXiv 1703.06870, with the points of a cell in a grid."""
    y = np.zeros((len(boxes), *sizes, x.shape[-1]))
    for r, (box, image) in enumerate(zip(boxes.astype(float) * float(F(scale)), images, strict=True)):
        points = []
        for d in range(2):
            begin, end = float(box[1 - d]), float(box[3 - d])
            length = end - begin if half_pixel else max(end - begin, 1)
            begin -= 0.5 if half_pixel else 0
            each = np.arange(sizes[d] * samples)
            place = each // samples + (each % samples + 0.5) / samples
            points.append((begin + place * length / sizes[d]).astype(F))
        for i, j in np.ndindex(*sizes):
            values = []
            for p in points[0][i * samples : (i + 1) * samples]:
                for q in points[1][j * samples : (j + 1) * samples]:
                    values.append(between(x[image], float(p), float(q), largest))
            y[r, i, j] = np.max(values, 0) if largest else np.mean(values, 0)
    return y


def between(image: np.ndarray, row: float, column: float, largest: bool) -> np.ndarray:
    height, width = image.shape[:2]
    if not (-1 <= row <= height and -1 <= column <= width):
        return np.zeros(image.shape[-1])
    row, column = min(max(row, 0), height - 1), min(max(column, 0), width - 1)
    top, left = int(row), int(column)
    parts = []
    for i, u in ((top, 1 - (row - top)), (min(top + 1, height - 1), row - top)):
        for j, v in ((left, 1 - (column - left)), (min(left + 1, width - 1), column - left)):
            parts.append(u * v * image[i, j].astype(float))
    return np.max(parts, 0) if largest else np.sum(parts, 0)
