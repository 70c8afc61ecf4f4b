# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The flags of ``intarsia quantize --quantize-activations``."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from ..quantization.mixed import NARROW, quantize_mixed
from ..quantization.static import check_format, quantize_static
from ..support.errors import InvalidArgumentError


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
        choices=["fmpq", "8-static"],
        help="fmpq: inputs of linears have blocks of 128 features, those with outliers in 8 bits and the others in 4, "
        "8-static: they have 8 bits, and weights int8, with scales that need no search when the model runs; both are "
        "chosen on the calibration text, and weights are rounded to nearest when the directory is compiled",
    )
    add(
        "--narrow-blocks",
        type=read_share,
        metavar="SHARE",
        help=f"with fmpq: the share of blocks that has 4 bits (default: {100 * NARROW:.0f}%%)",
    )


#: What each choice needs a text for.
PURPOSES = {"fmpq": "finds outliers of inputs", "8-static": "finds ranges of inputs"}


def check_flags(options: argparse.Namespace) -> None:
    """Refuse flags that exclude each other, and the activations without a text."""
    activations = options.quantize_activations
    if options.narrow_blocks is not None and activations != "fmpq":
        raise InvalidArgumentError("--narrow-blocks is for --quantize-activations=fmpq", "invalid argument")
    if not activations:
        return
    flag = f"--quantize-activations={activations}"
    if options.calibration is None:
        raise InvalidArgumentError(
            f"{flag} {PURPOSES[activations]} on a text: give --calibration=FILE", "invalid argument"
        )
    if options.quantize == "auto" or options.rotate or options.search_scales:
        other = "--quantize=auto" if options.quantize == "auto" else "--rotate" if options.rotate else "--search-scales"
        raise InvalidArgumentError(
            f"{other} changes weights, which {flag} leaves as they are: give one of both", "invalid argument"
        )
    if (options.quantize_parts or "linears") != "linears":
        raise InvalidArgumentError(
            f"{flag} is about linears; intarsia-compile rounds the head and the embedding: give it --quantize and "
            "--quantize-parts",
            "invalid argument",
        )
    if activations == "8-static":
        check_format(options.quantize)


def run(options: argparse.Namespace, windows: np.ndarray, progress: Callable[[str], None]) -> str:
    """Choose blocks or scales as the flags say, and return the table to print."""
    if options.quantize_activations == "8-static":
        return quantize_static(options.model, options.output, windows, work=options.work, progress=progress)
    return quantize_mixed(
        options.model,
        options.output,
        options.quantize,
        windows,
        narrow=NARROW if options.narrow_blocks is None else options.narrow_blocks,
        work=options.work,
        progress=progress,
    )
