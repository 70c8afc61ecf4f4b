# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Connections over which one process hands prompts over to another: ``unix:/path`` and ``tcp:host:port``."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from ._errors import InvalidArgumentError


def _parse(address: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    kind, _, rest = address.partition(":")
    if kind == "unix" and rest:
        return socket.AF_UNIX, rest
    host, _, port = rest.rpartition(":")
    if kind == "tcp" and host and port.isdecimal() and int(port) < 1 << 16:
        return socket.AF_INET, (host, int(port))
    raise InvalidArgumentError(f"{address}: is no address; unix:/path and tcp:host:port are", "invalid argument")


@contextlib.contextmanager
def accepted(address: str, timeout: float) -> Iterator[socket.socket]:
    """Wait for one connection to an address."""
    family, place = _parse(address)
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        if family == socket.AF_INET:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.settimeout(timeout)
        listener.bind(place)
        try:
            listener.listen(1)
            connection, _ = listener.accept()
        finally:
            if isinstance(place, str):
                Path(place).unlink(missing_ok=True)
    with connection:
        yield connection


@contextlib.contextmanager
def connected(address: str, timeout: float) -> Iterator[socket.socket]:
    """Connect to an address where another process waits, or will."""
    family, place = _parse(address)
    deadline = time.monotonic() + timeout
    while True:
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            connection.connect(place)
            break
        except OSError as error:
            connection.close()
            if time.monotonic() > deadline:
                raise InvalidArgumentError(
                    f"{address}: nobody waits there: {error}: start `intarsia decode` first", "invalid argument"
                ) from error
            time.sleep(0.05)
    with connection:
        yield connection
