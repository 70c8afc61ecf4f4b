# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Connect with a worker that runs already."""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import struct
from pathlib import Path

from ..support.errors import Error, InvalidArgumentError

#: What both ends of a proof send first: "itxworld" in ASCII, the version of the module ABI, zero, and eight words that
#: are made up (lib/Runtime/Collectives/Proof.h).
_OPENING = struct.Struct("<QII32s")
_MAGIC = 0x646C726F77787469


class WorkerLostError(Error):
    """The worker has ended, hangs, or cannot be reached."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "worker lost")


def connect(address: str, token: str | os.PathLike[str] | None, seconds: float) -> socket.socket:
    """Return a connection with the worker at ``unix:PATH``, or at ``tcp:HOST:PORT`` with a token."""
    scheme, _, rest = address.partition(":")
    try:
        if scheme == "unix":
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(seconds)
            connection.connect(rest)
            return connection
        if scheme == "tcp":
            return _connect_by_port(address, token, seconds)
    except OSError as error:
        raise WorkerLostError(f"there is no worker at {address}: {error}") from error
    raise InvalidArgumentError(
        f"'{address}' is no address of a worker: unix:PATH and tcp:HOST:PORT are possible", "invalid argument"
    )


def _connect_by_port(address: str, token: str | os.PathLike[str] | None, seconds: float) -> socket.socket:
    host, _, port = address.removeprefix("tcp:").rpartition(":")
    if token is None or not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidArgumentError(
            f"{address}: a worker at a port is tcp:HOST:PORT, and has a token: the file that it was started with",
            "invalid argument",
        )
    secret = Path(token).read_bytes().rstrip()
    connection = socket.create_connection((host.strip("[]"), int(port)), timeout=seconds)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _prove(connection, address, secret)
    except BaseException:
        connection.close()
        raise
    return connection


def _prove(connection: socket.socket, address: str, secret: bytes) -> None:
    """Prove that this end knows the secret, and check that the other one does; the secret is not sent."""
    magic, version, _, theirs = _OPENING.unpack(_receive(connection, _OPENING.size))
    if magic != _MAGIC:
        raise WorkerLostError(f"what listens at {address} is no worker")
    ours = secrets.token_bytes(32)
    # Versions are compared by the messages that follow.
    connection.sendall(_OPENING.pack(_MAGIC, version, 0, ours))
    connection.sendall(hmac.digest(secret, b"c" + theirs + ours, "sha256"))
    if not hmac.compare_digest(_receive(connection, 32), hmac.digest(secret, b"s" + ours + theirs, "sha256")):
        raise WorkerLostError(f"the worker at {address} has another token: give both ends the same file")


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionResetError("it has closed the connection")
        data += part
    return data
