# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``intarsia decode``."""

from __future__ import annotations

import argparse

from ..deployment import hand_over
from ..generation.generator import Generator
from .arguments import ADDRESS, add_hand_over, add_model, add_sampling, print_pieces, sampling_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_model(parser)
    parser.add_argument("--from", dest="address", required=True, metavar="ADDRESS", help=f"where to wait: {ADDRESS}")
    add_hand_over(parser)
    add_sampling(parser, temperature=0.0, max_tokens=128)


def run(options: argparse.Namespace) -> None:
    """Wait for a prompt, and continue it."""
    generator = Generator(options.artifact, memory=options.memory, tokenizer=options.tokenizer)
    with hand_over.accepted(options.address, options.timeout, options.token) as connection:
        prompt = generator.receive(connection, options.timeout)
    print_pieces(generator, generator.stream(prompt, options.max_tokens, sampling=sampling_of(options)))
