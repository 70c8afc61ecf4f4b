# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`/v1/messages` and `/v1/messages/count_tokens` of Anthropic."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from . import chat
from .answers import CALL, CONTENT, REASONING, Answer, LoggedToken, Piece, Usage
from .chat_request import AskedForm, ChatRequest, TextOptions
from .errors import RequestError
from .exchange import Exchange, endpoint
from .fields import Fields, shown
from .formats import plan_of
from .json_text import event, json_response
from .models import ServedModel
from .text_options import MOST_STOP_LETTERS, MOST_STOPS, read_options

_NAMES = {
    *("model", "messages", "max_tokens", "system", "stop_sequences", "stream", "temperature", "top_p", "top_k"),
    *("tools", "tool_choice", "thinking", "output_config", "output_format", "mcp_servers", "container"),
}
#: Fields that say nothing about the answer here: who asks, how it is paid, and how Anthropic shortens conversations.
_WITHOUT_EFFECT = {"metadata", "service_tier", "context_management", "betas", "inference_geo", "cache_control", "speed"}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_RENAMED = (
    (".function.parameters", ".input_schema"),
    (".function.", "."),
    ("response_format.json_schema.schema", "output_config.format.schema"),
)


def routes() -> list[Route]:
    """Return the routes of this interface."""
    return [
        Route("/v1/messages", endpoint(create, error_body=error_body), methods=["POST"]),
        Route("/v1/messages/count_tokens", endpoint(count_tokens, error_body=error_body), methods=["POST"]),
    ]


async def create(exchange: Exchange) -> Response:
    """Answer a conversation."""
    body = await exchange.body()
    model = exchange.language_model(body)
    request = read_message_request(Fields(body), model, exchange.server.options.ignores_unknown)
    return await chat.answer(exchange, model, request, MessageWriter(model.name))


async def count_tokens(exchange: Exchange) -> Response:
    """Return how many tokens a conversation has."""
    body = await exchange.body()
    model = exchange.language_model(body)
    fields = Fields(body)
    request = read_message_request(fields, model, exchange.server.options.ignores_unknown, counts=True)

    def count() -> int:
        plan = plan_of(model, request)
        return len(model.prompts.encode_chat(plan.messages, plan.tools, plan.variables, continues=request.continues))

    return json_response({"input_tokens": await exchange.in_thread(count)})


def error_body(error: RequestError) -> dict[str, Any]:
    """Return an error as this interface has it."""
    message = error.message
    for name, other in _RENAMED:
        message = message.replace(name, other)
    kind = _TYPES.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


# The request.


def read_message_request(
    fields: Fields, model: ServedModel, ignores_unknown: bool, *, counts: bool = False
) -> ChatRequest:
    """Return what the body of a request asks for.

    Parameters
    ----------
    counts : bool
        Only the tokens are counted.
    """
    fields.check_names(_NAMES | _WITHOUT_EFFECT, not ignores_unknown)
    fields.refuse(("mcp_servers", "container"), "is not supported: the server calls no tools")
    options = _options(fields, model)
    if options.max_tokens is None and not counts:
        raise fields.error("max_tokens", "is missing")
    request = ChatRequest(model.name, _messages(fields), options)
    request.continues = request.messages[-1]["role"] == "assistant"
    if request.continues and request.messages[-1].get("tool_calls"):
        raise fields.error("messages", "end with a call, whose result is missing")
    tools = fields.objects("tools", most=1024)
    if tools:
        request.tools = [_tool(tool) for tool in tools]
    _read_choice(fields, request)
    thinking = fields.inner("thinking")
    if thinking is not None:
        kind = thinking.one_of("type", None, ("enabled", "disabled", "adaptive"))
        if kind is None:
            raise thinking.error("type", "is missing")
        thinking.whole("budget_tokens", None, 0)  # of use to Anthropic's models alone
        request.thinks = kind != "disabled"
    output = fields.inner("output_config")
    if output is not None:
        output.one_of("effort", None, ("low", "medium", "high", "xhigh", "max"))
    format = output.inner("format") if output is not None else None
    format = fields.inner("output_format") if format is None else format
    if format is not None:
        format.one_of("type", None, ("json_schema",))
        if format.raw("schema") is None:
            raise format.error("schema", "is missing")
        schema = {"name": "output", "schema": format.raw("schema"), "strict": True}
        request.form = AskedForm({"type": "json_schema", "json_schema": schema})
    return request


def _options(fields: Fields, model: ServedModel) -> TextOptions:
    stops = fields.texts("stop_sequences", MOST_STOPS, MOST_STOP_LETTERS)
    temperature = fields.real("temperature", None, 0.0, 1.0)
    fields.whole("max_tokens", None, 1)
    known = {name: fields.raw(name) for name in ("max_tokens", "stream", "top_p", "top_k", "temperature")}
    options = read_options(Fields(known), model.vocabulary, model.temperature if temperature is None else temperature)
    options.stops = stops
    options.has_usage = True
    # Clients that know Anthropic's models alone ask for what these can write.
    options.is_clipped = True
    return options


def _messages(fields: Fields) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    system = _text(fields, "system")
    if system:
        messages.append({"role": "system", "content": system})
    given = fields.objects("messages", most=100_000)
    if not given:
        raise fields.error("messages", "is missing" if given is None else "has no message")
    for message in given:
        role = message.one_of("role", None, ("user", "assistant", "system"))
        if role is None:
            raise message.error("role", "is missing")
        if isinstance(message.raw("content"), str):
            messages.append({"role": role, "content": message.raw("content")})
            continue
        blocks = message.objects("content", most=100_000)
        if blocks is None:
            raise message.error("content", "is missing")
        messages += _of_assistant(blocks) if role == "assistant" else _of_user(blocks, role)
    return messages


def _of_user(blocks: list[Fields], role: str) -> list[dict[str, Any]]:
    """Return the messages of a user: results of calls are messages of their own, before what is said."""
    results, texts = [], []
    for block in blocks:
        kind = block.text("type")
        if kind == "text":
            texts.append(_needed(block, "text"))
        elif kind == "tool_result":
            text = _text(block, "content") or ""
            if block.flag("is_error"):
                text = f"Error: {text}"
            results.append({"role": "tool", "tool_call_id": _needed(block, "tool_use_id"), "content": text})
        else:
            raise block.error("type", f"is {shown(kind)}, must be text or tool_result: the model reads nothing else")
    if texts or not results:
        results.append({"role": role, "content": "\n".join(texts)})
    return results


def _of_assistant(blocks: list[Fields]) -> list[dict[str, Any]]:
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    for block in blocks:
        kind = block.text("type")
        if kind == "text":
            message["content"] += _needed(block, "text")
        elif kind == "thinking":
            message["reasoning_content"] = message.get("reasoning_content", "") + _needed(block, "thinking")
        elif kind == "tool_use":
            call = {
                "id": _needed(block, "id"),
                "type": "function",
                "function": {"name": _needed(block, "name"), "arguments": json.dumps(block.object("input") or {})},
            }
            message.setdefault("tool_calls", []).append(call)
        elif kind != "redacted_thinking":  # nobody can read that
            raise block.error("type", f"is {shown(kind)}, must be text, thinking or tool_use")
    return [message]


def _text(fields: Fields, name: str) -> str | None:
    """Return a text, which may be a list of blocks."""
    value = fields.raw(name)
    if value is None or isinstance(value, str):
        return value
    texts = []
    for block in fields.objects(name, most=100_000) or ():
        if block.text("type") != "text":
            raise block.error("type", f"is {shown(block.raw('type'))}, must be text: the model reads nothing else")
        texts.append(_needed(block, "text"))
    return "\n".join(texts)


def _needed(fields: Fields, name: str) -> str:
    value = fields.text(name)
    if value is None:
        raise fields.error(name, "is missing")
    return value


def _tool(tool: Fields) -> dict[str, Any]:
    if tool.text("type", "custom") != "custom":
        raise tool.error("type", f"is {shown(tool.raw('type'))}, must be custom: the server has no tools of its own")
    schema = tool.object("input_schema")
    if schema is None:
        raise tool.error("input_schema", "is missing")
    function = {"name": _needed(tool, "name"), "parameters": schema, "strict": tool.flag("strict")}
    description = tool.text("description")
    return {"type": "function", "function": function | ({} if description is None else {"description": description})}


def _read_choice(fields: Fields, request: ChatRequest) -> None:
    choice = fields.inner("tool_choice")
    if choice is None:
        request.tool_choice = "auto" if request.tools else "none"
        return
    kind = choice.one_of("type", None, ("auto", "any", "tool", "none"))
    if kind is None:
        raise choice.error("type", "is missing")
    if not request.tools and kind != "none":
        raise fields.error("tool_choice", "needs tools")
    request.parallel_tool_calls = not choice.flag("disable_parallel_tool_use")
    request.tool_choice = "required" if kind == "any" else kind
    if kind == "tool":
        name = _needed(choice, "name")
        if name not in {tool["function"]["name"] for tool in request.tools or ()}:
            raise choice.error("name", f"is {shown(name)}, which is none of the tools")
        request.tool_choice = {"type": "function", "function": {"name": name}}


# The answer.


class MessageWriter:
    """Writes an answer as a message of Anthropic's interface."""

    def __init__(self, model: str) -> None:
        self._id = f"msg_{secrets.token_hex(12)}"
        self._model = model
        self._index = -1
        self._kind: str | None = None  # of the block that grows
        self._end: dict[str, Any] = {"stop_reason": "end_turn", "stop_sequence": None}

    def begin(self, usage: Usage) -> bytes:
        """Return what a stream begins with."""
        message = {**self._message([], usage), "stop_reason": None}
        return _event("message_start", message=message) + _event("ping")

    def pieces(self, sample: int, pieces: Sequence[Piece], tokens: Sequence[LoggedToken]) -> bytes:
        """Return the events of more of the answer."""
        events = []
        for piece in pieces:
            kind = piece.kind if piece.kind in (CONTENT, REASONING) else CALL
            if piece.kind == CALL or kind != self._kind:
                events.append(self._stop_block())
                self._index += 1
                self._kind = kind
                if kind == CALL:
                    block = {"type": "tool_use", "id": piece.id, "name": piece.text, "input": {}}
                else:
                    block = {"type": "text", "text": ""} if kind == CONTENT else _thinking("")
                events.append(_event("content_block_start", index=self._index, content_block=block))
            if piece.kind == CALL:
                continue
            name, key = _DELTAS[kind]
            events.append(_event("content_block_delta", index=self._index, delta={"type": name, key: piece.text}))
        return b"".join(events)

    def end(self, sample: int, answer: Answer) -> bytes:
        """Return the end of the last block."""
        self._end = _end(answer)
        return self._stop_block()

    def close(self, usage: Usage) -> bytes:
        """Return why the answer has ended, and what it took."""
        return _event("message_delta", delta=self._end, usage=_usage(usage)) + _event("message_stop")

    def error(self, error: RequestError) -> bytes:
        """Return an error."""
        return event(error_body(error), "error")

    def whole(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        """Return the message."""
        (answer,) = answers
        blocks: list[dict[str, Any]] = [_thinking(answer.reasoning)] if answer.reasoning else []
        if answer.content:
            blocks.append({"type": "text", "text": answer.content})
        for call in answer.calls:
            try:
                arguments = json.loads(call.arguments)
            except ValueError:  # it is cut
                continue
            blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments})
        return {**self._message(blocks, usage), **_end(answer)}

    def _stop_block(self) -> bytes:
        if self._kind is None:
            return b""
        self._kind = None
        return _event("content_block_stop", index=self._index)

    def _message(self, blocks: list[dict[str, Any]], usage: Usage) -> dict[str, Any]:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": blocks,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(usage),
        }


_DELTAS = {
    CONTENT: ("text_delta", "text"),
    REASONING: ("thinking_delta", "thinking"),
    CALL: ("input_json_delta", "partial_json"),
}


def _thinking(text: str) -> dict[str, Any]:
    """Return a block of reasoning; a signature would prove to Anthropic that it is theirs."""
    return {"type": "thinking", "thinking": text, "signature": ""}


def _end(answer: Answer) -> dict[str, Any]:
    if answer.stop is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": answer.stop}
    reasons = {"length": "max_tokens", "tool_calls": "tool_use"}
    return {"stop_reason": reasons.get(answer.finish_reason, "end_turn"), "stop_sequence": None}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    }


def _event(name: str, **values: Any) -> bytes:
    return event({"type": name, **values}, name)
