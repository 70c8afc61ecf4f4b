# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Connections that are bounded in number, time and memory, and that streams write to directly.

ASGI has a call for each piece of an answer, which a task awaits. With a thousand streams that is most of the work of a
step: here the loop that takes the engine's events writes to the transports itself, and a stream's task sleeps until its
end.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import socket
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Name of the connection among the extensions of an ASGI scope.
EXTENSION = "intarsia.connection"


@dataclass
class Limits:
    """What a connection may take.

    Attributes
    ----------
    connections : int
        Connections at a time; more are answered with 503 and closed.
    header_seconds : float
        Time for the line and the headers of a request.
    header_bytes : int
        Their size.
    body_seconds, body_bytes : float, int
        A body arrives by at least so many bytes in so many seconds.
    stalled_seconds : float
        A client that takes nothing of what is written for so long is cut.
    buffer_bytes : int
        A stream whose client is so far behind is cut.
    """

    connections: int = 4096
    header_seconds: float = 10.0
    header_bytes: int = 64 * 1024
    body_seconds: float = 10.0
    body_bytes: int = 16 * 1024
    stalled_seconds: float = 30.0
    buffer_bytes: int = 1024 * 1024


class Connection(HttpToolsProtocol):
    """A connection of a client."""

    #: Set by `make_protocol`.
    limits: Limits
    overflow: Callable[[], None]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._is_refused = False
        self._on_lost: Callable[[], None] | None = None
        # Of a request that arrives: when it must have, and what has.
        self._deadline: float | None = None
        self._header_bytes = self._parsed_bytes = 0
        self._in_headers = True
        self._has_large_headers = False
        self._window_bytes = 0
        # What streams have written, and the last progress of the client in reading.
        self.was_cut = False
        self._written = 0
        self._taken = 0
        self._progress = 0.0

    # What asyncio calls.

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin; one connection too many is told so."""
        if len(self.connections) >= self.limits.connections:
            self._is_refused = True
            self.overflow()
            transport.write(_OVERFLOW)
            transport.close()
            return
        super().connection_made(transport)
        self._deadline = time.monotonic() + self.limits.header_seconds
        transport.set_write_buffer_limits(high=self.limits.buffer_bytes)
        sock = transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if sock.family in (socket.AF_INET, socket.AF_INET6):
                # What the kernel holds of a stream counts too: a slow reader is to be seen here.
                sock.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, 128 * 1024)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell who works for this client that it is gone."""
        if self._is_refused:
            return
        super().connection_lost(exc)
        lost, self._on_lost = self._on_lost, None
        if lost is not None:
            lost()

    def data_received(self, data: bytes) -> None:
        """Parse, and bound what arrives before a request is complete."""
        if self._is_refused or self.parser is None:
            return
        if self._in_headers:
            if self._deadline is None:
                self._deadline = time.monotonic() + self.limits.header_seconds
            self._header_bytes += len(data)
        super().data_received(data)
        is_too_large = self._in_headers and self._header_bytes > self.limits.header_bytes
        if (is_too_large or self._has_large_headers) and not self.transport.is_closing():
            self.transport.write(_HEADERS_TOO_LARGE)
            self.transport.close()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Start the time of the headers."""
        super().on_message_begin()
        self._in_headers = True
        self._parsed_bytes = 0
        self._deadline = time.monotonic() + self.limits.header_seconds

    def on_url(self, url: bytes) -> None:
        """Measure the line of the request."""
        self._parsed_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Measure the headers."""
        self._parsed_bytes += len(name) + len(value) + 4
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the time of the body."""
        if self._parsed_bytes > self.limits.header_bytes:
            self._has_large_headers = True
            return
        self._in_headers, self._header_bytes = False, 0
        self._deadline = time.monotonic() + self.limits.body_seconds
        self._window_bytes = 0
        self.scope["extensions"] = {EXTENSION: self}
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Give a body that arrives more time."""
        if self._has_large_headers:
            return
        self._window_bytes += len(body)
        if self._window_bytes >= self.limits.body_bytes:
            self._window_bytes = 0
            self._deadline = time.monotonic() + self.limits.body_seconds
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the time: what follows depends on the server."""
        if self._has_large_headers:
            return
        self._deadline = None
        self._in_headers = True
        super().on_message_complete()

    # What the server calls.

    def when_lost(self, call: Callable[[], None] | None) -> None:
        """Have a function called when the client is gone; once, at once if it is gone already."""
        if call is not None and (self.parser is None or self.transport.is_closing()):
            self.loop.call_soon(call)
            return
        self._on_lost = call

    def write_chunk(self, data: bytes) -> bool:
        """Write a part of the body of the answer; return False if the client is too far behind, and is cut."""
        transport = self.transport
        if transport.is_closing():
            return False
        if not data:  # an empty chunk would be the end of the body
            return True
        framed = b"%x\r\n%b\r\n" % (len(data), data)
        self._written += len(framed)
        transport.write(framed)
        if transport.get_write_buffer_size() <= self.limits.buffer_bytes:
            return True
        self.cut()
        return False

    def cut(self) -> None:
        """Close the connection without waiting for the client."""
        self.was_cut = True
        self.transport.abort()

    def check(self, now: float) -> None:
        """Close the connection if its client has been too slow."""
        if self.transport.is_closing():
            # Closing waits for the client to take the rest.
            if self._is_stalled(now):
                self.cut()
            return
        if self._is_late(now):
            if self._header_bytes or not self._in_headers:
                self.transport.write(_TOO_SLOW)
            self.transport.close()
        elif self._is_stalled(now):
            self.cut()

    def _is_late(self, now: float) -> bool:
        """Return True if a request should have arrived, which the server has not begun to answer."""
        if self._deadline is None or now <= self._deadline:
            return False
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if self._in_headers:
            return not is_answering  # another request may come before the answer to this one
        # While the body waits for the server, the client is not slow.
        return not self.flow.read_paused and not (is_answering and self.cycle.response_started)

    def _is_stalled(self, now: float) -> bool:
        """Return True if something waits for the client, which has taken nothing for too long."""
        waiting = self.transport.get_write_buffer_size() + self._in_kernel()
        # What is not written by `write_chunk` makes less seem to be taken, until the client takes it.
        taken = self._written - waiting
        if waiting == 0 or taken > self._taken or self._progress == 0.0:
            self._progress = now
        self._taken = taken
        return now - self._progress > self.limits.stalled_seconds

    def _in_kernel(self) -> int:
        """Return the bytes that the kernel has of an answer: a short one is there as a whole."""
        size = array.array("i", [0])
        with contextlib.suppress(OSError):
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, size)
        return size[0]


def make_protocol(limits: Limits, overflow: Callable[[], None]) -> type[Connection]:
    """Return the class of connections with these limits."""
    return type("BoundConnection", (Connection,), {"limits": limits, "overflow": staticmethod(overflow)})


async def watch(connections: set[Any], seconds: float = 1.0) -> None:
    """Check all connections again and again."""
    while True:
        await asyncio.sleep(seconds)
        now = time.monotonic()
        for connection in list(connections):
            connection.check(now)


#: Linux has it in netinet/tcp.h; Python's socket does not name it.
_TCP_NOTSENT_LOWAT = 25


def _plain_answer(status: str, kind: str, code: str, message: str, more: str = "") -> bytes:
    body = f'{{"error":{{"message":"{message}","type":"{kind}","param":null,"code":"{code}"}}}}'
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{more}"
    return f"{head}connection: close\r\n\r\n{body}".encode()


_OVERFLOW = _plain_answer(
    "503 Service Unavailable",
    "service_unavailable",
    "too_many_connections",
    "the server has as many connections as it may have",
    "retry-after: 1\r\n",
)
_TOO_SLOW = _plain_answer("408 Request Timeout", "timeout_error", "request_timeout", "the request arrives too slowly")
_HEADERS_TOO_LARGE = _plain_answer(
    "431 Request Header Fields Too Large", "invalid_request_error", "headers_too_large", "the headers are too large"
)
