# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Flags that commands have in common, and what they mean."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from ..generation.generator import Generator
from ..generation.sampling import SamplingOptions
from ..support.errors import InvalidArgumentError

_UNITS = {"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

TOKENIZER = "tokenizer.json, the folder that holds it, or a GGUF file (default: the artifact's own)"
ADDRESS = "unix:/path or tcp:host:port"
PROMPT = "text; where there is no tokenizer, token ids in quotes"


def at_least(least: int) -> Callable[[str], int]:
    """Return a function that reads a number from the command line."""

    def read(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number}, must be at least {least}")
        return number

    read.__name__ = "number"  # argparse shows this name
    return read


def read_size(text: str) -> int:
    """Read ``700MB`` or ``1.5GiB`` as bytes."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*([A-Za-z]*)", text)
    size = float(found[1]) * _UNITS.get(found[2], 0) if found else 0
    if not 1 <= size <= 2**53:  # no machine has more, and it would not be exact
        raise argparse.ArgumentTypeError(f"{text}: sizes are numbers with MB, GB, MiB or GiB: 700MB")
    return int(size)


def read_text(file: Path) -> str:
    """Return the text in a file."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{file}: is not UTF-8: {error}", "invalid argument") from error


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Show texts on one line of a terminal, and end the line even after an error."""
    terminal = sys.stderr.isatty()

    def show(text: str) -> None:
        if terminal:
            print(f"\r{text}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if terminal:
            print(file=sys.stderr)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add a language model, and how it is computed."""
    parser.add_argument("artifact", metavar="ARTIFACT", help="a language model, .itx")
    add_threads(parser)
    parser.add_argument(
        "--memory",
        type=read_size,
        metavar="SIZE",
        help="memory that this process may use (6GB): weights that do not fit are read from the disk in each step",
    )


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Add the number of threads, which `main` sets."""
    parser.add_argument("--threads", type=at_least(0), default=0, help="threads to compute with (default: all)")


def add_sampling(parser: argparse.ArgumentParser, temperature: float, max_tokens: int) -> None:
    """Add how a text is continued; `sampling_of` reads some of it."""
    add = parser.add_argument
    add("--tokenizer", type=Path, help=TOKENIZER)
    add("--max-tokens", type=at_least(1), default=max_tokens, help="the most tokens to generate (default: %(default)s)")
    add("--temperature", type=float, default=temperature, help="0: the most likely token (default: %(default)s)")
    add("--top-k", type=int, default=0, help="sample among the most likely tokens only (default: all)")
    add("--top-p", type=float, default=1.0, help="sample among the likeliest of this total probability")
    add("--min-p", type=float, default=0.0, help="drop tokens less likely than this times the likeliest")
    add("--repetition-penalty", type=float, default=1.0, help="above 1: tokens come back less often")
    add("--seed", type=at_least(-(2**63)), help="makes sampling repeatable")
    add("--draft", type=Path, metavar="ARTIFACT", help="a smaller model that proposes tokens, for speed")
    add("--draft-tokens", type=at_least(1), default=4, help="tokens proposed at once (default: %(default)s)")


def sampling_of(options: argparse.Namespace) -> SamplingOptions:
    """Return how tokens are chosen."""
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
    return SamplingOptions(**{name: getattr(options, name) for name in names})


def prompt_of(options: argparse.Namespace, generator: Generator) -> str | list[int]:
    """Return the prompt; without a tokenizer, text that is no token ids is refused where it is encoded."""
    words = options.prompt.split()
    is_ids = generator.tokenizer is None and words and all(word.isdecimal() for word in words)
    return [int(word) for word in words] if is_ids else options.prompt


def print_pieces(generator: Generator, pieces: Iterator[str | int]) -> None:
    """Print a text as it comes."""
    separator = "" if generator.tokenizer is not None else " "
    try:
        for piece in pieces:
            print(piece, end=separator, flush=True)
    finally:
        print(flush=True)


def add_hand_over(parser: argparse.ArgumentParser) -> None:
    """Add how the processes of `prefill` and `decode` talk."""
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="longest silence (default: 60)")
    parser.add_argument(
        "--token",
        type=Path,
        metavar="FILE",
        help="a secret that both processes have in common, which tcp: needs; openssl rand -hex 32 makes one. What "
        "is sent is neither encrypted nor signed: use a network that you trust",
    )
