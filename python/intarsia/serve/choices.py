# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What OpenAI's chats and completions have in common: objects and chunks of a stream with a choice for each sample."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from .answers import Answer, Usage
from .chat_request import TextOptions
from .errors import RequestError
from .json_text import dumps, event
from .models import ServedModel


class ChoiceWriter(ABC):
    """Writes answers as choices.

    Parameters
    ----------
    prefix : str
        What the identifier begins with.
    kind, chunk_kind : str
        What the object of all answers is called, and each event of a stream.
    """

    def __init__(self, model: ServedModel, options: TextOptions, prefix: str, kind: str, chunk_kind: str) -> None:
        self._model, self._options = model, options
        self._named = {
            "id": f"{prefix}-{random.getrandbits(96):024x}",
            "object": kind,
            "created": int(time.time()),
            "model": model.name,
        }
        # Around the choices of each chunk; most chunks are put together without a writer of JSON.
        self._head = "data: " + dumps({**self._named, "object": chunk_kind})[:-1] + ',"choices":['
        usage = ',"usage":null' if options.has_usage else ""
        self._tail = f"]{usage}}}\n\n"

    def close(self, usage: Usage) -> bytes:
        """Return the usage, if it is asked for, and the mark of the end."""
        if not self._options.has_usage:
            return b"data: [DONE]\n\n"
        return f'{self._head}],"usage":{dumps(_usage(usage))}}}\n\ndata: [DONE]\n\n'.encode()

    def error(self, error: RequestError) -> bytes:
        """Return an error."""
        return event(error.body())

    def whole(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        """Return the object of all answers."""
        choices = [self._choice(index, answer) for index, answer in enumerate(answers)]
        return {**self._named, "choices": choices, "usage": _usage(usage)}

    @abstractmethod
    def _choice(self, index: int, answer: Answer) -> dict[str, Any]:
        """Return one answer."""

    def _written(self, choice: dict[str, Any]) -> str:
        """Return a chunk with one choice."""
        return f"{self._head}{dumps(choice)}{self._tail}"


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
