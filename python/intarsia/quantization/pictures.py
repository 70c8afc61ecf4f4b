# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Read a folder of pictures as a model's preprocessing makes ``pixel_values`` of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ..support.checks import read_json
from ..support.errors import InvalidArgumentError

#: The file of a model directory that says how its pictures are prepared.
PREPROCESSOR = "preprocessor_config.json"
#: Names of files that are taken for pictures.
SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}


@dataclass(frozen=True)
class Preparation:
    """How a picture becomes ``pixel_values``, as the image processors of transformers do it.

    Attributes
    ----------
    resized : tuple of int, or int, or None
        Height and width; or the shorter side, with the ratio of both kept; or nothing is resized.
    cropped : tuple of int, or None
        Height and width of the middle that is kept; what lies beyond the picture is 0.
    resample : int
        A filter of Pillow: 2 is bilinear, 3 bicubic.
    factor : float
        What bytes are multiplied by.
    mean, deviation : array of f32 [3]
        Subtracted from colours after that, and what they are divided by.
    """

    resized: tuple[int, int] | int | None
    cropped: tuple[int, int] | None
    resample: int
    factor: float
    reverses: bool  # blue comes first
    mean: np.ndarray
    deviation: np.ndarray


def _sizes(file: Path, name: str, given: Any) -> tuple[int, int] | int:
    """Return height and width, or the shorter side."""
    if isinstance(given, int):
        given = {"height": given, "width": given}
    keys = set(given) if isinstance(given, dict) else set()
    sizes = [given[key] for key in (("height", "width") if keys == {"height", "width"} else sorted(keys))]
    if keys not in ({"height", "width"}, {"shortest_edge"}) or not all(
        isinstance(size, int) and 0 < size <= 1 << 14 for size in sizes
    ):
        raise InvalidArgumentError(
            f"{file}: '{name}' is {given}, must be height and width or shortest_edge in pixels: give --calibration an "
            "array of pixel_values (.npy)",
            "invalid argument",
        )
    return sizes[0] if len(sizes) == 1 else (sizes[0], sizes[1])


def read_preparation(model: Path) -> Preparation:
    """Return how the pictures of a model are prepared.

    Raises
    ------
    InvalidArgumentError
        The model directory does not say it, or in a way that is not known here.
    """
    file = model / PREPROCESSOR
    if not file.exists():
        raise InvalidArgumentError(
            f"{file}: is missing, it says how pictures become pixel_values: add the model's own, or give "
            "--calibration an array of pixel_values (.npy)",
            "invalid argument",
        )
    config = read_json(file)
    for key in ("do_pad", "keep_aspect_ratio"):
        if config.get(key):
            raise InvalidArgumentError(
                f"{file}: '{key}' prepares pictures in a way that is not known here: give --calibration an array of "
                "pixel_values (.npy)",
                "invalid argument",
            )
    # Two processors have settings of their own, which hold where the file does not name them.
    kind = str(config.get("image_processor_type", config.get("feature_extractor_type", "")))
    divides_twice = config.get("include_top", kind.startswith("EfficientNet"))
    reverses = config.get("do_flip_channel_order", kind.startswith("MobileViT"))
    resized = cropped = None
    if config.get("do_resize", True):
        given = config.get("size", 224)
        # ConvNeXT keeps a share of pictures (crop_pct) below 384 pixels, and resizes to larger sizes without cutting.
        # Its older files give the shorter side as one number.
        share = config.get("crop_pct")
        if share is not None and isinstance(given, int):
            given = {"shortest_edge": given}
        resized = _sizes(file, "size", given)
        if isinstance(resized, int) and isinstance(share, (int, float)) and 0 < share <= 1:
            kept = (resized, resized)
            if resized < 384:
                cropped, resized = kept, int(resized / share)
            else:
                resized = kept
    if config.get("do_center_crop", False):
        given = _sizes(file, "crop_size", config.get("crop_size", 224))
        cropped = (given, given) if isinstance(given, int) else given

    def numbers(name: str, usual: Any, counts: tuple[int, ...]) -> np.ndarray:
        """Return finite numbers, as many as one of `counts`."""
        try:
            given = np.asarray(config.get(name, usual), np.float32).reshape(-1)
        except (TypeError, ValueError):
            given = np.array([np.nan], np.float32)
        if given.size not in counts or not np.isfinite(given).all():
            raise InvalidArgumentError(
                f"{file}: '{name}' is {config.get(name)}, must be {' or '.join(map(str, counts))} finite number"
                f"{'s' if counts[-1] > 1 else ''}: give --calibration an array of pixel_values (.npy)",
                "invalid argument",
            )
        return given

    resample = int(numbers("resample", 2, (1,))[0])
    if not 0 <= resample <= 5:
        raise InvalidArgumentError(f"{file}: 'resample' is {resample}, must be 0 to 5", "invalid argument")
    mean, deviation = np.zeros(3, np.float32), np.ones(3, np.float32)
    if config.get("do_normalize", True):
        mean = np.broadcast_to(numbers("image_mean", [0.0] * 3, (1, 3)), (3,))
        deviation = np.broadcast_to(numbers("image_std", [1.0] * 3, (1, 3)), (3,))
        if not deviation.all():
            raise InvalidArgumentError(
                f"{file}: 'image_std' is {config['image_std']}, must not be 0: pixels are divided by it",
                "invalid argument",
            )
    if config.get("rescale_offset"):
        mean = mean + np.float32(1)
    if divides_twice:
        deviation = deviation * deviation
    factor = float(numbers("rescale_factor", 1 / 255, (1,))[0]) if config.get("do_rescale", True) else 1.0
    return Preparation(resized, cropped, resample, factor, bool(reverses), mean, deviation)


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        raise InvalidArgumentError(
            "pictures are read by Pillow, which is not installed: pip install 'intarsia[pictures]', or give "
            "--calibration an array of pixel_values (.npy)",
            "invalid argument",
        ) from error
    return Image


def read_picture(file: Path, how: Preparation) -> np.ndarray:
    """Return a picture as [3, height, width] of f32.

    Raises
    ------
    InvalidArgumentError
        The file is no picture, or a damaged one.
    """
    image_module = _pillow()
    try:
        with image_module.open(file) as opened:
            picture = opened.convert("RGB")
    except Exception as error:  # UnidentifiedImageError, SyntaxError, DecompressionBombError, …: whatever is no picture
        raise InvalidArgumentError(
            f"{file}: is no picture that Pillow reads ({error}): remove it from the folder", "invalid argument"
        ) from error
    if how.resized is not None:
        width, height = picture.size
        size = how.resized
        if isinstance(size, int):
            short = min(width, height)
            size = (max(1, int(size * height / short)), max(1, int(size * width / short)))
        picture = picture.resize((size[1], size[0]), how.resample)
    if how.cropped is not None:
        width, height = picture.size
        top, left = (height - how.cropped[0]) // 2, (width - how.cropped[1]) // 2
        picture = picture.crop((left, top, left + how.cropped[1], top + how.cropped[0]))
    pixels = np.asarray(picture, np.float32) * np.float32(how.factor)
    if how.reverses:
        pixels = pixels[..., ::-1]
    return np.ascontiguousarray(((pixels - how.mean) / how.deviation).transpose(2, 0, 1))


def read_pictures(model: Path, folder: Path) -> np.ndarray:
    """Return the pictures of a folder as [images, 3, height, width] of f32, in the order of their names.

    Parameters
    ----------
    model : path
        A Hugging Face directory, whose ``preprocessor_config.json`` says how pictures are prepared.
    folder : path
        Pictures that Pillow reads; files with other names are left out, folders in it too.

    Raises
    ------
    InvalidArgumentError
        There is no picture, one is damaged or of another size than others where the model does not resize, or Pillow
        is not installed.
    """
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
    if not files:
        raise InvalidArgumentError(
            f"{folder}: has no pictures ({', '.join(sorted(SUFFIXES))}): calibration needs some dozens",
            "invalid argument",
        )
    how = read_preparation(model)
    pictures: list[np.ndarray] = []
    for file in files:
        pictures.append(read_picture(file, how))
        if pictures[-1].shape != pictures[0].shape:
            raise InvalidArgumentError(
                f"{file}: is {pictures[-1].shape[1]} by {pictures[-1].shape[2]} pixels, the first one is "
                f"{pictures[0].shape[1]} by {pictures[0].shape[2]}, and the model's {PREPROCESSOR} brings them to no "
                "common size: give pictures of one size",
                "invalid argument",
            )
    return np.stack(pictures)
