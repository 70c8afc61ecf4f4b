# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``intarsia perplexity``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..generation.generator import Generator
from ..quantization import overlap
from .arguments import TOKENIZER, add_model, at_least, progress, read_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_model(parser)
    parser.add_argument("file", type=Path, metavar="FILE", help="UTF-8 text")
    parser.add_argument("--tokenizer", type=Path, help=TOKENIZER)
    parser.add_argument(
        "--window", type=at_least(1), default=192, help="tokens predicted in a window (default: %(default)s)"
    )
    parser.add_argument("--windows", type=at_least(0), default=0, help="stop after so many (default: all)")
    parser.add_argument("--lines", action="store_true", help="each line is a text of its own, with beginning and end")


def run(options: argparse.Namespace) -> None:
    """Print how well a model predicts a text."""
    generator = Generator(options.artifact, memory=options.memory, tokenizer=options.tokenizer)
    text = read_text(options.file)
    ids: list[int] = []
    for document in text.removesuffix("\n").split("\n") if options.lines else [text]:
        ids += generator.encode_document(document)
    step = options.window
    windows = [ids[begin : begin + step + 1] for begin in range(0, len(ids) - step, step)]
    windows = windows[: options.windows] if options.windows else windows
    if not windows:
        raise SystemExit(f"error: {options.file} has {len(ids)} tokens, a window needs {step + 1}; see --window")
    losses = []
    with progress() as show:
        for number, window in enumerate(windows, 1):
            losses.append(generator.cross_entropy(window))
            show(f"{number}/{len(windows)} windows, {np.exp(np.mean(losses)):.4f}")
    _warn_of_overlap(options.file, generator, ids[: len(windows) * step + 1])
    print(f"perplexity {np.exp(np.mean(losses)):.4f} over {len(windows)} windows of {step} tokens")


def _warn_of_overlap(file: Path, generator: Generator, ids: Sequence[int]) -> None:
    """Warn if a model was calibrated on some of a text: it predicts that better than others."""
    module = generator.module
    share = overlap.share(ids, module.file(overlap.FILE)) if overlap.FILE in module.files else 0
    if share > 0:
        print(
            f"warning: about {100 * share:.2g} % of {file} is text that this model was calibrated on, which it "
            "predicts better than other texts: measure on a text that it has not seen",
            file=sys.stderr,
        )
