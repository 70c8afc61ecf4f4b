# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What calibrated inputs of linears have in common: which models have them, and the directory that says the choice."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..support.errors import InvalidArgumentError
from ..support.work import OWN_FILES
from . import overlap
from .quantize import _check_windows, _round

#: The file that intarsia-compile reads beside the weights.
PRECISION = "intarsia-precision.json"


def check_directories(model: Path, output: Path, windows: np.ndarray | None, flag: str, purpose: str) -> None:
    """Refuse to calibrate without a text, a model that has a choice already, and one that would be overwritten.

    `flag` is what the user asked for, and `purpose` what the text is needed for: "finds outliers of inputs".
    """
    if windows is None:
        raise InvalidArgumentError(f"{flag} {purpose} on a text: give --calibration=FILE", "invalid argument")
    if not model.is_dir():
        raise InvalidArgumentError(
            f"{model}: is no model directory (config.json and *.safetensors)", "invalid argument"
        )
    if (model / PRECISION).exists():
        raise InvalidArgumentError(
            f"{model}: has a {PRECISION}, which says its precision already: give the model that it was made of",
            "invalid argument",
        )
    if output.exists() and output.resolve() == model.resolve():
        raise InvalidArgumentError(f"{output}: is the model itself; give another directory", "invalid argument")
    _check_windows(model, windows)


def digest_of(model: Path, format: str) -> str:
    """Return the hash that intarsia-precision.json has of a model's weights; refuse a format that is not known."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "candidates.json"
        _round(model, file, [f"--candidates={format}", "--target=cpu"])
        return json.loads(file.read_text())["model"]


def check_found(model: Path, inputs: Sequence[object]) -> None:
    """Refuse a model without inputs that can be calibrated."""
    if not inputs:
        raise InvalidArgumentError(
            f"{model}: holds no weights of linears as floats [outputs, inputs], which alone can be quantized as their "
            "inputs are: give the model as it was before it was quantized",
            "invalid argument",
        )


def check_finite(name: str, numbers: np.ndarray) -> None:
    """Refuse figures of the features of an input that are not finite."""
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise InvalidArgumentError(
            f"the input of {name} has NaN or infinity in feature {wrong[0]} on the calibration text "
            f"({wrong.size} of {numbers.size} features): is the model damaged?",
            "invalid argument",
        )


def write_choice(
    model: Path, output: Path, windows: np.ndarray, digest: str, tensors: Mapping[str, str], inputs: dict[str, list]
) -> None:
    """Write a directory with the model's files, and beside them formats of tensors and what is known of inputs."""
    output.mkdir(parents=True, exist_ok=True)
    for entry in model.iterdir():
        if entry.name in OWN_FILES:  # of a rotated model
            continue
        if entry.is_file():
            shutil.copyfile(entry, output / entry.name)
        elif (entry / "config.json").is_file():  # a module of sentence-transformers
            shutil.copytree(entry, output / entry.name, dirs_exist_ok=True)
    choice = {"intarsia_precision": 1, "model": digest, "tensors": dict(tensors), "caches": {}} | inputs
    (output / PRECISION).write_text(json.dumps(choice) + "\n")
    if windows.ndim == 2:
        (output / overlap.FILE).write_text(overlap.describe(windows))
