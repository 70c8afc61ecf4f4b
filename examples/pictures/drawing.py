# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws pictures of shapes, with the correct class and segments of each, and writes PNG files. It needs NumPy only."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

#: Kinds of shapes; in masks they are 1, 2, …, and the ground is 0.
KINDS = ("circle", "square", "triangle", "star")
SIZE = 96


@dataclass
class Scene:
    """A picture [height, width, 3] of bytes, the kind of its largest shape, and the kind that each pixel shows."""

    picture: np.ndarray
    largest: int
    mask: np.ndarray


def _inside(kind: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return which points are in a shape of radius 1 around the origin."""
    if kind == 0:
        return x**2 + y**2 < 0.85
    if kind == 1:
        return np.maximum(abs(x), abs(y)) < 0.78
    # Triangles and stars repeat themselves each third or fifth of a turn: an edge is a line in one such sector.
    corners, inner = (3, 0.5) if kind == 2 else (5, 0.42)
    sector = np.pi / corners
    angle = abs((np.arctan2(x, -y) + sector) % (2 * sector) - sector)
    radius = np.hypot(x, y)
    # From the corner at (1, 0) to the point `inner` away at the end of the sector.
    end = inner * np.array([np.cos(sector), np.sin(sector)])
    across, along = radius * np.sin(angle), radius * np.cos(angle)
    return (along - 1) * end[1] - across * (end[0] - 1) < 0


def draw(random: np.random.Generator, size: int = SIZE) -> Scene:
    """Draw two to four shapes of any colours, angles and sizes, the first of which is the largest."""
    y, x = np.mgrid[:size, :size] / size
    ground, slope = random.uniform(40, 215, 3), random.uniform(-50, 50, (2, 3))
    picture = ground + x[..., None] * slope[0] + y[..., None] * slope[1]
    mask = np.zeros((size, size), np.int64)
    kinds = random.permutation(len(KINDS))[: random.integers(2, 5)]
    middles: list[tuple[float, float, float]] = []
    for number, kind in enumerate(kinds):
        for _ in range(50):
            radius = random.uniform(0.24, 0.32) if number == 0 else random.uniform(0.1, 0.17)
            mx, my = random.uniform(radius, 1 - radius, 2)
            if all(np.hypot(mx - ox, my - oy) > radius + other for ox, oy, other in middles):
                break
        else:
            continue
        middles.append((mx, my, radius))
        turn = random.uniform(0, 2 * np.pi)
        u, v = (x - mx) / radius, (y - my) / radius
        inside = _inside(int(kind), u * np.cos(turn) + v * np.sin(turn), v * np.cos(turn) - u * np.sin(turn))
        colour = random.uniform(0, 255, 3)
        while abs(colour - ground).sum() < 150:
            colour = random.uniform(0, 255, 3)
        picture[inside] = colour + random.uniform(-25, 25) * u[inside, None]
        mask[inside] = kind + 1
    picture += random.normal(0, 8, picture.shape)
    return Scene(picture.clip(0, 255).astype(np.uint8), int(kinds[0]), mask)


def pixel_values(pictures: np.ndarray) -> np.ndarray:
    """Return pictures [count, height, width, 3] as both models read them: [count, 3, height, width], from -1 to 1."""
    return np.ascontiguousarray(pictures.transpose(0, 3, 1, 2), np.float32) / 127.5 - 1


def write_png(path: Path, picture: np.ndarray) -> None:
    """Write a picture [height, width, 3] of bytes (https://www.w3.org/TR/png-3)."""
    height, width, _ = picture.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, width * 3)], 1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)
