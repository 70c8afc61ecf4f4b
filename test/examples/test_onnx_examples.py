# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/reading and examples/listening: what they make of the results of their models, which make demo runs."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def opened(file: str) -> ModuleType:
    """Return a file of an example as a module."""
    name = file.replace("/", "_").removesuffix(".py")
    spec = spec_from_file_location(name, EXAMPLES / file)
    module = module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for their types
    spec.loader.exec_module(module)
    return module


def test_boxes() -> None:
    """Regions are boxed at their angle, grown by what the network shrinks them; faint and small ones are left out."""
    y, x = np.mgrid[:200, :300]
    angle = np.deg2rad(20)
    along = (x - 100) * np.cos(angle) + (y - 60) * np.sin(angle)
    across = (y - 60) * np.cos(angle) - (x - 100) * np.sin(angle)
    probabilities = np.where((abs(along) < 60) & (abs(across) < 8), 0.9, 0.0)
    probabilities[150:160, 20:280] = 0.8
    probabilities[180:190, 20:60] = 0.4  # faint
    probabilities[100:102, 200:260] = 0.9  # two pixels high
    turned, level = opened("reading/boxes.py").find_boxes(probabilities)
    width, height = turned.size
    growth = 2 * 1.6 * (60 * 8) / (60 + 8)
    assert abs(width - 120 - growth) < 3
    assert abs(height - 16 - growth) < 3
    edge = turned.corners[1] - turned.corners[0]
    assert abs(np.arctan2(edge[1], edge[0]) - angle) < np.deg2rad(1)
    assert abs(level.corners.mean(0) - [149.5, 154.5]).max() < 0.6
    assert abs(level.score - 0.8) < 1e-9


def test_segments() -> None:
    """Speech goes on through short pauses, and a click is none."""
    segments_of = opened("listening/demo.py").segments_of
    probabilities = np.zeros(100)
    probabilities[10:20] = probabilities[22:40] = 0.9  # a pause of 64 ms
    probabilities[60:62] = 0.9
    probabilities[90:] = 0.9
    (first_begin, first_end), (last_begin, last_end) = segments_of(probabilities, 0.032)
    assert abs(first_begin - (0.32 - 0.03)) < 1e-6
    assert abs(first_end - (1.28 + 0.03)) < 1e-6
    assert abs(last_begin - (2.88 - 0.03)) < 1e-6
    assert last_end > 3.2
