# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`/v1/embeddings` and `/v1/rerank`, by encoders."""

from __future__ import annotations

import asyncio
import base64
import random
from typing import Any

import numpy as np
from starlette.responses import Response
from starlette.routing import Route

from .completions import read_prompts
from .encoders import Encoder
from .errors import RequestError
from .exchange import Exchange, endpoint
from .fields import Fields, shown
from .json_text import json_response

_EMBED_NAMES = {"model", "input", "encoding_format", "dimensions", "user", "add_special_tokens"}
_RANK_NAMES = {"model", "query", "documents", "top_n", "return_documents", "user"}


def routes() -> list[Route]:
    """Return the routes of this interface."""
    rank = endpoint(rerank)
    return [
        Route("/v1/embeddings", endpoint(embed), methods=["POST"]),
        *(Route(path, rank, methods=["POST"]) for path in ("/v1/rerank", "/v2/rerank", "/rerank")),
    ]


async def embed(exchange: Exchange) -> Response:
    """Embed texts."""
    body = await exchange.body()
    model = exchange.encoder(body)
    fields = Fields(body)
    fields.check_names(_EMBED_NAMES, not exchange.server.options.ignores_unknown)
    if not model.embeds:
        raise RequestError(f"the model {model.name} scores pairs of texts (/v1/rerank), it embeds none", "model")
    form = fields.one_of("encoding_format", "float", ("float", "base64"))
    dimensions = fields.whole("dimensions", model.dimensions, 1)
    if dimensions > model.dimensions:
        raise fields.error("dimensions", f"is {dimensions}, the model has {model.dimensions}")
    texts = await read_prompts(exchange, model, fields, "input", fields.flag("add_special_tokens", True))
    model.check_lengths("input", texts)
    count = sum(map(len, texts))
    exchange.key.take_tokens(count)

    def work() -> list[Any]:
        rows = model.compute(texts)
        if dimensions != model.dimensions:
            rows = _unit(rows[:, :dimensions])
        if form == "float":
            return [{"object": "embedding", "index": i, "embedding": row.tolist()} for i, row in enumerate(rows)]
        data = np.ascontiguousarray(rows, "<f4")
        return [
            {"object": "embedding", "index": i, "embedding": base64.b64encode(row.tobytes()).decode()}
            for i, row in enumerate(data)
        ]

    data = await _computed(model, work)
    usage = {"prompt_tokens": count, "total_tokens": count}
    return json_response({"object": "list", "data": data, "model": model.name, "usage": usage})


async def rerank(exchange: Exchange) -> Response:
    """Order documents by what they have to do with a query."""
    body = await exchange.body()
    model = exchange.encoder(body)
    fields = Fields(body)
    fields.check_names(_RANK_NAMES, not exchange.server.options.ignores_unknown)
    query = fields.text("query")
    if query is None:
        raise fields.error("query", "is missing")
    documents = _documents(fields, exchange.server.options.max_prompts)
    most = fields.whole("top_n", len(documents), 1)
    shows = fields.flag("return_documents", True)
    names = [f"documents[{number}]" for number in range(len(documents))]
    pairs: list[tuple[list[int], list[int]]] = []

    def encode_all() -> list[list[int]]:
        if model.embeds:
            encode = model.prompts.encode
            return [encode(query, "query"), *(encode(text, name) for text, name in zip(documents, names, strict=True))]
        pairs.extend(model.encode_pair(query, text, name) for text, name in zip(documents, names, strict=True))
        return [ids for ids, _ in pairs]

    texts = await exchange.in_thread(encode_all)
    if model.embeds:
        model.check_lengths("query", texts[:1])
    model.check_lengths("documents", texts[1 if model.embeds else 0 :])
    count = sum(map(len, texts))
    exchange.key.take_tokens(count)

    def work() -> np.ndarray:
        if model.embeds:
            rows = _unit(model.compute(texts))
            return rows[1:] @ rows[0]
        scores = model.compute(texts, [types for _, types in pairs])[:, 0].astype(np.float64)
        return 1 / (1 + np.exp(-scores))

    scores = await _computed(model, work)
    order = sorted(range(len(documents)), key=lambda number: (-scores[number], number))[:most]
    results: list[dict[str, Any]] = []
    for number in order:
        result: dict[str, Any] = {"index": number, "relevance_score": float(scores[number])}
        if shows:
            result["document"] = {"text": documents[number]}
        results.append(result)
    return json_response(
        {
            "id": f"rerank-{random.getrandbits(96):024x}",
            "model": model.name,
            "results": results,
            "usage": {"prompt_tokens": count, "total_tokens": count},
        }
    )


async def _computed(model: Encoder, work: Any) -> Any:
    """Return what a function returns on the model's thread."""
    return await asyncio.get_running_loop().run_in_executor(model.thread, work)


def _documents(fields: Fields, most: int) -> list[str]:
    values = fields.list("documents", most)
    if not values:
        raise fields.error("documents", "is missing" if values is None else "is empty")
    texts = []
    for number, value in enumerate(values):
        text = value.get("text") if isinstance(value, dict) else value
        if not isinstance(text, str):
            raise fields.error(f"documents[{number}]", f"is {shown(value)}, must be a text")
        texts.append(text)
    return texts


def _unit(rows: np.ndarray) -> np.ndarray:
    """Return rows of length 1."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
