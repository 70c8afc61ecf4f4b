# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The engine behind a model: its events go to the runs that they belong to, and it is started again when it is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..generation.engine import FAILED, FINISHED, TOKEN
from ..support.errors import BusyError, CacheFullError, Error, InvalidArgumentError
from .errors import RequestError, as_request_error, unavailable
from .logs import log, log_exception

#: Events that are handled before others have a turn: what is written is sent between.
_MOST_EVENTS = 128

#: Seconds until an engine that was lost is started again; the last one counts for all further times.
_RESTARTS = (0.0, 1.0, 2.0, 5.0, 15.0, 30.0)
#: An engine that has lived so long was well: the next restart is at once.
_LIVED_SECONDS = 60.0


class Engine(Protocol):
    """What a server needs of an engine: `generation.engine.Engine`, or the same in a process of its own."""

    info: dict[str, Any]

    def submit(self, request: Any) -> int:
        """Add a request; return its number."""

    def cancel(self, number: int) -> None:
        """End a request."""

    def poll(self, timeout: float | None = 0.0) -> Sequence[Any]:
        """Return the events that there are."""

    def fileno(self) -> int:
        """Return what is readable while there are events."""

    def stats(self) -> dict[str, Any]:
        """Return counters."""

    def close(self) -> None:
        """End all requests and the engine."""


class Listener(Protocol):
    """Takes the events of one request of the engine."""

    def take(self, event: Any) -> None:
        """Take an event."""

    def flush(self, now: float) -> None:
        """Write what the events before have given; `now` is the time (monotonic)."""

    def fail(self, error: RequestError) -> None:
        """Take the end of the engine."""


class Supervisor:
    """Starts an engine, and again when it is lost; joins requests and their events.

    Parameters
    ----------
    name : str
        The model's name, for messages.
    make : callable
        Starts the engine; called in a thread of its own, which may go on when the supervisor is closed.

    Attributes
    ----------
    state : str
        ``"loading"``, ``"ready"``, ``"lost"`` or ``"closed"``.
    restarts : int
        How often the engine was lost.
    is_making : bool
        An engine is being started, perhaps for nobody any more.
    """

    def __init__(self, name: str, make: Callable[[], Engine]) -> None:
        self.name, self._make = name, make
        self.engine: Engine | None = None
        self.state, self.restarts = "loading", 0
        self.problem = ""
        self.on_step: Callable[[float], None] | None = None  # told the tokens of each step
        self._listeners: dict[int, Listener] = {}
        self._left: list[Any] = []
        # Requests whose numbers are not known yet: how many, their events, and the last number that is known.
        self._submitting, self._highest = 0, 0
        self._early: list[Any] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._descriptor = -1
        self._failures = -1  # in a row; the first loss is followed by a start at once
        self._started = 0.0
        self._restart: asyncio.Task[None] | None = None
        self.is_making = False
        self._lock = threading.Lock()  # of an engine that has arrived, and of the end
        self._arrived: Engine | None = None

    async def start(self) -> None:
        """Start the engine; raise the error if it does not start."""
        self._loop = asyncio.get_running_loop()
        await self._made()
        with self._lock:
            engine, self._arrived = self._arrived, None
            if engine is None:  # `close` has it
                return
            self.state = "ready"
        self.engine = engine
        self._started = time.monotonic()
        self._descriptor = engine.fileno()
        self._loop.add_reader(self._descriptor, self._on_readable)

    def _made(self) -> asyncio.Future[None]:
        """Return when the engine has arrived.

        A large model takes minutes, for which the end of the server does not wait: the thread is none of a pool, whose
        threads Python would wait for.
        """
        loop, made = self._loop, self._loop.create_future()

        def tell(error: BaseException | None) -> None:
            if made.done():
                return
            if error is None:
                made.set_result(None)
            else:
                made.set_exception(error)

        def make() -> None:
            engine, problem = None, None
            try:
                engine = self._make()
            except BaseException as error:
                problem = error
            self.is_making = False
            with self._lock:
                is_late = self.state == "closed"
                if not is_late:
                    self._arrived = engine
                    loop.call_soon_threadsafe(tell, problem)
            if is_late and engine is not None:
                _close(engine)

        self.is_making = True
        threading.Thread(target=make, name=f"intarsia-{self.name}", daemon=True).start()
        return made

    @property
    def active(self) -> int:
        """Requests that have not ended."""
        return len(self._listeners)

    @property
    def condition(self) -> str:
        """The state, or ``"hanging"`` while the process of the engine does not answer."""
        return "hanging" if self.state == "ready" and self._is_hanging() else self.state

    async def submit(self, request: Any, listener: Listener, accept: Callable[[int], None]) -> None:
        """Give a request to the engine; `accept` is told its number, before its first event.

        Raises
        ------
        RequestError
            The request is refused, the queue is full, or there is no engine now.
        """
        if self.engine is None or self.state != "ready":
            raise unavailable(
                f"the engine of model {self.name} is {'starting' if self.state != 'closed' else 'ended'}; try again",
                seconds=2,
            )
        engine = self.engine
        self._submitting += 1
        try:
            # An engine in another process answers later; in between, its events may come.
            submit = getattr(engine, "submit_async", None)
            number = engine.submit(request) if submit is None else await submit(request)
        except (InvalidArgumentError, CacheFullError, BusyError) as error:
            raise as_request_error(error) from error
        except Exception as error:
            if not self._is_hanging():
                self._lose(error)
            raise unavailable(f"the engine of model {self.name} does not answer; try again", 2) from error
        finally:
            self._submitting -= 1
            early = self._early
            if not self._submitting:
                self._early = []
        if engine is not self.engine:
            raise unavailable(f"the engine of model {self.name} has ended; it starts again, try again", 2)
        self._highest = max(self._highest, number)
        self._listeners[number] = listener
        accept(number)
        if early:
            self._early = [event for event in self._early if event.request > self._highest]
            self._deliver([event for event in early if event.request == number])

    def _is_hanging(self) -> bool:
        return bool(getattr(self.engine, "hanging", False)) and not getattr(self.engine, "dead", False)

    def cancel(self, number: int, listener: Listener) -> None:
        """End a request whose events are of no interest any more.

        Its engine may be gone, and the number that of another listener's request: engines count from the same number.
        """
        if self.end(number, listener) and self.engine is not None:
            try:
                self.engine.cancel(number)
            except Exception as error:
                self._lose(error)

    async def stats(self) -> dict[str, Any]:
        """Return the engine's counters; none while there is no engine, or it does not answer."""
        engine = self.engine
        try:
            return {} if engine is None else await asyncio.to_thread(engine.stats)
        except Exception:  # its end is seen where its events are read
            return {}

    async def close(self) -> None:
        """End the engine and all requests; one that arrives later is ended by the thread that has started it."""
        with self._lock:
            self.state = "closed"
            arrived, self._arrived = self._arrived, None
        if self._restart is not None:
            self._restart.cancel()
        self._fail_all(unavailable("the server ends"))
        for engine in (self._detach(), arrived):
            if engine is not None:
                await asyncio.to_thread(_close, engine)

    def _on_readable(self) -> None:
        if self._left:  # the rest of earlier events comes first
            return
        try:
            events = self.engine.poll(0.0)
        except Exception as error:
            self._lose(error)
            return
        is_dead = getattr(self.engine, "dead", False)
        if is_dead:
            # What a worker ends with its own end is told to clients as that.
            events = [event for event in events if event.kind != FINISHED or event.finish != FAILED]
        if events:
            self._count(events)
            self._handle(events)
        if is_dead:
            self._lose(Error(self.engine.reason or "its process has ended"))

    def _count(self, events: Sequence[Any]) -> None:
        if self.on_step is None:
            return
        for count in Counter([event.step for event in events if event.kind == TOKEN]).values():
            self.on_step(count)

    def _handle(self, events: Sequence[Any]) -> None:
        """Hand events to their listeners, and have each write once."""
        self._deliver(events[:_MOST_EVENTS] if len(events) > _MOST_EVENTS else events)
        self._left = events[_MOST_EVENTS:]
        if self._left:
            self._loop.call_soon(self._go_on)

    def _deliver(self, events: Sequence[Any]) -> None:
        listeners = self._listeners
        touched: dict[Listener, None] = {}
        for event in events:
            listener = listeners.get(event.request)
            if listener is None:
                if self._submitting and event.request > self._highest:
                    self._early.append(event)
            else:
                touched[listener] = None
                try:
                    listener.take(event)
                except Exception as error:
                    self._fail(listener, error)
        now = time.monotonic()
        for listener in touched:
            try:
                listener.flush(now)
            except Exception as error:
                self._fail(listener, error)

    def _go_on(self) -> None:
        self._handle(self._left)

    def end(self, number: int, listener: Listener) -> bool:
        """Forget a request that has ended by itself; return whether it was the listener's."""
        if self._listeners.get(number) is not listener:
            return False
        del self._listeners[number]
        return True

    def _fail(self, listener: Listener, error: Exception) -> None:
        """End one request whose events cannot be handled; the others go on."""
        known = as_request_error(error)
        if known is None:
            log_exception("an answer cannot be written", error)
        listener.fail(known or RequestError("the answer cannot be written", status=500, code="internal_error"))

    def _fail_all(self, error: RequestError) -> None:
        listeners, self._listeners = self._listeners, {}
        for listener in dict.fromkeys(listeners.values()):
            listener.fail(error)

    def _detach(self) -> Engine | None:
        engine, self.engine = self.engine, None
        self._left, self._early, self._highest = [], [], 0
        if engine is not None:
            self._loop.remove_reader(self._descriptor)
        return engine

    def _lose(self, error: Exception) -> None:
        """Tell all clients that the engine is gone, and start another one."""
        if self.state != "ready":
            return
        self.state, self.problem = "lost", str(error)
        self.restarts += 1
        log.error("the engine of model %s is lost: %s", self.name, error)
        engine = self._detach()
        if engine is not None:
            self._loop.run_in_executor(None, _close, engine)
        self._failures = 0 if time.monotonic() - self._started > _LIVED_SECONDS else self._failures + 1
        self._restart = self._loop.create_task(self._start_again())
        self._fail_all(unavailable(f"the engine of model {self.name} has ended: {error}", seconds=2))

    async def _start_again(self) -> None:
        while self.state == "lost":
            await asyncio.sleep(_RESTARTS[min(self._failures, len(_RESTARTS) - 1)])
            try:
                await self.start()
            except Exception as error:
                self._failures += 1
                self.problem = str(error)
                log.error("the engine of model %s does not start: %s", self.name, error)
            else:
                log.info("the engine of model %s has started again", self.name)


def _close(engine: Engine) -> None:
    try:
        engine.close()
    except Exception as error:
        log.error("the engine does not end: %s", error)
