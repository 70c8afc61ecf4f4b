# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exceptions of the package; their messages are those of the runtime and the compiler."""

from __future__ import annotations


class Error(RuntimeError):
    """An error of the runtime or the compiler, with its message.

    Attributes
    ----------
    status : str
        The kind of error, as the C interface names it: ``"invalid argument"``, ``"corrupt"``, …
    """

    def __init__(self, message: str, status: str = "") -> None:
        super().__init__(message)
        self.status = status


class InvalidArgumentError(Error, ValueError):
    """An input does not fit: name, rank, dtype, size or value."""


class NotFoundError(Error, LookupError):
    """A file, function, input or device does not exist."""


class CorruptError(Error):
    """A file is truncated, changed, or not of the format that it claims."""


class CacheFullError(Error):
    """A cache has no free page or no room for another sequence; its contents are unchanged."""


class BusyError(Error):
    """As many requests wait as an engine lets: the same request may be taken later."""


class CancelledError(Error):
    """The caller has cancelled the call."""


class CompileError(Error):
    """The compiler refused the model; the message is its output."""


_BY_STATUS: dict[str, type[Error]] = {
    "invalid argument": InvalidArgumentError,
    "not found": NotFoundError,
    "corrupt": CorruptError,
    "cache full": CacheFullError,
    "busy": BusyError,
    "cancelled": CancelledError,
}


def from_status(status: str, message: str) -> Error:
    """Return the exception for a status of the C interface."""
    return _BY_STATUS.get(status, Error)(message, status)
