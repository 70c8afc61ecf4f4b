# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command ``intarsia``."""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from ..support.errors import Error
from .tools import replace_by


@dataclass(frozen=True)
class Command:
    """A command of ``intarsia``.

    Attributes
    ----------
    help : str
        What it does, in a line.
    module : str
        The module of this folder that has it, which is imported when it is used: ``add_arguments(parser)`` adds its
        flags, ``run(options)`` runs it and returns the exit code, or None.
    tool : str
        The program that it is, instead of a module.
    """

    help: str
    module: str = ""
    tool: str = ""


COMMANDS = {
    "compile": Command("compile a model ahead of time", tool="intarsia-compile"),
    "run": Command("run a function of a compiled model", tool="intarsia-run"),
    "generate": Command("continue a prompt; text appears as it is made", "generate"),
    "chat": Command("talk with a model; Ctrl-C stops an answer, /help lists commands", "chat"),
    "serve": Command("serve models over HTTP, for clients of OpenAI's interface", "serve"),
    "quantize": Command("round a model's weights so that little is lost on a text", "quantize"),
    "perplexity": Command("say how well the model predicts a text", "perplexity"),
    "bench": Command("measure speed", "bench"),
    "plan": Command("place agents on a fleet, or a model on many devices", tool="intarsia-plan"),
    "engines": Command("commands and manifests that start serving engines as a plan says", "engines"),
    "prefill": Command("compute a prompt and hand it over to `intarsia decode`", "prefill"),
    "decode": Command("wait for a prompt of `intarsia prefill` and continue it", "decode"),
    "wafer": Command("compile and time distributed products for a wafer", tool="intarsia-wafer"),
    "opt": Command("run passes on IR", tool="intarsia-opt"),
    "lsp-server": Command("answer editors about IR", tool="intarsia-lsp-server"),
}


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {command.help}" for name, command in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog="intarsia",
        usage="intarsia COMMAND …",
        description="Compile models ahead of time, run and quantize them, and continue texts.",
        epilog="\n".join(["commands:", *lines, "", "`intarsia COMMAND --help` says more."]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    return parser


def _command_parser(name: str, module: ModuleType) -> argparse.ArgumentParser:
    text = COMMANDS[name].help
    parser = argparse.ArgumentParser(prog=f"intarsia {name}", description=f"{text[0].upper()}{text[1:]}.")
    module.add_arguments(parser)
    return parser


def _check_values(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Refuse flags without a value behind their ``=``, as an empty variable of a shell makes them."""
    for argument in itertools.takewhile(lambda each: each != "--", arguments):
        if argument.startswith("-") and argument.find("=") == len(argument) - 1:
            parser.error(
                f"'{argument}' has no value behind '=' (an empty variable of the shell?): give one, or leave the flag "
                "out"
            )


def _run(arguments: Sequence[str]) -> int:
    name, *rest = arguments or [""]
    if name.startswith("-") or name not in COMMANDS:
        parser = _parser()
        if parser.parse_known_args([name] if name.startswith("-") else [])[0].version:
            from .. import _runtime

            print(f"intarsia {_runtime.version().split()[0]}")
            return 0
        if name.startswith("-"):
            parser.error(f"unrecognized arguments: {name}")
        parser.error(f"there is no command {name!r}; `intarsia --help` lists them" if name else "give a COMMAND")
    command = COMMANDS[name]
    if command.tool:
        replace_by(command.tool, rest)
    module = importlib.import_module(f".{command.module}", __package__)
    parser = _command_parser(name, module)
    _check_values(parser, rest)
    options = parser.parse_args(rest)
    if getattr(options, "threads", 0):
        from ..runtime.module import set_threads

        set_threads(options.threads)
    return module.run(options) or 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return 130  # the exit code that shells report for SIGINT
    except BrokenPipeError:
        return 141
    except (Error, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
