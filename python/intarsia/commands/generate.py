# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``intarsia generate``."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..generation.generator import Generator
from .arguments import PROMPT, add_model, add_sampling, print_pieces, prompt_of, read_text, sampling_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_model(parser)
    parser.add_argument("prompt", metavar="PROMPT", help=PROMPT)
    add_sampling(parser, temperature=0.0, max_tokens=128)
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="ends the text; may be repeated")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json-schema", type=Path, metavar="FILE", help="write JSON that is valid by this schema")
    form.add_argument("--regex", help="write a text that matches this regular expression")
    form.add_argument("--grammar", type=Path, metavar="FILE", help="write a text of this grammar, as Lark")


def run(options: argparse.Namespace) -> None:
    """Continue a prompt."""
    generator = Generator(options.artifact, memory=options.memory, tokenizer=options.tokenizer)
    rules = {
        "json_schema": options.json_schema and read_text(options.json_schema),
        "regex": options.regex,
        "grammar": options.grammar and read_text(options.grammar),
    }
    pieces = generator.stream(
        prompt_of(options, generator),
        options.max_tokens,
        stop=options.stop,
        sampling=sampling_of(options),
        draft=options.draft,
        draft_tokens=options.draft_tokens,
        **rules,
    )
    print_pieces(generator, pieces)
