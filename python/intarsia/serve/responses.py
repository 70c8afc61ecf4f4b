# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`/v1/responses` of OpenAI, without a memory: each request has all of its conversation, and no response is kept."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from . import chat
from .answers import ARGUMENTS, CALL, CONTENT, REASONING, Answer, LoggedToken, Piece, Usage, shown_logprob
from .chat_request import AskedForm, ChatRequest
from .errors import RequestError
from .exchange import Exchange, endpoint
from .fields import Fields, shown
from .json_text import event
from .models import ServedModel
from .reasoning import EFFORTS
from .text_options import MOST_LOGPROBS, read_options

#: Fields that say something about the answer.
_NAMES = {
    *("model", "input", "instructions", "max_output_tokens", "temperature", "top_p", "top_logprobs", "tools"),
    *("tool_choice", "parallel_tool_calls", "text", "reasoning", "stream", "stream_options", "store", "include"),
    *("truncation", "background", "previous_response_id", "conversation", "prompt", "max_tool_calls"),
    *("context_management", "moderation"),
    # Ours, as in chats.
    *("seed", "logit_bias", "presence_penalty", "frequency_penalty", "top_k", "min_p", "repetition_penalty"),
    *("min_tokens", "ignore_eos", "priority", "cache_salt", "chat_template_kwargs"),
}
_WITHOUT_EFFECT = {
    *("metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),
    "service_tier",
}
#: What needs a memory, or something else that the server does not have.
_REFUSED = {
    "previous_response_id": "is not supported: no response is kept; send the whole conversation as input",
    "conversation": "is not supported: no conversation is kept; send all of it as input",
    "prompt": "is not supported: no prompt is kept; send its text as input",
    "max_tool_calls": "is not supported: the server calls no tools",
    "context_management": "is not supported",
    "moderation": "is not supported",
}
_LOGPROBS = "message.output_text.logprobs"
#: Encrypted reasoning is for servers that hide it; here the text is in the response.
_INCLUDED = (_LOGPROBS, "reasoning.encrypted_content")
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal")
#: Names of fields of a chat, and those of a response, in messages of errors.
_RENAMED = (
    (r"\bresponse_format(\.json_schema)?\b", "text.format"),
    (r"\.function\.", "."),
    (r"^messages\b|\bmessages(?=\[)", "input"),  # elsewhere it is a word
    (r"\breasoning_effort\b", "reasoning.effort"),
    (r"\bmax_tokens\b", "max_output_tokens"),
)


def routes() -> list[Route]:
    """Return the routes of this interface."""
    return [Route("/v1/responses", endpoint(respond, error_body=error_body), methods=["POST"])]


async def respond(exchange: Exchange) -> Response:
    """Answer a request."""
    body = await exchange.body()
    model = exchange.language_model(body)
    fields = Fields(body)
    request = read_response_request(fields, model, exchange.server.options.ignores_unknown)
    return await chat.answer(exchange, model, request, ResponseWriter(fields, request, model))


def error_body(error: RequestError) -> dict[str, Any]:
    """Return an error with the names that fields have in this interface."""
    if error.param is None:
        return error.body()
    renamed = RequestError(_renamed(error.message), _renamed(error.param), status=error.status, code=error.code)
    return renamed.body()


def _renamed(text: str) -> str:
    for name, other in _RENAMED:
        text = re.sub(name, other, text)
    return text


# The request.


def read_response_request(fields: Fields, model: ServedModel, ignores_unknown: bool) -> ChatRequest:
    """Return what the body of a request asks for."""
    fields.check_names(_NAMES | _WITHOUT_EFFECT, not ignores_unknown)
    for name, why in _REFUSED.items():
        fields.refuse((name,), why)
    for name in ("store", "background"):
        if fields.flag(name):
            raise fields.error(name, "may only be false: no response is kept", code="unsupported_parameter")
    if fields.one_of("truncation", "disabled", ("auto", "disabled")) == "auto":
        raise fields.error("truncation", "may only be disabled", code="unsupported_parameter")
    inner = {name: value for name, value in fields.values.items() if name != "stream_options"}
    options = read_options(Fields(inner), model.vocabulary, model.temperature)
    stream = fields.inner("stream_options")
    if stream is not None:
        if not options.is_stream:
            raise fields.error("stream_options", "is only allowed with stream: true")
        stream.flag("include_obfuscation")  # padding against guesses by length; there is none here
    options.max_tokens = fields.whole("max_output_tokens", None, 1)
    options.has_usage = True
    included = fields.texts("include", 16, 64)
    for name in included:
        if name not in _INCLUDED:
            raise fields.error("include", f"has {shown(name)}; only {', '.join(_INCLUDED)} are known")
    most = fields.whole("top_logprobs", 0, 0, MOST_LOGPROBS)
    if _LOGPROBS in included:
        options.logprobs = most
    elif most:
        raise fields.error("top_logprobs", f"needs {_LOGPROBS} in include")
    request = ChatRequest(model.name, read_input(fields), options)
    request.tools = _tools(fields)
    request.tool_choice = _tool_choice(fields, request.tools)
    request.parallel_tool_calls = fields.flag("parallel_tool_calls", True)
    text = fields.inner("text")
    if text is not None:
        request.form = AskedForm(_format(text))
    reasoning = fields.inner("reasoning")
    if reasoning is not None:
        request.reasoning_effort = reasoning.one_of("effort", None, EFFORTS)
        for name in ("summary", "generate_summary"):
            reasoning.one_of(name, None, ("auto", "concise", "detailed"))
    request.template_variables = fields.object("chat_template_kwargs") or {}
    return request


def read_input(fields: Fields) -> list[dict[str, Any]]:
    """Return the messages of a request."""
    messages: list[dict[str, Any]] = []
    instructions = fields.text("instructions")
    if instructions:
        messages.append({"role": "system", "content": instructions})
    given = fields.raw("input")
    if given is None:
        raise fields.error("input", "is missing")
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    items = fields.objects("input", most=10_000)
    if not items:
        raise fields.error("input", "has no item")
    reasoning: list[str] = []
    for item in items:
        _add_item(messages, reasoning, item)
    if reasoning:  # nothing came of it
        messages.append({"role": "assistant", "content": "", "reasoning_content": "\n\n".join(reasoning)})
    return messages


def _add_item(messages: list[dict[str, Any]], reasoning: list[str], item: Fields) -> None:
    """Append an item of the input; reasoning waits for the message that it is part of."""
    kind = item.text("type", "message")
    if kind == "message":
        role = item.one_of("role", None, ("user", "assistant", "system", "developer"))
        if role is None:
            raise item.error("role", "is missing")
        content = _content(item, "content")
        if content is None:
            raise item.error("content", "is missing")
        message = {"role": role, "content": content}
        messages.append(_with_reasoning(message, reasoning) if role == "assistant" else message)
    elif kind == "reasoning":
        text = _content(item, "content") or _content(item, "summary")
        if text:
            reasoning.append(text)
    elif kind == "function_call":
        name, number = item.text("name"), item.text("call_id")
        if name is None or number is None:
            raise item.error("name" if name is None else "call_id", "is missing")
        call = {
            "id": number,
            "type": "function",
            "function": {"name": name, "arguments": item.text("arguments", "")},
        }
        last = messages[-1] if messages else {}
        if last.get("role") != "assistant" or reasoning:
            messages.append(last := _with_reasoning({"role": "assistant", "content": ""}, reasoning))
        last.setdefault("tool_calls", []).append(call)
    elif kind == "function_call_output":
        number = item.text("call_id")
        if number is None:
            raise item.error("call_id", "is missing")
        output = _content(item, "output")
        if output is None:
            raise item.error("output", "is missing")
        messages.append({"role": "tool", "tool_call_id": number, "content": output})
    elif kind == "item_reference":
        raise item.error("type", "is item_reference: no item is kept; send the item itself")
    else:
        raise item.error("type", f"is {shown(kind)}, must be message, reasoning, function_call or function_call_output")


def _with_reasoning(message: dict[str, Any], reasoning: list[str]) -> dict[str, Any]:
    if reasoning:
        message["reasoning_content"] = "\n\n".join(reasoning)
        reasoning.clear()
    return message


def _content(item: Fields, name: str) -> str | None:
    """Return the text of a content, which may be in parts."""
    value = item.raw(name)
    if value is None or isinstance(value, str):
        return value
    texts = []
    for part in item.objects(name, most=10_000) or ():
        kind = part.text("type")
        if kind not in _TEXTS:
            raise part.error(
                "type", f"is {shown(kind)}, must be input_text or output_text: the model reads nothing else"
            )
        text = part.text("refusal" if kind == "refusal" else "text")
        if text is None:
            raise part.error("text", "is missing")
        texts.append(text)
    return "".join(texts)


def _tools(fields: Fields) -> list[dict[str, Any]] | None:
    tools = fields.objects("tools", most=1024)
    if not tools:
        return None
    converted = []
    for tool in tools:
        if tool.text("type") != "function":
            raise tool.error(
                "type", f"is {shown(tool.raw('type'))}, must be function: the server has no tools of its own"
            )
        keys = ("name", "description", "parameters", "strict")
        converted.append({"type": "function", "function": {key: tool.raw(key) for key in keys if key in tool}})
    return converted


def _tool_choice(fields: Fields, tools: list[dict[str, Any]] | None) -> Any:
    value = fields.raw("tool_choice")
    if value is None:
        return "auto" if tools else "none"
    if isinstance(value, str):
        fields.one_of("tool_choice", None, ("none", "auto", "required"))
        return value
    choice = fields.inner("tool_choice")
    kind = choice.one_of("type", None, ("function", "allowed_tools"))
    if kind is None:
        raise choice.error("type", "is missing")
    if kind == "function":
        return {"type": "function", "function": {"name": choice.text("name")}}
    allowed = choice.objects("tools", most=1024) or []
    named = [{"type": "function", "function": {"name": tool.text("name")}} for tool in allowed]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.text("mode"), "tools": named}}


def _format(text: Fields) -> dict[str, Any] | None:
    text.one_of("verbosity", None, ("low", "medium", "high"))
    given = text.inner("format")
    if given is None:
        return None
    kind = given.one_of("type", None, ("text", "json_object", "json_schema"))
    if kind is None:
        raise given.error("type", "is missing")
    if kind != "json_schema":
        return {"type": kind}
    for name in ("name", "schema"):
        if name not in given:
            raise given.error(name, "is missing")
    named = {key: given.raw(key) for key in ("name", "schema", "strict", "description") if key in given}
    return {"type": kind, "json_schema": named}


# The response.


class ResponseWriter:
    """Writes an answer as a response."""

    def __init__(self, fields: Fields, request: ChatRequest, model: ServedModel) -> None:
        self._request, self._model = request, model
        self._number = 0
        self._items: list[dict[str, Any]] = []  # the last one grows
        self._text: list[str] = []  # of the last one
        self._logged: list[dict[str, Any]] = []
        self._ahead: list[LoggedToken] = []  # whose text is not certain yet
        self._status = "completed"
        sampling = request.options.sampling
        format = request.form.response_format or {"type": "text"}
        self._response: dict[str, Any] = {
            "id": _new_id("resp"),
            "object": "response",
            "created_at": int(time.time()),
            "status": "in_progress",
            "background": False,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "instructions": fields.raw("instructions"),
            "max_output_tokens": request.options.max_tokens,
            "max_tool_calls": None,
            "model": model.name,
            "output": [],
            "parallel_tool_calls": request.parallel_tool_calls,
            "previous_response_id": None,
            "prompt_cache_key": fields.raw("prompt_cache_key"),
            "reasoning": {"effort": request.reasoning_effort, "summary": None},
            "safety_identifier": fields.raw("safety_identifier"),
            "service_tier": "default",
            "store": False,
            "temperature": sampling["temperature"],
            "text": {"format": {"type": format["type"], **format.get("json_schema", {})}},
            "tool_choice": fields.raw("tool_choice") or "auto",
            "tools": [_shown_tool(tool) for tool in request.tools or ()],
            "top_logprobs": request.options.logprobs or 0,
            "top_p": fields.raw("top_p") if "top_p" in fields else 1.0,
            "truncation": "disabled",
            "metadata": fields.raw("metadata") or {},
        }
        if "user" in fields:
            self._response["user"] = fields.raw("user")

    def begin(self, usage: Usage) -> bytes:
        """Return what a stream begins with."""
        events = self._event("response.created", response=self._response)
        return events + self._event("response.in_progress", response=self._response)

    def pieces(self, sample: int, pieces: Sequence[Piece], tokens: Sequence[LoggedToken]) -> bytes:
        """Return the events of more of the answer."""
        self._ahead += tokens
        events = []
        for piece in pieces:
            if piece.kind == CALL or not self._items or _KINDS[self._items[-1]["type"]] != piece.kind:
                events.append(self._close_item("completed"))
                events.append(self._open_item(piece))
                if piece.kind == CONTENT:
                    self._ahead = self._from_text(piece.text, self._ahead)
            if piece.kind == CALL:
                continue
            if piece.kind == CONTENT:
                events.append(self._add_content(piece.text))
                continue
            self._text.append(piece.text)
            more = {"content_index": 0} if piece.kind == REASONING else {}
            events.append(self._of_item(f"response.{_DELTAS[piece.kind]}.delta", delta=piece.text, **more))
        if pieces:
            self._ahead = []  # those of reasoning and calls are not told
        return b"".join(events)

    def _add_content(self, text: str) -> bytes:
        """Return the event of more text, with the probabilities of all tokens that have come until then."""
        logged = [self._logprob(token) for token in self._ahead]
        self._ahead = []
        self._text.append(text)
        self._logged += logged
        more = {"content_index": 0, "logprobs": [_without_bytes(one) for one in logged]}
        return self._of_item("response.output_text.delta", delta=text, **more)

    def end(self, sample: int, answer: Answer) -> bytes:
        """Return the events of the end of the answer."""
        if answer.finish_reason == "length":
            self._status = "incomplete"
        events = b""
        if not self._items and (self._status == "completed" or self._ahead):  # an answer without a letter
            events += self._open_item(Piece(CONTENT, ""))
        if self._ahead and self._items[-1]["type"] == "message":  # the last tokens have no text
            events += self._add_content("")
        return events + self._close_item(self._status)

    def close(self, usage: Usage) -> bytes:
        """Return the event of the whole response."""
        self._finish(usage)
        return self._event(f"response.{self._status}", response=self._response)

    def error(self, error: RequestError) -> bytes:
        """Return the event of an error."""
        self._close_item("incomplete")
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"
        self._response.update(status="failed", error={"code": code, "message": error.message}, output=self._items)
        return self._event("response.failed", response=self._response)

    def whole(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        """Return the response."""
        (answer,) = answers
        pieces = [Piece(REASONING, answer.reasoning)] if answer.reasoning else []
        pieces += [Piece(CONTENT, answer.content)] if answer.content else []
        for number, call in enumerate(answer.calls):
            pieces += [Piece(CALL, call.name, number, call.id), Piece(ARGUMENTS, call.arguments, number)]
        self.pieces(0, pieces, self._of_content(answer))
        self.end(0, answer)
        self._finish(usage)
        return self._response

    def _of_content(self, answer: Answer) -> Sequence[LoggedToken]:
        """Return the tokens of an answer that write its content."""
        tokens = answer.tokens
        if answer.reasoning:
            tokens = self._from_text(answer.content, tokens, is_last=True)
        if answer.calls:
            most = len(answer.content.encode()) + self._place(answer.content, tokens)
            ends = accumulate(len(self._model.token_bytes[one.token]) for one in tokens)
            tokens = tokens[: sum(end <= most for end in ends)]
        return tokens

    def _from_text(self, text: str, tokens: Sequence[LoggedToken], is_last: bool = False) -> list[LoggedToken]:
        """Return the tokens from the one on with which a text begins: reasoning and markers are before it."""
        place = self._place(text, tokens, is_last)
        ends = accumulate(len(self._model.token_bytes[one.token]) for one in tokens)
        return [one for one, end in zip(tokens, ends, strict=True) if end > place]

    def _place(self, text: str, tokens: Sequence[LoggedToken], is_last: bool = False) -> int:
        """Return at which byte of the tokens a text begins, the first or last time; 0 if it is not there."""
        data = b"".join(self._model.token_bytes[one.token] for one in tokens)
        return max(0, (data.rfind if is_last else data.find)(text.encode()))

    def _finish(self, usage: Usage) -> None:
        self._response.update(status=self._status, output=self._items, usage=_usage(usage))
        if self._status == "completed":
            self._response["completed_at"] = int(time.time())
        else:
            self._response["incomplete_details"] = {"reason": "max_output_tokens"}

    def _open_item(self, piece: Piece) -> bytes:
        item = _ITEMS[piece.kind](piece)
        self._items.append(item)
        self._text, self._logged = [], []
        events = self._of_item("response.output_item.added", item_id=None, item=item)
        if piece.kind == CALL:
            return events
        return events + self._of_item("response.content_part.added", content_index=0, part=self._part(""))

    def _close_item(self, status: str) -> bytes:
        """Return the events of the end of the item that grows."""
        if not self._items or self._items[-1]["status"] != "in_progress":
            return b""
        item, text = self._items[-1], "".join(self._text)
        item["status"] = status
        if item["type"] == "function_call":
            item["arguments"] = text
            events = self._of_item("response.function_call_arguments.done", name=item["name"], arguments=text)
        else:
            part = self._part(text)
            item["content"] = [part]
            kind = _DELTAS[_KINDS[item["type"]]]
            logged = {"logprobs": [_without_bytes(one) for one in self._logged]} if item["type"] == "message" else {}
            events = self._of_item(f"response.{kind}.done", content_index=0, text=text, **logged)
            events += self._of_item("response.content_part.done", content_index=0, part=part)
        return events + self._of_item("response.output_item.done", item_id=None, item=item)

    def _part(self, text: str) -> dict[str, Any]:
        if self._items[-1]["type"] == "reasoning":
            return {"type": "reasoning_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": self._logged}

    def _of_item(self, kind: str, *, item_id: Any = True, **values: Any) -> bytes:
        """Return an event about the item that grows."""
        identity = {} if item_id is None else {"item_id": self._items[-1]["id"]}
        return self._event(kind, output_index=len(self._items) - 1, **identity, **values)

    def _event(self, kind: str, **values: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return event({"type": kind, "sequence_number": number, **values}, kind)

    def _logprob(self, token: LoggedToken) -> dict[str, Any]:
        top = token.top[: self._request.options.logprobs]
        return {**self._one(token.token, token.logprob), "top_logprobs": [self._one(*one) for one in top]}

    def _one(self, token: int, logprob: float) -> dict[str, Any]:
        data = self._model.token_bytes[token]
        return {"token": data.decode("utf-8", "replace"), "logprob": shown_logprob(logprob), "bytes": list(data)}


_KINDS = {"message": CONTENT, "reasoning": REASONING, "function_call": ARGUMENTS}
_DELTAS = {CONTENT: "output_text", REASONING: "reasoning_text", ARGUMENTS: "function_call_arguments"}
_ITEMS: dict[str, Callable[[Piece], dict[str, Any]]] = {
    CONTENT: lambda piece: {
        "type": "message",
        "id": _new_id("msg"),
        "status": "in_progress",
        "role": "assistant",
        "content": [],
    },
    REASONING: lambda piece: {
        "type": "reasoning",
        "id": _new_id("rs"),
        "status": "in_progress",
        "summary": [],
        "content": [],
    },
    CALL: lambda piece: {
        "type": "function_call",
        "id": _new_id("fc"),
        "status": "in_progress",
        "call_id": piece.id,
        "name": piece.text,
        "arguments": "",
    },
}


def _shown_tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    return {
        "type": "function",
        "name": function["name"],
        "description": function.get("description"),
        "parameters": function.get("parameters"),
        "strict": bool(function.get("strict")),
    }


def _without_bytes(logged: dict[str, Any]) -> dict[str, Any]:
    """Return a probability as events have it."""
    top = [{"token": one["token"], "logprob": one["logprob"]} for one in logged["top_logprobs"]]
    return {"token": logged["token"], "logprob": logged["logprob"], "top_logprobs": top}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(16)}"
