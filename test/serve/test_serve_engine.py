# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The server with the runtime's own engine, in its process and in a worker, whose model computes nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from intarsia.generation.engine import Engine, Mock
from intarsia.serve.models import ServedModel
from intarsia.serve.options import ServerOptions
from intarsia.serve.server import Server
from intarsia.serve.worker import WorkerEngine
from serve_client import Client, byte_tokenizer, running, texts_of

COMPLETION = "/v1/completions"
PLAIN = {"model": "mock", "prompt": "Hi", "max_tokens": 4, "ignore_eos": True}
ENDLESS = {**PLAIN, "stream": True, "max_tokens": 4000}


@contextmanager
def mocked(make: Callable[[], Any], **options: Any) -> Iterator[tuple[Client, list[Any]]]:
    """Give a server of one model, and its engines."""
    engines: list[Any] = []

    def make_engine() -> Any:
        engines.append(make())
        return engines[-1]

    model = ServedModel("mock", texts_of(byte_tokenizer(), None), 4096, make_engine)
    server = Server([model], None, ServerOptions(**options))
    with running(server) as port:
        yield Client(server, port, engines), engines


def mock(**options: Any) -> Mock:
    return Mock(vocabulary=byte_tokenizer().get_vocab_size(), context=4096, page_tokens=16, **options)


def check_restart(client: Client, engines: list[Any]) -> None:
    """Send a request, which is told to come again until a second engine answers it."""
    deadline = time.monotonic() + 10
    while (answer := client.send(COMPLETION, PLAIN))[0] == 503:
        assert json.loads(answer[2])["error"]["code"] == "service_unavailable"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert json.loads(answer[2])["usage"]["completion_tokens"] == 4
    assert len(engines) == 2


def text_begins(sock: socket.socket) -> bytes:
    """Read a stream until its first text; return what has come."""
    data = b""
    while b"data: " not in data:
        more = sock.recv(65536)
        assert more, data
        data += more
    return data


def test_time_of_a_request() -> None:
    with mocked(lambda: Engine(mock(step_seconds=0.002)), max_seconds=0.3) as (client, _):
        started = time.monotonic()
        choice = client.json(COMPLETION, {**ENDLESS, "stream": False})["choices"][0]
        assert choice["finish_reason"] == "length"
        assert 0.25 < time.monotonic() - started < 3
        events = client.events(COMPLETION, ENDLESS)
        assert events[-1]["choices"][0]["finish_reason"] == "length"
        assert len(client.json(COMPLETION, PLAIN)["choices"]) == 1


def test_queue_and_pages_of_the_engine() -> None:
    make = lambda: Engine(mock(step_seconds=0.002), sequences=1, waiting=1, pages=8)  # noqa: E731
    with mocked(make) as (client, (engine,)):
        error = client.error(COMPLETION, {**PLAIN, "prompt": "x" * 120, "max_tokens": 20})
        assert error["code"] == "context_length_exceeded"
        assert re.search(r"\b9\b.*\b8\b", error["message"]), error
        runs = client.open(COMPLETION, {**ENDLESS, "max_tokens": 100})
        text_begins(runs)
        waits = client.open(COMPLETION, {**ENDLESS, "max_tokens": 100})
        client.wait(lambda: engine.stats()["waiting"] == 1)
        status, headers, data = client.send(COMPLETION, PLAIN)
        assert (status, json.loads(data)["error"]["code"]) == (429, "rate_limit_exceeded")
        assert int(headers["retry-after"]) >= 1
        runs.close()
        waits.close()
        client.wait(lambda: engine.stats()["running"] == engine.stats()["waiting"] == 0)
        client.json(COMPLETION, PLAIN)


def test_client_that_leaves_between_the_parts_of_its_prompt() -> None:
    make = lambda: Engine(mock(token_seconds=0.001), step_tokens=32, kept_tokens=0)  # noqa: E731
    with mocked(make) as (client, (engine,)):
        sock = client.open(COMPLETION, {**ENDLESS, "prompt": "x" * 4000, "max_tokens": 1})
        # The prompt takes four seconds; some parts of it are computed.
        client.wait(lambda: engine.stats()["steps"] >= 3)
        sock.close()
        client.wait(lambda: engine.stats()["running"] == 0, 2)
        steps = engine.stats()["steps"]
        assert steps < 60
        assert engine.stats()["free_pages"] == engine.stats()["pages"]
        assert client.model.supervisor.active == client.server.active == 0
        assert engine.stats()["generated_tokens"] == 0


@pytest.mark.parametrize("has_begun", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_worker_that_is_lost(number: signal.Signals, has_begun: bool) -> None:
    """Before the first token of a stream, and after it."""
    seconds = 0.002 if has_begun else 5.0  # of a step
    times = iter([seconds])

    def make() -> WorkerEngine:
        return WorkerEngine(mock(step_seconds=next(times, 0.0)), hang_seconds=1.5, grace_seconds=0.4)

    with mocked(make) as (client, engines):
        stream = client.open(COMPLETION, ENDLESS)
        whole: list[int] = []
        waiting = threading.Thread(
            target=lambda: whole.append(client.send(COMPLETION, {**PLAIN, "max_tokens": 4000})[0])
        )
        waiting.start()
        client.wait(lambda: client.model.supervisor.active == 2)
        data = text_begins(stream) if has_begun else b""
        os.kill(engines[0].process, number)
        while more := stream.recv(65536):
            data += more
        error = json.loads(data.split(b"data: ")[-1].split(b"\n\n")[0])["error"]
        assert error["type"] == "service_unavailable"
        assert ("signal 9" if number == signal.SIGKILL else "hangs") in error["message"]
        assert b"[DONE]" not in data
        waiting.join(10)
        assert whole == [503]
        check_restart(client, engines)


@pytest.mark.parametrize("n", [1, 2])
def test_form_of_a_completion(n: int) -> None:
    asked = {**PLAIN, "prompt": ["Hi", "Ho"], "max_tokens": 50, "n": n}
    with mocked(lambda: Engine(mock())) as (client, (engine,)):
        schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"enum": ["red", "blue"]}}}
        for form, pattern in (
            ({"structured_outputs": {"regex": "[ab]{5}"}}, "[ab]{5}"),
            ({"guided_choice": ["yes", "no"]}, "yes|no"),
            ({"response_format": schema}, '"red"|"blue"'),
        ):
            choices = client.json(COMPLETION, {**asked, **form})["choices"]
            assert len(choices) == 2 * n
            assert all(re.fullmatch(pattern, choice["text"]) for choice in choices), choices
            assert {choice["finish_reason"] for choice in choices} == {"stop"}
        steps = engine.stats()["steps"]
        for form, param in (
            ({"structured_outputs": {"json": {"not": {}}}}, "structured_outputs.json"),
            ({"guided_regex": "[a"}, "guided_regex"),
            ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
            ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, "structured_outputs"),
        ):
            assert client.error(COMPLETION, {**asked, **form})["param"] == param
        assert engine.stats()["steps"] == steps, "nothing is computed for what cannot be held"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_worker_that_is_lost_after_a_stream(number: signal.Signals) -> None:
    with mocked(lambda: WorkerEngine(mock(), hang_seconds=2, grace_seconds=0.4)) as (client, engines):
        assert client.events(COMPLETION, {**PLAIN, "stream": True})
        os.kill(engines[0].process, number)
        # A worker that only stands still is found to hang by the next request.
        check_restart(client, engines)
