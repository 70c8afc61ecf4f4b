# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The flags of ``intarsia quantize --quantize-activations=fmpq``."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from ._errors import InvalidArgumentError
from ._mixed import NARROW, quantize_mixed


def read_share(text: str) -> float:
    """Read ``85%`` or ``0.85`` as a share."""
    value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: a share lies between 0% and 100%")
    return value


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags to those of ``intarsia quantize``."""
    add = parser.add_argument
    add(
        "--quantize-activations",
        choices=["fmpq"],
        help="fmpq: inputs of linears have blocks of 128 features, those with outliers in 8 bits and the others in 4, "
        "chosen on the calibration text; weights are rounded to nearest when the directory is compiled",
    )
    add(
        "--narrow-blocks",
        type=read_share,
        metavar="SHARE",
        help=f"with fmpq: the share of blocks that has 4 bits (default: {100 * NARROW:.0f}%%)",
    )


def check_flags(options: argparse.Namespace) -> None:
    """Refuse flags that exclude each other, and the activations without a text."""
    if not options.quantize_activations:
        if options.narrow_blocks is not None:
            raise InvalidArgumentError("--narrow-blocks is for --quantize-activations=fmpq", "invalid argument")
        return
    if options.calibration is None:
        raise InvalidArgumentError(
            "--quantize-activations=fmpq finds outliers of inputs on a text: give --calibration=FILE",
            "invalid argument",
        )
    if options.quantize == "auto" or options.rotate or options.search_scales:
        other = "--quantize=auto" if options.quantize == "auto" else "--rotate" if options.rotate else "--search-scales"
        raise InvalidArgumentError(
            f"{other} changes weights, which --quantize-activations=fmpq leaves as they are: give one of both",
            "invalid argument",
        )
    if (options.quantize_parts or "linears") != "linears":
        raise InvalidArgumentError(
            "--quantize-activations=fmpq is about linears; intarsia-compile rounds the head and the embedding: give it "
            "--quantize and --quantize-parts",
            "invalid argument",
        )


def run(options: argparse.Namespace, windows: np.ndarray, progress: Callable[[str], None]) -> str:
    """Choose blocks as the flags say, and return the table to print."""
    return quantize_mixed(
        options.model,
        options.output,
        options.quantize,
        windows,
        narrow=NARROW if options.narrow_blocks is None else options.narrow_blocks,
        work=options.work,
        progress=progress,
    )
