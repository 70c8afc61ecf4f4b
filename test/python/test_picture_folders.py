# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders of pictures for calibration: what becomes of them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import intarsia
import numpy as np
import pytest
from intarsia.quantization.pictures import read_pictures, read_preparation

MEAN, DEVIATION = [0.5, 0.25, 0.125], [0.5, 1.0, 2.0]
CONFIG = {
    "do_resize": True, "size": {"shortest_edge": 4}, "do_center_crop": True, "crop_size": {"height": 2, "width": 4},
    "resample": 0, "image_mean": MEAN, "image_std": DEVIATION,
}  # fmt: skip


def model_with(folder: Path, config: dict) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "preprocessor_config.json").write_text(json.dumps(config))
    return folder


def test_prepared(tmp_path) -> None:
    """A picture of whole blocks of four pixels, resized to the nearest ones, cut and scaled, by the formula."""
    image_module = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    folder = tmp_path / "pictures"
    folder.mkdir()
    image_module.fromarray(pixels.repeat(2, 0).repeat(2, 1)).save(folder / "b.png")
    image_module.fromarray(pixels.repeat(2, 0).repeat(2, 1)).save(folder / "a.png")
    (folder / "readme.txt").write_text("no picture")
    images = read_pictures(model_with(tmp_path / "model", CONFIG), folder)
    expected = (pixels[1:3, 1:5] / 255 - MEAN) / DEVIATION
    assert images.shape == (2, 3, 2, 4)
    assert images.dtype == np.float32
    np.testing.assert_allclose(images[1], expected.transpose(2, 0, 1), atol=1e-6)
    (folder / "c.jpg").write_bytes(b"\xff\xd8 no jpeg")
    with pytest.raises(intarsia.InvalidArgumentError, match=r"c\.jpg: is no picture that Pillow reads"):
        read_pictures(tmp_path / "model", folder)


def test_refused(tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(intarsia.InvalidArgumentError, match=r"empty: has no pictures"):
        read_pictures(tmp_path, tmp_path / "empty")
    with pytest.raises(intarsia.InvalidArgumentError, match=r"preprocessor_config\.json: is missing"):
        read_preparation(tmp_path)
    for changed, message in (
        ({"size": {"longest_edge": 5}}, "'size' is .*longest_edge.*, must be height and width or shortest_edge"),
        ({"size": 0}, "'size' is .*0"),
        ({"image_std": [1, 2]}, "'image_std' must be three numbers"),
    ):
        model = model_with(tmp_path / "model", CONFIG | changed)
        with pytest.raises(intarsia.InvalidArgumentError, match=message):
            read_preparation(model)
