# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write JSON and server-sent events."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
dumps = _encoder.encode


def event(value: Any, name: str | None = None) -> bytes:
    """Return an event of a stream."""
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {dumps(value)}\n\n".encode()


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer of JSON."""
    return Response(dumps(value).encode(), status, headers, media_type="application/json")
