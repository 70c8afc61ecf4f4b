# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One request of a client while the engine works on it: its samples, and the bytes that are sent for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..generation.engine import CANCELLED, DEADLINE, END, FAILED, FINISHED, LENGTH, TOKEN
from ..text.text_stream import TextStream
from .answers import CONTENT, Answer, AnswerWriter, LoggedToken, Piece, Reader, Usage
from .connection import Connection
from .engines import Supervisor
from .errors import RequestError
from .metrics import ModelMetrics

_REASONS = {END: "stop", LENGTH: "length", DEADLINE: "length"}


class Sample:
    """One text that grows."""

    __slots__ = ("answer", "count", "has_ended", "index", "is_dirty", "logged", "new", "reader", "stream")

    def __init__(self, index: int, stream: TextStream, reader: Reader | None) -> None:
        self.index, self.stream, self.reader = index, stream, reader
        self.answer = Answer()
        self.new: list[str] = []
        self.logged: list[LoggedToken] = []
        self.count = 0
        self.has_ended = self.is_dirty = False


class Run:
    """A request of a client: one or more requests of the engine, each with one or more samples.

    Parameters
    ----------
    supervisor : Supervisor
        The engine.
    writer : AnswerWriter
        Writes the answers.
    samples : list of Sample
        All samples, those of the first request first.
    metrics : ModelMetrics
        What is counted.
    is_stream : bool
        The answers are written while they grow, to the connection that `attach` is told; otherwise they are collected
        in the samples.
    logs : bool
        Tokens are kept with their probabilities, for the writer.
    prompt_logged : dict of list of LoggedToken, optional
        Gets the tokens of prompts whose probabilities are asked for, by the number of the prompt's first sample.
    on_tokens : callable, optional
        Told how many tokens were generated, again and again; None: nobody counts them.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        writer: AnswerWriter,
        samples: Sequence[Sample],
        metrics: ModelMetrics,
        *,
        is_stream: bool,
        logs: bool = False,
        on_tokens: Callable[[int], None] | None = None,
        prompt_logged: dict[int, list[LoggedToken]] | None = None,
    ) -> None:
        self._supervisor, self._writer, self._metrics = supervisor, writer, metrics
        self.samples = list(samples)
        self.is_stream, self._logs, self._on_tokens = is_stream, logs, on_tokens
        self.usage = Usage()
        self._prompt_logged = {} if prompt_logged is None else prompt_logged
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.error: RequestError | None = None
        self.is_gone = False  # the client is
        self._bases: dict[int, int] = {}  # first sample of each request of the engine
        self._connection: Connection | None = None
        self._dirty: list[Sample] = []
        self._out: list[bytes] = []
        self._has_begun = False
        self._open = self._computed = len(self.samples)
        self._arrived = time.monotonic()
        self._last = 0.0
        self._first = 0.0
        self._told_tokens = 0

    async def submit(self, requests: Sequence[Any], samples_each: int) -> None:
        """Give the requests to the engine: all of them, or none."""
        try:
            for position, request in enumerate(requests):
                base = position * samples_each
                await self._supervisor.submit(request, self, lambda number, base=base: self._accept(number, base))
                if self.done.done():  # the client has left meanwhile, or an earlier one has failed
                    self._cancel()
                    return
        except BaseException:
            self._cancel()
            raise

    def _accept(self, number: int, base: int) -> None:
        self._bases[number] = base

    def attach(self, connection: Connection) -> None:
        """Have the stream written to a connection, whose headers are sent; what has come before goes first."""
        self._connection = connection
        if self.error is not None:
            connection.write_chunk(self._writer.error(self.error))
            return
        self.flush(time.monotonic())

    # What the supervisor calls.

    def take(self, event: Any) -> None:
        """Take an event of the engine."""
        base = self._bases.get(event.request)
        if base is None or self.done.done():
            return
        sample = self.samples[base + event.sample]
        kind = event.kind
        if kind == TOKEN:
            if sample.has_ended:
                return  # by a stop string: other samples of the request go on
            if not sample.count:
                self._note_first(event)
            sample.count += 1
            if self._logs:
                sample.logged.append(LoggedToken(event.token, event.logprob, event.top or ()))
            text = sample.stream.add(event.token)
            if text:
                sample.new.append(text)
            if sample.stream.stop is not None:
                sample.answer.stop = sample.stream.stop
                self._end(sample, "stop")
            elif not sample.is_dirty:
                sample.is_dirty = True
                self._dirty.append(sample)
        elif kind == FINISHED:
            self._computed -= 1
            if event.finish == FAILED or event.finish == CANCELLED:
                message = event.message or "the request was ended by the server"
                self.fail(RequestError(message, status=500, code="engine_error"))
            elif not sample.has_ended:
                if not sample.count:
                    self._note_first(event)
                self._end(sample, _REASONS.get(event.finish, "stop"))
        else:
            self._prompt_logged.setdefault(base, []).append(LoggedToken(event.token, event.logprob, event.top or ()))

    def flush(self, now: float) -> None:
        """Write what the samples have got since the last time: once for all of them."""
        dirty = self._dirty
        if dirty:
            self._dirty = []
            self._note_tokens(dirty, now)
            for sample in dirty:
                sample.is_dirty = False
            if self.is_stream:
                for sample in dirty:
                    if not sample.has_ended:
                        self._put(sample)
        if not self._send():
            self.leave()
            return
        if self._open == 0 and not self.done.done():
            self._finish()

    def fail(self, error: RequestError) -> None:
        """End the request with an error."""
        if self.done.done():
            return
        self.error = error
        self._cancel()
        self._metrics.finished("error", len(self.samples))
        if self.is_stream and self._connection is not None:
            self._connection.write_chunk(self._writer.error(error))
        self.done.set_result(None)

    def leave(self) -> None:
        """Take it that the client is gone: nothing is computed for it any more."""
        if self.done.done():
            return
        self.is_gone = True
        self._cancel()
        if self._connection is not None:
            self._metrics.slow_clients += self._connection.was_cut
        self._metrics.finished("abort", len(self.samples))
        self.done.set_result(None)

    # The parts of these.

    def _put(self, sample: Sample) -> None:
        """Append the events of a sample's new text."""
        new, sample.new = sample.new, []
        text = new[0] if len(new) == 1 else "".join(new)
        logged, sample.logged = sample.logged, []
        if sample.reader is not None:
            pieces = sample.reader.read(text) if text else ()
        else:
            pieces = (Piece(CONTENT, text),) if text else ()
        if pieces or logged:
            self._begin()
            self._out.append(self._writer.pieces(sample.index, pieces, logged))

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            begin = self._writer.begin(self.usage)
            if begin:
                self._out.append(begin)

    def _end(self, sample: Sample, reason: str) -> None:
        """Take the end of a sample: the rest of its text is read."""
        if not sample.is_dirty:
            sample.is_dirty = True
            self._dirty.append(sample)
        sample.has_ended = True
        self._open -= 1
        self.usage.completion_tokens += sample.count
        self._metrics.finished(reason, 1)
        rest = sample.stream.finish()
        if rest:
            sample.new.append(rest)
        answer = sample.answer
        if self.is_stream:
            self._put(sample)
            if sample.reader is not None:
                pieces, reason = sample.reader.finish(reason)
                self.usage.reasoning_tokens += sample.reader.reasoning_tokens
                if pieces:
                    self._begin()
                    self._out.append(self._writer.pieces(sample.index, pieces, ()))
            answer.finish_reason = reason
            self._begin()
            self._out.append(self._writer.end(sample.index, answer))
            return
        text = "".join(sample.new)
        answer.tokens = sample.logged
        if sample.reader is None:
            answer.content = text
        else:
            answer.add(sample.reader.read(text))
            pieces, reason = sample.reader.finish(reason)
            self.usage.reasoning_tokens += sample.reader.reasoning_tokens
            answer.add(pieces)
        answer.finish_reason = reason

    def _finish(self) -> None:
        if self._computed:  # a stop string has ended samples that are still computed
            self._cancel()
        else:
            for number in self._bases:
                self._supervisor.end(number, self)
        now = time.monotonic()
        self._metrics.ended(
            now - self._arrived,
            now - self._first if self._first else 0.0,
            self.usage.prompt_tokens,
            self.usage.completion_tokens,
        )
        if self.is_stream:
            self._out.append(self._writer.close(self.usage))
            self._send()
        self.done.set_result(None)

    def _send(self) -> bool:
        """Write what there is to write, once there is a connection; return False if its client is too far behind."""
        if self._connection is None or not self._out:
            return True
        data = b"".join(self._out) if len(self._out) > 1 else self._out[0]
        self._out = []
        return self._connection.write_chunk(data)

    def _cancel(self) -> None:
        for number in self._bases:
            self._supervisor.cancel(number, self)

    def _note_first(self, event: Any) -> None:
        self.usage.cached_tokens += event.cached_tokens if event.sample == 0 else 0
        if not self._first:
            self._first = self._last = time.monotonic()
            self._metrics.first(self._first - self._arrived, event.waited_seconds, event.prompt_seconds)

    def _note_tokens(self, dirty: Sequence[Sample], now: float) -> None:
        total = sum(sample.count for sample in self.samples) if len(self.samples) > 1 else self.samples[0].count
        if self._last and total > len(dirty):
            self._metrics.between_tokens.add(now - self._last)
        self._last = now
        if self._on_tokens is not None:
            new, self._told_tokens = total - self._told_tokens, total
            self._on_tokens(new)
