# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turn texts and chats into the tokens of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..support.errors import InvalidArgumentError
from ..text.chat import ChatTemplate, check_variables
from ..text.control_tokens import ControlTokens
from ..text.encoding import encode
from .errors import RequestError


class Prompts:
    """The tokenizer and the chat template of a model.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
        The tokenizer.
    chat_template : ChatTemplate or None
        None: the model is not for chats.
    vocabulary : int
        Tokens of the model.
    """

    def __init__(self, tokenizer: Any, chat_template: ChatTemplate | None, vocabulary: int) -> None:
        self.tokenizer, self.chat_template, self.vocabulary = tokenizer, chat_template, vocabulary
        self._controls: dict[str, ControlTokens] = {}

    def encode(self, text: str, param: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the token ids of a text of the client."""
        try:
            ids = encode(self.tokenizer, text, add_special_tokens=add_special_tokens)
        except InvalidArgumentError as error:
            raise RequestError(str(error), param) from error
        return self._checked(ids, param)

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
        template = self.chat_template
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
        try:
            text = template.text(None, tools is not None)
            controls = self._controls.get(text)
            if controls is None:
                controls = self._controls[text] = ControlTokens(self.tokenizer, text)
            shown = messages[:-1] if continues else messages
            beginning = messages[-1]["content"] if continues else ""
            rendered, mark = template.render_marked(shown, tools, None, True, text, variables, controls, beginning)
            if mark in rendered:
                ids = controls.encode(rendered, mark)
            else:
                ids = encode(self.tokenizer, rendered, add_special_tokens=False)
        except InvalidArgumentError as error:
            raise RequestError(str(error), "messages") from error
        return self._checked(ids, "messages")

    def _checked(self, ids: list[int], param: str) -> list[int]:
        if ids and max(ids) >= self.vocabulary:
            raise RequestError(
                f"{param} has {self.tokenizer.id_to_token(max(ids))!r}, token {max(ids)}, which the model does not "
                f"have: its tokens are 0 to {self.vocabulary - 1}",
                param,
            )
        return ids
