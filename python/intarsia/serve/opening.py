# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Open artifacts as models that are served."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..generation.engine import Engine as InProcess
from ..generation.texts import limits_of, open_texts
from ..runtime.module import Module, load
from ..support.errors import InvalidArgumentError
from ..text.tokenizer import open_tokenizer, open_tokenizer_of
from .encoders import Encoder
from .engines import Engine
from .models import ServedModel
from .worker import WorkerEngine

#: The most tokens that a draft model proposes at once, as in `Generator.generate`.
_DRAFT_TOKENS = 4


@dataclass
class ModelOptions:
    """How a model is opened, and how much its engine may take.

    Attributes
    ----------
    tokenizer : path or None
        Another tokenizer than the artifact's own.
    chat_template : str or None
        The text of another chat template.
    memory : int or None
        Bytes of memory that the process of the model may use.
    threads : int
        Threads of a step of an engine in a process of its own; 0: all.
    in_process : bool
        The engine runs in this process, not in one of its own.
    temperature : float
        That of requests that name none.
    engine : dict
        Options of the engine: ``sequences``, ``cache``, ``waiting``, …
    draft : path or None
        A smaller model that proposes tokens.
    """

    tokenizer: Path | None = None
    chat_template: str | None = None
    memory: int | None = None
    threads: int = 0
    in_process: bool = False
    temperature: float = 1.0
    engine: Mapping[str, Any] | None = None
    draft: Path | None = None


def model_names(artifacts: Sequence[Path], names: Sequence[str]) -> list[str]:
    """Return the names of models, before any is loaded: those that are given, or else the files'.

    Raises
    ------
    InvalidArgumentError
        Two models have the same name, or there are more names than models.
    """
    if len(names) > len(artifacts):
        raise _error(f"{len(names)} names are given for {len(artifacts)} models")
    result = [*names, *(path.stem for path in artifacts[len(names) :])]
    for number, name in enumerate(result):
        if not name or len(name) > 200 or not name.isprintable():
            raise _error(f"a model cannot be named {name!r}")
        if name in result[:number]:
            first = artifacts[result.index(name)]
            raise _error(
                f"{first} and {artifacts[number]} are both named {name}: give each another name with --name, in the "
                "order of the models"
            )
    return result


def open_model(path: Path, name: str, options: ModelOptions) -> ServedModel | Encoder:
    """Open an artifact.

    Raises
    ------
    InvalidArgumentError
        The artifact is nothing that can be served, or has no tokenizer.
    """
    # In a server whose engines have their own processes, the module only says what the model is.
    module = load(path, memory=options.memory if options.in_process else None)
    text = open_tokenizer_of(module) if options.tokenizer is None else open_tokenizer(options.tokenizer)
    if text.tokenizer is None:
        what = (
            text.missing if "step" in module.functions else "artifacts of encoders carry none, and none lies beside it"
        )
        raise _error(f"{path}: a server needs a tokenizer, --tokenizer says where it is. {what}")
    if "step" not in module.functions:
        return Encoder(name, module, text.tokenizer)
    limits = limits_of(module)
    return ServedModel(
        name,
        open_texts(limits, text, options.chat_template),
        limits.context,
        _engine_maker(path, module, options),
        temperature=options.temperature,
        draft_tokens=0 if options.draft is None else _DRAFT_TOKENS,
    )


def _engine_maker(path: Path, module: Module, options: ModelOptions) -> Callable[[], Engine]:
    """Return what starts the engine of a model."""
    settings = dict(options.engine or {})
    if not options.in_process:
        more = {"draft": options.draft, "threads": options.threads, "memory": options.memory}
        return lambda: WorkerEngine(path, **settings, **more)

    def in_process() -> Engine:
        draft = None if options.draft is None else load(options.draft)
        return InProcess(module, **settings, draft=draft)

    return in_process


def _error(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, "invalid argument")
