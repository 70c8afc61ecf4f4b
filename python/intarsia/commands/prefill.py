# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``intarsia prefill``."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..deployment import hand_over
from ..generation.generator import Generator
from .arguments import ADDRESS, PROMPT, TOKENIZER, add_hand_over, add_model, prompt_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_model(parser)
    parser.add_argument("prompt", metavar="PROMPT", help=PROMPT)
    parser.add_argument("--to", required=True, metavar="ADDRESS", help=f"where the other process waits: {ADDRESS}")
    parser.add_argument("--tokenizer", type=Path, help=TOKENIZER)
    add_hand_over(parser)


def run(options: argparse.Namespace) -> None:
    """Compute a prompt, and hand it over."""
    generator = Generator(options.artifact, memory=options.memory, tokenizer=options.tokenizer)
    prompt = prompt_of(options, generator)
    with hand_over.connected(options.to, options.timeout, options.token) as connection:
        generator.send(connection, prompt, options.timeout)
