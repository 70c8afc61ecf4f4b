# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page at `/`: a chat with the model, and the live state."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

#: The page is one file; nothing of it is from elsewhere, and nothing else may be loaded.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def routes() -> list[Route]:
    """Return the route of the page."""
    return [Route("/", show)]


async def show(request: Request) -> Response:
    """Return the page."""
    return HTMLResponse(_page(), headers=_HEADERS)


@cache
def _page() -> str:
    return Path(__file__).with_name("page.html").read_text(encoding="utf-8")
