# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Connections over which one process hands prompts over to another: ``unix:/path`` and ``tcp:host:port``.

Both ends of a connection by TCP have a token in common, as the ranks of a world have. It never crosses the network:
each end signs what the other one has made up, the caller first, so that nobody who finds the port gets something to
guess the token with. What is sent after that is neither encrypted nor signed. A Unix socket is guarded by the
permissions of its file instead.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from ..support.errors import InvalidArgumentError

LEAST_TOKEN, MOST_TOKEN = 16, 4096
"""Characters of a token, as worlds take it."""
LONGEST = 1e6
"""The longest timeout in seconds."""
MAGIC = b"itx hand-over 1\n"
"""What both ends send first, with bytes that they make up behind it."""
OPENING, PROOF = 32, 32
"""Bytes of that, and of a signature (HMAC-SHA-256)."""
PROOF_TIME = 2.0
"""Seconds that one who has called may take for the proof."""
PEEK_TIME = 0.5
"""Seconds to wait for the first bytes of one who has called, to see whether they are the beginning of a proof."""
MOST_CALLERS = 64
"""How many may be at that at once. Then the oldest is dropped."""


def _error(text: str) -> InvalidArgumentError:
    return InvalidArgumentError(text, "invalid argument")


def _parse(address: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    kind, _, rest = address.partition(":")
    if kind == "unix" and rest:
        return socket.AF_UNIX, rest
    host, _, port = rest.rpartition(":")
    if kind == "tcp" and host and port.isdecimal() and int(port) < 1 << 16:
        return socket.AF_INET, (host, int(port))
    raise _error(f"{address}: is no address; unix:/path and tcp:host:port are")


def _read_token(address: str, file: Path | None) -> bytes | None:
    """Return the token of an address; None for a Unix socket without one."""
    advice = (
        "a token keeps others out: make one by `openssl rand -hex 32 > token`, and give both processes this file "
        "(--token)"
    )
    if file is None:
        if address.startswith("unix:"):
            return None
        raise _error(f"{address}: has no token; {advice}")
    with file.open("rb") as stream:
        token = stream.read(MOST_TOKEN + 1).rstrip()
    if not LEAST_TOKEN <= len(token) <= MOST_TOKEN:
        raise _error(
            f"{file}: the token has {len(token)} characters, {LEAST_TOKEN} to {MOST_TOKEN} are possible; {advice}"
        )
    return token


def _sign(token: bytes, side: bytes, other: bytes, own: bytes) -> bytes:
    """Return what one end signs: which end it is, what the other one has made up, and what it has made up itself."""
    return hmac.digest(token, side + other + own, "sha256")


def _opening() -> bytes:
    return MAGIC + os.urandom(OPENING - len(MAGIC))


class _Callers:
    """Those who have called a listener and have yet to prove the token.

    All are listened to at once, so that nobody waits for one who is silent. One who cannot prove it is dropped; others
    may still come.
    """

    def __init__(self, listener: socket.socket, token: bytes) -> None:
        self._listener = listener
        self._token = token
        self._pending: dict[socket.socket, tuple[bytes, bytearray, float]] = {}  # what we sent, what came, since when
        self.problem = ""

    def _accept(self) -> None:
        try:
            caller, _ = self._listener.accept()
        except OSError:
            return
        caller.setblocking(False)
        opening = _opening()
        try:
            caller.send(opening)
        except OSError:
            caller.close()
            return
        self._pending[caller] = (opening, bytearray(), time.monotonic())
        if len(self._pending) > MOST_CALLERS:
            self._drop(next(iter(self._pending)))

    def _drop(self, caller: socket.socket) -> None:
        del self._pending[caller]
        caller.close()

    def _is_proven(self, caller: socket.socket) -> bool:
        """Take what a caller has sent; drop one who cannot prove the token."""
        own, received, _ = self._pending[caller]
        try:
            part = caller.recv(OPENING + PROOF - len(received))
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        received += part
        opening, proof = bytes(received[:OPENING]), bytes(received[OPENING:])
        if not part or not opening.startswith(MAGIC[: len(opening)]):
            if part:
                self._note_no_token()
            self._drop(caller)
            return False
        if len(proof) < PROOF:
            return False
        is_same = hmac.compare_digest(proof, _sign(self._token, b"c", own, opening))
        try:
            # An answer that is nobody's signature tells one who has another token that he has.
            caller.send(_sign(self._token, b"s", opening, own) if is_same else bytes(PROOF))
        except OSError:
            is_same = False
        if not is_same:
            self.problem = "a process that called has another token: give both the same token file"
            self._drop(caller)
        return is_same

    def _note_no_token(self) -> None:
        self.problem = self.problem or "a process that called sent no token: give both the same token file"

    def wait(self, deadline: float) -> socket.socket:
        """Return the first that has proven the token."""
        while (now := time.monotonic()) < deadline:
            ready, _, _ = select.select([self._listener, *self._pending], [], [], min(deadline - now, 0.1))
            for caller in [one for one in ready if one in self._pending]:
                if self._is_proven(caller):
                    del self._pending[caller]
                    return caller
            for caller in [one for one, (_, _, since) in self._pending.items() if now - since > PROOF_TIME]:
                self._note_no_token()
                self._drop(caller)
            if self._listener in ready:
                self._accept()
        raise TimeoutError("nobody has come" + (f"; {self.problem}" if self.problem else ""))

    def close(self) -> None:
        for caller in list(self._pending):
            self._drop(caller)


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionError("the other process has ended the connection")
        received += part
    return received


def _prove(connection: socket.socket, token: bytes, address: str) -> None:
    """Prove the token to the end that was called, which then proves it too."""
    own = _opening()
    connection.sendall(own)
    other = _receive(connection, OPENING)
    if not other.startswith(MAGIC):
        raise _error(f"{address}: whoever waits there is no `intarsia decode` with a token")
    connection.sendall(_sign(token, b"c", other, own))
    if not hmac.compare_digest(_receive(connection, PROOF), _sign(token, b"s", own, other)):
        raise _error(f"{address}: whoever waits there has another token: give both processes the same token file")


def _has_opening(connection: socket.socket) -> bool:
    """Return true if what the other end has sent begins with what one who has a token sends first."""
    for _ in range(2):  # the first may say that the other end has ended the connection, with this unread
        with contextlib.suppress(OSError):
            first = connection.recv(len(MAGIC), socket.MSG_PEEK | socket.MSG_DONTWAIT)
            # The runtime may have taken the first byte for the answer to a sequence.
            return first.startswith((MAGIC, MAGIC[1:]))
    return False


def check_timeout(timeout: float) -> None:
    """Refuse what is no time, or longer than any wait."""
    if not 0 < timeout <= LONGEST:  # NaN is neither
        raise _error(f"a timeout of {timeout:g} s; more than 0, up to {LONGEST:g} are possible")


@contextlib.contextmanager
def accepted(address: str, timeout: float, token_file: Path | None = None) -> Iterator[socket.socket]:
    """Wait for one connection to an address, of one who has the token."""
    check_timeout(timeout)
    family, place = _parse(address)
    token = _read_token(address, token_file)
    deadline = time.monotonic() + timeout
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        if family == socket.AF_INET:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.settimeout(timeout)
        listener.bind(place)
        try:
            if token is None:
                Path(place).chmod(0o600)  # before anybody can connect
                listener.listen(1)
                connection, _ = listener.accept()
            else:
                listener.listen(MOST_CALLERS)
                listener.setblocking(False)
                callers = _Callers(listener, token)
                with contextlib.closing(callers):
                    connection = callers.wait(deadline)
        finally:
            if isinstance(place, str):
                Path(place).unlink(missing_ok=True)
    with connection:
        connection.settimeout(timeout)
        if token is None and select.select([connection], [], [], PEEK_TIME)[0] and _has_opening(connection):
            raise _error(f"{address}: the process that called has a token: give --token here too")
        yield connection


@contextlib.contextmanager
def connected(address: str, timeout: float, token_file: Path | None = None) -> Iterator[socket.socket]:
    """Connect to an address where another process waits, or will, that has the token."""
    check_timeout(timeout)
    family, place = _parse(address)
    token = _read_token(address, token_file)
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
                raise _error(f"{address}: nobody waits there: {error}: start `intarsia decode` first") from error
            time.sleep(0.05)
    with connection:
        if token is not None:
            try:
                _prove(connection, token, address)
            except ConnectionError as error:
                raise _error(f"{address}: whoever waits there has ended the connection: has it --token too?") from error
        try:
            yield connection
        except Exception as error:
            if token is None and _has_opening(connection):
                raise _error(f"{address}: whoever waits there asks for a token: give --token here too") from error
            raise
