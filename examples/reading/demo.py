#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the text in a picture with three ONNX models of the package rapidocr-onnxruntime.

Steps: compile the models, draw a picture (or open one), find boxes around lines of text, turn those that are upside
down, read each line at its own width, and write the picture with its boxes beside the text that was read.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from importlib.util import find_spec
from pathlib import Path

import intarsia
import numpy as np
from boxes import Box, find_boxes
from PIL import Image, ImageDraw, ImageFont

MODELS = {
    "detector": "ch_PP-OCRv4_det_infer.onnx",
    "direction": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "recognizer": "ch_PP-OCRv4_rec_infer.onnx",
}
#: Height of the lines that models read, and the least width of those whose direction is asked for.
HEIGHT, DIRECTION_WIDTH = 48, 192
#: Text of the picture: size, angle in degrees, place, and whether it is upside down.
LINES = [
    ("Intarsia: unlike woods", 44, 0, (40, 30), False),
    ("in one surface", 44, 0, (40, 90), False),
    ("compiled ahead of time", 30, -8, (60, 210), False),
    ("This line is upside down", 30, 0, (330, 330), True),
    ("42 kernels, 3.14 ms", 26, 0, (60, 400), False),
    ("walnut + maple = 100 %", 36, 12, (320, 400), False),
]


def pixel_values(picture: Image.Image) -> np.ndarray:
    """Return a picture as the models read it: [1, 3, height, width], blue first, from -1 to 1."""
    return np.ascontiguousarray(np.asarray(picture, np.float32)[None, :, :, ::-1].transpose(0, 3, 1, 2)) / 127.5 - 1


def draw_picture() -> Image.Image:
    """Draw lines of text of several sizes and directions on paper."""
    random = np.random.default_rng(3)
    paper = 225 + np.linspace(0, 20, 800)[None, :, None] + random.normal(0, 4, (576, 800, 3))
    picture = Image.fromarray(paper.clip(0, 255).astype(np.uint8))
    for text, size, angle, place, is_turned in LINES:
        font = ImageFont.load_default(size)
        width, height = (math.ceil(side) + 8 for side in font.getbbox(text)[2:])
        line = Image.new("L", (width, height))
        ImageDraw.Draw(line).text((4, 4), text, 255, font)
        turned = line.rotate(angle + (180 if is_turned else 0), Image.Resampling.BICUBIC, expand=True)
        picture.paste((40, 35, 60), place, turned)
    return picture


class Reader:
    """Three compiled models, from a picture to its lines of text."""

    def __init__(self, folder: Path) -> None:
        spec = find_spec("rapidocr_onnxruntime")
        if not spec or not spec.origin:
            raise SystemExit("the package rapidocr-onnxruntime is missing: pip install --no-deps rapidocr-onnxruntime")
        models = Path(spec.origin).parent / "models"
        self.detector, self.direction, self.recognizer = (
            intarsia.compile(models / file, output=folder / f"{name}.itx") for name, file in MODELS.items()
        )
        listed = self.recognizer.signature("main").metadata["onnx"]["character"].splitlines()
        #: The first class says that there is no new character.
        self.characters = ["", *listed, " "]

    def find(self, picture: Image.Image) -> list[Box]:
        """Return boxes around lines of text. The network halves pictures five times, so that sides divide by 32."""
        sides = [max(32, round(side / 32) * 32) for side in picture.size]
        boxes = find_boxes(self.detector.main(pixel_values(picture.resize(sides)))[0, 0])
        for box in boxes:
            box.corners *= np.array(picture.size) / sides
        return boxes

    def cut(self, picture: Image.Image, box: Box) -> Image.Image:
        """Return a box as an upright line of text."""
        width, height = (max(1, round(side)) for side in box.size)
        # Pillow wants the corners counterclockwise.
        corners = [float(x) for corner in (0, 3, 2, 1) for x in box.corners[corner]]
        line = picture.transform((width, height), Image.Transform.QUAD, corners, Image.Resampling.BICUBIC)
        return line.transpose(Image.Transpose.ROTATE_90) if height > 1.5 * width else line

    def turn(self, line: Image.Image) -> Image.Image:
        """Return a line, turned if it is upside down. It keeps its width; narrow ones get an empty margin."""
        width = math.ceil(line.width * HEIGHT / line.height)
        values = np.zeros((1, 3, HEIGHT, max(DIRECTION_WIDTH, width)), np.float32)
        values[:, :, :, :width] = pixel_values(line.resize((width, HEIGHT)))
        upright, turned = self.direction.main(values)[0]
        return line.transpose(Image.Transpose.ROTATE_180) if turned > max(upright, 0.9) else line

    def read(self, line: Image.Image) -> tuple[str, float]:
        """Return the text of a line, and the mean probability of its characters."""
        width = max(8, math.ceil(line.width * HEIGHT / line.height))
        probabilities = self.recognizer.main(pixel_values(line.resize((width, HEIGHT))))[0]
        best = probabilities.argmax(1)
        # A character stands where the class changes (connectionist temporal classification,
        # DOI 10.1145/1143844.1143891).
        begins = np.flatnonzero((best != 0) & (best != np.append(0, best[:-1])))
        score = float(probabilities[begins, best[begins]].mean()) if len(begins) else 0.0
        return "".join(self.characters[best[place]] for place in begins), score

    def __call__(self, picture: Image.Image) -> list[tuple[Box, str, float]]:
        """Return the lines of a picture: boxes, texts, and the mean probabilities of their characters."""
        return [(box, *self.read(self.turn(self.cut(picture, box)))) for box in self.find(picture)]


def illustrate(picture: Image.Image, lines: list[tuple[Box, str, float]]) -> Image.Image:
    """Return the picture with its boxes, and beside it what was read."""
    result = Image.new("RGB", (2 * picture.width, picture.height), "white")
    result.paste(picture)
    draw = ImageDraw.Draw(result)
    for box, text, score in lines:
        draw.polygon([tuple(corner) for corner in box.corners], outline=(220, 60, 50), width=2)
        place = (picture.width + float(box.corners[:, 0].min()), float(box.corners[:, 1].mean()) - 14)
        draw.text(place, text, (20, 20, 20), ImageFont.load_default(24))
        draw.text((place[0], place[1] + 28), f"{100 * score:.0f} %", (120, 120, 120), ImageFont.load_default(14))
    return result


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, nargs="?", help="a picture to read instead of the one that is drawn")
    parser.add_argument("--output", type=Path, default=Path("build/demo/reading.png"), help="the picture to write")
    options = parser.parse_args()

    options.output.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    reader = Reader(options.output.parent)
    print(
        f"Compiled in {time.perf_counter() - started:.2f} s: three ONNX models that find, turn and read lines of text"
    )
    picture = Image.open(options.picture).convert("RGB") if options.picture else draw_picture()
    reader(picture)  # for the clock: memory is there then
    started = time.perf_counter()
    lines = reader(picture)
    print(f"Read in {1e3 * (time.perf_counter() - started):.0f} ms ({intarsia.threads()} threads):")
    for _, text, score in lines:
        print(f"  {100 * score:3.0f} %  {text}")
    wrong: list[str] = []
    if not options.picture:
        read = {text.replace(" ", "") for _, text, _ in lines}
        wrong = [text for text, *_ in LINES if text.replace(" ", "") not in read]
        print(f"{len(LINES) - len(wrong)} of {len(LINES)} lines are as they were drawn")
    illustrate(picture, lines).save(options.output)
    print(f"Look at {os.path.relpath(options.output)}: boxes around lines of text, and what they say")
    if wrong:
        raise SystemExit(f"these lines were not read as they were drawn: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
