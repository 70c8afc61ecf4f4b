# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Connections that prompts are handed over by: who gets one, and who does not."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from intarsia import InvalidArgumentError
from intarsia.__main__ import main
from intarsia.deployment import hand_over
from intarsia.deployment.hand_over import MAGIC, accepted, connected

TOKEN = "a token for tests"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


@pytest.fixture
def address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp:127.0.0.1:{free.getsockname()[1]}"


class Waiting:
    """One who waits for a connection, in a thread, and sends a byte to whoever gets it."""

    def __init__(self, address: str, timeout: float, token: Path | None) -> None:
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._wait, args=(address, timeout, token))
        self.thread.start()

    def _wait(self, *arguments: object) -> None:
        try:
            with accepted(*arguments) as connection:
                connection.sendall(b"x")
        except Exception as error:
            self.error = error

    def end(self) -> None:
        self.thread.join(30)
        assert not self.thread.is_alive()


@pytest.fixture
def waits() -> Iterator[Callable[..., Waiting]]:
    made = []

    def start(*arguments: object) -> Waiting:
        made.append(Waiting(*arguments))
        return made[-1]

    yield start
    for one in made:
        one.end()


def stranger(address: str) -> tuple[socket.socket, bytes]:
    """Connect without a token; return the connection and what the other end sends first."""
    host, port = address.removeprefix("tcp:").split(":")
    deadline = time.monotonic() + 10
    while True:
        connection = socket.socket()
        try:
            connection.connect((host, int(port)))
            break
        except ConnectionRefusedError:
            connection.close()
            assert time.monotonic() < deadline
            time.sleep(0.01)
    connection.settimeout(10)
    return connection, take(connection, 32)


def take(connection: socket.socket, count: int) -> bytes:
    """Return so many bytes, or those before the end."""
    taken = b""
    while len(taken) < count and (part := connection.recv(count - len(taken))):
        taken += part
    return taken


def test_strangers_neither_delay_nor_learn(address: str, token: Path, waits: Callable[..., Waiting]) -> None:
    begin = time.monotonic()
    one = waits(address, 30, token)
    silent = [stranger(address)[0] for _ in range(20)]
    talking, _ = stranger(address)
    talking.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert talking.recv(1) == b""
    guessing, opening = stranger(address)
    assert opening.startswith(MAGIC)
    own = MAGIC + os.urandom(16)
    guessing.sendall(own)
    guessing.settimeout(0.3)
    with pytest.raises(TimeoutError):
        guessing.recv(1)  # nothing is signed before the caller has signed
    guessing.sendall(b"x" * 32)
    assert take(guessing, 33) == bytes(32)
    with connected(address, 10, token) as connection:
        assert connection.recv(1) == b"x"
    one.end()
    assert one.error is None
    assert time.monotonic() - begin < 5
    for each in (*silent, talking, guessing):
        each.close()


def test_the_proof_is_hmac_of_both_nonces(address: str, token: Path, waits: Callable[..., Waiting]) -> None:
    """A caller written by hand: the waiting end takes its proof, and gives its own."""
    waits(address, 30, token)
    caller, opening = stranger(address)
    own = MAGIC + bytes(range(16))

    def signed(text: bytes) -> bytes:
        return hmac.new(TOKEN.encode(), text, hashlib.sha256).digest()

    caller.sendall(own + signed(b"c" + opening + own))
    assert take(caller, 33) == signed(b"s" + own + opening) + b"x"
    caller.close()


def test_another_token(address: str, token: Path, tmp_path: Path, waits: Callable[..., Waiting]) -> None:
    other = tmp_path / "other"
    other.write_text("another token, as long")
    one = waits(address, 1, token)
    with pytest.raises(InvalidArgumentError, match="has another token"), connected(address, 10, other):
        pass
    one.end()
    assert "nobody has come; a process that called has another token" in str(one.error)


def test_one_who_waits_without_the_token_is_found_out(address: str, token: Path) -> None:
    """The caller takes nobody for the other process who only has its port."""
    host, port = address.removeprefix("tcp:").split(":")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
        listener.listen(1)

        def answer() -> None:
            caller, _ = listener.accept()
            with caller:
                caller.sendall(MAGIC + os.urandom(16))
                caller.recv(64, socket.MSG_WAITALL)
                caller.sendall(os.urandom(32))

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(InvalidArgumentError, match="has another token"), connected(address, 10, token):
            pass
        thread.join()


def test_addresses_need_a_token(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "short").write_text("short\n")
    for more, message in (
        ([], "tcp:127.0.0.1:1: has no token; a token keeps others out: make one by `openssl rand -hex 32 > token`"),
        ([f"--token={tmp_path / 'short'}"], "the token has 5 characters, 16 to 4096 are possible"),
        ([f"--token={tmp_path / 'none'}"], "No such file or directory"),
    ):
        for use in (accepted, connected):
            token = Path(more[0].removeprefix("--token=")) if more else None
            with pytest.raises((InvalidArgumentError, OSError)) as refused, use("tcp:127.0.0.1:1", 1, token):
                pass
            assert message in str(refused.value)
    with pytest.raises(InvalidArgumentError, match="nowhere: is no address"), connected("nowhere", 1):
        pass
    with pytest.raises(SystemExit, match="0"):
        main(["decode", "--help"])
    assert "--token FILE" in capsys.readouterr().out


def test_a_unix_socket_is_for_its_user(tmp_path: Path, waits: Callable[..., Waiting]) -> None:
    path = tmp_path / "socket"
    mask = os.umask(0)
    try:
        waits(f"unix:{path}", 10, None)
        deadline = time.monotonic() + 10
        while not path.exists() or stat.S_IMODE(path.stat().st_mode) != 0o600:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.umask(mask)
    with connected(f"unix:{path}", 10) as connection:
        assert connection.recv(1) == b"x"


@pytest.mark.parametrize("sent", [b"ITXCACHE", b""])
def test_a_caller_without_the_token_of_a_unix_socket(
    tmp_path: Path, token: Path, waits: Callable[..., Waiting], monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(hand_over, "PROOF_TIME", 0.3)
    one = waits(f"unix:{tmp_path / 'socket'}", 1, token)
    for taken in (0, 1):  # what the runtime reads as an answer

        def send(taken: int = taken) -> None:
            with connected(f"unix:{tmp_path / 'socket'}", 10) as connection:
                assert len(connection.recv(taken)) == taken
                connection.sendall(sent)
                time.sleep(0.4)
                connection.sendall(b"more")
                raise ConnectionError("no answer")

        with pytest.raises(InvalidArgumentError, match="whoever waits there asks for a token: give --token here too"):
            send()
    one.end()
    assert "nobody has come; a process that called sent no token: give both the same token file" in str(one.error)


def test_a_caller_with_a_token_where_none_is_asked_for(
    tmp_path: Path, token: Path, waits: Callable[..., Waiting]
) -> None:
    one = waits(f"unix:{tmp_path / 'socket'}", 10, None)
    with (
        pytest.raises(
            InvalidArgumentError, match="socket: whoever waits there has ended the connection: has it --token"
        ),
        connected(f"unix:{tmp_path / 'socket'}", 10, token),
    ):
        pass
    one.end()
    assert "socket: the process that called has a token: give --token here too" in str(one.error)


def test_other_errors_of_a_connection_stay(tmp_path: Path, waits: Callable[..., Waiting]) -> None:
    waits(f"unix:{tmp_path / 'socket'}", 10, None)
    with pytest.raises(ZeroDivisionError), connected(f"unix:{tmp_path / 'socket'}", 10):
        _ = 1 // 0


@pytest.mark.parametrize("timeout", [float("nan"), -1.0, 0.0, float("inf"), 1e300])
def test_timeouts_that_are_no_time(timeout: float) -> None:
    for use in (accepted, connected):
        with (
            pytest.raises(InvalidArgumentError, match=r"a timeout of .* s; more than 0, up to 1e\+06 are possible"),
            use("unix:x", timeout),
        ):
            pass
