# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The flags of ``intarsia quantize --quantize=auto``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..quantization.choice import Budget
from ..quantization.choose import CANDIDATES, MEASURED_TOKENS, choose
from ..quantization.image_choice import MEASURED_IMAGES
from ..support.errors import InvalidArgumentError
from .arguments import at_least, read_size


def read_bits(text: str) -> float:
    """Read bits of a weight."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: bits of a weight are a positive number")
    return value


def read_loss(text: str) -> float:
    """Read ``1%`` or ``0.01`` as a loss."""
    value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: the most that is lost is a positive number: 1%")
    return value


def read_rate(text: str) -> float:
    """Read ``40tok/s`` as microseconds of a token."""
    value = float(text.removesuffix("tok/s").removesuffix("/s"))
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: a rate is a positive number of tokens a second: 40tok/s")
    return 1e6 / value


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``--quantize=auto`` to those of ``intarsia quantize``."""
    group = parser.add_argument_group(
        "--quantize=auto", "A format is chosen for every tensor, so that little is lost within these limits; several "
        "may be given. Needs a calibration text, or pictures for models of images."
    )  # fmt: skip
    add = group.add_argument
    add("--bits", type=read_bits, metavar="BITS", help="bits of a weight, on average over what formats are chosen for")
    add("--size", type=read_size, metavar="SIZE", help="bytes of all weights, and of caches with --cache-tokens: 700MB")
    add(
        "--max-loss",
        type=read_loss,
        metavar="LOSS",
        help="the most that is lost: KL divergence in nats of a token (1%% is 0.01, about 1%% of perplexity), or of "
        "the class of a picture or a pixel; of encoders, and of images without classes, 1 - cosine; without another "
        "limit the smallest model is made",
    )
    add("--faster-than", type=read_rate, metavar="RATE", help="tokens a second that are predicted on --target: 40tok/s")
    add("--target", default="cpu", metavar="TARGET", help="what is compiled for later, as intarsia-compile has it")
    add(
        "--candidates",
        default=",".join(CANDIDATES),
        metavar="FORMATS",
        help="formats to choose from, beside leaving a tensor as it is (default: %(default)s; of images: int8)",
    )
    add(
        "--keep",
        action="append",
        default=[],
        metavar="GLOB=FORMAT",
        help="what tensors and caches whose names match are to have ('none': as they are); may be repeated, the last "
        "that matches holds",
    )
    add("--cache-tokens", type=at_least(0), default=0, help="choose formats of caches too, which hold so many tokens")
    add(
        "--proxy",
        action="store_true",
        help="measure every tensor in one format to the end of its layer, one of each layer to the end of the "
        "model, and estimate the rest from errors of outputs: faster",
    )
    add("--measured-tokens", type=at_least(1), default=MEASURED_TOKENS, help="tokens to measure losses on, held apart")
    add(
        "--measured-images",
        type=at_least(1),
        default=MEASURED_IMAGES,
        help="pictures to measure losses on, held apart (default: %(default)s, a quarter at most)",
    )
    add("--explain", type=Path, metavar="FILE.json", help="write the alternatives of every tensor")
    add("--report", type=Path, metavar="FILE.html", help="write a page with the front of size and loss")


FLAGS = ("bits", "size", "max_loss", "faster_than", "keep", "cache_tokens", "proxy", "explain", "report")


def check_flags(options: argparse.Namespace) -> None:
    """Refuse flags of ``--quantize=auto`` without it, and it without a text or a limit."""
    given = [f"--{name.replace('_', '-')}" for name in FLAGS if getattr(options, name)]
    if options.quantize != "auto":
        if given:
            raise InvalidArgumentError(f"{given[0]} is for --quantize=auto, which chooses formats", "invalid argument")
        return
    for name in ("rotate", "search_scales"):
        if getattr(options, name):
            raise InvalidArgumentError(
                f"--{name.replace('_', '-')} is for a format that you name: --quantize=auto measures the model as it "
                "is",
                "invalid argument",
            )
    if options.calibration is None:
        raise InvalidArgumentError(
            "--quantize=auto measures what formats lose on a text: give --calibration=FILE; a folder of pictures for a "
            "model of images",
            "invalid argument",
        )
    if not any(getattr(options, name) for name in FLAGS[:4]):
        raise InvalidArgumentError(
            "--quantize=auto chooses within a limit: give --bits, --size, --max-loss or --faster-than",
            "invalid argument",
        )


def run(options: argparse.Namespace, windows: np.ndarray, progress: Callable[[str], None]) -> str:
    """Choose formats as the flags say, and return the table to print."""
    parts = options.quantize_parts or "linears,lm_head,embedding"
    outcome = choose(
        options.model,
        options.output,
        windows,
        Budget(options.bits, options.size, options.max_loss, options.faster_than),
        parts=parts.split(","),
        candidates=options.candidates.split(","),
        keep=options.keep,
        proxy=options.proxy,
        measured_tokens=options.measured_tokens,
        measured_images=options.measured_images,
        cache_tokens=options.cache_tokens,
        targets=options.target.split(","),
        work=options.work,
        explain=options.explain,
        report=options.report,
        progress=progress,
    )
    return outcome.table
