# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`/tokenize` and `/detokenize`, in vLLM's form and in llama-server's."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from .chat import read_messages, read_tools
from .encoders import Encoder
from .exchange import Exchange, endpoint
from .fields import Fields
from .json_text import json_response
from .models import ServedModel

_NAMES = {
    *("model", "prompt", "messages", "tools", "add_special_tokens", "add_generation_prompt", "return_token_strs"),
    *("chat_template_kwargs", "content", "add_special", "parse_special", "with_pieces", "tokens"),
    *("continue_final_message",),
}


def routes() -> list[Route]:
    """Return the routes of this interface."""
    tokenized, detokenized = endpoint(tokenize), endpoint(detokenize)
    return [
        *(Route(path, tokenized, methods=["POST"]) for path in ("/tokenize", "/v1/tokenize")),
        *(Route(path, detokenized, methods=["POST"]) for path in ("/detokenize", "/v1/detokenize")),
    ]


async def _read(exchange: Exchange) -> tuple[Fields, ServedModel | Encoder]:
    body = await exchange.body()
    fields = Fields(body)
    fields.check_names(_NAMES, not exchange.server.options.ignores_unknown)
    name = fields.text("model")  # llama-server serves one model, and is told no name
    models = exchange.server.models
    return fields, next(iter(models.values())) if name is None else exchange.server.model(name)


async def tokenize(exchange: Exchange) -> Response:
    """Return the tokens of a text or a chat."""
    fields, model = await _read(exchange)
    if "content" in fields:
        text = fields.text("content")
        ids = await exchange.in_thread(
            lambda: model.prompts.encode(text, "content", add_special_tokens=fields.flag("add_special"))
        )
        if not fields.flag("with_pieces"):
            return json_response({"tokens": ids})
        return json_response({"tokens": [{"id": token, "piece": _piece(model, token)} for token in ids]})
    if "messages" in fields:
        messages, tools = read_messages(fields), read_tools(fields)
        variables = fields.object("chat_template_kwargs") or {}
        exchange.check_variables(variables)
        ids = await exchange.in_thread(lambda: model.prompts.encode_chat(messages, tools, variables))
    else:
        text = fields.text("prompt")
        if text is None:
            raise fields.error("prompt", "is missing")
        special = fields.flag("add_special_tokens", True)
        ids = await exchange.in_thread(lambda: model.prompts.encode(text, "prompt", add_special_tokens=special))
    result: dict[str, Any] = {"count": len(ids), "max_model_len": model.context, "tokens": ids}
    if fields.flag("return_token_strs"):
        result["token_strs"] = [model.tokenizer.id_to_token(token) for token in ids]
    return json_response(result)


async def detokenize(exchange: Exchange) -> Response:
    """Return the text of tokens."""
    fields, model = await _read(exchange)
    if "tokens" not in fields:
        raise fields.error("tokens", "is missing")
    ids = fields.token_ids("tokens", model.vocabulary, 10_000_000)
    text = await exchange.in_thread(lambda: model.tokenizer.decode(ids, skip_special_tokens=False))
    return json_response({"prompt": text, "content": text})


def _piece(model: ServedModel | Encoder, token: int) -> str | list[int]:
    """Return a token as text, or as bytes where it is part of a letter."""
    if not isinstance(model, ServedModel):
        return model.tokenizer.decode([token], skip_special_tokens=False)
    data = model.token_bytes[token]
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
