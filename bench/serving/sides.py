# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sides of a comparison: servers behind a port, and engines without one. All but the measured one are stopped."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from harness.workers import Worker

from serving import measures
from serving.client import HttpTarget
from serving.requests import Request
from serving.workloads import Phases, Workload, send

LONGEST_ROUND_S = 1800.0


class SideError(RuntimeError):
    """A server did not start or has ended; the message has the end of its log."""


class Side(Protocol):
    """Something that runs rounds of a workload."""

    name: str
    description: str

    def run(self, workload: Workload, round: int) -> Phases:
        """Runs one round after a request that does not count, and stops the processes again."""

    def close(self) -> None: ...


class Server:
    """A process that serves HTTP, and those that it starts.

    Parameters
    ----------
    command
        The program and its arguments; `{port}` stands for the port.
    cores
        The cores that it may use, all of this process's without.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        cores: Sequence[int] | None = None,
        start_s: float = 300,
    ) -> None:
        self.name, self.log, self.port = name, log, free_port()
        words = [str(word).replace("{port}", str(self.port)) for word in command]
        self.description = " ".join(words)
        pinned = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
        log.parent.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*pinned, *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | dict(environment or {}),
                start_new_session=True,
            )
        self.bytes = 0  # the most resident memory in the last round
        try:
            self._wait_until_healthy(start + start_s)
            self.start_s = time.perf_counter() - start
            self._target = HttpTarget(self.port)
        except BaseException:
            self.close()
            raise
        self._signal(signal.SIGSTOP)

    def run(self, workload: Workload, round: int) -> Phases:
        async def rounds() -> Phases:
            await send(self._target, [Request(list(range(100, 132)), 4)])
            return await asyncio.wait_for(workload.run(self._target, round), LONGEST_ROUND_S)

        self._signal(signal.SIGCONT)
        watch = _Watch(self)
        try:
            return run_loop(rounds())
        finally:
            self.bytes = watch.stop()
            if self._process.poll() is not None:
                raise SideError(self._failure("has ended"))
            self._signal(signal.SIGSTOP)

    def close(self) -> None:
        """Ends the processes."""
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)
        self._process.wait()

    def resident_bytes(self) -> int:
        """Returns the memory that the processes have, in common with others or not."""
        total = 0
        for process in self._processes():
            try:
                total += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
            except OSError:
                continue
        return total

    def _wait_until_healthy(self, deadline: float) -> None:
        while True:
            if self._process.poll() is not None:
                raise SideError(self._failure("has ended"))
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            if time.perf_counter() > deadline:
                raise SideError(self._failure("is not healthy"))
            time.sleep(0.02)

    def _processes(self) -> list[int]:
        """Returns the process and all that it started, which may be in groups of their own."""
        children: dict[int, list[int]] = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                except OSError:
                    continue
                children.setdefault(parent, []).append(int(folder.name))
        found = [self._process.pid]
        for process in found:
            found += children.get(process, [])
        return found

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes():
            try:
                os.kill(process, number)
            except ProcessLookupError:
                continue

    def _failure(self, what: str) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return f"{self.name} {what}: {' / '.join(lines[-3:]) or 'it printed nothing'}"


class InProcess:
    """An engine behind bench/serving/in_process.py, which runs the same workloads without HTTP."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path, threads: int, **options: Any) -> None:
        self.name = name
        self._worker = Worker(name, command, log, threads, **options)
        self.description = json.dumps(self._worker.ready["settings"])

    def run(self, workload: Workload, round: int) -> Phases:
        task = {"workload": type(workload).__name__.lower(), "options": dataclasses.asdict(workload), "round": round}
        return measures.from_json(self._worker.ask(f"run {json.dumps(task)}", LONGEST_ROUND_S)["phases"])

    def close(self) -> None:
        self._worker.close()


class _Watch:
    """Looks at the memory of a server while it works, five times a second."""

    def __init__(self, server: Server) -> None:
        self._server, self._most, self._ended = server, 0, threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def stop(self) -> int:
        """Returns the most that was seen."""
        self._ended.set()
        self._thread.join()
        return self._most

    def _look(self) -> None:
        while True:
            self._most = max(self._most, self._server.resident_bytes())
            if self._ended.wait(0.2):
                return


def run_loop(coroutine: Coroutine[Any, Any, Phases]) -> Phases:
    """Runs a coroutine in uvloop, whose callbacks cost half of asyncio's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(coroutine)
    return uvloop.run(coroutine)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
