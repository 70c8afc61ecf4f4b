# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""intarsia-worker with a model that computes nothing: what it serves, and what happens when one side is gone."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from intarsia.generation.engine import CANCELLED, END, FAILED, FINISHED, LENGTH, TOKEN, Mock
from intarsia.serve import worker_protocol as protocol
from intarsia.serve.worker import WorkerEngine, WorkerLostError
from intarsia.serve.worker_protocol import Event, Kind
from worker_requests import Word, request

MOCK = {"vocabulary": 100, "context": 512, "page_tokens": 4, "stop_token": -1, "step_seconds": 0.002}
SECONDS = 20  # nothing here takes so long, if it ends at all


@pytest.fixture
def start(tools, monkeypatch) -> Iterator[Callable[..., WorkerEngine]]:
    """Start a worker with a mock's and an engine's options; it is closed after the test."""
    monkeypatch.setenv("INTARSIA_WORKER", str(tools.path("intarsia-worker")))
    engines = []

    def make(mock: dict[str, Any] | None = None, **options: Any) -> WorkerEngine:
        engines.append(WorkerEngine(Mock(**MOCK | (mock or {})), **{"sequences": 8} | options))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


@pytest.fixture
def listen(tools, tmp_path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a worker that listens, and wait until it is ready; it is killed after the test."""
    started = []

    def make(address: str, *options: str) -> subprocess.Popen[str]:
        mock = ",".join(f"{name.replace('_', '-')}={value}" for name, value in MOCK.items())
        command = [tools.path("intarsia-worker"), f"--mock={mock}", f"--listen={address}", *options]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stderr.readline() == f"ready at {address}\n"
        return process

    yield make
    for process in started:
        process.kill()
        process.communicate()


def collect(engine: WorkerEngine, count: int, until: Callable[[Event], bool] | None = None) -> list[Event]:
    """Return events until so many samples have ended, or until one that is waited for."""
    events: list[Event] = []
    deadline = time.monotonic() + SECONDS
    while sum(event.kind == FINISHED for event in events) < count:
        assert time.monotonic() < deadline, f"only {len(events)} events"
        new = engine.poll(1)
        events += new
        if until and any(map(until, new)):
            break
    return events


def tokens(events: list[Event], number: int, sample: int = 0) -> list[int]:
    return [one.token for one in events if (one.kind, one.request, one.sample) == (TOKEN, number, sample)]


def is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def assert_as_at_the_start(engine: WorkerEngine) -> None:
    deadline = time.monotonic() + SECONDS
    while (stats := engine.stats())["running"] and time.monotonic() < deadline:
        time.sleep(0.005)  # a step's events come before its figures
    assert (stats["running"], stats["waiting"]) == (0, 0)
    assert stats["free_pages"] == stats["pages"]


def test_serves_requests(start):
    engine = start()
    assert engine.info["vocabulary"] == 100
    assert engine.info["context"] == 512
    assert engine.info["page_tokens"] == 4
    assert engine.info["sequences"] == 8
    assert engine.info["process"] == engine.process
    one = engine.submit(request(max_tokens=20, seed=3, temperature=1.0))
    two = engine.submit(request(max_tokens=6, seed=3, temperature=1.0, samples=2, logprobs=2))
    events = collect(engine, 3)
    assert len(tokens(events, one)) == 20
    # A sample's numbers are those of its seed and number, whatever runs beside it.
    assert tokens(events, two) == tokens(events, one)[:6] != tokens(events, two, 1)
    assert all(len(event.top) == 2 for event in events if event.request == two and event.kind == TOKEN)
    ends = {(event.request, event.sample): event for event in events if event.kind == FINISHED}
    assert {end.finish for end in ends.values()} == {LENGTH}
    assert ends[one, 0].tokens == 20
    assert ends[two, 1].prompt_tokens == 3
    assert_as_at_the_start(engine)
    assert engine.stats()["generated_tokens"] == 32


def test_events_of_a_step_are_one_message(start):
    engine = start()
    for _ in range(4):
        engine.submit(request(max_tokens=30))
    batches = []
    while sum(event.kind == FINISHED for batch in batches for event in batch) < 4:
        time.sleep(0)
        batches.append(engine.poll(5))
    wide = [batch for batch in batches if len({event.request for event in batch}) == 4]
    assert len(wide) > 10


def test_refusals_name_what_is_wrong(start):
    engine = start(waiting=1, sequences=1)
    for wrong, message in (
        ({"prompt": [1] * 600}, "a prompt has 600 tokens, the model's context is 512"),
        ({"prompt": [100]}, "100"),
        ({"prompt": []}, "prompt"),
        ({"samples": -1}, "samples"),
        ({"deadline_seconds": -1.0}, "deadline"),
    ):
        with pytest.raises(ValueError, match=message):
            engine.submit(request(**wrong))
    engine.submit(request(max_tokens=400))
    with pytest.raises(Exception, match="wait"):  # noqa: PT012
        for _ in range(3):
            engine.submit(request())
    assert not engine.dead


def test_cancelling_gives_the_last_events(start):
    engine = start()
    one, two = engine.submit(request(max_tokens=400, samples=2)), engine.submit(request(max_tokens=40))
    engine.poll(5)
    engine.cancel(one)
    engine.cancel(99)
    events = collect(engine, 3)
    finishes = [(event.request, event.finish) for event in events if event.kind == FINISHED]
    assert sorted(finishes) == [(one, CANCELLED), (one, CANCELLED), (two, LENGTH)]
    assert_as_at_the_start(engine)


def test_masks(start):
    engine = start()
    word = (7, 99, 31, 32, 64)
    one = engine.submit(request(max_tokens=50, constraint=Word(word), samples=2, temperature=1.0))
    two = engine.submit(request(max_tokens=30))
    events = collect(engine, 3)
    for sample in range(2):
        assert tokens(events, one, sample) == list(word)
    assert {event.finish for event in events if event.kind == FINISHED and event.request == one} == {END}
    assert len(tokens(events, two)) == 30
    # A grammar that fails in the middle ends its request alone.
    one = engine.submit(request(max_tokens=50, constraint=Word(word, fails_at=3)))
    two = engine.submit(request(constraint=Word(word)))
    events = collect(engine, 2)
    (end,) = (event for event in events if event.kind == FINISHED and event.request == one)
    assert (end.finish, end.message) == (FAILED, "out of fuel")
    assert tokens(events, one) == list(word[:3])
    assert tokens(events, two) == list(word)
    assert_as_at_the_start(engine)


@pytest.mark.parametrize("moment", ["before", "in", "after"])
def test_a_killed_worker_is_reported(start, moment):
    engine, other = start(), start()
    beside = other.submit(request(max_tokens=200))
    number = None
    if moment != "before":
        number = engine.submit(request(max_tokens=400 if moment == "in" else 3))
        events = collect(engine, 1, until=lambda event: moment == "in" and event.kind == TOKEN)
    os.kill(engine.process, signal.SIGKILL)
    if moment == "in":
        events += collect(engine, 1)
        assert (events[-1].request, events[-1].finish) == (number, FAILED)
        assert "was ended by signal 9 (SIGKILL)" in events[-1].message
        assert 0 < len(tokens(events, number)) < 400
    with pytest.raises(WorkerLostError, match=r"the worker \(process \d+\) was ended by signal 9 \(SIGKILL\)"):
        engine.poll(SECONDS)
    assert engine.dead
    with pytest.raises(WorkerLostError, match="SIGKILL"):
        engine.submit(request())
    assert len(tokens(collect(other, 1), beside)) == 200


def test_a_stopped_worker_hangs_and_is_killed(start):
    engine, other = start(hang_seconds=1.0, grace_seconds=0.5), start()
    number, beside = engine.submit(request(max_tokens=400)), other.submit(request(max_tokens=200))
    engine.poll(5)
    os.kill(engine.process, signal.SIGSTOP)
    (end,) = (event for event in collect(engine, 1) if event.kind == FINISHED)
    assert (end.request, end.finish) == (number, FAILED)
    assert "hangs: it has not answered for" in end.message
    assert engine.dead
    assert is_gone(engine.process)
    assert len(tokens(collect(other, 1), beside)) == 200


def test_a_worker_that_was_stopped_goes_on(start):
    engine = start(hang_seconds=1.0, grace_seconds=30.0)
    number = engine.submit(request(max_tokens=200))
    events = engine.poll(5)
    os.kill(engine.process, signal.SIGSTOP)
    deadline = time.monotonic() + SECONDS
    while not engine.hanging and time.monotonic() < deadline:
        time.sleep(0.02)
    with pytest.raises(WorkerLostError, match="hangs"):
        engine.submit(request())
    os.kill(engine.process, signal.SIGCONT)
    events += collect(engine, 1)
    assert len(tokens(events, number)) == 200
    assert not engine.hanging
    engine.submit(request())


def test_a_worker_that_does_not_start_says_why(start, tmp_path, monkeypatch):
    with pytest.raises(WorkerLostError, match=r"ended with status 1; its last words: error: .*none.itx.*"):
        WorkerEngine(tmp_path / "none.itx")
    monkeypatch.setenv("INTARSIA_WORKER", str(tmp_path / "none"))
    with pytest.raises(WorkerLostError, match="does not start"):
        start()


def test_closing_ends_the_process(start):
    engine = start()
    engine.submit(request(max_tokens=400))
    engine.close()
    assert is_gone(engine.process)
    assert engine.poll()[-1].finish == FAILED
    assert engine.poll() == []
    assert "was closed" in engine.reason


def test_draining_finishes_requests(start):
    engine = start()
    number = engine.submit(request(max_tokens=60))
    engine.drain()
    with pytest.raises(Exception, match="is ending, and takes no more requests"):
        engine.submit(request())
    assert len(tokens(collect(engine, 1), number)) == 60
    with pytest.raises(WorkerLostError, match="was told to end, and has finished all requests"):
        engine.poll(SECONDS)


@pytest.mark.parametrize("twice", [False, True])
def test_signals(start, twice):
    engine = start()
    number = engine.submit(request(max_tokens=150))
    engine.poll(5)
    os.kill(engine.process, signal.SIGTERM)
    if twice:
        time.sleep(0.05)
        os.kill(engine.process, signal.SIGTERM)
        (end,) = (event for event in collect(engine, 1) if event.kind == FINISHED)
        assert end.finish == FAILED
        assert (
            "ended with status 143; its last words: ending (Terminated); 1 requests are finished first" in end.message
        )
    else:
        (end,) = (event for event in collect(engine, 1) if event.kind == FINISHED)
        assert (end.request, end.finish) == (number, LENGTH)
        with pytest.raises(WorkerLostError, match="has finished all requests"):
            engine.poll(SECONDS)


class FrontEnd:
    """One that sends what a test wants it to send."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(SECONDS)
        self.socket.connect(path)
        self.parts = protocol.Messages()
        self.heard: list[tuple[int, bytes]] = []

    def hear(self, kind: int) -> bytes:
        """Return the body of the next message of a kind; skip others."""
        while True:
            for at, (got, body) in enumerate(self.heard):
                if got == kind:
                    del self.heard[: at + 1]
                    return body
            data = self.socket.recv(1 << 16)
            assert data, f"the connection has ended without a message of kind {kind}: {self.heard}"
            self.heard += [(got, bytes(body)) for got, body in self.parts.feed(data)]

    def greet(self) -> None:
        self.socket.sendall(protocol.hello())
        self.hear(Kind.WELCOME)


def read_text(body: bytes, at: int = 0) -> tuple[str, int]:
    (count,) = struct.unpack_from("<I", body, at)
    return body[at + 4 : at + 4 + count].decode(), at + 4 + count


def message(kind: int, layout: str = "", *values: object) -> bytes:
    body = struct.pack(f"<{layout}", *values)
    return struct.pack("<II", len(body), kind) + body


SUBMIT = protocol.submit(1, protocol.Submission([1, 2, 3], max_tokens=400))
MASKED = protocol.submit(1, protocol.Submission([1, 2, 3], max_tokens=400, has_mask=True))


def test_a_front_end_that_is_gone_leaves_nothing(listen, tmp_path):
    path = str(tmp_path / "w")
    process = listen(f"unix:{path}")
    for sent, last in ((SUBMIT, Kind.EVENTS), (MASKED, Kind.ASK_MASKS), (SUBMIT[:40], None), (b"", None)):
        gone = FrontEnd(path)
        gone.greet()
        gone.socket.sendall(sent)
        if last:
            gone.hear(last)
        gone.socket.close()
    with WorkerEngine.connect(f"unix:{path}") as engine:
        number = engine.submit(request(max_tokens=20))
        assert len(tokens(collect(engine, 1), number)) == 20
        assert_as_at_the_start(engine)
        assert engine.stats()["finished"][LENGTH] == 1
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0
    assert "the front end has closed the connection; 1 requests are cancelled" in process.stderr.read()
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "542393671 bytes|kind"),
        (message(Kind.HELLO, "QI", 1, 1), "hello: the first message is none of a front end"),
        (message(Kind.HELLO, "QI", protocol.MAGIC, 2), "hello: the front end speaks version 2"),
        (message(Kind.HELLO, "Q", protocol.MAGIC), "hello: the body ends within 'version'"),
        (SUBMIT, "with 160 bytes; at most 64|with [0-9]+ bytes; at most 64 are possible"),
        (protocol.ping(1), "the first message is of kind 6, must be hello"),
        (protocol.hello() + message(99), "has no message of kind 99 from a front end"),
        (protocol.hello() + protocol.hello(), "has no message of kind 1 from a front end"),
        (protocol.hello() + struct.pack("<II", 1 << 31, 2), "kind 2 with 2147483648 bytes; at most 67108864"),
        (protocol.hello() + message(Kind.CANCEL, "I", 1), "cancel: the body ends within 'request'"),
        (protocol.hello() + message(Kind.PING, "QB", 1, 0), "ping: 1 bytes are left behind the last field"),
        (protocol.hello() + message(Kind.DRAIN, "B", 0), "drain: 1 bytes are left"),
        (protocol.hello() + protocol.masks(1, b"", memoryview(b"")), "masks of round 1, which nobody waits for"),
        (protocol.hello() + message(Kind.SUBMIT, "Q", 1), "submit: the body ends within 'temperature'"),
    ],
)
def test_a_front_end_that_breaks_a_rule_is_told_which(listen, tmp_path, sent, problem):
    path = str(tmp_path / "w")
    listen(f"unix:{path}")
    wrong = FrontEnd(path)
    wrong.socket.sendall(sent)
    body = wrong.hear(Kind.PROBLEM)
    said, end = read_text(body, read_text(body)[1])
    assert end == len(body)
    with pytest.raises(AssertionError, match="the connection has ended"):
        wrong.hear(Kind.PONG)
    with pytest.raises(ValueError, match=problem):
        raise ValueError(said)
    with WorkerEngine.connect(f"unix:{path}") as engine:
        engine.submit(request())
        collect(engine, 1)


def test_a_front_end_that_does_not_read_fills_no_memory(listen, tmp_path):
    path = str(tmp_path / "w")
    process = listen(f"unix:{path}")
    deaf = FrontEnd(path)
    deaf.greet()
    deaf.socket.sendall(SUBMIT)
    deaf.socket.settimeout(0.5)
    questions = protocol.ask_statistics(1) * (1 << 20)
    with pytest.raises(TimeoutError):  # the worker reads no more
        deaf.socket.sendall(questions)
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    assert pages * os.sysconf("SC_PAGE_SIZE") < 300 << 20  # the answers have 500 MB
    deaf.socket.close()
    with WorkerEngine.connect(f"unix:{path}") as engine:
        engine.submit(request())
        collect(engine, 1)
        assert_as_at_the_start(engine)


def test_one_front_end_at_a_time(listen, tmp_path):
    path = str(tmp_path / "w")
    listen(f"unix:{path}")
    with WorkerEngine.connect(f"unix:{path}") as engine:
        number = engine.submit(request(max_tokens=100))
        with pytest.raises(WorkerLostError, match="another front end uses this worker already"):
            WorkerEngine.connect(f"unix:{path}")
        assert len(tokens(collect(engine, 1), number)) == 100


def test_once(listen, tmp_path):
    path = str(tmp_path / "w")
    process = listen(f"unix:{path}", "--once")
    with WorkerEngine.connect(f"unix:{path}") as engine:
        engine.submit(request(max_tokens=400))
    assert process.wait(SECONDS) == 0


def test_ports_need_a_token(listen, tools, tmp_path):
    for options, message_ in (
        (["--listen=tcp:localhost:1"], "give both ends --token=FILE"),
        (["--listen=udp:x"], "'udp:x' is no address"),
        (["--listen=fd:99"], "'fd:99' is no connected stream socket"),
        (["--listen=fd:1"], "'fd:1' is no connected stream socket"),
        (["--listen=unix:" + "x" * 108], "the path has 108 bytes, 1 to 107 are possible"),
        ([f"--listen=unix:{__file__}"], "the file exists, and is no socket"),
        ([], "--listen is required"),
        (["--listen=unix:x", "--mock=speed=1"], "'speed=1' is none of vocabulary=N"),
        (["--listen=unix:x", "--mock=seed=x"], "'x' is no value of seed"),
        (["--listen=unix:x", "--cache=7 apples"], "'7 apples' is no size"),
    ):
        mock = [] if any(option.startswith("--mock") for option in options) else ["--mock=seed=1"]
        result = tools.run("intarsia-worker", *options, *mock, check=False)
        assert result.returncode in (1, 2)
        assert message_ in result.stderr
    for name, secret in (("right", "0123456789abcdef\n"), ("wrong", "0123456789abcdeX")):
        (tmp_path / name).write_text(secret)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp:127.0.0.1:{free.getsockname()[1]}"
    process = listen(address, f"--token={tmp_path / 'right'}")
    with pytest.raises(WorkerLostError, match="has another token"):
        WorkerEngine.connect(address, token=tmp_path / "wrong")
    with WorkerEngine.connect(address, token=tmp_path / "right") as engine:
        number = engine.submit(request(max_tokens=100))
        assert len(tokens(collect(engine, 1), number)) == 100
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0


def test_a_path_with_a_dead_socket_is_taken(listen, tmp_path):
    path = str(tmp_path / "w")
    process = listen(f"unix:{path}")
    assert os.stat(path).st_mode & 0o777 == 0o700
    process.kill()
    process.wait()
    listen(f"unix:{path}")
    with pytest.raises(AssertionError):  # its first line is the error
        listen(f"unix:{path}")
    WorkerEngine.connect(f"unix:{path}").close()
