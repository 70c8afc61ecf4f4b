# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``intarsia chat``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..generation.generator import Generator
from ..support.errors import InvalidArgumentError
from .arguments import add_model, add_sampling, read_text, sampling_of
from .conversation import Conversation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_model(parser)
    add_sampling(parser, temperature=0.7, max_tokens=1024)
    parser.add_argument("--system", metavar="TEXT", help="the system message")
    parser.add_argument("--chat-template", type=Path, metavar="FILE", help="Jinja2 text (default: the model's own)")
    parser.add_argument(
        "--template-variable",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a value that the template knows, as JSON or text, such as enable_thinking=false; may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    """Talk until the user ends it; return the exit code."""
    template = options.chat_template and read_text(options.chat_template)
    generator = Generator(options.artifact, memory=options.memory, tokenizer=options.tokenizer, chat_template=template)
    generator._texts.need_tokenizer("a chat")
    if generator.chat_template is None:
        raise InvalidArgumentError(
            f"{options.artifact}: its tokenizer comes without a chat template, it is no model for chats; "
            "`intarsia generate` continues texts, --chat-template takes a template from elsewhere",
            "invalid argument",
        )
    variables = {}
    for setting in options.template_variable:
        name, _, value = setting.partition("=")
        try:
            variables[name] = json.loads(value)
        except (ValueError, RecursionError):
            variables[name] = value
    conversation = Conversation(
        generator,
        options.max_tokens,
        options.system,
        variables,
        sampling_of(options),
        options.draft,
        options.draft_tokens,
    )
    return conversation.run()
