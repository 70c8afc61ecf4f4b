# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draft models: small ones, whose proposals the model itself checks, several in one step."""

from __future__ import annotations

from typing import Any, Protocol

from ..runtime.module import Module
from ..support.errors import InvalidArgumentError


class Model(Protocol):
    """A model, and the tokenizer of its texts."""

    module: Module
    vocabulary: int

    @property
    def tokenizer(self) -> Any:
        """A tokenizers.Tokenizer, or None."""


def check_draft(target: Model, draft: Model) -> None:
    """Refuse a draft model that cannot propose tokens for another model."""
    name = draft.module.path
    if draft is target:
        raise _error(f"{name}: a generator cannot be its own draft: both would write the same caches")
    if target.tokenizer is None or draft.tokenizer is None:
        if target.vocabulary != draft.vocabulary:
            raise _error(
                f"the draft {name} has {draft.vocabulary} tokens, the model {target.module.path} {target.vocabulary}: "
                "a draft needs the model's tokenizer"
            )
        return
    ours, theirs = target.tokenizer.get_vocab(), draft.tokenizer.get_vocab()
    if ours != theirs:
        differing = min((set(ours.items()) ^ set(theirs.items())), key=lambda item: (item[1], item[0]))[1]
        raise _error(
            f"token {differing} is {draft.tokenizer.id_to_token(differing)!r} for the draft {name} and "
            f"{target.tokenizer.id_to_token(differing)!r} for the model {target.module.path}: a draft needs the "
            "model's tokenizer"
        )


def _error(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, "invalid argument")
