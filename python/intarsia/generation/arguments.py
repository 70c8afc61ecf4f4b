# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checked forms of what callers of a generator give."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..support.checks import brief, whole_number
from ..support.errors import InvalidArgumentError


def several(prompts: Any) -> Sequence[Any]:
    """Return prompts as a sequence of them; one alone is a text, or a sequence of token ids."""
    if isinstance(prompts, str):
        return [prompts]
    if isinstance(prompts, np.ndarray) and prompts.ndim == 1:
        return [prompts] if prompts.size else []
    if isinstance(prompts, (bytes, Mapping)) or not isinstance(prompts, (Sequence, np.ndarray)):
        raise InvalidArgumentError(
            f"prompts are of type {type(prompts).__name__}, must be a text, token ids, or a list of those",
            "invalid argument",
        )
    return [prompts] if len(prompts) and isinstance(prompts[0], (int, np.integer)) else prompts


def texts_to_stop(stop: Any) -> list[str]:
    """Return the texts that end a generation, each once."""
    if not isinstance(stop, Iterable):
        raise InvalidArgumentError(f"stop is of type {type(stop).__name__}, must be texts", "invalid argument")
    stops = [stop] if isinstance(stop, str) else list(stop)  # an iterator gives its texts once
    if not all(isinstance(one, str) and one for one in stops):
        shown = stop if isinstance(stop, str) else stops
        raise InvalidArgumentError(f"stop is {brief(shown)}, must be texts that are not empty", "invalid argument")
    return list(dict.fromkeys(stops))


def tokens_to_stop(tokens: Any) -> tuple[int, ...]:
    """Return the tokens that end a generation."""
    if isinstance(tokens, str) or not isinstance(tokens, Iterable):
        raise InvalidArgumentError(
            f"stop_tokens is of type {type(tokens).__name__}, must be token ids", "invalid argument"
        )
    return tuple(whole_number("a token of stop_tokens", token, 0) for token in tokens)


def shown_signature(function: Callable[..., Any], *others: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function with the keywords that its ``**options`` passes on to others."""
    own = inspect.signature(function)
    shown = {name: each for name, each in own.parameters.items() if each.kind is not each.VAR_KEYWORD}
    for other in others:
        for name, each in inspect.signature(other).parameters.items():
            if each.default is not each.empty:
                shown.setdefault(name, each.replace(kind=each.KEYWORD_ONLY))
    return own.replace(parameters=list(shown.values()))
