# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Encode texts with a tokenizer of the package tokenizers."""

from __future__ import annotations

from typing import Any

from ..support.checks import panics_as_errors
from ..support.errors import InvalidArgumentError, NotFoundError


def encode(tokenizer: Any, text: str, *, add_special_tokens: bool = True) -> list[int]:
    """Return the token ids of a text, see `encoding_of`."""
    return encoding_of(tokenizer, text, add_special_tokens=add_special_tokens).ids


def encoding_of(tokenizer: Any, text: str, second: str | None = None, *, add_special_tokens: bool = True) -> Any:
    """Return the encoding of a text, or of two as one: token ids, and the places of the tokens in the text.

    Raises
    ------
    InvalidArgumentError
        The tokenizer has no token for a part of the text, nor an unknown token.
    """
    try:
        with panics_as_errors():
            return tokenizer.encode(text, second, add_special_tokens=add_special_tokens)
    except Exception as error:  # the package raises plain Exception
        raise InvalidArgumentError(f"the tokenizer cannot encode the text: {error}", "invalid argument") from error


def import_tokenizers() -> Any:
    """Return the package tokenizers."""
    try:
        import tokenizers
    except ImportError as error:
        raise NotFoundError(
            "tokenizers is not installed: pip install 'intarsia[text]'; prompts can be token ids without it",
            "not found",
        ) from error
    return tokenizers
