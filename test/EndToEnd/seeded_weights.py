# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights of networks whose smallest published size is too large to be committed: matrices are made from a seed.

A directory has `shapes.json`, the shapes of its matrices by name, and `vectors.safetensors`, all other weights.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file


def matrices(shapes: dict[str, list[int]], seed: int = 0) -> dict[str, np.ndarray]:
    """Returns normally distributed matrices, divided by the root of how many elements a row has."""
    # NumPy promises that this generator gives the same numbers in all versions.
    random = np.random.RandomState(seed)
    result = {}
    for name, shape in sorted(shapes.items()):
        values = random.standard_normal(shape) / np.prod(shape[1:]) ** 0.5
        result[name] = values.astype(np.float32)
    return result


def complete(folder: Path, target: Path) -> Path:
    """Makes the directory of a model at `target` if weights of `folder` come from a seed; returns where the model is."""
    if not (folder / "shapes.json").exists():
        return folder
    target.mkdir(parents=True)
    shutil.copy(folder / "config.json", target)
    shapes = json.loads((folder / "shapes.json").read_text())
    save_file(load_file(folder / "vectors.safetensors") | matrices(shapes), target / "model.safetensors")
    return target
