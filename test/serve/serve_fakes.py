# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model without a model, for tests of the server: the engine writes what the test says."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from intarsia.generation import engine
from intarsia.support.errors import BusyError, CacheFullError


@dataclass(slots=True)
class Event:
    kind: int
    request: int
    sample: int = 0
    token: int = -1
    logprob: float = 0.0
    top: list[tuple[int, float]] = field(default_factory=list)
    finish: int = 0
    step: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0
    waited_seconds: float = 0.0
    prompt_seconds: float = 0.0
    message: str | None = None


@dataclass
class _Running:
    number: int
    request: Any
    writers: list[Iterator[int]]
    counts: list[int]
    finished: list[bool]


class FakeEngine:
    """Gives each sample the tokens of a script, one a step.

    Parameters
    ----------
    script : callable
        Returns the tokens of a sample, given the request and the sample's number; they end like a text does.
    step_seconds : float
        Time of a step.
    waiting : int
        Requests that may run; one more is refused.
    pages : int
        Pages of 16 tokens that a prompt may have.
    late_seconds : float
        How long it takes until the number of a request is known.
    """

    def __init__(
        self,
        script: Callable[[Any, int], Iterator[int]],
        step_seconds: float = 0.001,
        waiting: int = 10_000,
        pages: int = 1000,
        late_seconds: float = 0.0,
    ) -> None:
        if late_seconds:
            self.submit_async = self._submit_late
        self._late_seconds = late_seconds
        self._script, self._step_seconds, self._most = script, step_seconds, waiting
        self._pages = pages
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._running: dict[int, _Running] = {}
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK)
        self._numbers = 0
        self._step = 0
        self._generated = 0
        self._has_ended = False
        self.submitted: list[Any] = []
        self.cancelled: list[int] = []
        self.paused = threading.Event()
        self.lost: Exception | None = None
        self.info: dict[str, Any] = {}
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def submit(self, request: Any) -> int:
        if self.lost is not None:
            raise self.lost
        with self._lock:
            if len(self._running) >= self._most:
                raise BusyError(f"{len(self._running)} requests wait already", "busy")
            if len(request.prompt) > 16 * self._pages:
                raise CacheFullError(
                    f"the prompt needs {-(-len(request.prompt) // 16)} pages, there are {self._pages}",
                    "cache full",
                )
            self._numbers += 1
            writers = [iter(self._script(request, sample)) for sample in range(request.samples)]
            self._running[self._numbers] = _Running(
                self._numbers, request, writers, [0] * request.samples, [False] * request.samples
            )
            self.submitted.append(request)
        self._wake.set()
        return self._numbers

    async def _submit_late(self, request: Any) -> int:
        """Give the number when events have come already, as an engine in another process may."""
        number = self.submit(request)
        await asyncio.sleep(self._late_seconds)
        return number

    def cancel(self, number: int) -> None:
        with self._lock:
            self.cancelled.append(number)
            running = self._running.pop(number, None)
            if running is not None:
                for sample, done in enumerate(running.finished):
                    if not done:
                        self._events.append(Event(engine.FINISHED, number, sample, finish=engine.CANCELLED))
                self._signal()

    def poll(self, timeout: float | None = 0.0) -> list[Event]:
        if self.lost is not None:
            raise self.lost
        with self._lock:
            events, self._events = self._events, []
            try:
                os.eventfd_read(self._descriptor)
            except BlockingIOError:
                pass
        return events

    def fileno(self) -> int:
        return self._descriptor

    def stats(self) -> dict[str, Any]:
        zeros = ("kept_tokens", "recomputed_sequences", "moved_sequences", "draft_tokens", "accepted_tokens")
        zeros += ("lost_sequences", "preemptions")
        with self._lock:
            used = sum(-(-len(one.request.prompt) // 16) for one in self._running.values())
            return {
                **dict.fromkeys(zeros, 0),
                "waiting": 0,
                "running": len(self._running),
                "pages": self._pages,
                "free_pages": self._pages - used,
                "steps": self._step,
                "prompt_tokens": sum(len(one.prompt) for one in self.submitted),
                "cached_tokens": 0,
                "generated_tokens": self._generated,
                "step_seconds": 0.0,
                "engine_seconds": 0.0,
            }

    def close(self) -> None:
        self._has_ended = True
        self._wake.set()

    def lose(self, message: str) -> None:
        """Be gone, as a worker that has died."""
        self.lost = RuntimeError(message)
        self._signal()

    def _signal(self) -> None:
        os.eventfd_write(self._descriptor, 1)

    def _run(self) -> None:
        while not self._has_ended:
            if not self._running or self.paused.is_set():
                self._wake.wait(0.01)
                self._wake.clear()
                continue
            time.sleep(self._step_seconds)
            with self._lock:
                self._step += 1
                for running in list(self._running.values()):
                    self._advance(running)
                if self._events:
                    self._signal()

    def _advance(self, running: _Running) -> None:
        request = running.request
        for sample, writer in enumerate(running.writers):
            if running.finished[sample]:
                continue
            common = {"step": self._step, "prompt_tokens": len(request.prompt)}
            count = running.counts[sample]
            if count == 0 and sample == 0 and request.prompt_logprobs is not None:
                for token in list(request.prompt)[1:]:
                    self._events.append(
                        Event(engine.PROMPT_TOKEN, running.number, 0, token, -1.5, [(token, -1.5)], **common)
                    )
            token = next(writer, None)
            is_full = request.max_tokens is not None and count >= request.max_tokens
            if token is None or token in request.ends or is_full:
                running.finished[sample] = True
                finish = engine.LENGTH if is_full else engine.END
                end = -1 if is_full or token is None else token
                self._events.append(
                    Event(engine.FINISHED, running.number, sample, end, finish=finish, tokens=count, **common)
                )
                continue
            running.counts[sample] += 1
            self._generated += 1
            top = [(token, -0.5), (token + 1, -1.5)][: request.logprobs or 0]
            self._events.append(
                Event(engine.TOKEN, running.number, sample, token, -0.5, top, tokens=count + 1, **common)
            )
        if all(running.finished):
            del self._running[running.number]
