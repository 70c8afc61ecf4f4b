# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A chat as all interfaces ask for it: `/v1/chat/completions`, `/v1/responses` and `/v1/messages` become this."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class TextOptions:
    """What chats and completions have in common.

    Attributes
    ----------
    sampling : dict
        Fields of `SamplingOptions` that the request names: temperature, top_p, seed, logit_bias, …
    max_tokens : int or None
        None: as many as the context and the cache have room for.
    samples : int
        Answers to the same prompt (``n``).
    is_clipped : bool
        A `max_tokens` that the context has no room for is as much as it has room for.
    stops : list of str
        Texts that end an answer, and are not part of it.
    stop_tokens : list of int
        Tokens that end an answer, beside those of the model.
    shows_stop : bool
        The stop string is part of the text.
    priority : int
        The request with the lower number is first, as vLLM has it.
    logprobs : int or None
        None: no probabilities; otherwise those of each token, and of so many likeliest tokens.
    """

    sampling: dict[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    is_clipped: bool = False
    samples: int = 1
    stops: list[str] = field(default_factory=list)
    stop_tokens: list[int] = field(default_factory=list)
    shows_stop: bool = False
    skips_special_tokens: bool = True
    ignores_end: bool = False
    logprobs: int | None = None
    priority: int = 0
    salt: str = ""
    is_stream: bool = False
    has_usage: bool = False


@dataclass(frozen=True)
class AskedForm:
    """The form of a text as a request names it.

    Attributes
    ----------
    response_format : dict or None
        ``{"type": "text" | "json_object" | "json_schema", …}`` as OpenAI has it.
    structured : dict or None
        ``{"json" | "regex" | "grammar" | "choice": …}``, as vLLM has it.
    structured_where : str
        What is before these names in the request, for messages.
    """

    response_format: dict[str, Any] | None = None
    structured: dict[str, Any] | None = None
    structured_where: str = "structured_outputs."


@dataclass
class ChatRequest:
    """A chat to be continued.

    Attributes
    ----------
    messages : list of dict
        ``{"role", "content", …}`` with the keys that chat templates know; contents are texts, or lists of
        ``{"type": "text", "text": …}``.
    tools : list of dict or None
        ``{"type": "function", "function": {"name", "description", "parameters", "strict"}}``.
    tool_choice : str or dict
        ``"none"``, ``"auto"``, ``"required"``, or OpenAI's objects for one function or for some.
    form : AskedForm
        The form of the answer's text.
    template_variables : dict
        Values for the chat template.
    continues : bool
        The last message is the beginning of the answer.
    thinks : bool or None
        The model thinks before it answers, where its template has a variable for that; None: as the template has it.
    """

    model: str
    messages: list[dict[str, Any]]
    options: TextOptions = field(default_factory=TextOptions)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] = "auto"
    parallel_tool_calls: bool = True
    form: AskedForm = AskedForm()
    reasoning_effort: str | None = None
    template_variables: dict[str, Any] = field(default_factory=dict)
    continues: bool = False
    thinks: bool | None = None
