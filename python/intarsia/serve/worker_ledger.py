# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a worker owes its front end: answers to requests and questions, and the ends of samples."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ..generation.engine import FAILED, FINISHED
from .worker_protocol import Event

if TYPE_CHECKING:
    from ..generation.constrained import Constraint
    from ..generation.engine import Request


class Submitted:
    """A request that the worker has not answered yet.

    Attributes
    ----------
    number : Future of int
        Its number, once the worker has taken it.
    """

    def __init__(self, request: Request) -> None:
        self.samples: int = request.samples
        self.constraint: Constraint | None = request.constraint
        self.number: Future[int] = Future()


class Ledger:
    """Requests and questions that are open. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tag = 0
        self._submitted: dict[int, Submitted] = {}
        self._asked: dict[int, Future[dict[str, Any]]] = {}
        self._open: dict[int, set[int]] = {}  # by accepted requests: samples without their last event
        self._unwanted: set[int] = set()  # requests that were accepted when nobody waited any more

    def submit(self, submitted: Submitted) -> int:
        """Note a request; return the tag of its message."""
        with self._lock:
            self._tag += 1
            self._submitted[self._tag] = submitted
            return self._tag

    def ask(self) -> tuple[int, Future[dict[str, Any]]]:
        """Note a question for statistics; return the tag of its message, and the answer to come."""
        answer: Future[dict[str, Any]] = Future()
        with self._lock:
            self._tag += 1
            self._asked[self._tag] = answer
            return self._tag, answer

    def accept(self, tag: int, number: int) -> Submitted | None:
        """Take it that the worker has a request; None: nobody waits for it any more."""
        with self._lock:
            submitted = self._submitted.pop(tag, None)
            if submitted and submitted.number.set_running_or_notify_cancel():
                self._open[number] = set(range(submitted.samples))
                return submitted
            self._unwanted.add(number)
            return None

    def refuse(self, tag: int) -> Submitted | None:
        """Drop a request that the worker does not take, and return it."""
        with self._lock:
            return self._submitted.pop(tag, None)

    def answer(self, tag: int) -> Future[dict[str, Any]] | None:
        """Drop a question that is answered, or for which nobody waits any more, and return it."""
        with self._lock:
            return self._asked.pop(tag, None)

    def is_open(self, number: int) -> bool:
        """Return True for a request that has been accepted, and has not ended."""
        with self._lock:
            return number in self._open

    def take(self, events: list[Event], forget: Callable[[int, int], str | None]) -> list[Event]:
        """Return the events that somebody waits for, and note which samples and requests have ended.

        Parameters
        ----------
        events : list of Event
            Those of a step.
        forget : callable
            Told the request and the number of a sample that has ended; returns why it has failed, if it knows that.
        """
        with self._lock:
            if not self._unwanted and all(event.kind != FINISHED for event in events):
                return events
            taken = (self._taken(event, forget) for event in events)
            return [event for event in taken if event is not None]

    def _taken(self, event: Event, forget: Callable[[int, int], str | None]) -> Event | None:
        samples = self._open.get(event.request)
        if samples is None:
            if event.kind == FINISHED:
                self._unwanted.discard(event.request)
            return None
        if event.kind == FINISHED:
            samples.discard(event.sample)
            if not samples:
                del self._open[event.request]
            problem = forget(event.request, event.sample)
            if problem and event.finish == FAILED:
                return event._replace(message=problem)
        return event

    def fail_waiting(self, error: Exception) -> None:
        """Give an error to all who wait for an answer."""
        with self._lock:
            waiting: Iterable[Future[Any]] = [*self._asked.values(), *(one.number for one in self._submitted.values())]
            self._asked.clear()
            self._submitted.clear()
        for future in waiting:
            fail(future, error)

    def end(self, reason: str) -> list[Event]:
        """Return the last events of all samples that are open, and forget them: the worker is gone."""
        with self._lock:
            last = [
                Event(FINISHED, number, sample, -1, math.nan, [], FAILED, 0, 0, 0, 0, 0.0, 0.0, reason)
                for number, samples in self._open.items()
                for sample in sorted(samples)
            ]
            self._open.clear()
        return last


def fail(future: Future[Any], error: Exception) -> None:
    """Give an error to whoever waits for a future; nobody may do that any more."""
    if future.set_running_or_notify_cancel():
        future.set_exception(error)
