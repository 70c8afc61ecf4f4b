# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes that wait to be measured, one for each engine.

All are alive at once, but only the one that is asked runs: the others are stopped with SIGSTOP, so that no spinning
thread pool takes time from the measured engine.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any


class WorkerError(RuntimeError):
    """A worker did not start, died, or answered with an error; the message has the end of its log."""


class Worker:
    """One engine in its own process.

    Parameters
    ----------
    name
        The name in reports.
    command
        The program and its arguments. It speaks the protocol of bench/common/Worker.h.
    log
        File for the process's standard error.
    threads
        Number of threads, set for every runtime through its environment variable.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        threads: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        variables = dict(os.environ)
        for key in ("ITX_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            variables[key] = str(threads)
        variables.update(environment or {})
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=variables,
                start_new_session=True,
            )
        self._buffer = b""
        try:
            self.ready: dict[str, Any] = self._answer(timeout_s=900)
        except WorkerError:
            self.close()
            raise
        self._pause()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def time(self, calls: int, warmup: int) -> list[float]:
        """Returns the milliseconds of each of `calls` calls, after `warmup` calls that do not count."""
        return [float(ms) for ms in self._ask(f"time {calls} {warmup}")["ms"]]

    def save(self, path: Path) -> None:
        """Writes the last result as raw f32."""
        self._ask(f"save {path}")

    def ask(self, line: str, timeout_s: float = 300) -> dict[str, Any]:
        """Returns the answer to a command that only some workers know."""
        return self._ask(line, timeout_s)

    def close(self) -> None:
        """Ends the process and its children."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()

    def _ask(self, line: str, timeout_s: float = 300) -> dict[str, Any]:
        os.killpg(self._process.pid, signal.SIGCONT)
        assert self._process.stdin
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(self._failure("has ended")) from None
        answer = self._answer(timeout_s)
        self._pause()
        if "error" in answer:
            raise WorkerError(f"{self.name}: {answer['error']}")
        return answer

    def _pause(self) -> None:
        os.killpg(self._process.pid, signal.SIGSTOP)

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        assert self._process.stdout
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise WorkerError(self._failure(f"gave no answer within {timeout_s:.0f} s"))
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                raise WorkerError(self._failure("has ended"))
            self._buffer += piece
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)

    def _failure(self, what: str) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return f"{self.name} {what}: {' / '.join(lines[-3:]) or 'it printed nothing'}"
