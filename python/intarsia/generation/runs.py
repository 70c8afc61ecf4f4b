# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requests of one engine whose callers each wait for their own events."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from ..support.errors import from_status
from .engine import CANCELLED, END, FAILED, FINISHED, TOKEN, Engine, Request
from .writer import Writer


class Runs:
    """Hands the events of an engine to the callers that wait for them, which may be in several threads.

    Parameters
    ----------
    engine : Engine
        Nothing else takes its events.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._runs: dict[int, _Run] = {}  # by request
        self._changed = threading.Condition()
        self._is_polling = False  # by a thread that waits in the engine
        self._readers: set[asyncio.AbstractEventLoop] = set()

    def run(self, writers: Sequence[Writer], requests: Sequence[Request]) -> Iterator[None]:
        """Generate texts together; yield after every step that has added to them.

        Requests that have not ended when the iterator is closed are cancelled.
        """
        run = _Run()
        try:
            self._submit(run, writers, requests)
            while run.open:
                self._wait(run)
                while run.steps:
                    self._take(run)
                    yield
        finally:
            self._leave(run)

    async def run_async(self, writers: Sequence[Writer], requests: Sequence[Request]) -> AsyncIterator[None]:
        """Do the same where an event loop waits for several texts."""
        run = _Run()
        loop = asyncio.get_running_loop()
        run.news, run.loop = asyncio.Event(), loop
        try:
            self._submit(run, writers, requests)
            while run.open:
                await self._wait_async(run, loop)
                while run.steps:
                    self._take(run)
                    yield
        finally:
            self._leave(run)

    def _submit(self, run: _Run, writers: Sequence[Writer], requests: Sequence[Request]) -> None:
        with self._changed:
            for writer, request in zip(writers, requests, strict=True):
                number = self.engine.submit(request)
                run.open[number] = writer
                self._runs[number] = run

    def _take(self, run: _Run) -> None:
        """Add a step's events to the texts, and end those in which a stop string occurs: nobody waits for their end."""
        with self._changed:
            events = run.steps.popleft()
        run.take(events)
        for number in run.stopped:
            self.engine.cancel(number)
            del run.open[number]
        run.stopped.clear()

    def _leave(self, run: _Run) -> None:
        with self._changed:
            for number in run.open:
                self.engine.cancel(number)
                self._runs.pop(number, None)

    def _wait(self, run: _Run) -> None:
        """Wait until there are events of a run: one thread of those that wait takes them for all."""
        with self._changed:
            while not run.steps and self._is_polling:
                self._changed.wait()
            if run.steps:
                return
            self._is_polling = True
        events: Sequence[Any] = ()
        try:
            # Another thread's event loop may take the events that this one waits for.
            events = self.engine.poll(0.5)
        finally:
            with self._changed:
                self._is_polling = False
                self._hand_out(events)
                self._changed.notify_all()

    async def _wait_async(self, run: _Run, loop: asyncio.AbstractEventLoop) -> None:
        if loop not in self._readers:
            self._readers.add(loop)
            loop.add_reader(self.engine.fileno(), self._read, loop)
        while not run.steps:
            run.news.clear()
            await run.news.wait()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the events that there are, on the thread of an event loop."""
        with self._changed:
            if not self._is_polling:
                self._hand_out(self.engine.poll(0.0))
                self._changed.notify_all()
            if not any(run.loop is loop for run in self._runs.values()):
                self._readers.discard(loop)
                loop.remove_reader(self.engine.fileno())

    def _hand_out(self, events: Sequence[Any]) -> None:
        for event in events:
            run = self._runs.get(event.request)
            if run is None:
                continue
            if event.kind == FINISHED:
                del self._runs[event.request]
            if not run.steps or run.steps[-1][-1].step != event.step:
                run.steps.append([])
            run.steps[-1].append(event)
            if run.loop is not None:
                run.loop.call_soon_threadsafe(run.news.set)


class _Run:
    """The requests of one caller.

    Attributes
    ----------
    open : dict of int to Writer
        The texts that have not ended, by their requests.
    steps : deque of list
        Events that were not taken, those of one step together.
    stopped : list of int
        Requests whose text holds a stop string.
    loop, news
        The event loop that waits, and what wakes it.
    """

    def __init__(self) -> None:
        self.open: dict[int, Writer] = {}
        self.steps: deque[list[Any]] = deque()
        self.stopped: list[int] = []
        self.loop: asyncio.AbstractEventLoop | None = None
        self.news: Any = None

    def take(self, events: Sequence[Any]) -> None:
        """Add the events of a step to the texts."""
        for event in events:
            writer = self.open.get(event.request)
            if writer is None or event.request in self.stopped:
                continue
            if event.kind == TOKEN:
                if not writer.add(event.token, event.logprob, event.top):
                    self.stopped.append(event.request)
            elif event.kind == FINISHED:
                del self.open[event.request]
                if event.finish == FAILED:
                    raise from_status(event.status, event.message)
                if event.finish == CANCELLED:
                    raise from_status("", "the engine was closed before the text had ended")
                if event.finish == END:
                    writer.end("end", event.token if event.token >= 0 else None)
