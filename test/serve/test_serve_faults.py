# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Clients that leave, hang and flood, and engines that die: others go on, and nothing is left of them."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from intarsia.serve.connection import Limits
from intarsia.serve.keys import Key, Keys
from intarsia.serve.models import ServedModel
from intarsia.serve.server import Server
from serve_client import END, byte_tokenizer, served, texts_of, writes
from serve_fakes import FakeEngine

CHAT = "/v1/chat/completions"
HELLO = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
LONG = {**HELLO, "stream": True, "ignore_eos": True}


def first_token(sock: socket.socket) -> None:
    """Read until the first token of a stream."""
    data = b""
    while b'"content":"a' not in data:
        more = sock.recv(4096)
        assert more, data
        data += more


def test_client_that_leaves_a_stream_costs_nothing_more() -> None:
    with served(writes("a", ends=False)) as client:
        gone = client.open(CHAT, LONG)
        first_token(gone)
        stays = client.open(CHAT, LONG)
        first_token(stays)
        gone.close()
        client.wait(lambda: client.engine.cancelled == [1])
        first_token(stays)
        stays.close()
        client.wait(client.is_idle)
        assert 'finished_reason="abort"} 2' in client.send("/metrics")[2].decode()


def test_client_that_leaves_while_it_waits() -> None:
    with served(writes("a", ends=False)) as client:
        client.engine.paused.set()  # nothing is computed: both are queued
        for body in (LONG, HELLO):
            sock = client.open(CHAT, body)
            client.wait(lambda: client.engine.stats()["running"] == 1)
            sock.close()
            client.wait(client.is_idle)
        assert client.engine.cancelled == [1, 2]


def test_client_that_leaves_while_its_prompt_is_prepared() -> None:
    template = "{% for a in range(2000) %}{% for b in range(2000) %}{% endfor %}{% endfor %}{{ messages[0].content }}"
    with served(writes("a", ends=False), template=template) as client:
        sock = client.open(CHAT, LONG)
        client.wait(lambda: client.server.active == 1)
        sock.close()
        client.wait(lambda: client.server.active == 0)
        client.wait(client.is_idle)


def test_whole_answer_of_a_client_that_has_left() -> None:
    with served(writes("a", ends=False)) as client:
        sock = client.open(CHAT, {**HELLO, "max_tokens": 4000})
        client.wait(lambda: client.engine.stats()["generated_tokens"] > 3)
        sock.close()
        client.wait(client.is_idle)
        assert client.engine.cancelled == [1]


def test_reader_of_a_byte_a_second_is_cut() -> None:
    limits = Limits(stalled_seconds=1.0, buffer_bytes=1 << 30)
    with served(writes("a" * 50, ends=False), limits=limits, engine={"step_seconds": 0.0001}) as client:
        sock = client.open(CHAT, {**LONG, "n": 64}, receive_buffer=4096)
        first_token(sock)
        started = time.monotonic()
        # It is cut, and counted, whether the engine goes on or not.
        client.wait(lambda: any(one.transport.get_write_buffer_size() for one in client.server.connections))
        client.engine.paused.set()
        client.wait(lambda: client.engine.cancelled, 20)
        client.engine.paused.clear()
        client.wait(client.is_idle)
        assert client.engine.cancelled
        assert time.monotonic() - started < 15
        assert client.model.metrics.slow_clients == 1
        assert client.json(CHAT, {**HELLO, "max_tokens": 1})["usage"]["completion_tokens"] == 1
        sock.close()


@pytest.mark.parametrize("fields", [{"n": 32}, {"stream": True}], ids=["whole", "stream"])
def test_slow_reader_of_a_short_answer_is_cut(fields: dict) -> None:
    # The kernel takes all of it from the server: some 20 kB, of which the client reads a byte now and then.
    with served(writes("a" * 500), limits=Limits(stalled_seconds=0.5)) as client:
        sock = client.open(CHAT, {**HELLO, **fields}, receive_buffer=2048)
        client.wait(lambda: client.engine.submitted)
        deadline = time.monotonic() + 8
        while client.server.connections:
            assert time.monotonic() < deadline
            sock.recv(1)
            time.sleep(0.1)
        client.wait(client.is_idle)
        sock.close()
        assert len(client.json(CHAT, {**HELLO, **fields, "stream": False})["choices"]) == fields.get("n", 1)


def test_stream_that_is_too_far_behind_is_cut() -> None:
    limits = Limits(stalled_seconds=60.0, buffer_bytes=20_000)
    with served(writes("a" * 50, ends=False), limits=limits, engine={"step_seconds": 0.0001}) as client:
        sock = client.open(CHAT, {**LONG, "n": 64}, receive_buffer=4096)
        client.wait(lambda: client.engine.cancelled, 20)
        client.wait(client.is_idle)
        assert client.engine.cancelled
        assert "intarsia_slow_clients_total" in client.send("/metrics")[2].decode()
        assert client.model.metrics.slow_clients == 1
        sock.close()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-a",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{",
    ],
    ids=["nothing", "headers", "body"],
)
def test_request_that_arrives_too_slowly(data: bytes) -> None:
    with served(writes("ok"), limits=Limits(header_seconds=0.5, body_seconds=0.5)) as client:
        sock = socket.create_connection(("127.0.0.1", client.port), timeout=10)
        sock.sendall(data)
        started = time.monotonic()
        answer = b""
        while more := sock.recv(4096):
            answer += more
        assert time.monotonic() - started < 5
        assert answer == b"" if not data else answer.startswith(b"HTTP/1.1 408 ")
        client.json(CHAT, HELLO)


def test_slow_bodies_need_progress_not_speed() -> None:
    with served(writes("ok"), limits=Limits(body_seconds=0.5, body_bytes=100)) as client:
        body = json.dumps({**HELLO, "metadata": {"a": "x" * 2000}}).encode()
        sock = socket.create_connection(("127.0.0.1", client.port), timeout=10)
        sock.sendall(b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(body)))
        for begin in range(0, len(body), 300):
            sock.sendall(body[begin : begin + 300])
            time.sleep(0.25)
        assert sock.recv(4096).startswith(b"HTTP/1.1 200 ")
        sock.close()


def test_connections_over_the_limit_are_told_so() -> None:
    with served(writes("ok"), limits=Limits(connections=50, header_seconds=60)) as client:
        idle = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(50)]
        client.wait(lambda: len(client.server.connections) == 50)
        status, headers, data = client.send("/health")
        assert status == 503
        assert headers["retry-after"] == "1"
        assert json.loads(data)["error"]["code"] == "too_many_connections"
        for sock in idle:
            sock.close()
        client.wait(lambda: not client.server.connections)
        client.json(CHAT, HELLO)


def test_idle_connections_take_little() -> None:
    """As many as this process may open, at both ends: 10,000, or what its limit of files allows."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 10_000 if most == resource.RLIM_INFINITY else min(10_000, (most - 3000) // 2)
    if count < 1000:
        pytest.skip(f"this process may open {most} files, which is too few")
    if soft < 2 * count + 3000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count + 3000, most))
    with served(writes("a" * 20), limits=Limits(connections=count + 20, header_seconds=600)) as client:
        client.json(CHAT, HELLO)
        before = resident_bytes()
        idle = []
        for _ in range(count):
            idle.append(socket.create_connection(("127.0.0.1", client.port), timeout=10))
        client.wait(lambda: len(client.server.connections) >= count, 30)
        assert resident_bytes() - before < 300e6 * count / 10_000 + 20e6
        started = time.monotonic()
        streams = [client.open(CHAT, {**HELLO, "stream": True}) for _ in range(16)]
        for stream in streams:
            data = b""
            while b"[DONE]" not in data:
                data += stream.recv(65536)
            stream.close()
        assert time.monotonic() - started < 5
        for sock in idle:
            sock.close()
        client.wait(lambda: not client.server.connections, 30)


def resident_bytes() -> int:
    """Return the memory of this process that is in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_headers_and_requests_that_are_none() -> None:
    with served(writes("ok")) as client:
        for data, status in (
            (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"x: " + b"y" * 100_000 + b"\r\n\r\n", b"431"),
            (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"x: y\r\n" * 20_000, b"431"),
            (b"\x16\x03\x01\x02\x00\x01", b"400"),
            (b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", b"400"),
        ):
            sock = socket.create_connection(("127.0.0.1", client.port), timeout=10)
            sock.sendall(data)
            assert sock.recv(4096).split(b" ")[1] == status
            sock.close()
        client.json(CHAT, HELLO)


def test_events_that_come_before_the_number_of_their_request() -> None:
    with served(writes("abcdefgh"), engine={"late_seconds": 0.05}) as client:
        answers: list[dict] = []
        threads = [threading.Thread(target=lambda: answers.append(client.json(CHAT, HELLO))) for _ in range(8)]
        for thread in threads:
            thread.start()
            time.sleep(0.01)
        for thread in threads:
            thread.join()
        assert [answer["choices"][0]["message"]["content"] for answer in answers] == ["abcdefgh"] * 8
        # A stream that ends before its headers are sent is told so all the same.
        *chunks, usage = client.events(CHAT, {**HELLO, "stream_options": {"include_usage": True}})
        assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "abcdefgh"
        assert usage["usage"]["completion_tokens"] == 8
        client.wait(client.is_idle)
        assert client.model.supervisor._early == []


def test_queue_at_its_limit() -> None:
    with served(writes("a", ends=False), engine={"waiting": 2}) as client:
        streams = [client.open(CHAT, LONG) for _ in range(2)]
        client.wait(lambda: client.engine.stats()["running"] == 2)
        status, headers, data = client.send(CHAT, HELLO)
        assert (status, json.loads(data)["error"]["code"]) == (429, "rate_limit_exceeded")
        assert int(headers["retry-after"]) >= 1
        for stream in streams:
            stream.close()
        client.wait(client.is_idle)


def test_several_prompts_that_do_not_all_fit_leave_nothing() -> None:
    with served(writes("a", ends=False), engine={"waiting": 2}) as client:
        client.error("/v1/completions", {"model": "tiny", "prompt": ["a", "b", "c"]}, 429)
        client.wait(client.is_idle)


def test_requests_over_the_limit() -> None:
    with served(writes("a", ends=False), max_requests=1) as client:
        stream = client.open(CHAT, LONG)
        first_token(stream)
        assert client.error(CHAT, HELLO, 429)["code"] == "rate_limit_exceeded"
        stream.close()
        client.wait(client.is_idle)


def test_engine_that_dies_is_reported_and_starts_again() -> None:
    with served(writes("a", ends=False)) as client:
        sock = client.open(CHAT, LONG)
        first_token(sock)
        whole: list[int] = []
        waiting = threading.Thread(target=lambda: whole.append(client.send(CHAT, HELLO)[0]))
        waiting.start()
        client.wait(lambda: client.model.supervisor.active == 2)
        client.engine.lose("killed by signal 9")
        data = b""
        while more := sock.recv(65536):
            data += more
        error = json.loads(data.split(b"data: ")[-1].split(b"\n\n")[0])["error"]
        assert "killed by signal 9" in error["message"]
        assert error["type"] == "service_unavailable"
        assert b"[DONE]" not in data
        waiting.join()
        assert whole == [503]
        client.wait(lambda: client.send("/health")[0] == 200)
        assert client.json(CHAT, {**HELLO, "max_tokens": 2})["usage"]["completion_tokens"] == 2
        assert client.model.supervisor.restarts == 1


def test_health_while_the_engine_does_not_start() -> None:
    with served(writes("a")) as client:
        supervisor = client.model.supervisor
        made = supervisor._make
        supervisor._make = lambda: (_ for _ in ()).throw(RuntimeError("no memory"))
        client.engine.lose("gone")
        client.wait(lambda: client.send("/health")[0] == 503)
        client.error(CHAT, HELLO, 503)
        supervisor._make = made
        client.wait(lambda: client.send("/health")[0] == 200)
        client.json(CHAT, HELLO)


def test_engine_that_arrives_after_the_end_is_closed() -> None:
    may_arrive, closed = threading.Event(), threading.Event()

    class Late(FakeEngine):
        def close(self) -> None:
            super().close()
            closed.set()

    def make() -> FakeEngine:
        may_arrive.wait(30)
        return Late(writes("a"))

    model = ServedModel("tiny", texts_of(byte_tokenizer(), None), 64, make)
    server = Server([model])
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=("", 0, [listener]), daemon=True)
    thread.start()
    while not model.supervisor.is_making:
        time.sleep(0.001)
    server.stop()
    thread.join(5)
    assert not thread.is_alive()
    may_arrive.set()
    assert closed.wait(5)


def test_an_answer_that_cannot_be_written_ends_alone() -> None:
    def script(request: object, sample: int) -> Iterator[int]:
        return iter([-1]) if request.max_tokens == 7 else iter([*b"ok", END])

    with served(script) as client:
        error = client.error(CHAT, {**HELLO, "max_tokens": 7}, 500)
        assert error["code"] == "internal_error"
        _, _, data = client.send(CHAT, {**HELLO, "max_tokens": 7, "stream": True})
        assert json.loads(data.split(b"data: ")[-1])["error"]["code"] == "internal_error"
        client.json(CHAT, HELLO)
        client.wait(client.is_idle)


def test_failure_before_the_stream_has_begun() -> None:
    with served(lambda request, sample: iter([-1]), engine={"late_seconds": 0.05}) as client:
        body = {"model": "tiny", "prompt": ["a", "b"], "stream": True}
        _, _, data = client.send("/v1/completions", body)
        assert json.loads(data.split(b"data: ")[-1])["error"]["code"] == "internal_error"
        client.wait(client.is_idle)


def test_keys_are_asked_for_and_limited() -> None:
    keys = Keys(
        [("sk-good-key", Key("alice", {"streams": 1})), ("sk-poor-key", Key("bob", {"requests": 2, "tokens": 60}))]
    )
    with served(writes("a", ends=False), keys=keys) as client:
        for headers in ({}, {"authorization": "Bearer sk-wrong-key"}, {"authorization": "Basic sk-good-key"}):
            for path, body in ((CHAT, HELLO), ("/v1/models", None), ("/metrics", None), ("/state", None)):
                error = client.error(path, body, 401, headers=headers)
                assert error["code"] == "invalid_api_key"
        assert client.send("/health")[0] == client.send("/")[0] == 200
        good, poor = {"authorization": "Bearer sk-good-key"}, {"x-api-key": "sk-poor-key"}
        body = {**HELLO, "max_tokens": 2}
        assert client.json(CHAT, body, headers=good)
        request = client.engine.submitted[-1]
        assert (request.key, request.salt) == ("alice", "alice\x1f")
        sock = socket.create_connection(("127.0.0.1", client.port))
        data = json.dumps(LONG).encode()
        sock.sendall(
            b"POST %b HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-good-key\r\ncontent-length: %d\r\n\r\n%b"
            % (CHAT.encode(), len(data), data)
        )
        first_token(sock)
        assert "alice" in client.error(CHAT, body, 429, headers=good)["message"]
        sock.close()
        client.wait(client.is_idle)
        client.json(CHAT, {**HELLO, "max_tokens": 100}, headers=poor)
        status, headers, data = client.send(CHAT, body, headers=poor)
        assert status == 429
        assert "tokens" in json.loads(data)["error"]["message"]
        assert int(headers["retry-after"]) > 1


def test_what_is_refused_costs_a_key_nothing() -> None:
    keys = Keys([("sk-good-key", Key("alice", {"tokens": 100}))])
    with served(writes("ok"), keys=keys, context=512, engine={"pages": 20}) as client:
        headers = {"authorization": "Bearer sk-good-key"}
        words = {"model": "tiny", "messages": [{"role": "user", "content": "x" * 600}]}
        for path, body in (
            (CHAT, words),  # the context has no room for it
            ("/v1/responses", {"model": "tiny", "input": "x" * 600}),
            ("/v1/completions", {"model": "tiny", "prompt": ["a", "x" * 600]}),
            ("/v1/completions", {"model": "tiny", "prompt": "x" * 400}),  # the cache has not
        ):
            client.error(path, body, headers=headers)
        assert client.json(CHAT, HELLO, headers=headers)["usage"]["total_tokens"] == 7
        level = next(iter(keys._keys.values()))._tokens.level
        assert 100 - 7 <= level < 100 - 7 + 5  # and what has come back since


def test_prompts_that_end_with_their_engine_do_not_end_those_of_the_next_one() -> None:
    with served(writes("a", ends=False)) as client:
        first = client.engine

        async def submit(request: object) -> int:
            number = first.submit(request)
            if number == 2:
                while client.engine.stats()["generated_tokens"] < 20 or client.engine is first:
                    await asyncio.sleep(0.01)
            return number

        first.submit_async = submit
        answers: list[int] = []
        body = {"model": "tiny", "prompt": ["a", "b"], "max_tokens": 1000}
        waiting = threading.Thread(target=lambda: answers.append(client.send("/v1/completions", body)[0]))
        waiting.start()
        client.wait(lambda: len(first.submitted) == 2)
        first.lose("killed")
        client.wait(lambda: client.engine is not first and client.send("/health")[0] == 200)
        stream = client.open(CHAT, LONG)  # the first request of the new engine, as the first prompt was of the old one
        first_token(stream)
        waiting.join()
        assert answers == [503]
        assert client.engine.cancelled == []
        first_token(stream)
        stream.close()
        client.wait(client.is_idle)


PROGRAM = """
import sys
sys.path[:0] = {paths!r}
from serve_client import TEMPLATE, byte_tokenizer, texts_of, writes
from serve_fakes import FakeEngine
from intarsia.serve.logs import configure
from intarsia.serve.models import ServedModel
from intarsia.serve.options import ServerOptions
from intarsia.serve.server import Server
configure("info")
texts = texts_of(byte_tokenizer(), TEMPLATE)
model = ServedModel("tiny", texts, 4096, lambda: FakeEngine(writes("a" * 200), 0.005))
sys.exit(Server([model], None, ServerOptions(drain_seconds={drain})).run("127.0.0.1", 0))
"""


class Program:
    """A server in a process of its own."""

    def __init__(self, drain: float) -> None:
        paths = [str(Path(__file__).parent), *(path for path in sys.path if path)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(paths=paths, drain=drain)], stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        self.log: list[str] = []
        for line in self.process.stderr:
            self.log.append(line)
            if "ready" in line:
                break
        self.port = int(next(line for line in self.log if "listens" in line).split(":")[-2].split()[0].rstrip(","))

    def ask(self, body: dict) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("POST", CHAT, json.dumps(body), {"content-type": "application/json"})
        return connection.getresponse()

    def health(self) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        connection.request("GET", "/health")
        return connection.getresponse().status

    def end(self) -> int:
        try:
            self.log += self.process.stderr.read().splitlines()
            return self.process.wait(20)
        finally:
            self.process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_lets_streams_end(number: signal.Signals) -> None:
    program = Program(drain=20)
    stream = program.ask({**HELLO, "stream": True})
    assert stream.read(10)
    program.process.send_signal(number)
    while program.health() != 503:
        time.sleep(0.01)
    assert program.ask(HELLO).status == 503
    data = stream.read()
    assert b'"finish_reason":"stop"' in data
    assert data.endswith(b"data: [DONE]\n\n")
    assert program.end() == 0


def test_second_signal_ends_at_once() -> None:
    program = Program(drain=60)
    stream = program.ask({**HELLO, "stream": True, "max_tokens": 4000, "ignore_eos": True})
    stream.read(10)
    program.process.send_signal(signal.SIGTERM)
    while program.health() != 503:
        time.sleep(0.01)
    started = time.monotonic()
    program.process.send_signal(signal.SIGTERM)
    program.end()
    assert time.monotonic() - started < 3


def test_streams_that_do_not_end_in_time_get_an_error() -> None:
    program = Program(drain=0.3)
    stream = program.ask({**HELLO, "stream": True, "logit_bias": {"1": 1}})
    stream.read(10)
    program.process.send_signal(signal.SIGTERM)
    data = stream.read()
    assert b'"error"' in data.split(b"data: ")[-1]
    assert program.end() == 0


def test_prompts_and_keys_are_in_no_log() -> None:
    program = Program(drain=1)
    secret = "xyzzy-plugh"
    for body in (
        {**HELLO, "messages": [{"role": "user", "content": secret}]},
        {**HELLO, "messages": [{"role": secret, "content": secret}]},
        {**HELLO, "model": secret},
        {**HELLO, "stop": [1, secret]},
        {**HELLO, secret: secret},
    ):
        program.ask(body).read()
    program.process.send_signal(signal.SIGTERM)
    program.end()
    text = "\n".join(program.log)
    assert " 400 " in text
    assert secret not in text


def test_descriptors_and_threads_do_not_pile_up() -> None:
    with served(writes("ok")) as client:
        for _ in range(3):
            client.json(CHAT, HELLO)
        client.wait(lambda: not client.server.connections)
        before = len(os.listdir("/proc/self/fd"))
        for stream in itertools.islice(itertools.cycle((True, False)), 20):
            client.open(CHAT, {**HELLO, "stream": stream}).close()
        client.wait(lambda: client.is_idle() and not client.server.connections)
        client.wait(lambda: len(os.listdir("/proc/self/fd")) <= before)
