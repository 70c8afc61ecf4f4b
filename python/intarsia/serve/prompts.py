# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turn texts and chats into the tokens of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..generation.texts import ModelTexts
from ..support.errors import InvalidArgumentError
from ..text.chat import check_variables
from .errors import RequestError


class Prompts:
    """Encodes what clients send; what is wrong with it is an error of the request.

    Parameters
    ----------
    texts : ModelTexts
        The tokenizer and the chat template of the model.
    """

    def __init__(self, texts: ModelTexts) -> None:
        self._texts = texts

    def encode(self, text: str, param: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the token ids of a text of the client."""
        try:
            return self._texts.encode(text, param, add_special_tokens=add_special_tokens)
        except InvalidArgumentError as error:
            raise RequestError(str(error), param) from error

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        variables: Mapping[str, Any],
        *,
        continues: bool = False,
    ) -> list[int]:
        """Return the token ids of a chat. Only the template writes control tokens: texts that spell one are text.

        Parameters
        ----------
        continues : bool
            The text of the last message is the beginning of the answer.

        Raises
        ------
        RequestError
            The template refuses the messages, or takes more time or memory than it may.
        """
        template = self._texts.chat_template
        if template is None:
            raise RequestError(
                "the model has no chat template, it is no model for chats: /v1/completions continues texts",
                "messages",
                code="no_chat_template",
            )
        try:
            check_variables(variables, template.special_tokens)
        except InvalidArgumentError as error:
            raise RequestError(str(error), "chat_template_kwargs") from error
        shown, beginning = (messages[:-1], messages[-1]["content"]) if continues else (messages, "")
        try:
            return self._texts.encode_chat(shown, tools, variables=variables, beginning=beginning)
        except InvalidArgumentError as error:
            raise RequestError(str(error), "messages") from error
