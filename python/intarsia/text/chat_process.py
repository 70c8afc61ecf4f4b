# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Render chat templates in a process of limited time and memory (decision 100)."""

from __future__ import annotations

import atexit
import importlib.util
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ..support.errors import Error, InvalidArgumentError, NotFoundError

#: Seconds of processor time that compiling and rendering a template may take. The longest of 47 templates of popular
#: models takes 0.06 s to compile, and 0.01 s for a hundred messages.
PROCESSOR_SECONDS = 1.0
#: Seconds until a process that does not answer is given up, whatever it waits for.
_WALL_SECONDS = 30.0
#: Bytes that compiling and rendering may take.
_MEMORY_BYTES = 256 * 1024 * 1024
#: The longest rendered text: a letter is a quarter of a token or more. A letter takes up to four bytes, so that
#: requests and replies may have four times as many.
MOST_LETTERS = 16 * 1024 * 1024

#: Letters of a template's own messages that are shown.
_MOST_MESSAGE = 1000

_WORKER = Path(__file__).with_name("chat_worker.py")


class _Stopped(Exception):
    """The process has ended or was ended; the message says why."""


class _Process:
    """One process of `chat_worker`."""

    def __init__(self) -> None:
        if importlib.util.find_spec("jinja2") is None:
            raise NotFoundError(
                "chat templates need Jinja2, which is not installed: pip install 'intarsia[text]'", "not found"
            )
        if not sys.executable or getattr(sys, "frozen", False):
            raise Error("chat templates are rendered in a Python process, and this program knows no Python to start")
        limits = [str(_MEMORY_BYTES), str(PROCESSOR_SECONDS)]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WORKER), *limits, *filter(None, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the program that waits
        )
        for pipe in (self._process.stdin, self._process.stdout):
            os.set_blocking(pipe.fileno(), False)

    def ask(self, request: bytes) -> tuple[bytes, str]:
        """Return the letter and the text of the reply."""
        deadline = time.monotonic() + _WALL_SECONDS
        self._write(struct.pack("<q", len(request)) + request, deadline)
        head = self._read(9, deadline)
        (length,) = struct.unpack("<q", head[1:])
        if not 0 <= length <= 4 * MOST_LETTERS:
            raise _Stopped("gives no reply that can be read")
        text = self._read(length, deadline).decode("utf-8", "surrogatepass")
        return head[:1], text

    def has_ended(self) -> bool:
        """Return True if the process does not run any more."""
        return self._process.poll() is not None

    def end(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()

    def _wait(self, pipe: Any, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(pipe, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise _Stopped(f"does not answer within {_WALL_SECONDS:.0f} seconds")

    def _write(self, data: bytes, deadline: float) -> None:
        left = memoryview(data)
        while left:
            self._wait(self._process.stdin, select.POLLOUT, deadline)
            try:
                left = left[self._process.stdin.write(left[: 1 << 16]) or 0 :]
            except BrokenPipeError:
                raise self._ended() from None

    def _read(self, count: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < count:
            self._wait(self._process.stdout, select.POLLIN, deadline)
            piece = self._process.stdout.read(count - len(data))
            if piece == b"":
                raise self._ended()
            data += piece or b""
        return bytes(data)

    def _ended(self) -> _Stopped:
        """Return why the process has ended."""
        code = self._process.wait()
        if code == -signal.SIGPROF:
            return _Stopped(f"takes longer than {PROCESSOR_SECONDS:g} s of processor time: do its loops ever end?")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return _Stopped(f"ends the process that renders it ({how}): it may be nested too deep, or need too much memory")


class Renderer:
    """Renders templates one after another in a process that is started when it is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: _Process | None = None

    def render(self, request: dict[str, Any]) -> str:
        """Return the text of a request, a `dict` of what `chat_worker.render` reads.

        Raises
        ------
        InvalidArgumentError
            The template is wrong, refuses the messages, or takes more than its limits.
        """
        data = pickle.dumps({**request, "most_letters": MOST_LETTERS})
        if len(data) > 4 * MOST_LETTERS:
            raise _error(f"the messages of a chat take {len(data)} bytes, they may take {4 * MOST_LETTERS}")
        with self._lock:
            was_running = self._process is not None
            letter, text = self._ask(data)
            if letter == b"M" and was_running:  # what earlier templates left may have been in the way
                letter, text = self._ask(data)
        if letter == b"T":
            return text
        if len(text) > _MOST_MESSAGE:
            text = f"{text[:_MOST_MESSAGE]} … ({len(text)} letters)"
        if letter == b"C":
            raise _error(text)
        if letter == b"M":
            text = f"it takes more than {_MEMORY_BYTES >> 20} MiB of memory to be {text}"
        raise _error(f"the chat template refuses these messages: {text}")

    def end(self) -> None:
        """End the process; the next template starts another one."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def after_fork(self) -> None:
        """Leave the process to the parent, in its child."""
        self._lock, self._process = threading.Lock(), None

    def _ask(self, data: bytes) -> tuple[bytes, str]:
        if self._process is not None and self._process.has_ended():  # between two requests, by someone else
            self.end()
        if self._process is None:
            self._process = _Process()
        try:
            letter, text = self._process.ask(data)
            if letter == b"M":
                self.end()
            return letter, text
        except _Stopped as stopped:
            self.end()
            raise _error(f"the chat template {stopped}") from None
        except BaseException:  # an interrupt leaves half of a reply in the pipe
            self.end()
            raise


def _error(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, "invalid argument")


renderer = Renderer()
atexit.register(renderer.end)
os.register_at_fork(after_in_child=renderer.after_fork)
