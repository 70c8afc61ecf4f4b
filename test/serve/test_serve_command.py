# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `intarsia serve` with a compiled model, as users start it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import intarsia
import pytest

ENTRIES = ["violin (noun):", "slowly (adverb):", "compiler (noun):"]


class Program:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port

    def json(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, data, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@contextmanager
def started(*arguments: object) -> Iterator[Program]:
    command = [sys.executable, "-m", "intarsia", "serve", "--port=0", "--threads=2", *map(str, arguments)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        port = 0
        for line in process.stderr:
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            port = int(found[1]) if found else port
            if " ready " in line:
                break
        assert port, "the server does not start"
        yield Program(process, port)
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(30) == 0, rest
    finally:
        process.kill()
        process.wait()


def fails(*arguments: object) -> str:
    """Return what a server writes that does not start."""
    command = [sys.executable, "-m", "intarsia", "serve", "--port=0", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture(scope="module", params=[["--in-process"], []], ids=["in-process", "worker"])
def program(glossary_artifact: Path, request: pytest.FixtureRequest) -> Iterator[Program]:
    with started(glossary_artifact, *request.param) as program:
        yield program


def texts(program: Program, prompts: Sequence[str], **options: Any) -> list[str]:
    body = {"model": "glossary", "prompt": prompts, "max_tokens": 24, **options}
    status, answer = program.json("/v1/completions", body)
    assert status == 200, answer
    return [choice["text"] for choice in answer["choices"]]


def test_texts_are_those_of_the_generator(program: Program, glossary_artifact: Path) -> None:
    generator = intarsia.Generator(glossary_artifact)
    wanted = [one.text for one in generator.generate(ENTRIES, 24)]
    assert texts(program, ENTRIES, temperature=0) == wanted
    assert [texts(program, [entry], temperature=0)[0] for entry in ENTRIES] == wanted


def test_seed_makes_the_answer_repeatable(program: Program) -> None:
    options = {"temperature": 1.2, "seed": 7}
    alone = texts(program, ENTRIES[:1], **options)
    assert texts(program, ENTRIES[:1] * 3, **options) == alone * 3
    assert texts(program, ENTRIES[:1], **{**options, "seed": 8}) != alone


def test_probabilities_of_a_text_sum_like_the_model_s(program: Program, glossary_artifact: Path) -> None:
    text = "violin (noun): a small stringed instrument"
    body = {"model": "glossary", "prompt": text, "max_tokens": 0, "echo": True, "logprobs": 0}
    status, answer = program.json("/v1/completions", body)
    assert status == 200, answer
    logprobs = answer["choices"][0]["logprobs"]["token_logprobs"]
    generator = intarsia.Generator(glossary_artifact)
    ids = generator.encode(text)
    assert len(logprobs) == len(ids)
    mean = generator.cross_entropy(ids)
    assert -sum(logprobs[1:]) / (len(ids) - 1) == pytest.approx(mean, rel=1e-4)


def test_prompt_over_the_context(program: Program) -> None:
    status, answer = program.json("/v1/completions", {"model": "glossary", "prompt": [5] * 5000})
    assert status == 400
    assert "5000" in answer["error"]["message"]


def test_model_without_a_template_is_not_for_chats(program: Program) -> None:
    body = {"model": "glossary", "messages": [{"role": "user", "content": "Hi"}]}
    assert program.json("/v1/chat/completions", body)[1]["error"]["code"] == "no_chat_template"


def workers_of(program: Program) -> list[int]:
    """Return the processes in which a server's engines are."""
    tasks = Path(f"/proc/{program.process.pid}/task").iterdir()
    children = [child for task in tasks for child in (task / "children").read_text().split()]
    return [int(one) for one in children if "intarsia-worker" in Path(f"/proc/{one}/cmdline").read_text()]


def test_worker_that_is_killed(glossary_artifact: Path) -> None:
    with started(glossary_artifact) as program:
        before = texts(program, ENTRIES[:1], temperature=0)
        (worker,) = workers_of(program)
        body = {
            "model": "glossary",
            "prompt": "violin (noun):",
            "stream": True,
            "max_tokens": 900,
            "n": 16,
            "ignore_eos": True,
        }  # more than is done before the kill
        connection = http.client.HTTPConnection("127.0.0.1", program.port, timeout=60)
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        stream = connection.getresponse()
        assert stream.read(10)
        os.kill(worker, signal.SIGKILL)
        rest = stream.read()
        last = json.loads(rest.split(b"data: ")[-1])
        assert last["error"]["type"] == "service_unavailable"
        assert "signal 9" in last["error"]["message"] or "SIGKILL" in last["error"]["message"], last
        for _ in range(500):
            if program.json("/health")[0] == 200:
                break
            time.sleep(0.02)
        assert texts(program, ENTRIES[:1], temperature=0) == before


def test_worker_that_is_stopped(glossary_artifact: Path) -> None:
    names = ("one", "two")
    with started(glossary_artifact, glossary_artifact, *(f"--name={name}" for name in names)) as program:
        streams = []
        for name in names:
            body = {"model": name, "prompt": "violin (noun):", "stream": True, "max_tokens": 900, "ignore_eos": True}
            connection = http.client.HTTPConnection("127.0.0.1", program.port, timeout=60)
            connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
            streams.append(connection.getresponse())
            assert streams[-1].read(10)
        stopped, other = workers_of(program)
        os.kill(stopped, signal.SIGSTOP)
        rests = [stream.read() for stream in streams]
        # The other model's stream is whole; this one's ends with the reason, and its engine is started again.
        whole = [rest.rstrip().endswith(b"data: [DONE]") and b'"error"' not in rest for rest in rests]
        assert sorted(whole) == [False, True]
        last = json.loads(rests[whole.index(False)].split(b"data: ")[-1])
        assert "hangs: it has not answered for" in last["error"]["message"]
        for _ in range(500):
            if program.json("/health")[0] == 200:
                break
            time.sleep(0.02)
        assert len({texts(program, ENTRIES[:1], model=name, temperature=0)[0] for name in names}) == 1
        assert other in workers_of(program)
        assert stopped not in workers_of(program)


def test_end_while_a_model_loads(glossary_artifact: Path, tmp_path: Path) -> None:
    loads = tmp_path / "intarsia-worker"
    loads.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/number\nexec sleep 600\n")
    loads.chmod(0o755)
    command = [sys.executable, "-m", "intarsia", "serve", "--port=0", str(glossary_artifact)]
    environment = os.environ | {"INTARSIA_WORKER": str(loads)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        port = next(int(found[1]) for line in process.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line)))
        program = Program(process, port)
        assert program.json("/health") == (503, {"status": "loading"})
        status, answer = program.json("/v1/completions", {"model": "glossary", "prompt": "a"})
        assert (status, answer["error"]["code"]) == (503, "service_unavailable")
        assert "starting" in answer["error"]["message"]
        assert program.json("/v1/models")[0] == 200
        while not (tmp_path / "number").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
        # Nobody's child loads on; perhaps nobody has waited for its end.
        status = Path("/proc", (tmp_path / "number").read_text().strip(), "status")
        assert not status.exists() or "State:\tZ" in status.read_text()
    finally:
        process.kill()
        process.wait()


def test_what_cannot_start_says_why(glossary_artifact: Path, tmp_path: Path) -> None:
    assert "no such file" in fails(tmp_path / "none.itx").lower()
    assert "both named glossary" in fails(glossary_artifact, glossary_artifact)
    # What it needs, and what there is.
    message = fails(glossary_artifact, "--in-process", "--cache=1000")
    assert re.search(r"a cache of 1000 bytes .* takes \d{4,} bytes", message), message
    message = fails(glossary_artifact, "--memory=100KB")
    assert re.search(r"100000 bytes of memory are too few: .* allow at least \d{7,}", message), message


def test_port_that_is_taken(program: Program, glossary_artifact: Path) -> None:
    message = fails(glossary_artifact, "--in-process", f"--port={program.port}")
    assert f"port {program.port}: " in message


def test_help_says_what_there_is() -> None:
    command = [sys.executable, "-m", "intarsia", "serve", "--help"]
    text = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "100"}
    ).stdout
    page = (Path(__file__).resolve().parents[2] / "docs" / "serve.md").read_text()
    flags = set(re.findall(r"(?<![\w-])--[a-z-]+[a-z]", text)) - {"--help"}
    assert flags >= {"--name", "--api-key-file", "--slo-token-ms"}
    assert [flag for flag in sorted(flags) if f"`{flag}`" not in page and f"`{flag}=" not in page] == []
