# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server on a port of its own, and a client that sees every byte."""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from intarsia.generation.texts import ModelTexts
from intarsia.serve.connection import Limits
from intarsia.serve.models import ServedModel
from intarsia.serve.options import ServerOptions
from intarsia.serve.server import Server
from intarsia.text.chat import ChatTemplate
from intarsia.text.tokenizer import Text
from serve_fakes import FakeEngine
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"
    "{% if enable_thinking is defined and enable_thinking %}<|think|>{% endif %}"
)
SPECIAL = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|think|>")
END = 256


def byte_tokenizer() -> Tokenizer:
    """Return a tokenizer whose tokens 0 to 255 are bytes: a letter may be several tokens."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    letters = {byte: chr(byte) for byte in shown} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    tokenizer = Tokenizer(models.BPE({letter: byte for byte, letter in letters.items()}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return tokenizer


def texts_of(tokenizer: Tokenizer, template: str | None) -> ModelTexts:
    """Return the texts of a model that ends them with `END`."""
    chat = None if template is None else ChatTemplate({"default": template}, {"eos_token": "<|end|>"})
    return ModelTexts(Text(tokenizer, chat), tokenizer.get_vocab_size(), [END])


def writes(text: str | bytes, ends: bool = True) -> Callable[[Any, int], Iterator[int]]:
    """Return a script of the engine that writes a text, and ends it or begins again."""
    data = list(text.encode() if isinstance(text, str) else text)
    return lambda request, sample: iter([*data, END]) if ends else itertools.cycle(data)


class Client:
    """Sends requests to a server.

    Attributes
    ----------
    engine : FakeEngine
        The engine behind it, the latest one.
    """

    def __init__(self, server: Server, port: int, engines: list[FakeEngine]) -> None:
        self.server, self.port, self._engines = server, port, engines

    @property
    def engine(self) -> FakeEngine:
        return self._engines[-1]

    @property
    def model(self) -> ServedModel:
        return next(iter(self.server.models.values()))

    def send(
        self, path: str, body: Any = None, method: str | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        kind = {"content-type": "application/json"} if data is not None else {}
        try:
            connection.request(method or ("GET" if data is None else "POST"), path, data, {**kind, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        """Return the object of the answer."""
        got, _, data = self.send(path, body, **options)
        assert got == status, (got, data[:2000])
        return json.loads(data)

    def error(self, path: str, body: Any, status: int = 400, **options: Any) -> dict[str, Any]:
        """Return the error of a refused request; it has the four keys of OpenAI's interface."""
        error = self.json(path, body, status, **options)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"]
        return error

    def events(self, path: str, body: dict[str, Any], **options: Any) -> list[Any]:
        """Return the objects of a stream, which ends as streams do."""
        status, headers, data = self.send(path, {**body, "stream": True}, **options)
        assert status == 200, data
        assert headers["content-type"].startswith("text/event-stream")
        parts = data.decode().split("\n\n")
        assert parts.pop() == ""
        assert parts.pop() == "data: [DONE]", data[-2000:]
        assert all(part.startswith("data: ") and "\n" not in part for part in parts)
        return [json.loads(part[6:]) for part in parts]

    def open(self, path: str, body: dict[str, Any], **options: int) -> socket.socket:
        """Send a request, and return the socket."""
        sock = socket.socket()
        sock.settimeout(20)
        if "receive_buffer" in options:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options["receive_buffer"])
        sock.connect(("127.0.0.1", self.port))
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        sock.sendall(head.encode() + data)
        return sock

    def wait(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        """Wait until a condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "nothing happens"
            time.sleep(0.005)

    def is_idle(self) -> bool:
        """Return True if nothing is left of all requests: in the server, and in the engine."""
        stats = self.engine.stats()
        return (
            self.server.active == 0
            and self.model.supervisor.active == 0
            and stats["running"] == 0
            and stats["free_pages"] == stats["pages"]
        )


@contextmanager
def served(
    script: Callable[[Any, int], Iterator[int]] | None = None,
    *,
    keys: Any = None,
    limits: Limits | None = None,
    template: str | None = TEMPLATE,
    context: int = 4096,
    names: Sequence[str] = ("tiny",),
    engine: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[Client]:
    """Give a server whose models write what the script says."""
    tokenizer = byte_tokenizer()
    engines: list[FakeEngine] = []

    def make_engine() -> FakeEngine:
        engines.append(FakeEngine(script or writes("Hello"), **(engine or {})))
        return engines[-1]

    texts = texts_of(tokenizer, template)
    models = [ServedModel(name, texts, context, make_engine) for name in names]
    server = Server(models, keys, ServerOptions(limits=limits or Limits(), **options))
    try:
        with running(server) as port:
            yield Client(server, port, engines)
    finally:
        for one in engines:
            one.close()


@contextmanager
def running(server: Server) -> Iterator[int]:
    """Run a server on another thread; give its port."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=("127.0.0.1", 0, [listener]), daemon=True)
    thread.start()
    while server.is_loading and thread.is_alive():
        time.sleep(0.001)
    try:
        yield listener.getsockname()[1]
    finally:
        server.stop()
        thread.join(10)
        assert not thread.is_alive(), "the server does not end"
