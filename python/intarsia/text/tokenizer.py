# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Open a tokenizer, with the chat template that comes with it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..runtime.files import Files
from ..runtime.module import Module
from ..support.errors import InvalidArgumentError, NotFoundError
from .chat import ChatTemplate, open_chat_template
from .encoding import import_tokenizers
from .gguf_tokenizer import GgufText, read_gguf_json, read_gguf_text
from .tokenizer_config import read_tokenizer


@dataclass(frozen=True)
class Text:
    """The tokenizer and chat template of a model.

    Attributes
    ----------
    tokenizer : tokenizers.Tokenizer or None
        None: there is no text, only token ids.
    chat_template : ChatTemplate or None
        None: the model is not for chats.
    document_end : int or None
        The token that ends a whole text; None: the model says it.
    missing : str
        The reason why there is no tokenizer, and what to do.
    """

    tokenizer: Any = None
    chat_template: ChatTemplate | None = None
    document_end: int | None = None
    missing: str = ""


def open_tokenizer(tokenizer: Any) -> Text:
    """Open a tokenizer that a user names.

    Parameters
    ----------
    tokenizer : path or tokenizers.Tokenizer
        A Hugging Face directory, a ``tokenizer.json``, a GGUF file, or an opened tokenizer.

    Raises
    ------
    InvalidArgumentError
        The file is no tokenizer, or the opened tokenizer cuts or pads texts.
    """
    if not isinstance(tokenizer, (str, os.PathLike)):
        for setting in ("truncation", "padding"):
            if getattr(tokenizer, setting, None) is not None:
                raise InvalidArgumentError(
                    f"the tokenizer has {setting}, so that prompts would not be what was asked: call its "
                    f"no_{setting}(), or give the path of its tokenizer.json",
                    "invalid argument",
                )
        return Text(tokenizer)
    path = Path(tokenizer)
    if path.is_dir():
        path /= "tokenizer.json"
    if not path.is_file():
        raise NotFoundError(f"{path}: there is no such file", "not found")
    import_tokenizers()
    return _of_gguf(read_gguf_text(path)) if path.suffix == ".gguf" else _of_files(Files(path.parent), path.name)


def open_tokenizer_of(module: Module) -> Text:
    """Open the tokenizer that an artifact carries, or the ``tokenizer.json`` beside it.

    If the tokenizer cannot be opened, `Text.missing` says why: token ids work without it.
    """
    beside = Path(module.path).parent
    files = Files(module if module.files else beside)
    name = "tokenizer.gguf.json" if "tokenizer.gguf.json" in module.files else "tokenizer.json"
    try:
        text = files.text(name)
        if text is not None:
            import_tokenizers()
            return _of_gguf(read_gguf_json(files.where(name), text)) if ".gguf." in name else _of_files(files, name)
    except (InvalidArgumentError, NotFoundError) as error:
        return Text(missing=str(error))
    return Text(
        missing=f"{module.path}: carries no tokenizer, as the model that it was compiled from had none, and no "
        "tokenizer.json lies beside it: give the model's folder, a tokenizer.json or a GGUF file as the tokenizer"
    )


def _of_gguf(text: GgufText) -> Text:
    return Text(text.tokenizer, text.chat_template, text.document_end)


def _of_files(files: Files, name: str) -> Text:
    """Open a file of the package tokenizers, and the files beside it."""
    return Text(read_tokenizer(import_tokenizers(), files, name), open_chat_template(files))


def check_tokenizer(tokenizer: Any, vocabulary: int, ends: set[int]) -> None:
    """Refuse a tokenizer that cannot be the model's.

    A model may have more tokens, for alignment. A tokenizer may have tokens for other models of its family: Gemma 3's
    has one for images, which the text models do not know.
    """
    count = tokenizer.get_vocab_size(with_added_tokens=False)
    if count > vocabulary:
        raise InvalidArgumentError(
            f"the tokenizer has {count} tokens, the model {vocabulary}: is it another model's?", "invalid argument"
        )
    if ends and all(tokenizer.id_to_token(end) is None for end in ends):
        raise InvalidArgumentError(
            f"the model ends texts with token {min(ends)}, which the tokenizer with its {count} tokens does not have: "
            "is it another model's?",
            "invalid argument",
        )
