# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders of pictures for calibration: what becomes of them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import intarsia
import numpy as np
import pytest
from intarsia.quantization.pictures import read_picture, read_pictures, read_preparation
from PIL import Image

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
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    folder = tmp_path / "pictures"
    folder.mkdir()
    Image.fromarray(pixels.repeat(2, 0).repeat(2, 1)).save(folder / "b.png")
    Image.fromarray(pixels.repeat(2, 0).repeat(2, 1)).save(folder / "a.png")
    (folder / "readme.txt").write_text("no picture")
    images = read_pictures(model_with(tmp_path / "model", CONFIG), folder)
    expected = (pixels[1:3, 1:5] / 255 - MEAN) / DEVIATION
    assert images.shape == (2, 3, 2, 4)
    assert images.dtype == np.float32
    np.testing.assert_allclose(images[1], expected.transpose(2, 0, 1), atol=1e-6)
    (folder / "c.jpg").write_bytes(b"\xff\xd8 no jpeg")
    with pytest.raises(intarsia.InvalidArgumentError, match=r"c\.jpg: is no picture that Pillow reads"):
        read_pictures(tmp_path / "model", folder)


def test_settings_of_processors(tmp_path) -> None:
    """What processors of transformers do beside resizing: their code in version 5 is the formula."""
    Image.fromarray(np.full((6, 6, 3), (10, 20, 30), np.uint8)).save(tmp_path / "one.png")
    plain = {"do_resize": False, "image_mean": [0.0] * 3, "image_std": [0.5] * 3}
    for changed, expected in (
        ({}, [10 / 255 / 0.5, 20 / 255 / 0.5, 30 / 255 / 0.5]),
        ({"image_processor_type": "MobileViTImageProcessor", "do_normalize": False}, [30 / 255, 20 / 255, 10 / 255]),
        ({"image_processor_type": "EfficientNetImageProcessor"}, [10 / 255 / 0.25, 20 / 255 / 0.25, 30 / 255 / 0.25]),
        ({"rescale_offset": True, "rescale_factor": 1 / 127.5, "do_normalize": False},
         [10 / 127.5 - 1, 20 / 127.5 - 1, 30 / 127.5 - 1]),
    ):  # fmt: skip
        how = read_preparation(model_with(tmp_path / "model", plain | changed))
        np.testing.assert_allclose(read_picture(tmp_path / "one.png", how)[:, 0, 0], expected, 1e-5)


@pytest.mark.parametrize(("size", "resized", "cropped"), [(224, 256, (224, 224)), (384, (384, 384), None)])
@pytest.mark.parametrize("form", ["number", "edge"])
def test_share_that_is_kept(tmp_path, size: int, resized: object, cropped: object, form: str) -> None:
    """ConvNeXT cuts small pictures out of larger ones, and resizes to 384 and more."""
    given = size if form == "number" else {"shortest_edge": size}
    how = read_preparation(model_with(tmp_path / "model", {"size": given, "crop_pct": 0.875}))
    assert (how.resized, how.cropped) == (resized, cropped)


def test_sizes_of_pictures_differ(tmp_path) -> None:
    for name, size in (("a", 6), ("b", 8)):
        Image.fromarray(np.zeros((size, 6, 3), np.uint8)).save(tmp_path / f"{name}.png")
    model_with(tmp_path, {"do_resize": False})
    with pytest.raises(intarsia.InvalidArgumentError, match=r"b\.png: is 8 by 6 pixels, the first one is 6 by 6"):
        read_pictures(tmp_path, tmp_path)


def test_refused(tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(intarsia.InvalidArgumentError, match=r"empty: has no pictures"):
        read_pictures(tmp_path, tmp_path / "empty")
    with pytest.raises(intarsia.InvalidArgumentError, match=r"preprocessor_config\.json: is missing"):
        read_preparation(tmp_path)
    for changed, message in (
        ({"size": {"longest_edge": 5}}, "'size' is .*longest_edge.*, must be height and width or shortest_edge"),
        ({"size": 0}, "'size' is .*0"),
        ({"image_std": [1, 2]}, r"'image_std' is \[1, 2\], must be 1 or 3 finite numbers"),
        ({"image_std": [0.5, 0, 0.5]}, r"'image_std' is \[0.5, 0, 0.5\], must not be 0"),
        ({"rescale_factor": "x"}, "'rescale_factor' is x, must be 1 finite number:"),
        ({"resample": None}, "'resample' is None"),
        ({"resample": 9}, "'resample' is 9, must be 0 to 5"),
        ({"keep_aspect_ratio": True}, "'keep_aspect_ratio' prepares pictures in a way that is not known"),
    ):
        model = model_with(tmp_path / "model", CONFIG | changed)
        with pytest.raises(intarsia.InvalidArgumentError, match=message):
            read_preparation(model)
