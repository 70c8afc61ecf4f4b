#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fits three constants of catalogue/wafers/wse-2.yaml to Tables 3 and 4 of arXiv 2502.04563.

The constants are the cycles of software that starts a product of tiles (`product_cycles`), that starts a transfer or passes
a message on (`stage_cycles`), and of one element of exp or silu (`element_cycles`). Times of programs are piecewise linear
in them, so that two steps of Gauss and Newton, with slopes from the simulator, end at the least squares of relative errors.
Prints the constants, the errors of the fit, and those of each model from a fit without it.

usage: fit_wafer.py [--build=build/dev]
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from wafer_layers import ROOT, Point, figures, layer_of, points

CATALOGUE = ROOT / "catalogue" / "wafers" / "wse-2.yaml"
NAMES = ["product_cycles", "stage_cycles", "element_cycles"]
STEPS = 2


def with_constants(constants: NDArray[np.float64]) -> str:
    """Return the catalogue's file with other constants."""
    text = CATALOGUE.read_text()
    for name, value in zip(NAMES, constants, strict=True):
        text = re.sub(rf"^({name}: {{value: )[^,]+", rf"\g<1>{value:.4f}", text, flags=re.M)
    return text


def ratios(tool: Path, chosen: list[Point], constants: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cycles of our programs over the published ones."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "wafer.yaml"
        target.write_text(with_constants(constants))
        return np.array(
            [
                sum(program["cycles"] for program in figures(tool, layer_of(point), str(target)))
                / point.cycles_per_layer()
                for point in chosen
            ]
        )


def main() -> None:
    """Fit, and print constants and errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev")
    tool = parser.parse_args().build / "bin" / "intarsia-wafer"
    chosen = points()
    text = CATALOGUE.read_text()
    constants = np.array([float(re.search(rf"^{name}: {{value: ([^,]+)", text, re.M)[1]) for name in NAMES])
    for _ in range(STEPS):
        base = ratios(tool, chosen, constants)
        slopes = np.stack(
            [(ratios(tool, chosen, constants + step) - base) / step.sum() for step in np.diag(0.05 * constants)],
            axis=1,
        )
        before = constants
        constants = before + np.linalg.lstsq(slopes, 1 - base, rcond=None)[0]
    for name, value in zip(NAMES, constants, strict=True):
        print(f"{name} {value:.1f}")
    errors = base + slopes @ (constants - before) - 1
    print(f"errors of the fit: median {np.median(np.abs(errors)):.1%}, largest {np.abs(errors).max():.1%}")
    for model in dict.fromkeys(point.model for point in chosen):
        kept = np.array([point.model != model for point in chosen])
        without = np.linalg.lstsq(slopes[kept], (1 - base)[kept], rcond=None)[0]
        left = (base + slopes @ without - 1)[~kept]
        print(f"fitted without {model}: its errors are at most {np.abs(left).max():.1%}")


if __name__ == "__main__":
    main()
