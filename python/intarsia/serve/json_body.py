# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Read the bodies of requests: JSON that means one thing."""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import Any

from starlette.requests import ClientDisconnect, Request

from ..support.checks import DEEPEST_JSON, is_deeper
from .errors import RequestError, unavailable

#: Bodies of more bytes are parsed in a thread.
_MOST_INLINE = 64 * 1024
#: What is no text: NUL, and halves of surrogate pairs, which JSON can only write like this.
_SUSPICIOUS = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")


class BodyBudget:
    """The most bytes that the bodies which are being read may take together."""

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0


async def read_object(request: Request, most_bytes: int, budget: BodyBudget) -> dict[str, Any]:
    """Return the object in the body of a request."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise RequestError(
            f"the content type is {kind}, must be application/json: send the header Content-Type: application/json",
            status=415,
            code="unsupported_media_type",
        )
    body = await _read(request, most_bytes, budget)
    try:
        return parse_object(body) if len(body) <= _MOST_INLINE else await asyncio.to_thread(parse_object, body)
    finally:
        budget.used -= len(body)


async def _read(request: Request, most_bytes: int, budget: BodyBudget) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:19]) > most_bytes:
        raise _too_large(most_bytes)
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            budget.used += len(part)
            if size > most_bytes:
                raise _too_large(most_bytes)
            if budget.used > budget.most:
                raise unavailable("the server reads as many large requests as it may")
            parts.append(part)
    except BaseException as error:
        budget.used -= size
        if isinstance(error, ClientDisconnect):
            raise RequestError("the client is gone", status=400, code="client_gone") from None
        raise
    return b"".join(parts)


def _too_large(most: int) -> RequestError:
    return RequestError(
        f"the body is larger than {most} bytes, which the server allows (--max-body-bytes)",
        status=413,
        code="request_too_large",
    )


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the object that a body holds.

    Raises
    ------
    RequestError
        It is no JSON, or JSON that readers understand differently: keys twice, numbers beyond the range of floats,
        halves of letters. The error names the field.
    """
    constants: list[str] = []

    def constant(name: str) -> float:
        constants.append(name)
        return math.nan

    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_object, parse_constant=constant)
    except UnicodeDecodeError as error:
        raise RequestError(f"the body is no UTF-8 at byte {error.start}", code="invalid_json") from None
    except RecursionError:
        raise _too_deep() from None
    except RequestError:
        raise
    except ValueError as error:  # also a number of more digits than Python converts
        raise RequestError(f"the body is no JSON: {error}", code="invalid_json") from None
    if constants:
        raise RequestError(f"the body has {constants[0]}, which is no JSON", code="invalid_json")
    if not isinstance(value, dict):
        raise RequestError("the body must be an object of JSON", code="invalid_json")
    if body.count(b"[") + body.count(b"{") > DEEPEST_JSON and is_deeper(value, DEEPEST_JSON):
        raise _too_deep()
    if _SUSPICIOUS.search(body):
        for name, item in value.items():
            _check_texts(name, item)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose keys occur once, and whose numbers are some."""
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise RequestError(f"the body has the key {json.dumps(twice)} twice", twice, code="invalid_json")
    for name, value in pairs:
        if type(value) is float and not math.isfinite(value):
            raise RequestError(f"{name} must be a number within the range of floats", name, code="invalid_json")
    return result


def _check_texts(where: str, value: Any) -> None:
    """Refuse texts with NUL or half of a surrogate pair."""
    if isinstance(value, str):
        if "\0" in value:
            raise RequestError(f"{where} has the character NUL", where)
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise RequestError(
                f"{where} has half of a surrogate pair at letter {error.start}, which is no text", where
            ) from None
    elif isinstance(value, dict):
        for name, item in value.items():
            _check_texts(where, name)
            _check_texts(f"{where}.{name}", item)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_texts(f"{where}[{number}]", item)


def _too_deep() -> RequestError:
    return RequestError(f"the body is nested deeper than {DEEPEST_JSON} levels", code="invalid_json")
