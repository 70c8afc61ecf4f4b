# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process of a worker: how it is started, what it writes, and how it has ended."""

from __future__ import annotations

import collections
import logging
import os
import signal
import socket
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from typing import IO, Any

from ..generation.engine import Mock
from ..support.tools import find_tool
from .worker_connection import WorkerLostError

#: What a worker writes to its standard error goes here, line by line.
_log = logging.getLogger("intarsia.worker")

#: The last lines of a worker's standard error that are part of why it has ended.
_LAST_LINES = 20
#: The longest such line, in bytes.
_LONGEST_LINE = 2000
#: How long a worker may take to end when its connection is closed, before it is killed.
_END_SECONDS = 2.0


def command_of(
    module: str | os.PathLike[str] | Mock, options: Mapping[str, Any], devices: Sequence[str] = ()
) -> list[str]:
    """Return the command that starts a worker, but for where it listens; options that are None are left out."""
    served = f"--mock={_mock_text(module)}" if isinstance(module, Mock) else os.fspath(module)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]
    return [str(find_tool("intarsia-worker")), served, *flags, *(f"--device={name}" for name in devices)]


def _mock_text(mock: Mock) -> str:
    """Return what stands in for a model as an option of intarsia-worker."""
    names = ("vocabulary", "context", "page_tokens", "stop_token", "step_seconds", "token_seconds", "seed")
    return ",".join(f"{name.replace('_', '-')}={getattr(mock, name)}" for name in names)


def kill_all() -> None:
    """End all workers of this process at once, also those that are not ready yet."""
    for process in list(_processes):
        process.kill()


class WorkerProcess:
    """A worker that serves the other end of a connection.

    Parameters
    ----------
    command : list of str
        The command, as `command_of` gives it.
    connection : socket
        The worker's end.
    """

    def __init__(self, command: list[str], connection: socket.socket) -> None:
        try:
            self._process = subprocess.Popen(
                [*command, f"--listen=fd:{connection.fileno()}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[connection.fileno()],
                start_new_session=True,  # Ctrl-C is for this process, which ends the worker when it is done
            )
        except OSError as error:
            raise WorkerLostError(f"the worker does not start: {error}") from error
        _processes.add(self)
        os.set_blocking(self.errors.fileno(), False)
        self._lines: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
        self._line = b""

    @property
    def number(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def errors(self) -> IO[bytes]:
        """What the process writes to its standard error."""
        return self._process.stderr

    def read_lines(self) -> bool:
        """Take what the process has written; return False at its end."""
        data = self.errors.read(1 << 16)
        *lines, self._line = (self._line + (data or b"")).split(b"\n")
        if len(self._line) > _LONGEST_LINE:
            lines, self._line = [*lines, self._line], b""
        for line in lines:
            text = line[:_LONGEST_LINE].decode(errors="replace")
            self._lines.append(text)
            _log.info("%s", text)
        return data != b""

    def has_ended(self) -> bool:
        """Return whether the process does not run any more."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def end(self) -> str:
        """Wait until the process has ended, whose connection is closed; return how it has ended, and its last words."""
        try:
            code = self._process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        for _ in range(_LAST_LINES):
            self.read_lines()
        self.errors.close()
        how = f"was ended by signal {-code} ({_signal_name(-code)})" if code < 0 else f"ended with status {code}"
        last = "; ".join(line for line in self._lines if line)
        return how + (f"; its last words: {last}" if last else "")


_processes: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
