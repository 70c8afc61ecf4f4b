# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The routes of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from . import chat, completions, embeddings, information, messages, page, responses, tokens
from .errors import RequestError
from .json_text import json_response

if TYPE_CHECKING:
    from .server import Server

#: Each interface has its routes in a module of its own.
_ROUTES: tuple[Callable[[], list[Route]], ...] = (
    chat.routes,
    completions.routes,
    responses.routes,
    messages.routes,
    embeddings.routes,
    tokens.routes,
    information.routes,
    page.routes,
)


def make_application(server: Server) -> Starlette:
    """Return the application of a server, for ASGI."""
    application = Starlette(
        routes=[route for routes in _ROUTES for route in routes()],
        exception_handlers={HTTPException: _http_error},
    )
    application.state.server = server
    application.router.redirect_slashes = False
    return application


async def _http_error(request: Request, error: HTTPException) -> Response:
    """Answer what has no route, in the form of all other errors."""
    if error.status_code == 404:
        known = RequestError(f"there is no {request.url.path[:200]}; docs/serve.md lists what there is", status=404)
    elif error.status_code == 405:
        known = RequestError(f"{request.url.path[:200]} does not take {request.method[:20]}", status=405)
    else:
        known = RequestError(str(error.detail), status=error.status_code)
    return json_response(known.body(), known.status, dict(error.headers or {}))
