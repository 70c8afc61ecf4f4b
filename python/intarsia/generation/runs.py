# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts of one engine whose callers each wait for their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from itertools import groupby
from typing import TypeAlias

from .. import _runtime
from ..runtime.module import Module
from ..support.errors import from_status
from .engine import CANCELLED, END, FAILED, FINISHED, TOKEN, Engine, EventQueue, Request
from .writer import Writer

#: The steps of a call.
Steps: TypeAlias = Generator[None, None, None]


class Runs:
    """Generates texts for callers that may be in several threads and event loops.

    Parameters
    ----------
    engine : Engine
        Computes the texts.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._draft: Module | None = None  # of the engine
        self._submitting = threading.Lock()

    def run(self, writers: Sequence[Writer], requests: Sequence[Request], draft: Module | None) -> Steps:
        """Generate texts together; yield after every step that has added to them.

        Requests that have not ended when the iterator is closed are cancelled.

        Parameters
        ----------
        writers : sequence of Writer
            The texts.
        requests : sequence of Request
            One for each of them.
        draft : Module or None
            The draft model of the requests.
        """
        queue = self.engine.queue()
        try:
            texts = self._submit(queue, writers, requests, draft)
            while texts:
                for events in _steps(queue.poll(None)):
                    self._take(texts, events)
                    yield
        finally:
            queue.close()

    async def run_async(
        self, writers: Sequence[Writer], requests: Sequence[Request], draft: Module | None
    ) -> AsyncGenerator[None, None]:
        """Do what `run` does, while others have the event loop."""
        queue = self.engine.queue()
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        descriptor = queue.fileno()
        loop.add_reader(descriptor, news.set)
        try:
            texts = self._submit(queue, writers, requests, draft)
            while texts:
                await news.wait()
                news.clear()
                for events in _steps(queue.poll()):
                    self._take(texts, events)
                    yield
        finally:
            loop.remove_reader(descriptor)
            queue.close()

    def _submit(
        self, queue: EventQueue, writers: Sequence[Writer], requests: Sequence[Request], draft: Module | None
    ) -> dict[int, Writer]:
        """Return the texts that have not ended, by the numbers of their requests."""
        with self._submitting:  # no other draft comes in between
            if draft is not None and draft is not self._draft:
                self.engine.set_draft(draft)
                self._draft = draft
            return {
                self.engine.submit(request, queue): writer for writer, request in zip(writers, requests, strict=True)
            }

    def _take(self, texts: dict[int, Writer], events: Iterable[_runtime.Event]) -> None:
        """Add events to the texts; take those that have ended out."""
        for event in events:
            number = event.request
            if number not in texts:
                continue
            if event.kind == TOKEN:
                if not texts[number].add(event.token, event.logprob, event.top):  # a stop string occurs
                    del texts[number]
                    self.engine.cancel(number)
            elif event.kind == FINISHED:
                writer = texts.pop(number)
                if event.finish == FAILED:
                    raise from_status(event.status, event.message or "")
                if event.finish == CANCELLED:
                    raise from_status("", "the engine was closed before the text had ended")
                if event.finish == END:
                    writer.end("end", event.token if event.token >= 0 else None)


def _steps(events: Iterable[_runtime.Event]) -> Iterable[Iterable[_runtime.Event]]:
    """Return the events of each step."""
    return (group for _, group in groupby(events, lambda event: event.step))
