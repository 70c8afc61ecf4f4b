#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the two small models of this folder, and shows what they see in pictures that they were not trained on.

Steps: compile both Hugging Face directories, draw pictures, ask one model which shape is the largest and the other what
each pixel shows, and write a PNG file: a row for each picture, with the picture, the segments laid over it, and the
probabilities of the classes. Says how often the models are right.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import intarsia
import numpy as np
from drawing import KINDS, SIZE, Scene, draw, pixel_values, write_png

HERE = Path(__file__).resolve().parent
#: Colours of the kinds in the result, the ground first.
COLOURS = np.array([[32, 32, 32], [236, 84, 78], [72, 190, 96], [74, 128, 240], [245, 200, 60]], np.float32)
SCALE = 3
#: Glyphs of 3 x 5 points, a digit a row: 4 is the left point, 1 the right one.
GLYPHS = {
    **dict(zip("0123456789%", ("75557", "26227", "71747", "71717", "55711", "74717", "74757", "71244", "75757",
                               "75717", "51245"), strict=True)),
    **dict(zip("acegilnqrstu", ("25755", "74447", "74647", "74557", "72227", "44447", "65555", "75573", "65655",
                                "74717", "72222", "55557"), strict=True)),
}  # fmt: skip


def compute(classifier: intarsia.Module, segmenter: intarsia.Module, pictures: np.ndarray) -> tuple:
    """Return probabilities of kinds [count, kinds], and the kind that each pixel shows [count, height, width]."""
    pixels = pixel_values(pictures)
    logits = np.asarray(classifier.main(pixel_values=pixels), np.float32)
    powers = np.exp(logits - logits.max(1, keepdims=True))
    scores = np.asarray(segmenter.main(pixel_values=pixels), np.float32)
    return powers / powers.sum(1, keepdims=True), enlarge(scores, 4).argmax(1)


def enlarge(scores: np.ndarray, factor: int) -> np.ndarray:
    """Return scores [count, kinds, height, width] between the positions of which there is one for a few pixels."""
    for axis in (2, 3):
        size = scores.shape[axis]
        place = ((np.arange(size * factor) + 0.5) / factor - 0.5).clip(0, size - 1)
        low = np.floor(place).astype(int).clip(0, size - 2)
        part = (place - low).reshape([-1 if d == axis else 1 for d in range(4)])
        scores = scores.take(low, axis) * (1 - part) + scores.take(low + 1, axis) * part
    return scores


def write_text(canvas: np.ndarray, x: int, y: int, text: str) -> None:
    """Write letters of twice the size of their glyphs, light on dark."""
    for number, letter in enumerate(text):
        for row, bits in enumerate(GLYPHS.get(letter, "00000")):
            for column in range(3):
                if int(bits) >> (2 - column) & 1:
                    top, left = y + 2 * row, x + 8 * number + 2 * column
                    canvas[top : top + 2, left : left + 2] = 225


def illustrate(scene: Scene, probabilities: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Return the picture, the segments laid over it, and bars of the probabilities, beside each other."""
    picture = scene.picture.repeat(SCALE, 0).repeat(SCALE, 1)
    over = segments.repeat(SCALE, 0).repeat(SCALE, 1)
    mixed = np.where(over[..., None] > 0, 0.25 * picture + 0.75 * COLOURS[over], 0.35 * picture)
    panel = np.full((SIZE * SCALE, 260, 3), 32, np.uint8)
    for number, kind in enumerate(KINDS):
        y, width = 40 + 60 * number, int(200 * probabilities[number])
        write_text(panel, 20, y, kind)
        write_text(panel, 190, y, f"{100 * probabilities[number]:.0f}%".rjust(4))
        panel[y + 16 : y + 32, 20:220] = 60
        panel[y + 16 : y + 32, 20 : 20 + width] = COLOURS[number + 1]
    return np.concatenate([picture, mixed.astype(np.uint8), panel], 1)


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("build/demo/pictures.png"), help="the picture to write")
    parser.add_argument("--seed", type=int, default=7, help="chooses the pictures")
    parser.add_argument("--count", type=int, default=64, help="how many pictures are looked at; four are shown")
    options = parser.parse_args()

    options.output.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    classifier, segmenter = (
        intarsia.compile(HERE / name, output=options.output.with_name(f"{name}.itx"))
        for name in ("classifier", "segmenter")
    )
    print(f"Compiled in {time.perf_counter() - started:.2f} s: a classifier and a segmenter of pictures of shapes")
    random = np.random.default_rng(options.seed)
    scenes = [draw(random) for _ in range(options.count)]
    pictures = np.stack([scene.picture for scene in scenes])
    compute(classifier, segmenter, pictures)  # for the clock: memory is there then
    started = time.perf_counter()
    probabilities, segments = compute(classifier, segmenter, pictures)
    seconds = time.perf_counter() - started
    largest = np.array([scene.largest for scene in scenes])
    masks = np.stack([scene.mask for scene in scenes])
    print(f"{options.count} pictures in {1e3 * seconds:.0f} ms ({intarsia.threads()} threads)")
    print(f"largest shape right: {100 * (probabilities.argmax(1) == largest).mean():.1f} %")
    print(f"pixels right: {100 * (segments == masks).mean():.1f} %")
    shown = [illustrate(*row) for row in zip(scenes[:4], probabilities, segments, strict=False)]
    write_png(options.output, np.concatenate(shown))
    print(
        f"Look at {os.path.relpath(options.output)}: pictures, what each pixel shows, and the probabilities of shapes"
    )


if __name__ == "__main__":
    main()
