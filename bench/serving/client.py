# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A client of servers that speak OpenAI's `/v1/completions`, light enough not to take the processors from them.

HTTP is parsed by httptools (llhttp), and each piece of a stream costs one callback: the usual clients take some 100 µs
for it, which at 20,000 pieces a second is more than both cores have.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
import urllib.request
from typing import Any

import httptools

from serving.requests import Record, Request


class HttpTarget:
    """A server on this machine."""

    def __init__(self, port: int) -> None:
        self.port = port
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=30) as answer:
            self.model: str = json.load(answer)["data"][0]["id"]

    async def generate(self, request: Request, record: Record) -> None:
        """Streams one completion."""
        if math.isnan(record.sent):
            record.sent = time.perf_counter()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        stream = _Stream(_message(self.port, self._body(request)), record, done)
        try:
            transport, _ = await loop.create_connection(lambda: stream, "127.0.0.1", self.port)
        except OSError as error:
            record.error = f"no connection: {error}"
            return
        try:
            await done
        except asyncio.CancelledError:
            record.cancelled = True
            raise
        finally:
            transport.abort()

    def _body(self, request: Request) -> bytes:
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": request.prompt,
            "max_tokens": request.max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.schema is not None:
            body["structured_outputs"] = {"json": request.schema}
        return json.dumps(body).encode()


def _message(port: int, body: bytes) -> bytes:
    head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class _Stream(asyncio.Protocol):
    """One connection with one request. The methods named on_… are those that httptools calls."""

    def __init__(self, message: bytes, record: Record, done: asyncio.Future[None]) -> None:
        self.message, self.record, self.done = message, record, done
        self.parser = httptools.HttpResponseParser(self)
        self.rest = b""
        self.now = 0.0

    def connection_made(self, transport: Any) -> None:
        transport.write(self.message)

    def data_received(self, data: bytes) -> None:
        self.now = time.perf_counter()
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserCallbackError) as error:
            self._finish(f"the answer cannot be read: {error.__context__ or error!r}")

    def connection_lost(self, error: Exception | None) -> None:
        self._finish(f"the connection ended: {error or 'before the answer did'}")

    def on_body(self, body: bytes) -> None:
        if self.parser.get_status_code() != 200:
            self.rest += body
            return
        *lines, self.rest = (self.rest + body).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip())

    def on_message_complete(self) -> None:
        status = self.parser.get_status_code()
        self._finish(None if status == 200 else f"status {status}: {self.rest[:300].decode(errors='replace')}")

    def _event(self, data: bytes) -> None:
        if data == b"[DONE]":
            return
        event: dict[str, Any] = json.loads(data)
        if "error" in event:
            self._finish(json.dumps(event["error"]))
        elif any(choice.get("text") for choice in event["choices"]):
            self.record.times.append(self.now)
        if usage := event.get("usage"):
            self.record.tokens = usage["completion_tokens"]
            self.record.cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")

    def _finish(self, error: str | None) -> None:
        if not self.done.done():
            self.record.error = error
            self.done.set_result(None)
