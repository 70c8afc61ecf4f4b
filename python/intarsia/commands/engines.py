# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``intarsia engines``."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..deployment.engines import ENGINES
from ..deployment.engines import write as write_engines
from ..support.errors import InvalidArgumentError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.description = (
        "Write the commands that start vLLM or SGLang as intarsia-plan --json says, one file for each deployment, and "
        "with --kubernetes manifests."
    )
    parser.add_argument("plan", metavar="PLAN.json", type=Path, help="what intarsia-plan --json wrote")
    parser.add_argument("--engine", choices=list(ENGINES), default="vllm", help="the engine (default: %(default)s)")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME=DIRECTORY",
        help="where the weights of a language model of the plan are: a directory, or the name of a repository",
    )
    parser.add_argument("--kubernetes", action="store_true", help="also write manifests (.json, for kubectl apply -f)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="the folder to write to")


def run(options: argparse.Namespace) -> None:
    """Write commands and manifests."""
    models = {}
    for given in options.model:
        name, equals, where = given.partition("=")
        if not (name and equals and where):
            raise InvalidArgumentError(f"--model={given}: write --model=NAME=DIRECTORY", "invalid argument")
        models[name] = where
    print("\n".join(write_engines(options.plan, options.engine, models, options.output, options.kubernetes)))
