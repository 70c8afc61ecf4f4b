# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The front end's side of a worker, against one that says what a test wants it to say."""

from __future__ import annotations

import asyncio
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from intarsia.generation.engine import END, FAILED, FINISHED, TOKEN
from intarsia.generation.masks import MaskedRequest
from intarsia.serve import worker_protocol as protocol
from intarsia.serve.worker import WorkerEngine, WorkerLostError
from intarsia.serve.worker_protocol import Kind
from intarsia.support.errors import BusyError
from worker_requests import Word, request

EVENT = "BBHiQqfIqqqdd"


def message(kind: int, layout: str = "", *values: object) -> bytes:
    body = struct.pack(f"<{layout}", *values)
    return struct.pack("<II", len(body), kind) + body


def text(value: str) -> bytes:
    return struct.pack("<I", len(value)) + value.encode()


def raw(kind: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack("<II", len(body), kind) + body


def event(kind: int, request: int, token: int, sample: int = 0, finish: int = 0, top: int = 0, said: int = 0) -> bytes:
    return struct.pack(f"<{EVENT}", kind, finish, top, sample, request, token, -0.5, said, 3, 2, 1, 0.25, 0.5)


def events(step: int, records: list[bytes], top: bytes = b"", said: str = "") -> bytes:
    count = struct.pack("<QI", step, len(records))
    return raw(Kind.EVENTS, count, *records, struct.pack("<I", len(top) // 12), top, text(said))


class FakeWorker:
    """Listens at a path, greets one front end, and then does what a test does with `heard` and `say`."""

    def __init__(self, path: str, welcome: bytes | None = None) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.welcome = welcome or raw(Kind.WELCOME, text('{"vocabulary": 40, "process": 77}'))
        self.answers_pings = True
        self.messages: list[tuple[int, bytes]] = []
        self.changed = threading.Condition()
        self.connection: socket.socket | None = None
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        self.connection, _ = self.listener.accept()
        parts = protocol.Messages()
        while data := self.connection.recv(1 << 16):
            for kind, body in parts.feed(data):
                if kind == Kind.HELLO:
                    self.say(self.welcome)
                elif kind == Kind.PING:
                    if self.answers_pings:
                        self.say(raw(Kind.PONG, bytes(body)))
                else:
                    with self.changed:
                        self.messages.append((kind, bytes(body)))
                        self.changed.notify()

    def say(self, data: bytes) -> None:
        self.connection.sendall(data)

    def heard(self, kind: int) -> bytes:
        """Return the body of the next message, which is of a kind."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.messages, timeout=10), "nothing was sent"
            got, body = self.messages.pop(0)
        assert got == kind
        return body

    def accept(self, number: int) -> bytes:
        body = self.heard(Kind.SUBMIT)
        self.say(message(Kind.ACCEPTED, "QQ", struct.unpack_from("<Q", body)[0], number))
        return body

    def close(self) -> None:
        if self.connection:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.thread.join()
            self.connection.close()
        self.listener.close()


@pytest.fixture
def worker(tmp_path):
    worker = FakeWorker(str(tmp_path / "w"))
    yield worker
    if worker.connection and worker.connection.fileno() >= 0:
        worker.close()


@pytest.fixture
def engine(worker, tmp_path):
    with WorkerEngine.connect(f"unix:{tmp_path / 'w'}") as engine:
        yield engine


def submit(engine: WorkerEngine, worker: FakeWorker, number: int, **changes: Any) -> bytes:
    """Submit a request that the worker accepts; return the message."""
    bodies = []
    thread = threading.Thread(target=lambda: bodies.append(worker.accept(number)))
    thread.start()
    assert engine.submit(request(**changes)) == number
    thread.join()
    return bodies[0]


def test_events_of_a_step_come_together(engine, worker):
    assert engine.info == {"vocabulary": 40, "process": 77}
    assert engine.poll() == []
    submit(engine, worker, 1, samples=2)
    submit(engine, worker, 2)
    top = struct.pack("<qfqf", 7, -0.5, 8, -1.5)
    records = [event(TOKEN, 1, 7, sample=1, top=2), event(TOKEN, 2, 9), event(FINISHED, 2, 0, finish=END)]
    worker.say(events(12, records, top))
    readable, _, _ = select.select([engine.fileno()], [], [], 10)
    assert readable
    got = engine.poll()
    assert [(one.kind, one.request, one.sample, one.token) for one in got] == [(1, 1, 1, 7), (1, 2, 0, 9), (3, 2, 0, 0)]
    assert got[0].top == [(7, -0.5), (8, -1.5)]
    assert [one.top for one in got[1:]] == [[], []]
    assert {one.step for one in got} == {12}
    assert (got[2].finish, got[2].prompt_tokens, got[2].cached_tokens, got[2].tokens) == (END, 3, 2, 1)
    assert (got[0].logprob, got[0].waited_seconds, got[0].prompt_seconds, got[0].message) == (-0.5, 0.25, 0.5, None)
    assert not select.select([engine.fileno()], [], [], 0)[0]


def test_request_has_all_fields(engine, worker):
    changes = {"temperature": 0.5, "logit_bias": {7: -1.5}, "seed": -3, "min_tokens": 2, "top_k": 4, "ends": {9, 8}}
    changes |= {"logprobs": 5, "prompt_logprobs": 0, "key": "ä", "deadline_seconds": 1.5, "priority": -2, "samples": 3}
    body = submit(engine, worker, 1, max_tokens=None, **changes)
    numbers = struct.unpack_from("<Q7d4qIIiiiii", body)
    assert numbers[1:8] == (0.5, 1.0, 0.0, 1.0, 0.0, 0.0, 1.5)
    assert numbers[8:] == (0, 2, 4, -3, 0, 1, 3, 6, 1, 0, -2)
    rest = struct.pack("<I3qI2qIqIf", 3, 1, 2, 3, 2, 8, 9, 1, 7, 1, -1.5) + b"\2\0\0\0\xc3\xa4" + bytes(4)
    assert body[struct.calcsize("<Q7d4qIIiiiii") :] == rest
    for wrong in ({"logit_bias": {1 << 63: 1}}, {"samples": 1 << 31}, {"prompt": [1 << 64]}, {"key": "\ud800"}):
        with pytest.raises(ValueError, match="is not possible"):
            engine.submit(request(**wrong))
    with pytest.raises(ValueError, match="salt has a zero byte"):
        engine.submit(request(salt="a\0b"))


@pytest.mark.parametrize(
    ("status", "error"), [("invalid argument", "InvalidArgumentError"), ("cache full", "CacheFullError")]
)
def test_refusals_are_errors(engine, worker, status, error):
    def refuse() -> None:
        tag = worker.heard(Kind.SUBMIT)[:8]
        worker.say(raw(Kind.REFUSED, tag, text(status), text("9 tokens, 8 are possible")))

    thread = threading.Thread(target=refuse)
    thread.start()
    with pytest.raises(Exception, match="9 tokens, 8 are possible") as caught:
        engine.submit(request())
    thread.join()
    assert type(caught.value).__name__ == error
    assert not engine.dead


def test_statistics_and_cancel(engine, worker):
    submit(engine, worker, 5)
    engine.cancel(4)  # of nobody
    engine.cancel(5)
    assert struct.unpack("<Q", worker.heard(Kind.CANCEL)) == (5,)

    def answer() -> None:
        worker.say(raw(Kind.STATISTICS, worker.heard(Kind.ASK_STATISTICS), text('{"free_pages": 3}')))

    threading.Thread(target=answer).start()
    assert engine.stats() == {"free_pages": 3}
    assert engine.stats() == {"free_pages": 3}  # the last ones, as nothing is answered
    assert not engine.dead


def test_submit_for_event_loops(engine, worker):
    async def both() -> list[int]:
        tasks = [asyncio.create_task(engine.submit_async(request())) for _ in range(2)]
        await asyncio.to_thread(worker.accept, 1)
        await asyncio.to_thread(worker.accept, 2)
        return await asyncio.gather(*tasks)

    assert asyncio.run(both()) == [1, 2]

    async def given_up() -> None:
        task = asyncio.create_task(engine.submit_async(request()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(given_up())
    worker.accept(3)
    assert struct.unpack("<Q", worker.heard(Kind.CANCEL)) == (3,)
    worker.say(events(1, [event(TOKEN, 3, 7), event(TOKEN, 1, 8), event(FINISHED, 3, -1, finish=3)]))
    assert [one.request for one in engine.poll(10)] == [1]


def test_the_end_of_the_worker_ends_all_samples(engine, worker):
    submit(engine, worker, 1, samples=3)
    submit(engine, worker, 2)
    worker.say(events(1, [event(FINISHED, 1, 0, sample=1, finish=END)]))
    assert len(engine.poll(10)) == 1
    worker.close()
    ends = engine.poll(10)
    assert sorted((one.request, one.sample) for one in ends) == [(1, 0), (1, 2), (2, 0)]
    assert {(one.kind, one.finish, one.message) for one in ends} == {(FINISHED, FAILED, engine.reason)}
    assert engine.dead
    assert engine.reason == "the worker (process 77) has closed the connection"
    assert select.select([engine.fileno()], [], [], 0)[0], "an event loop does not notice"
    for call in (engine.poll, engine.stats, lambda: engine.submit(request())):
        with pytest.raises(WorkerLostError, match="has closed the connection"):
            call()
    engine.cancel(2)


def test_a_silent_worker_hangs(worker, tmp_path):
    engine = WorkerEngine.connect(f"unix:{tmp_path / 'w'}", hang_seconds=2.0, grace_seconds=0.5)
    submit(engine, worker, 1)
    worker.answers_pings = False
    with pytest.raises(BusyError, match="has not answered for 1 s; try again later"):
        engine.submit(request())
    began = time.monotonic()
    with pytest.raises((BusyError, WorkerLostError)):  # at once: an event loop has other things to do
        engine.submit(request())
    assert time.monotonic() - began < 0.5
    while not engine.hanging:
        time.sleep(0.01)
    with pytest.raises(WorkerLostError, match=r"hangs: it has not answered for \d"):
        engine.submit(request())
    assert not engine.dead
    # It comes back: the request that nobody waits for any more is cancelled, the other one goes on.
    worker.answers_pings = True
    worker.accept(2)
    assert struct.unpack("<Q", worker.heard(Kind.CANCEL)) == (2,)
    worker.say(events(1, [event(TOKEN, 2, 8), event(TOKEN, 1, 7)]))
    assert [one.request for one in engine.poll(10)] == [1]
    assert not engine.hanging
    # It does not.
    worker.answers_pings = False
    (end,) = engine.poll(10)
    assert (end.request, end.finish) == (1, FAILED)
    assert "hangs" in end.message
    assert "was given up" in end.message
    engine.close()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (message(99), "kind 99, which is not known"),
        (struct.pack("<II", 1 << 31, 68), "has 2147483648 bytes, may have 67108864"),
        (message(Kind.ACCEPTED, "Q", 1), "a message of 8 bytes has 16 bytes at 0"),
        (message(Kind.PONG, "QB", 1, 1), "1 bytes are left"),
        (message(Kind.EVENTS, "QI", 1, 1 << 31), "has .* bytes at 12"),
        (events(1, [event(TOKEN, 1, 1, top=1)]), "more likeliest tokens than the 0"),
        (events(1, [event(TOKEN, 1, 1)], struct.pack("<qf", 1, 0)), "fewer likeliest tokens than the 1"),
        (events(1, [event(TOKEN, 1, 1, said=1)]), "a message of 0 bytes has 1 bytes at 0"),
        (raw(Kind.STATISTICS, bytes(8), text("[]")), "no JSON object"),
        (raw(Kind.STATISTICS, bytes(8), text("{")), "a text is no JSON: "),
        (raw(Kind.ASK_MASKS, struct.pack("<QIQiII", 1, 1, 1, 0, 0, 9)), "has 72 bytes at 32"),
    ],
)
def test_a_damaged_message_is_the_end(engine, worker, said, reason):
    submit(engine, worker, 1)
    worker.say(said)
    (end,) = engine.poll(10)
    assert end.finish == FAILED
    with pytest.raises(WorkerLostError, match=reason):
        engine.poll()


def test_refused_front_end(tmp_path):
    problem = raw(Kind.PROBLEM, text("invalid argument"), text("another front end uses this worker"))
    worker = FakeWorker(str(tmp_path / "w"), welcome=problem)
    with pytest.raises(WorkerLostError, match="has refused this front end: another front end uses this worker"):
        WorkerEngine.connect(f"unix:{tmp_path / 'w'}")
    worker.close()


@pytest.mark.parametrize(
    "said", [events(1, [event(TOKEN, 1, 1)]), raw(Kind.ASK_MASKS, struct.pack("<QI", 1, 0))], ids=["events", "masks"]
)
def test_nothing_comes_before_the_welcome(tmp_path, said):
    worker = FakeWorker(str(tmp_path / "w"), welcome=said)
    with pytest.raises(WorkerLostError, match="comes before the worker's welcome"):
        WorkerEngine.connect(f"unix:{tmp_path / 'w'}", start_seconds=5)
    worker.close()


def test_nobody_there(tmp_path):
    with pytest.raises(WorkerLostError, match="there is no worker at unix:"):
        WorkerEngine.connect(f"unix:{tmp_path / 'none'}")
    for address in ("tcp:localhost:9", "udp:x", "tcp:x:99999"):
        with pytest.raises(ValueError, match="worker"):
            WorkerEngine.connect(address)


def ask_masks(number: int, *rows: tuple[int, int, int, list[int]]) -> bytes:
    parts = [struct.pack(f"<QiII{len(added)}q", *names, len(added), *added) for *names, added in rows]
    return raw(Kind.ASK_MASKS, struct.pack("<QI", number, len(rows)), *parts)


def answer(worker: FakeWorker) -> tuple[int, list[int], list[int]]:
    """Return the round, which rows are complete, and the one token that each row allows, or -1."""
    body = worker.heard(Kind.MASKS)
    number, count = struct.unpack_from("<QI", body)
    complete = list(body[12 : 12 + count])
    words = struct.unpack_from("<I", body, 12 + count)[0]
    bits = body[16 + count :]
    assert len(bits) == 4 * words == 8 * count
    return number, complete, [int.from_bytes(bits[8 * i : 8 * i + 8], "little").bit_length() - 1 for i in range(count)]


def test_masks_follow_texts(engine, worker):
    submit(engine, worker, 1, constraint=Word((5, 33, 6)), samples=2)
    worker.say(ask_masks(1, (1, 0, 0, []), (1, 1, 0, [5])))
    assert answer(worker) == (1, [0, 0], [5, 33])
    # A draft's proposals are rows more; then the text is shorter again.
    worker.say(ask_masks(2, (1, 0, 0, [5]), (1, 0, 1, [33]), (1, 0, 2, [6])))
    assert answer(worker) == (2, [0, 0, 1], [33, 6, -1])
    worker.say(ask_masks(3, (1, 0, 1, [33])))
    assert answer(worker) == (3, [0], [6])
    worker.say(ask_masks(4, (1, 0, 2, [0])))  # an end before the grammar's
    assert answer(worker) == (4, [1], [-1])
    worker.say(ask_masks(5, (1, 0, 1, []), (9, 0, 0, [])))  # of a request that is not known: nothing
    assert answer(worker) == (5, [0, 0], [33, -1])


def test_a_grammar_that_fails_ends_its_request_alone(engine, worker):
    submit(engine, worker, 1, constraint=Word((5, 6)), samples=2)
    worker.say(ask_masks(1, (1, 0, 0, [7]), (1, 1, 0, [5])))
    assert answer(worker) == (1, [0, 0], [-1, 6])
    worker.say(ask_masks(2, (1, 0, 1, [])))
    assert answer(worker) == (2, [0], [-1])
    worker.say(events(1, [event(FINISHED, 1, -1, finish=FAILED, said=2)], said="no"))
    (end,) = engine.poll(10)
    assert end.message == "the grammar does not allow token 7"


class Panic(BaseException):
    """What a package in Rust raises when it panics is no Exception."""


class Panicking(Word):
    def copy(self) -> Word:
        return self

    def fill(self, bits: np.ndarray) -> None:
        raise Panic("index out of bounds")


def test_a_grammar_that_panics_fails_in_this_process_too():
    texts = MaskedRequest(1, Panicking((5,)))
    assert texts.fill(0, [], np.zeros(2, np.uint32)) == -1
    assert texts.error == "index out of bounds"


def test_a_grammar_that_panics_ends_its_request_alone(engine, worker):
    submit(engine, worker, 1, constraint=Panicking((5,)))
    submit(engine, worker, 2, constraint=Word((5, 6)))
    worker.say(ask_masks(1, (1, 0, 0, []), (2, 0, 0, [])))
    assert answer(worker) == (1, [0, 0], [-1, 5])
    worker.say(ask_masks(2, (2, 0, 0, [5])))
    assert answer(worker) == (2, [0], [6])
    worker.say(events(1, [event(FINISHED, 1, -1, finish=FAILED, said=2)], said="no"))
    (end,) = engine.poll(10)
    assert end.message == "index out of bounds"


class Ending(Word):
    """Calls `end` when its tokens are asked for."""

    end: Callable[[], None]

    def copy(self) -> Word:
        return self

    def fill(self, bits: np.ndarray) -> None:
        super().fill(bits)
        self.end()


def test_a_request_may_end_while_its_tokens_are_asked_for(engine, worker):
    constraint = Ending((5, 6))
    submit(engine, worker, 1, constraint=constraint, samples=2)
    seen = []

    def end() -> None:
        worker.say(events(1, [event(FINISHED, 1, 0, sample=sample, finish=END) for sample in (0, 1)]))
        seen.extend(engine.poll(10))

    constraint.end = end
    worker.say(ask_masks(1, (1, 0, 0, []), (1, 1, 0, [])))
    assert answer(worker) == (1, [0, 0], [5, -1])
    assert [(one.kind, one.sample) for one in seen] == [(FINISHED, 0), (FINISHED, 1)]


def test_a_worker_that_does_not_read_keeps_nobody_waiting(worker, engine):
    submit(engine, worker, 1)
    with worker.changed:  # the worker's thread waits here when it has a message
        began = time.monotonic()
        numbers = [engine._submit(request(prompt=range(100_000))) for _ in range(4)]
        engine.cancel(1)
        assert time.monotonic() - began < 5, "it was waited for"
    for number in range(2, 6):
        worker.accept(number)
    assert sorted(number.result(10) for number in numbers) == [2, 3, 4, 5]
    assert struct.unpack("<Q", worker.heard(Kind.CANCEL)) == (1,)
