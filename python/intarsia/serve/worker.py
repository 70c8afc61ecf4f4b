# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An engine in a process of its own: a crash of either side leaves the other able to report it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ..support.errors import BusyError, InvalidArgumentError, from_status
from . import worker_protocol as protocol
from .worker_connection import WorkerLostError, connect
from .worker_ledger import Ledger, Submitted, fail
from .worker_masks import MaskAnswers
from .worker_process import WorkerProcess, command_of
from .worker_protocol import Event, Kind

if TYPE_CHECKING:
    from ..generation.engine import Mock, Request

#: What a worker writes to its standard error goes here, line by line.
_log = logging.getLogger("intarsia.worker")

#: Between two looks at the worker.
_LOOK_SECONDS = 0.25
#: A worker that was silent for so long is asked whether it is there.
_QUIET_SECONDS = 0.5
#: How long a caller that submits a request waits for the answer.
_ANSWER_SECONDS = 1.0


class WorkerEngine:
    """Requests for an engine in another process; the methods are those of `intarsia.generation.engine.Engine`.

    All methods may be called from any thread. A thread reads what the worker says, and looks after it: one that does
    not answer for `hang_seconds` counts as hanging, and is killed if it does not come back within `grace_seconds`. When
    the worker is gone, each request gets its last events, with finish ``FAILED`` and the reason; then `poll` and new
    requests are a `WorkerLostError`. Whether another worker is started is for the caller to decide.

    Parameters
    ----------
    module : path, Module or Mock
        The artifact, or what stands in for a model. Of a module only the path is used: the worker loads the artifact.
    sequences, cache, pages, spill_memory, spill_folder, spill_files, waiting, step_tokens, token_seconds, kept_tokens
        Options of the engine, as `Engine` has them.
    draft : path or Module, optional
        The artifact of a smaller model that proposes tokens.
    threads : int
        Threads of a step; 0: as many as the worker may use.
    memory : int, optional
        Bytes that the worker may use.
    devices : sequence of str
        Devices that the model may use; empty: all.
    world : int
        Ranks, if the artifact was compiled for several; 0: one process.
    start_seconds : float
        How long the worker may take until it is ready.
    hang_seconds, grace_seconds : float
        When a worker counts as hanging, and how much later it is killed.

    Attributes
    ----------
    info : dict
        What the worker says of its engine: vocabulary, context, pages, page_tokens, hash, process, …
    dead : bool
        Whether the worker is gone.
    hanging : bool
        Whether it does not answer.
    reason : str or None
        Why it is gone, or that it hangs.
    process : int or None
        The number of the process; None if this object has not started it.

    Raises
    ------
    WorkerLostError
        The worker has ended before it was ready; the message has what it wrote last.
    """

    def __init__(
        self,
        module: str | os.PathLike[str] | Mock,
        *,
        sequences: int = 64,
        cache: int | None = None,
        pages: int = 0,
        spill_memory: int = 0,
        spill_folder: str | os.PathLike[str] | None = None,
        spill_files: int = 0,
        waiting: int = 0,
        step_tokens: int = 0,
        token_seconds: float = 0.0,
        kept_tokens: int | None = None,
        draft: str | os.PathLike[str] | None = None,
        threads: int = 0,
        memory: int | None = None,
        devices: Sequence[str] = (),
        world: int = 0,
        start_seconds: float = 600.0,
        hang_seconds: float = 2.0,
        grace_seconds: float = 3.0,
    ) -> None:
        options = {
            "sequences": sequences,
            "cache": cache,
            "pages": pages or None,
            "spill_memory": spill_memory or None,
            "spill_folder": None if spill_folder is None else os.fspath(spill_folder),
            "spill_files": spill_files or None,
            "waiting": waiting or None,
            "step_tokens": step_tokens or None,
            "token_seconds": token_seconds or None,
            "kept_tokens": kept_tokens,
            "draft": None if draft is None else os.fspath(draft),
            "threads": threads or None,
            "memory": memory,
            "world": world or None,
        }
        self._prepare(hang_seconds, grace_seconds)
        ours, its = socket.socketpair()
        with its:
            try:
                self._process = WorkerProcess(command_of(module, options, devices), its)
            except BaseException:
                ours.close()
                raise
        self._start(ours, start_seconds)

    @classmethod
    def connect(
        cls,
        address: str,
        *,
        token: str | os.PathLike[str] | None = None,
        start_seconds: float = 600.0,
        hang_seconds: float = 2.0,
        grace_seconds: float = 3.0,
    ) -> WorkerEngine:
        """Use a worker that runs already: the only front end that it has.

        Parameters
        ----------
        address : str
            ``unix:PATH``, or ``tcp:HOST:PORT`` with `token`.
        token : path, optional
            The file with the secret that the worker was started with.
        start_seconds, hang_seconds, grace_seconds : float
            As for a worker that is started; one that hangs loses the connection instead of its life.
        """
        engine = cls.__new__(cls)
        engine._prepare(hang_seconds, grace_seconds)
        engine._start(connect(address, token, start_seconds), start_seconds)
        return engine

    def _prepare(self, hang_seconds: float, grace_seconds: float) -> None:
        self.info: dict[str, Any] = {}
        self.dead = self.hanging = False
        self.reason: str | None = None
        self._hang_seconds, self._grace_seconds = hang_seconds, grace_seconds
        self._process: WorkerProcess | None = None
        self._problem: str | None = None  # what the worker says that this end has done wrong
        self._drained = self._closing = self._is_slow = False
        self._statistics: dict[str, Any] = {}  # the last ones

        self._lock = threading.Lock()  # of what follows
        self._output = bytearray()  # what the connection did not take yet
        self._events: list[list[Event]] = []

        self._ledger = Ledger()
        self._ready: Future[None] = Future()
        self._masks: MaskAnswers | None = None

    def _start(self, connection: socket.socket, start_seconds: float) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._messages = protocol.Messages()
        self._came = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # there are events
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # there is something to send, or the end
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ, self._receive)
        self._selector.register(self._wake, selectors.EVENT_READ, lambda: None)
        if self._process:
            self._selector.register(self._process.errors, selectors.EVENT_READ, self._read_lines)
        self._is_over = False
        self._heard = time.monotonic()
        self._asked_at: float | None = None  # since when a ping is not answered
        self._thread = threading.Thread(target=self._look_after, name="intarsia-worker", daemon=True)
        self._thread.start()
        self._send(protocol.hello())
        try:
            self._ready.result(timeout=start_seconds)
        except concurrent.futures.TimeoutError:
            self.close()
            raise WorkerLostError(f"the worker is not ready after {start_seconds:g} s") from None
        except BaseException:
            self.close()
            raise

    # ---- What Engine has ----------------------------------------------------------------------------------------

    def submit(self, request: Request) -> int:
        """Add a request; return its number.

        Raises
        ------
        InvalidArgumentError
            The engine refuses it, and says why.
        CacheFullError
            The prompt and `max_tokens` need more pages than there are.
        BusyError
            As many wait as the engine lets; or the worker has not answered for a second. An event loop that calls this
            waits no longer, and not at all until the worker has said something again.
        WorkerLostError
            The worker is gone, or hangs.
        """
        submitted = self._submit(request)
        try:
            return submitted.result(_ANSWER_SECONDS)
        except concurrent.futures.TimeoutError:
            if not submitted.cancel():  # the answer comes this very moment
                return submitted.result()
            # Its tag is kept: if the worker takes the request, the number comes, and is cancelled.
            with self._lock:
                self._is_slow = not self.dead
            raise self._slow() from None

    async def submit_async(self, request: Request) -> int:
        """Add a request without keeping the event loop waiting; its first events may come before its number does."""
        return await asyncio.wrap_future(self._submit(request))

    def cancel(self, number: int) -> None:
        """End a request; nothing happens if it has ended."""
        if self._ledger.is_open(number):
            self._send(protocol.cancel(number))

    def poll(self, timeout: float | None = 0.0) -> list[Event]:
        """Return the events that have come; wait for the first one up to `timeout` seconds, None: without end.

        Raises
        ------
        WorkerLostError
            The worker is gone, and the last events of all requests were given.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:
                batches, self._events = self._events, []
                if not self.dead:  # a worker that is gone stays readable
                    with contextlib.suppress(BlockingIOError):
                        os.eventfd_read(self._came)
                elif not batches and not self._closing:
                    raise WorkerLostError(self.reason)
            if batches or self.dead or (deadline is not None and time.monotonic() >= deadline):
                return batches[0] if len(batches) == 1 else [event for batch in batches for event in batch]
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            with selectors.DefaultSelector() as selector:
                selector.register(self._came, selectors.EVENT_READ)
                selector.select(left)

    def fileno(self) -> int:
        """Return a descriptor that is readable while there are events."""
        return self._came

    def stats(self) -> dict[str, Any]:
        """Return the engine's statistics; those before, if the worker does not answer within a quarter of a second."""
        with self._lock:
            self._refuse_if_lost()
            tag, answer = self._ledger.ask()
        self._send(protocol.ask_statistics(tag))
        try:
            self._statistics = answer.result(_LOOK_SECONDS if self._statistics else None)
        except concurrent.futures.TimeoutError:
            self._ledger.answer(tag)
        return self._statistics

    def close(self) -> None:
        """End the worker, or the connection with one that was not started here; requests that run are ended."""
        with self._lock:
            is_first, self._closing = not self._closing, True
        if is_first:
            os.eventfd_write(self._wake, 1)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        if is_first:
            for descriptor in (self._came, self._wake):
                os.close(descriptor)

    # ---- What Engine has not ------------------------------------------------------------------------------------

    @property
    def process(self) -> int | None:
        """The number of the worker's process."""
        return self._process.number if self._process else None

    def drain(self) -> None:
        """Let the worker finish its requests, and end; it takes no more. `poll` gives their events."""
        self._send(protocol.drain())

    def __enter__(self) -> WorkerEngine:
        """Return the engine itself."""
        return self

    def __exit__(self, *unused: object) -> None:
        """End the worker."""
        self.close()

    # ---- Sending ------------------------------------------------------------------------------------------------

    def _submit(self, request: Request) -> Future[int]:
        submitted = Submitted(request)
        try:
            message = protocol.submit(0, protocol.Submission.of(request))
        except (struct.error, OverflowError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"a number or a text of the request is not possible: {error}", "invalid argument"
            ) from error
        if len(message) > protocol.LARGEST_BODY:
            raise InvalidArgumentError(
                f"the request has {len(message)} bytes, may have {protocol.LARGEST_BODY}", "invalid argument"
            )
        with self._lock:
            self._refuse_if_lost()
            if self._is_slow:
                raise self._slow()
            message = protocol.with_tag(message, self._ledger.submit(submitted))
        self._send(message)
        return submitted.number

    def _refuse_if_lost(self) -> None:
        if self.dead or self.hanging or self._closing:
            raise WorkerLostError(self.reason or "the worker is closed")

    def _slow(self) -> BusyError:
        return BusyError(f"{self._name} has not answered for {_ANSWER_SECONDS:g} s; try again later", "busy")

    def _send(self, message: bytes) -> None:
        """Send a message, or leave what the connection does not take now to the thread that looks after it."""
        with self._lock:
            if self.dead:
                return
            if not self._output:
                with contextlib.suppress(OSError):  # it is full; the reading side notices where it is broken
                    message = message[self._socket.send(message) :]
            self._output += message
            if message and not self._closing:
                os.eventfd_write(self._wake, 1)

    def _flush(self) -> None:
        """Send what the connection takes; the reading side notices when it is broken."""
        with self._lock, contextlib.suppress(OSError):
            while self._output:
                with memoryview(self._output) as view:
                    count = self._socket.send(view[: 1 << 18])
                del self._output[:count]

    # ---- The thread that looks after the worker -----------------------------------------------------------------

    def _look_after(self) -> None:
        problem = None
        try:
            self._run()
        except protocol.ProtocolError as error:
            problem = f"{self._name} sends what is no message: {error}"
        except BaseException as error:  # whatever it is, those who wait hear of it
            _log.exception("looking after a worker")
            problem = f"{self._name} cannot be looked after: {type(error).__name__}: {error}"
        if problem and self._process:
            self._process.kill()
        reason = self._end()
        self._die(problem or reason)

    def _run(self) -> None:
        """Return when the worker is gone, or shall go."""
        looked, wanted = time.monotonic(), selectors.EVENT_READ
        while not self._is_over and not self._closing:
            with self._lock:
                wants = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._output else 0)
            if wants != wanted:
                self._selector.modify(self._socket, wants, self._receive)
                wanted = wants
            for key, ready in self._selector.select(_LOOK_SECONDS):
                if key.fileobj is self._socket and ready & selectors.EVENT_WRITE:
                    self._flush()
                if ready & selectors.EVENT_READ:
                    key.data()
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
            now = time.monotonic()
            if now - looked > _LOOK_SECONDS + _QUIET_SECONDS and self._asked_at is not None:
                self._asked_at = now  # this process was stopped itself, or had no processor: the answer may be there
            looked = now
            self._check_alive(now)

    def _check_alive(self, now: float) -> None:
        if not self._ready.done():  # it loads the model: how long that may take is for the caller to say
            self._is_over |= self._process is not None and self._process.has_ended()
            return
        if self._asked_at is None and now - self._heard > _QUIET_SECONDS:
            self._asked_at = now
            self._send(protocol.ping(0))
        silent = 0.0 if self._asked_at is None else now - self._asked_at + _QUIET_SECONDS
        if silent > self._hang_seconds and not self.hanging:
            self._hang(silent)
        if silent > self._hang_seconds + self._grace_seconds:
            self.reason = f"{self._name} hangs: it has not answered for {silent:.1f} s, and was given up"
            if self._process:
                self._process.kill()
            self._is_over = True
        elif self._process and self._process.has_ended():
            while self._receive():  # what it said last
                pass
            self._is_over = True

    def _hang(self, silent: float) -> None:
        with self._lock:
            self.hanging = True
            self.reason = f"{self._name} hangs: it has not answered for {silent:.1f} s"
        _log.warning("%s", self.reason)
        self._ledger.fail_waiting(WorkerLostError(self.reason))

    @property
    def _name(self) -> str:
        return f"the worker (process {self.process or self.info.get('process', 'unknown')})"

    def _read_lines(self) -> None:
        if not self._process.read_lines():
            self._selector.unregister(self._process.errors)

    def _receive(self) -> bool:
        """Read a part of what the worker says; return whether there was any."""
        try:
            data = self._socket.recv(1 << 18)
        except BlockingIOError:
            return False
        except ConnectionError:
            data = b""
        if not data:
            self._is_over = True
            return False
        self._heard = time.monotonic()
        self._asked_at = None
        self._is_slow = False
        if self.hanging:
            _log.warning("%s answers again", self._name)
            with self._lock:
                self.hanging, self.reason = False, None
        for kind, body in self._messages.feed(data):
            take = self._TAKERS.get(kind)
            if take is None:
                raise protocol.ProtocolError(f"the worker sends a message of kind {kind}, which is not known")
            if self._masks is None and kind not in (Kind.WELCOME, Kind.PROBLEM):
                raise protocol.ProtocolError(f"a message of kind {kind} comes before the worker's welcome")
            take(self, body)
        return True

    def _take_welcome(self, body: memoryview) -> None:
        self.info = protocol.read_info(body)
        self._masks = MaskAnswers(int(self.info["vocabulary"]), self._send)
        self._ready.set_result(None)

    def _take_accepted(self, body: memoryview) -> None:
        tag, number = protocol.read_accepted(body)
        submitted = self._ledger.accept(tag, number)
        if submitted is None:
            self._send(protocol.cancel(number))
            return
        if submitted.constraint is not None:
            self._masks.add(number, submitted.samples, submitted.constraint)
        submitted.number.set_result(number)

    def _take_refused(self, body: memoryview) -> None:
        tag, status, message = protocol.read_refused(body)
        submitted = self._ledger.refuse(tag)
        if submitted:
            fail(submitted.number, from_status(status, message))

    def _take_events(self, body: memoryview) -> None:
        events = self._ledger.take(protocol.read_events(body), self._masks.forget)
        with self._lock:
            self._events.append(events)
            os.eventfd_write(self._came, 1)

    def _take_mask_rows(self, body: memoryview) -> None:
        self._masks.ask(*protocol.read_mask_rows(body))

    def _take_statistics(self, body: memoryview) -> None:
        tag, values = protocol.read_statistics(body)
        answer = self._ledger.answer(tag)
        if answer:
            answer.set_result(values)

    def _take_pong(self, body: memoryview) -> None:
        protocol.read_tag(body)

    def _take_problem(self, body: memoryview) -> None:
        _, self._problem = protocol.read_problem(body)
        self._is_over = True

    def _take_drained(self, body: memoryview) -> None:
        self._drained = True

    _TAKERS: dict[int, Callable[[WorkerEngine, memoryview], None]] = {  # noqa: RUF012
        Kind.WELCOME: _take_welcome,
        Kind.ACCEPTED: _take_accepted,
        Kind.REFUSED: _take_refused,
        Kind.EVENTS: _take_events,
        Kind.ASK_MASKS: _take_mask_rows,
        Kind.STATISTICS: _take_statistics,
        Kind.PONG: _take_pong,
        Kind.PROBLEM: _take_problem,
        Kind.DRAINED: _take_drained,
    }

    # ---- The end ------------------------------------------------------------------------------------------------

    def _end(self) -> str:
        """End what is left of the worker; return why it is gone."""
        with self._lock:
            self._socket.close()  # which ends one that runs
        ended = self._process.end() if self._process else "has closed the connection"
        if self.hanging:
            return self.reason
        if self._closing:
            return f"{self._name} was closed"
        if self._problem:
            return f"{self._name} has refused this front end: {self._problem}"
        if self._drained:
            return f"{self._name} was told to end, and has finished all requests"
        return f"{self._name} {ended}"

    def _die(self, reason: str) -> None:
        """Tell everybody who waits that the worker is gone."""
        error = WorkerLostError(reason)
        with self._lock:
            self.reason = reason
            last = self._ledger.end(reason)
            if last:
                self._events.append(last)
            self.dead = True
            os.eventfd_write(self._came, 1)  # and poll leaves it readable
        if not self._closing:
            _log.error("%s", reason)
        if self._masks is not None:
            self._masks.close()
        self._selector.close()
        self._ledger.fail_waiting(error)
        if not self._ready.done():
            self._ready.set_exception(error)
