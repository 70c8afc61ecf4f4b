# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``intarsia serve``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..support.errors import InvalidArgumentError, NotFoundError
from .arguments import TOKENIZER, add_threads, at_least, read_size, read_text

_DESCRIPTION = """\
Serve models over HTTP for every client of OpenAI's interface: chats, completions, embeddings, rerank, tokens, metrics,
and a page to talk to the model. A language model writes texts, a sentence encoder embeds them. docs/serve.md says more.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.description = _DESCRIPTION
    add = parser.add_argument
    add("models", nargs="+", type=Path, metavar="MODEL.itx", help="language models and encoders")
    add(
        "--name",
        action="append",
        default=[],
        help="what requests call a model, in the order of the models (default: file)",
    )
    add("--host", default="127.0.0.1", help="the address to listen at; 0.0.0.0: all (default: %(default)s)")
    add("--port", type=_port, default=8000, help="the port; 0: a free one (default: %(default)s)")
    several = "; of one of several models: NAME=FILE"
    add("--tokenizer", action="append", default=[], metavar="FILE", help=TOKENIZER + several)
    add(
        "--chat-template",
        action="append",
        default=[],
        metavar="FILE",
        help=f"a chat template of Jinja2 (default: the tokenizer's own){several}",
    )
    add_threads(parser)
    add("--memory", type=read_size, metavar="SIZE", help="memory that a model may use (6GB): the rest stays on disk")
    add(
        "--in-process",
        action="store_true",
        help="compute in the process of the server: a crash of a kernel ends the server (default: a process for each)",
    )
    add("--temperature", type=float, default=1.0, help="for requests that name none (default: %(default)s)")
    add("--draft", type=Path, metavar="MODEL.itx", help="a smaller model of the same tokenizer that proposes tokens")

    group = parser.add_argument_group("the engine of a language model")
    add = group.add_argument
    add(
        "--cache",
        type=read_size,
        metavar="SIZE",
        help="keys and values of all texts (default: half of the free memory)",
    )
    add("--max-sequences", type=at_least(1), default=64, metavar="N", help="texts at a time (default: %(default)s)")
    add(
        "--max-waiting",
        type=at_least(1),
        default=1024,
        metavar="N",
        help="texts that wait for their turn; more get 429 (default: %(default)s)",
    )
    add(
        "--max-step-tokens",
        type=at_least(0),
        default=0,
        metavar="N",
        help="tokens of prompts in a step (default: the model's best)",
    )
    add(
        "--slo-token-ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="time between two tokens that long prompts of others should leave (default: no target)",
    )
    add("--kept-tokens", type=at_least(0), metavar="N", help="tokens of ended texts whose state is kept (default: all)")
    add("--spill-memory", type=read_size, default=0, metavar="SIZE", help="memory for state that leaves the cache")
    add("--spill-folder", type=Path, metavar="DIR", help="folder for state that leaves the cache")
    add("--spill-files", type=read_size, default=0, metavar="SIZE", help="the most that the files there may take")

    group = parser.add_argument_group("who may do how much")
    add = group.add_argument
    add("--api-key-file", type=Path, metavar="FILE", help="a key a line; behind it name=, requests=, tokens=, streams=")
    add("--max-requests-per-minute", type=at_least(1), metavar="N", help="of a key whose line says nothing else")
    add("--max-tokens-per-minute", type=at_least(1), metavar="N", help="of a key: prompts and answers")
    add("--max-streams-per-key", type=at_least(1), metavar="N", help="requests at a time of a key")
    add(
        "--share-prefixes",
        action="store_true",
        help="keys share prompts' state: faster, but one may guess at another's",
    )
    add("--max-requests", type=at_least(1), default=2048, metavar="N", help="at a time; more get 429 (%(default)s)")
    add("--max-connections", type=at_least(1), default=4096, metavar="N", help="at a time; more get 503 (%(default)s)")
    add("--max-prompts", type=at_least(1), default=2048, metavar="N", help="prompts of one request (%(default)s)")
    add(
        "--max-body-bytes",
        type=read_size,
        default=16 * 1024 * 1024,
        metavar="SIZE",
        help="of a request (default: 16 MiB)",
    )
    add("--max-seconds", type=float, metavar="S", help="time of a request; it ends with what it has (default: any)")
    add(
        "--template-variable",
        action="append",
        metavar="NAME",
        help="chat_template_kwargs that requests may set, beside enable_thinking and the like",
    )
    add("--ignore-unknown-fields", action="store_true", help="of requests, as vLLM does; by default they are refused")

    group = parser.add_argument_group("running it")
    add = group.add_argument
    add(
        "--drain-seconds", type=float, default=30.0, metavar="S", help="for requests under way at SIGTERM (%(default)s)"
    )
    add("--open-metrics", action="store_true", help="/metrics asks for no API key")
    add("--vllm-metrics", action="store_true", help="metrics also by vLLM's names")
    add("--log-level", choices=("debug", "info", "warning", "error"), default="info", help="(default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    """Serve until a signal comes; return the exit code."""
    try:
        import httptools  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
        import uvloop  # noqa: F401
    except ImportError as error:
        raise NotFoundError(
            f"{error.name} is not installed, which the server needs: pip install 'intarsia[serve]'", "not found"
        ) from error
    from ..serve.connection import Limits
    from ..serve.keys import Keys, read_keys
    from ..serve.logs import configure, log
    from ..serve.models import ServedModel
    from ..serve.opening import ModelOptions, model_names, open_model
    from ..serve.options import TEMPLATE_VARIABLES, ServerOptions
    from ..serve.server import Server
    from ..serve.worker_process import kill_all

    _check(options)
    names = model_names(options.models, options.name)
    defaults = {
        "requests": options.max_requests_per_minute,
        "tokens": options.max_tokens_per_minute,
        "streams": options.max_streams_per_key,
    }
    limits = {name: value for name, value in defaults.items() if value is not None}
    if limits and options.api_key_file is None:
        raise InvalidArgumentError("limits of keys need --api-key-file", "invalid argument")
    keys = Keys() if options.api_key_file is None else read_keys(options.api_key_file, limits)
    configure(options.log_level)
    tokenizers = _by_name("--tokenizer", options.tokenizer, names)
    templates = _by_name("--chat-template", options.chat_template, names)
    model_options = ModelOptions(
        memory=options.memory,
        threads=options.threads,
        in_process=options.in_process,
        temperature=options.temperature,
        draft=options.draft,
        engine={
            "sequences": options.max_sequences,
            "cache": options.cache,
            "waiting": options.max_waiting,
            "step_tokens": options.max_step_tokens,
            "token_seconds": options.slo_token_ms / 1000,
            "kept_tokens": options.kept_tokens,
            "spill_memory": options.spill_memory,
            "spill_folder": options.spill_folder,
            "spill_files": options.spill_files,
        },
    )
    models = []
    for path, name in zip(options.models, names, strict=True):
        template = read_text(templates[name]) if name in templates else None
        own = replace(model_options, tokenizer=tokenizers.get(name), chat_template=template)
        models.append(open_model(path, name, own))
    if options.cache is None and len([model for model in models if isinstance(model, ServedModel)]) > 1:
        log.warning("the cache of each language model may take half of the free memory: --cache gives each less")
    if not keys.are_needed and options.host not in ("127.0.0.1", "localhost", "::1"):
        log.warning("everybody who reaches %s may use the server: --api-key-file asks for keys", options.host)
    server = Server(
        models,
        keys,
        ServerOptions(
            max_body_bytes=options.max_body_bytes,
            max_prompts=options.max_prompts,
            max_requests=options.max_requests,
            max_seconds=options.max_seconds,
            drain_seconds=options.drain_seconds,
            ignores_unknown=options.ignore_unknown_fields,
            template_variables=(*TEMPLATE_VARIABLES, *(options.template_variable or ())),
            shares_prefixes=options.share_prefixes,
            opens_metrics=options.open_metrics,
            vllm_metrics=options.vllm_metrics,
            limits=Limits(connections=options.max_connections),
        ),
    )
    code = server.run(options.host, options.port)
    if any(model.supervisor.is_making for model in server.language_models.values()):
        # A thread still loads a model, perhaps in native code, which the end of Python would unwind.
        kill_all()
        sys.stderr.flush()
        os._exit(code)
    return code


def _check(options: argparse.Namespace) -> None:
    if not 0 <= options.temperature <= 2:
        raise InvalidArgumentError(f"--temperature is {options.temperature:g}, must be from 0 to 2", "invalid argument")
    for flag, value in (("--slo-token-ms", options.slo_token_ms), ("--drain-seconds", options.drain_seconds)):
        if not 0 <= value < 1e9:
            raise InvalidArgumentError(f"{flag} is {value:g}, must be at least 0", "invalid argument")
    if options.max_seconds is not None and not 0 < options.max_seconds < 1e9:
        raise InvalidArgumentError(f"--max-seconds is {options.max_seconds:g}, must be above 0", "invalid argument")


def _by_name(flag: str, given: Sequence[str], names: Sequence[str]) -> dict[str, Path]:
    """Return files by the model that each is for."""
    result: dict[str, Path] = {}
    for value in given:
        name, equals, file = value.partition("=")
        if not equals or name not in names:
            if len(names) > 1:
                raise InvalidArgumentError(
                    f"{flag}={value}: write {flag}=NAME={value} with one of {', '.join(names)}", "invalid argument"
                )
            name, file = names[0], value
        if name in result:
            raise InvalidArgumentError(f"{flag} is given twice for {name}", "invalid argument")
        result[name] = Path(file)
    return result


def _port(text: str) -> int:
    """Read a port from the command line."""
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{number}, must be from 0 to 65535")
    return number


_port.__name__ = "number"  # argparse shows this name
