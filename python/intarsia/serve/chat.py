# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`/v1/chat/completions`, and what other interfaces of chats share with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from .answers import CALL, CONTENT, REASONING, Answer, AnswerWriter, LoggedToken, Piece, Usage, shown_logprob
from .chat_request import ChatRequest
from .choices import ChoiceWriter
from .exchange import Exchange, endpoint, send_run
from .fields import Fields, shown
from .formats import not_held, plan_of
from .models import ServedModel
from .text_options import FORMS, MOST_LOGPROBS, NAMES, WITHOUT_EFFECT, read_asked_form, read_options

_NAMES = (
    NAMES
    | FORMS
    | WITHOUT_EFFECT
    | {
        *("messages", "max_completion_tokens", "logprobs", "top_logprobs", "tools", "tool_choice"),
        *("parallel_tool_calls", "reasoning_effort", "chat_template_kwargs", "modalities", "functions"),
        *("function_call", "audio", "prediction", "web_search_options", "add_generation_prompt"),
        *("continue_final_message", "include_reasoning", "documents", "chat_template", "moderation"),
    }
)
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_UNSUPPORTED = ("functions", "function_call", "audio", "prediction", "web_search_options", "documents", "moderation")
_MESSAGE_NAMES = {
    *("role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call"),
    *("reasoning_content", "reasoning", "thinking", "annotations", "weight", "prefix"),
}


def routes() -> list[Route]:
    """Return the routes of this interface."""
    return [Route("/v1/chat/completions", endpoint(complete), methods=["POST"])]


async def complete(exchange: Exchange) -> Response:
    """Answer a chat."""
    body = await exchange.body()
    model = exchange.language_model(body)
    chat = read_chat(Fields(body), model, exchange.server.options.ignores_unknown)
    return await answer(exchange, model, chat, ChatWriter(model, chat))


async def answer(exchange: Exchange, model: ServedModel, chat: ChatRequest, writer: AnswerWriter) -> Response:
    """Have the model answer a chat, and the answers written as an interface has them."""
    exchange.check_variables(chat.template_variables)
    options = chat.options

    def prepare() -> tuple[Any, Any]:
        """Do what may take long: the template, the tokenizer, the grammar."""
        plan = plan_of(model, chat)
        prompt = model.prompts.encode_chat(plan.messages, plan.tools, plan.variables, continues=chat.continues)
        return plan.form(prompt), prompt

    form, prompt = await exchange.in_thread(prepare)
    if options.is_clipped and options.max_tokens is not None and len(prompt) < model.context:
        options.max_tokens = min(options.max_tokens, model.context - len(prompt))
    request = exchange.engine_request(model, prompt, options, constraint=form.constraint)
    samples = model.samples(
        prompt,
        options,
        0,
        shows_special_tokens=form.shows_special_tokens,
        make_reader=form.make_reader,
    )
    response = await send_run(exchange, model, options, [request], samples, writer)
    if form.dropped:
        response.headers["X-Intarsia-Not-Held"] = not_held(form.dropped)
    return response


def read_chat(fields: Fields, model: ServedModel, ignores_unknown: bool) -> ChatRequest:
    """Return what the body of a request asks for."""
    fields.check_names(_NAMES, not ignores_unknown)
    fields.refuse(_UNSUPPORTED, "is not supported")
    fields.refuse(("chat_template",), "is not supported: templates are the server's")
    modalities = fields.list("modalities")
    if modalities is not None and modalities != ["text"]:
        raise fields.error("modalities", "may only be text")
    options = read_options(fields, model.vocabulary, model.temperature)
    most = fields.whole("max_completion_tokens", None, 1)
    options.max_tokens = options.max_tokens if most is None else most
    if fields.flag("logprobs"):
        options.logprobs = fields.whole("top_logprobs", 0, 0, MOST_LOGPROBS)
    elif "top_logprobs" in fields and fields.whole("top_logprobs", 0, 0, MOST_LOGPROBS):
        raise fields.error("top_logprobs", "needs logprobs: true")
    chat = ChatRequest(model.name, read_messages(fields), options)
    chat.tools = read_tools(fields)
    chat.tool_choice = _tool_choice(fields, chat.tools)
    chat.parallel_tool_calls = fields.flag("parallel_tool_calls", True)
    chat.form = read_asked_form(fields)
    chat.reasoning_effort = fields.one_of("reasoning_effort", None, _EFFORTS)
    chat.template_variables = fields.object("chat_template_kwargs") or {}
    chat.continues = fields.flag("continue_final_message")
    if chat.continues:
        last = chat.messages[-1]
        if (
            last["role"] != "assistant"
            or not isinstance(last.get("content"), str)
            or fields.flag("add_generation_prompt")
        ):
            raise fields.error(
                "continue_final_message", "needs a last message of the assistant, and add_generation_prompt: false"
            )
    elif not fields.flag("add_generation_prompt", True):
        raise fields.error("add_generation_prompt", "may only be false with continue_final_message")
    return chat


def read_messages(fields: Fields) -> list[dict[str, Any]]:
    """Return the messages of a chat."""
    messages = fields.objects("messages", most=10_000)
    if not messages:
        raise fields.error("messages", "is missing" if messages is None else "has no message")
    return [_message(message) for message in messages]


def _message(message: Fields) -> dict[str, Any]:
    message.check_names(_MESSAGE_NAMES, True)
    message.refuse(("audio", "function_call"), "is not supported")
    role = message.one_of("role", None, _ROLES)
    if role is None:
        raise message.error("role", "is missing")
    result: dict[str, Any] = {"role": role}
    content = read_content(message)
    calls = message.objects("tool_calls", most=1000)
    if content is None and not (
        role == "assistant" and (calls or "refusal" in message or "reasoning_content" in message)
    ):
        raise message.error("content", "is missing")
    result["content"] = content if content is not None else (message.text("refusal") or "")
    for name in ("name", "tool_call_id", "reasoning_content", "reasoning", "thinking"):
        value = message.text(name)
        if value is not None:
            result[name] = value
    if calls:
        if role != "assistant":
            raise message.error("tool_calls", "is only for messages of the assistant")
        result["tool_calls"] = [_call(call) for call in calls]
    if role == "tool" and "tool_call_id" not in result:
        raise message.error("tool_call_id", "is missing")
    return result


def read_content(message: Fields) -> str | None:
    """Return the content of a message as text: of several parts one after another."""
    value = message.raw("content")
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise message.error("content", f"is {shown(value)}, must be a text or a list of parts")
    texts = []
    for part in message.objects("content", most=10_000) or ():
        kind = part.text("type")
        if kind not in ("text", "refusal"):
            problem = "is missing" if kind is None else f"is {shown(kind)}"
            raise part.error("type", f"{problem}, must be text: the model reads nothing else")
        text = part.text(kind)
        if text is None:
            raise part.error(kind, "is missing")
        texts.append(text)
    return "".join(texts)


def _call(call: Fields) -> dict[str, Any]:
    call.one_of("type", "function", ("function",))
    function = call.inner("function")
    if function is None:
        raise call.error("function", "is missing")
    name, arguments = function.text("name"), function.raw("arguments")
    if name is None:
        raise function.error("name", "is missing")
    if arguments is not None and not isinstance(arguments, (str, dict)):
        raise function.error("arguments", f"is {shown(arguments)}, must be a text of JSON")
    return {
        "id": call.text("id", ""),
        "type": "function",
        "function": {"name": name, "arguments": "" if arguments is None else arguments},
    }


def read_tools(fields: Fields) -> list[dict[str, Any]] | None:
    """Return the functions that the model may call."""
    tools = fields.objects("tools", most=1024)
    if not tools:
        return None
    names: set[str] = set()
    for tool in tools:
        tool.one_of("type", None, ("function",))
        if "type" not in tool:
            raise tool.error("type", "is missing")
        function = tool.inner("function")
        if function is None:
            raise tool.error("function", "is missing")
        name = function.text("name", most=64)
        if name is None or not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
            raise function.error("name", "must be 1 to 64 letters of a-z, A-Z, 0-9, underscores, dots and dashes")
        if name in names:
            raise function.error("name", f"is {shown(name)}, which another tool is called")
        names.add(name)
        function.text("description")
        function.flag("strict")
        function.object("parameters")
    return [tool.values for tool in tools]


def _tool_choice(fields: Fields, tools: list[dict[str, Any]] | None) -> str | dict[str, Any]:
    value = fields.raw("tool_choice")
    if value is None:
        return "auto" if tools else "none"
    if isinstance(value, str):
        fields.one_of("tool_choice", None, ("none", "auto", "required"))
    elif isinstance(value, dict):
        inner = Fields(value, "tool_choice.")
        kind = inner.one_of("type", None, ("function", "allowed_tools"))
        if kind is None:
            raise inner.error("type", "is missing")
        if kind == "function":
            function = inner.inner("function")
            name = None if function is None else function.text("name")
            if name is None:
                raise inner.error("function.name", "is missing")
            if name not in {tool["function"]["name"] for tool in tools or ()}:
                raise inner.error("function.name", f"is {shown(name)}, which is none of the tools")
    else:
        raise fields.error("tool_choice", f"is {shown(value)}, must be a text or an object")
    if not tools and value != "none":
        raise fields.error("tool_choice", "needs tools")
    return value


class ChatWriter(ChoiceWriter):
    """Writes answers as `/v1/chat/completions` has them."""

    def __init__(self, model: ServedModel, chat: ChatRequest) -> None:
        super().__init__(model, chat.options, "chatcmpl", "chat.completion", "chat.completion.chunk")
        self._contents = [
            (
                f'{self._head}{{"index":{index},"delta":{{"content":',
                f'}},"logprobs":null,"finish_reason":null}}{self._tail}',
            )
            for index in range(chat.options.samples)
        ]

    def begin(self, usage: Usage) -> bytes:
        """Return the roles."""
        return "".join(
            self._chunk(index, {"role": "assistant", "content": ""}) for index in range(self._options.samples)
        ).encode()

    def pieces(self, sample: int, pieces: Sequence[Piece], tokens: Sequence[LoggedToken]) -> bytes:
        """Return a chunk for each piece; the tokens are with the first."""
        if not tokens and len(pieces) == 1 and pieces[0].kind == CONTENT:
            before, behind = self._contents[sample]
            return f"{before}{encode_basestring(pieces[0].text)}{behind}".encode()
        logprobs = self._logprobs(tokens) if tokens else None
        chunks = []
        for piece in pieces or (Piece(CONTENT, ""),):
            chunks.append(self._chunk(sample, _delta(piece), logprobs))
            logprobs = None
        return "".join(chunks).encode()

    def end(self, sample: int, answer: Answer) -> bytes:
        """Return the chunk with the reason of the end."""
        return self._chunk(sample, {}, None, answer.finish_reason).encode()

    def _choice(self, index: int, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.content, "refusal": None}
        if answer.calls:
            message["content"] = answer.content or None
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in answer.calls
            ]
        if answer.reasoning:
            message["reasoning_content"] = answer.reasoning
        logprobs = self._logprobs(answer.tokens) if self._options.logprobs is not None else None
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": answer.finish_reason}

    def _chunk(self, index: int, delta: dict[str, Any], logprobs: Any = None, reason: str | None = None) -> str:
        return self._written({"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason})

    def _logprobs(self, tokens: Sequence[LoggedToken]) -> dict[str, Any]:
        return {
            "content": [
                {
                    **self._logged(one.token, one.logprob),
                    "top_logprobs": [self._logged(*top) for top in one.top[: self._options.logprobs]],
                }
                for one in tokens
            ],
            "refusal": None,
        }

    def _logged(self, token: int, logprob: float) -> dict[str, Any]:
        data = self._model.token_bytes[token]
        return {"token": data.decode("utf-8", "replace"), "logprob": shown_logprob(logprob), "bytes": list(data)}


def _delta(piece: Piece) -> dict[str, Any]:
    if piece.kind == CONTENT:
        return {"content": piece.text}
    if piece.kind == REASONING:
        return {"reasoning_content": piece.text}
    if piece.kind == CALL:
        function = {"name": piece.text, "arguments": ""}
        return {"tool_calls": [{"index": piece.call, "id": piece.id, "type": "function", "function": function}]}
    return {"tool_calls": [{"index": piece.call, "function": {"arguments": piece.text}}]}
