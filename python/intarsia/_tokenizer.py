# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Open a tokenizer, with the chat template that comes with it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._chat import ChatTemplate, open_chat_template, read_json
from ._errors import InvalidArgumentError, NotFoundError
from ._gguf_tokenizer import read_gguf_text


@dataclass(frozen=True)
class Text:
    """What a model's text is made with.

    Attributes
    ----------
    tokenizer : tokenizers.Tokenizer or None
        None: there is no text, only token ids.
    chat_template : ChatTemplate or None
        None: the model is none for chats.
    add_bos : bool
        Whether a text begins with the token for that, where the model has one.
    """

    tokenizer: Any = None
    chat_template: ChatTemplate | None = None
    add_bos: bool = True


def open_tokenizer(tokenizer: Any, artifact: Path) -> Text:
    """Open a tokenizer.

    Parameters
    ----------
    tokenizer : path, tokenizers.Tokenizer, or None
        A Hugging Face directory, a ``tokenizer.json``, a GGUF file, or a tokenizer that is open. None: the
        ``tokenizer.json`` that lies beside the artifact, if one does.
    artifact : path
        The artifact of the model.
    """
    if tokenizer is None:
        path = artifact.parent / "tokenizer.json"
        return _open_file(path) if path.is_file() else Text()
    if not isinstance(tokenizer, (str, os.PathLike)):
        return Text(tokenizer)
    path = Path(tokenizer)
    if path.is_dir():
        path /= "tokenizer.json"
    if not path.is_file():
        raise NotFoundError(f"{path}: there is no such file", "not found")
    return _open_file(path)


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


def _open_file(path: Path) -> Text:
    tokenizers = import_tokenizers()
    if path.suffix == ".gguf":
        text = read_gguf_text(path)
        return Text(text.tokenizer, text.chat_template, text.add_bos)
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises plain Exception
        raise InvalidArgumentError(f"{path}: {error}", "invalid argument") from error
    add_bos = read_json(path.parent / "tokenizer_config.json").get("add_bos_token")
    return Text(tokenizer, open_chat_template(path.parent), add_bos if isinstance(add_bos, bool) else True)
