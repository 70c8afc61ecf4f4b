# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a language model reads and writes texts: for `Generator`, and for the server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from ..runtime.module import Module
from ..support.errors import InvalidArgumentError
from ..text.chat import ChatTemplate, check_variables
from ..text.control_tokens import ControlTokens
from ..text.encoding import encode, encoding_of
from ..text.text_stream import Detokenizer
from ..text.token_bytes import TokenBytes
from ..text.tokenizer import Text, check_tokenizer
from .constrained import Grammars

#: Chat templates whose control tokens are kept: those of a model are one for tools and one for chats without.
_MOST_TEMPLATES = 4


class Limits(NamedTuple):
    """What a language model's artifact says of its tokens.

    Attributes
    ----------
    vocabulary : int
        Number of logits of a token.
    context : int
        The most tokens of a sequence.
    ends : set of int
        Tokens that end a text.
    """

    vocabulary: int
    context: int
    ends: set[int]


def limits_of(module: Module) -> Limits:
    """Return what a module with a function ``step`` says of its tokens.

    Raises
    ------
    InvalidArgumentError
        The function is not that of a language model.
    """
    signature = module["step"].signature
    inputs = {value.name: value for value in signature.inputs}
    ranges = []
    for name in ("input_ids", "positions"):
        limits = inputs[name].value_range if name in inputs else None
        if limits is None:
            raise _error(
                f"{module.path}: its function 'step' says no range for an input '{name}': it is no language model"
            )
        ranges.append(limits[1])
    return Limits(*ranges, set(signature.metadata.get("eos_token_ids", [])))


def open_texts(limits: Limits, text: Text, chat_template: ChatTemplate | str | None = None) -> ModelTexts:
    """Return the texts of a model.

    Parameters
    ----------
    limits : Limits
        What the artifact says.
    text : Text
        The tokenizer, and the template that comes with it.
    chat_template : ChatTemplate or str, optional
        Another template; a str is Jinja2 text.

    Raises
    ------
    InvalidArgumentError
        The tokenizer is not the model's.
    """
    if isinstance(chat_template, str):
        special = text.chat_template.special_tokens if text.chat_template else {}
        chat_template = ChatTemplate({"default": chat_template}, special)
    if text.tokenizer is not None:
        check_tokenizer(text.tokenizer, limits.vocabulary, limits.ends)
    text = replace(text, chat_template=chat_template or text.chat_template)
    return ModelTexts(text, limits.vocabulary, limits.ends)


class ModelTexts:
    """The tokenizer and the chat template of a model, and the tokens that end its texts.

    Parameters
    ----------
    text : Text
        The tokenizer and the template.
    vocabulary : int
        Number of tokens that the model knows.
    ends : iterable of int
        Tokens that end a text, as the model says.

    Attributes
    ----------
    tokenizer : tokenizers.Tokenizer or None
        None: there are only token ids.
    chat_template : ChatTemplate or None
        None: the model is not for chats.
    ends : frozenset of int
        All tokens that end a text.
    """

    def __init__(self, text: Text, vocabulary: int, ends: Iterable[int] = ()) -> None:
        self.tokenizer, self.chat_template, self.vocabulary = text.tokenizer, text.chat_template, vocabulary
        self.ends = frozenset(ends)
        self._missing = text.missing
        self._document_end = sorted(self.ends)[:1] if text.document_end is None else [text.document_end]
        self._controls: dict[str, ControlTokens] = {}
        if self.chat_template is not None and self.tokenizer is not None:
            # Chat models often end an answer with another token than a document.
            end = self.tokenizer.token_to_id(self.chat_template.special_tokens.get("eos_token", ""))
            self.ends |= set() if end is None or end >= vocabulary else {end}

    def need_tokenizer(self, what: str) -> Any:
        """Return the tokenizer; raise an error that names `what` if there is none."""
        if self.tokenizer is None:
            raise _error(f"{what} needs a tokenizer. {self._missing}")
        return self.tokenizer

    def encode(self, text: str, name: str = "a prompt", *, add_special_tokens: bool = True) -> list[int]:
        """Return the token ids of a text; `name` is what messages call it.

        Raises
        ------
        InvalidArgumentError
            The tokenizer cannot encode the text, or the model does not have one of its tokens.
        """
        ids = encode(self.need_tokenizer("a text"), text, add_special_tokens=add_special_tokens)
        return self._checked(ids, name)

    def encode_pair(self, first: str, second: str, name: str) -> Any:
        """Return the encoding, of the package `tokenizers`, of two texts as one; raise errors as `encode` does."""
        encoding = encoding_of(self.need_tokenizer("a text"), first, second)
        self._checked(encoding.ids, name)
        return encoding

    def encode_document(self, text: str) -> list[int]:
        """Return the token ids of a whole text, with what the tokenizer puts around it, and the model's end."""
        ids = encode(self.need_tokenizer("a text"), text)
        return ids if ids[-1:] == self._document_end else ids + self._document_end

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        variables: Mapping[str, Any] | None = None,
        beginning: str = "",
    ) -> list[int]:
        """Return the token ids of messages and of the beginning of an answer.

        Only the template writes control tokens: where messages, tools or documents spell one, its letters are encoded.

        Parameters
        ----------
        messages : sequence of mappings
            The chat.
        tools, documents : sequence of mappings, optional
            For templates that take them.
        template : str, optional
            Name of one of several templates, or the text of another.
        variables : mapping, optional
            More values that the template knows.
        beginning : str
            The answer's first letters, after those that the template begins it with.

        Raises
        ------
        InvalidArgumentError
            The template refuses the messages, or takes more time or memory than it may.
        """
        tokenizer, chat_template = self.need_tokenizer("a chat"), self.chat_template
        if chat_template is None:
            raise _error(
                "the model has no chat template: it continues texts (generate), or its template lies elsewhere "
                "(Generator(artifact, tokenizer=…, chat_template=…))"
            )
        variables = {} if variables is None else variables
        check_variables(variables, chat_template.special_tokens)
        text = chat_template.text(template, tools is not None)
        controls = self._controls_of(text)
        rendered, mark = chat_template.render_marked(
            messages, tools, documents, True, text, variables, controls, beginning
        )
        if mark in rendered:
            ids = controls.encode(rendered, mark)
        else:
            ids = encode(tokenizer, rendered, add_special_tokens=False)
        return self._checked(ids, "messages")

    def _controls_of(self, template: str) -> ControlTokens:
        controls = self._controls.get(template)
        if controls is None:
            if len(self._controls) >= _MOST_TEMPLATES:
                self._controls = {}
            controls = self._controls[template] = ControlTokens(self.tokenizer, template)
        return controls

    def _checked(self, ids: list[int], name: str) -> list[int]:
        if ids and max(ids) >= self.vocabulary:
            raise _error(
                f"{name} has {self.tokenizer.id_to_token(max(ids))!r}, token {max(ids)}, which the model does not "
                f"have: its vocabulary is 0 to {self.vocabulary - 1}"
            )
        return ids

    @cached_property
    def detokenizer(self) -> Detokenizer:
        """What makes text of tokens."""
        return Detokenizer(self.need_tokenizer("the text of a token"))

    @cached_property
    def token_bytes(self) -> TokenBytes:
        """The bytes of each token."""
        return TokenBytes(self.need_tokenizer("the bytes of a token"))

    @cached_property
    def grammars(self) -> Grammars:
        """What makes constraints for the model's tokens."""
        return Grammars(self.need_tokenizer("what keeps a text in a form"), self.vocabulary, self.ends)


def _error(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, "invalid argument")
