# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One request over HTTP: who sends it, what is in it, and how its answer is sent."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..generation.engine import Request as EngineRequest
from .answers import AnswerWriter, LoggedToken
from .chat_request import TextOptions
from .connection import EXTENSION, Connection
from .encoders import Encoder
from .errors import RequestError, as_request_error
from .fields import Fields
from .json_body import read_object
from .json_text import json_response
from .keys import Key
from .logs import log, log_exception
from .models import ServedModel
from .runs import Run, Sample

if TYPE_CHECKING:
    from .server import Server

#: Between the name of a key and a salt: no name of a key has it, as it is white space.
_BETWEEN = "\x1f"
_Result = TypeVar("_Result")

#: What a proxy says for a client that has gone; nobody reads it.
_CLIENT_GONE = 499


class Exchange:
    """A request and the server that it is for.

    Attributes
    ----------
    server : Server
        The server.
    request : Request
        The request as Starlette has it.
    key : Key
        Whose request it is.
    """

    def __init__(self, server: Server, request: Request, key: Key) -> None:
        self.server, self.request, self.key = server, request, key
        self.id = f"{random.getrandbits(64):016x}"

    @property
    def connection(self) -> Connection:
        """The connection that the request came by."""
        return self.request.scope["extensions"][EXTENSION]

    async def body(self) -> dict[str, Any]:
        """Return the object in the body."""
        options = self.server.options
        return await read_object(self.request, options.max_body_bytes, self.server.budget)

    def language_model(self, body: Mapping[str, Any]) -> ServedModel:
        """Return the language model that a body names."""
        model = self._model(body)
        if not isinstance(model, ServedModel):
            raise RequestError(f"the model {model.name} embeds texts, it does not generate any", "model")
        return model

    def encoder(self, body: Mapping[str, Any]) -> Encoder:
        """Return the encoder that a body names."""
        model = self._model(body)
        if not isinstance(model, Encoder):
            raise RequestError(f"the model {model.name} generates texts, it does not embed any", "model")
        return model

    def _model(self, body: Mapping[str, Any]) -> ServedModel | Encoder:
        self.server.check_ready()
        name = Fields(dict(body)).text("model")
        if name is None:
            raise RequestError(f"model is missing; there is {', '.join(self.server.models)}", "model")
        return self.server.model(name)

    def check_variables(self, variables: Mapping[str, Any]) -> None:
        """Refuse values of templates that requests may not set."""
        allowed = self.server.options.template_variables
        for name in variables:
            if name not in allowed:
                raise RequestError(
                    f"chat_template_kwargs.{name[:60]} may not be set; the server allows "
                    f"{', '.join(allowed) or 'none'} (--template-variable)",
                    f"chat_template_kwargs.{name[:60]}",
                )

    async def in_thread(self, work: Callable[[], _Result]) -> _Result:
        """Return what a function returns that may take long."""
        return await asyncio.get_running_loop().run_in_executor(self.server.threads, work)

    def engine_request(
        self, model: ServedModel, prompt: Sequence[int], options: TextOptions, **more: Any
    ) -> EngineRequest:
        """Return a request for the engine of a model, as the key has it: prompts of different keys are kept apart.

        `more` is as for `ServedModel.request`, which raises errors.
        """
        salt = options.salt
        if self.key.name and not self.server.options.shares_prefixes:
            salt = f"{self.key.name}{_BETWEEN}{salt}"
        seconds = self.server.options.max_seconds
        return model.request(prompt, options, key=self.key.name, salt=salt, deadline_seconds=seconds, **more)


def endpoint(
    handle: Callable[[Exchange], Awaitable[Response]],
    *,
    is_work: bool = True,
    error_body: Callable[[RequestError], dict[str, Any]] = RequestError.body,
) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler of Starlette for one that takes an `Exchange`.

    Parameters
    ----------
    handle : callable
        Answers, or raises a `RequestError`.
    is_work : bool
        Limits count the request; it is refused while the server drains.
    error_body : callable
        Returns the JSON of an error, for interfaces that have a form of their own.
    """

    async def respond(request: Request) -> Response:
        server: Server = request.app.state.server
        started = time.monotonic()
        exchange = None
        try:
            key = server.keys.find(request.headers)
            exchange = Exchange(server, request, key)
            if not is_work:
                return await handle(exchange)
            with server.admitted(key):
                return await handle(exchange)
        except Exception as error:
            known = as_request_error(error)
            if known is None:
                log_exception(f"{request.method} {request.url.path}", error)
                known = RequestError("the server has an error of its own; its log says where", status=500)
            server.refused[known.status] += 1
            log.info(
                "%s %s %d %s %s %.3f s",
                request.method,
                request.url.path,
                known.status,
                known.code or known.type,
                exchange.key.name if exchange is not None else "",
                time.monotonic() - started,
            )
            return json_response(error_body(known), known.status, known.headers)

    return respond


async def send_run(
    exchange: Exchange,
    model: ServedModel,
    options: TextOptions,
    requests: Sequence[EngineRequest],
    samples: Sequence[Sample],
    writer: AnswerWriter,
    prompt_logged: dict[int, list[LoggedToken]] | None = None,
) -> Response:
    """Give requests to the engine, and return the answer: whole, or as a stream.

    Parameters
    ----------
    samples : sequence of Sample
        All samples, those of the first request first.
    prompt_logged : dict, optional
        Gets the tokens of prompts with their probabilities, see `Run`.
    """
    run = Run(
        model.supervisor,
        writer,
        samples,
        model.metrics,
        is_stream=options.is_stream,
        logs=options.logprobs is not None,
        on_tokens=exchange.key.take_tokens if exchange.key.counts_tokens else None,
        prompt_logged=prompt_logged,
    )
    run.usage.prompt_tokens = sum(len(request.prompt) for request in requests)
    connection = exchange.connection
    connection.when_lost(run.leave)
    try:
        await run.submit(requests, options.samples)
        # What is refused costs nothing.
        exchange.key.take_tokens(run.usage.prompt_tokens)
    except BaseException:
        connection.when_lost(None)
        raise
    if run.is_stream:
        hold = exchange.server.hold(exchange.key)
        return _Stream(run, connection, hold)
    try:
        await run.done
    finally:
        run.leave()
        connection.when_lost(None)
    if run.is_gone:
        return Response(status_code=_CLIENT_GONE)
    if run.error is not None:
        raise run.error
    return json_response(writer.whole([sample.answer for sample in run.samples], run.usage))


class _Stream(Response):
    """A stream of events; what is written goes to the connection directly."""

    def __init__(self, run: Run, connection: Connection, hold: Callable[[], None]) -> None:
        super().__init__(
            media_type="text/event-stream", headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        )
        del self.headers["content-length"]
        self._run, self._connection, self._release = run, connection, hold

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        run = self._run
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            run.attach(self._connection)
            await run.done
        except Exception as error:
            log_exception("a stream cannot be written", error)
            run.fail(RequestError("the answer cannot be written", status=500, code="internal_error"))
        finally:
            run.leave()
            self._connection.when_lost(None)
            self._release()
        if run.error is not None and not run.is_gone:
            self._connection.cycle.keep_alive = False
        await send({"type": "http.response.body", "body": b"", "more_body": False})
