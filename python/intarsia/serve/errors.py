# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Errors that a client sees, in the form of OpenAI's interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..support.errors import BusyError, CacheFullError, InvalidArgumentError, NotFoundError

#: Letters of a message that are sent.
_MOST_LETTERS = 2000

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "service_unavailable",
    504: "timeout_error",
}


class RequestError(Exception):
    """A request that is refused, or that has failed.

    Attributes
    ----------
    message : str
        What is wrong, and what to try.
    param : str or None
        The field of the request that it is about, such as ``"messages[0].content"``.
    code : str or None
        A word for programs, such as ``"context_length_exceeded"``.
    status : int
        The status of HTTP.
    headers : mapping
        More headers of the answer, such as ``Retry-After``.
    """

    def __init__(
        self,
        message: str,
        param: str | None = None,
        *,
        status: int = 400,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        if len(message) > _MOST_LETTERS:
            message = f"{message[:_MOST_LETTERS]} … ({len(message)} letters)"
        # A message may show what a client has sent, which may be half of a surrogate pair.
        self.message = message.encode("utf-8", "backslashreplace").decode()
        self.param = None if param is None else param.encode("utf-8", "backslashreplace").decode()
        self.code, self.status, self.headers = code, status, dict(headers or {})

    @property
    def type(self) -> str:
        """The kind of error, as OpenAI names it."""
        return _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")

    def body(self) -> dict[str, Any]:
        """Return the error as OpenAI's interface has it."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


def as_request_error(error: Exception, param: str | None = None) -> RequestError | None:
    """Return an error of the package as one of a request; None: it is not the request's fault."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, BusyError):
        return overloaded(str(error))
    if isinstance(error, CacheFullError):
        return RequestError(str(error), param, code="context_length_exceeded")
    if isinstance(error, (InvalidArgumentError, NotFoundError)):
        return RequestError(str(error), param)
    return None


def overloaded(message: str, seconds: int = 1) -> RequestError:
    """Return the error of a request that may succeed later."""
    return RequestError(message, status=429, code="rate_limit_exceeded", headers={"Retry-After": str(seconds)})


def unavailable(message: str, seconds: int = 1) -> RequestError:
    """Return the error of a server that loads, drains or has lost its engine."""
    return RequestError(message, status=503, code="service_unavailable", headers={"Retry-After": str(seconds)})
