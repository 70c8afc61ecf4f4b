# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The form that a request asks for: response formats, calls of tools, reasoning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .answers import Form
from .chat_request import ChatRequest
from .errors import RequestError

if TYPE_CHECKING:
    from .models import ServedModel


def form_of(model: ServedModel, request: ChatRequest) -> Form:
    """Return how the answers to a chat are held in a form and read; called outside of the event loop.

    Raises
    ------
    RequestError
        The form cannot be held: before anything is computed.
    """
    if request.tools:
        raise RequestError("calls of tools are not supported", "tools", code="unsupported_parameter")
    kind = (request.response_format or {}).get("type", "text")
    if kind != "text":
        raise RequestError(f"response formats of type {kind} are not supported", "response_format")
    if request.structured:
        raise RequestError("structured outputs are not supported", "structured_outputs")
    return Form()
