# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a server says of itself: models, health, version, metrics."""

from __future__ import annotations

import time
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from .. import _runtime
from .exchange import Exchange, endpoint
from .json_text import json_response
from .metrics import exposition

if TYPE_CHECKING:
    from .server import Server


def routes() -> list[Route]:
    """Return the routes of this interface."""
    return [
        Route("/v1/models", endpoint(models, is_work=False)),
        Route("/v1/models/{name:path}", endpoint(one_model, is_work=False)),
        Route("/health", health),
        Route("/ping", health, methods=["GET", "POST"]),
        Route("/version", show_version),
        Route("/metrics", metrics),
        Route("/state", endpoint(state, is_work=False)),
    ]


async def models(exchange: Exchange) -> Response:
    """List the models."""
    return json_response({"object": "list", "data": [_model(model) for model in exchange.server.models.values()]})


async def one_model(exchange: Exchange) -> Response:
    """Describe one model."""
    return json_response(_model(exchange.server.model(exchange.request.path_params["name"])))


def _model(model: Any) -> dict[str, Any]:
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "intarsia",
        "root": model.name,
        "parent": None,
        "max_model_len": model.context,
    }


async def health(request: Request) -> Response:
    """Say whether the server answers: 503 while it loads, drains, or has lost an engine."""
    problem = request.app.state.server.problem
    if problem:
        return json_response({"status": problem}, 503, {"Retry-After": "1"})
    return json_response({"status": "ok"})


async def show_version(request: Request) -> Response:
    """Return the version of the package."""
    return json_response({"version": _version()})


def _version() -> str:
    try:
        return version("intarsia")
    except PackageNotFoundError:
        return _runtime.version().split()[0]


async def metrics(request: Request) -> Response:
    """Return metrics as text."""
    server = request.app.state.server
    if server.options.opens_metrics:
        return await _metrics(server)

    async def respond(exchange: Exchange) -> Response:
        return await _metrics(exchange.server)

    return await endpoint(respond, is_work=False)(request)


async def _metrics(server: Server) -> Response:
    of_models = {
        name: (model.metrics, await model.supervisor.stats()) for name, model in server.language_models.items()
    }
    of_server = {
        "requests_active": ("gauge", "Requests that are being answered.", server.active),
        "connections": ("gauge", "Connections of clients.", len(server.connections)),
        "refused_connections_total": ("counter", "Connections over the limit.", server.refused_connections),
        "refused_requests_total": ("counter", "Requests that got an error.", sum(server.refused.values())),
        "engine_restarts_total": (
            "counter",
            "Engines that were lost.",
            sum(model.supervisor.restarts for model in server.language_models.values()),
        ),
    }
    text = exposition(of_models, of_server, "intarsia_")
    if server.options.vllm_metrics:
        text += exposition(of_models, {}, "vllm:")
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def state(exchange: Exchange) -> Response:
    """Return the live state, for the page."""
    server = exchange.server
    return json_response(
        {
            "status": server.problem or "ok",
            "time": time.time(),
            "uptime_seconds": time.time() - server.started,
            "version": _version(),
            "requests_active": server.active,
            "connections": len(server.connections),
            "models": [await _state(model) for model in server.models.values()],
        }
    )


async def _state(model: Any) -> dict[str, Any]:
    if not hasattr(model, "supervisor"):
        return {"name": model.name, "kind": "encoder", "context": model.context, "tokens": model.tokens}
    stats, metrics = await model.supervisor.stats(), model.metrics
    return {
        "name": model.name,
        "kind": "chat" if model.chat_template is not None else "text",
        "context": model.context,
        "state": model.supervisor.condition,
        "running": stats.get("running", 0),
        "waiting": stats.get("waiting", 0),
        "pages": stats.get("pages", 0),
        "free_pages": stats.get("free_pages", 0),
        "prompt_tokens": stats.get("prompt_tokens", 0),
        "cached_tokens": stats.get("cached_tokens", 0),
        "generated_tokens": stats.get("generated_tokens", 0),
        "first_token": {"p50": metrics.first_token.quantile(0.5), "p95": metrics.first_token.quantile(0.95)},
        "between_tokens": {"p50": metrics.between_tokens.quantile(0.5), "p95": metrics.between_tokens.quantile(0.95)},
    }
