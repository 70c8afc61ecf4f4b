# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server: its models, its limits, and its life from the first connection to the last."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import uvicorn

from ..support.errors import InvalidArgumentError
from .connection import make_protocol, watch
from .encoders import Encoder
from .errors import RequestError, overloaded, unavailable
from .json_body import BodyBudget
from .keys import Key, Keys
from .logs import log
from .models import ServedModel
from .options import ServerOptions

#: Threads for what may take long before a request comes to the engine.
_THREADS = 4
#: File descriptors that are kept free of connections.
_RESERVED_FILES = 256
_BACKLOG = 1024
#: Seconds that connections without a request under way get to close.
_CLOSING_SECONDS = 3
#: How long a connection waits for its next request, as nginx has it.
_KEEP_ALIVE_SECONDS = 75
#: When Python looks for garbage, by generation. Its own 700, 10 and 10 are several searches in a step of a thousand
#: streams, whose events and texts live until the next step and are in no circle.
_GARBAGE = (50_000, 20, 100)


class Server:
    """Models behind HTTP.

    Parameters
    ----------
    models : sequence of ServedModel or Encoder
        What is served; the names differ.
    keys : Keys
        Who may use the server.
    options : ServerOptions
        Limits and settings.

    Attributes
    ----------
    is_draining : bool
        The server takes no new work, and ends when what runs has ended.
    """

    def __init__(
        self,
        models: Sequence[ServedModel | Encoder],
        keys: Keys | None = None,
        options: ServerOptions | None = None,
    ) -> None:
        self.models: dict[str, ServedModel | Encoder] = {}
        for model in models:
            if model.name in self.models:
                raise InvalidArgumentError(
                    f"two models are named {model.name}: give another name with --name", "invalid argument"
                )
            self.models[model.name] = model
        self.keys = keys or Keys()
        self.options = options or ServerOptions()
        self.budget = BodyBudget(self.options.max_bodies_bytes)
        self.threads = ThreadPoolExecutor(_THREADS, "intarsia-serve")
        self.is_draining = False
        self.is_loading = True
        self.started = time.time()
        self.active = 0
        self.refused: Counter[int] = Counter()
        self.refused_connections = 0
        self.connections: set[object] = set()
        self._main: _Main | None = None

    @property
    def language_models(self) -> dict[str, ServedModel]:
        """The models that generate texts."""
        return {name: model for name, model in self.models.items() if isinstance(model, ServedModel)}

    @property
    def problem(self) -> str:
        """Why the server cannot answer now; empty: it can."""
        if self.is_draining:
            return "draining"
        if self.is_loading:
            return "loading"
        states = (model.supervisor.condition for model in self.language_models.values())
        return next((state for state in states if state != "ready"), "")

    def check_ready(self) -> None:
        """Refuse new work while the server drains."""
        if self.is_draining:
            raise unavailable("the server ends, and takes no new requests", seconds=5)

    def model(self, name: str) -> ServedModel | Encoder:
        """Return a model by its name."""
        model = self.models.get(name)
        if model is None:
            raise RequestError(
                f"there is no model {name[:100]!r}; there is {', '.join(self.models)}",
                "model",
                status=404,
                code="model_not_found",
            )
        return model

    @contextlib.contextmanager
    def admitted(self, key: Key) -> Iterator[None]:
        """Count a request while it is answered; refuse it over the limits."""
        self.check_ready()
        if self.active >= self.options.max_requests:
            raise overloaded(f"the server has {self.active} requests under way, which is its limit (--max-requests)")
        key.enter()
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1
            key.leave()

    def hold(self, key: Key) -> Callable[[], None]:
        """Count a request until the function that is returned is called."""
        self.active += 1
        key.active += 1

        def release() -> None:
            self.active -= 1
            key.active -= 1

        return release

    def run(self, host: str, port: int, sockets: Sequence[socket.socket] | None = None) -> int:
        """Serve until a signal ends it; return the exit code.

        ``SIGTERM`` and ``SIGINT`` let what runs end for `drain_seconds`; the second one ends the server at once.
        """
        from .application import make_application

        listeners = [_listen(host, port)] if sockets is None else list(sockets)
        self._limit_connections()
        limits = self.options.limits
        protocol = make_protocol(limits, self._count_overflow)
        config = uvicorn.Config(
            make_application(self),
            loop="uvloop",
            http=protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_CLOSING_SECONDS,
        )
        self._main = main = _Main(config, self)
        self.connections = main.server_state.connections
        thresholds = gc.get_threshold()
        try:
            main.run(sockets=listeners)
        finally:
            gc.unfreeze()
            gc.set_threshold(*thresholds)
        return main.code

    def stop(self) -> None:
        """End the server from another thread, as the second signal does."""
        if self._main is not None:
            self._main.should_exit = self._main.force_exit = True

    def _count_overflow(self) -> None:
        self.refused_connections += 1

    def _limit_connections(self) -> None:
        """Take as many file descriptors as the system gives, and fewer connections than these."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limits = self.options.limits
        wanted = limits.connections + _BACKLOG + _RESERVED_FILES
        if soft < wanted:
            soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        room = max(16, soft - _BACKLOG - _RESERVED_FILES)
        if room < limits.connections:
            log.warning("the system lets this process open %d files: at most %d connections", soft, room)
            limits.connections = room

    async def start_models(self) -> None:
        """Start the engines of all models."""
        await asyncio.gather(*(model.supervisor.start() for model in self.language_models.values()))
        self.is_loading = False
        # What is there now stays: later searches for garbage need not look at it.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GARBAGE)

    async def close(self) -> None:
        """End the engines."""
        await asyncio.gather(*(model.supervisor.close() for model in self.language_models.values()))
        self.threads.shutdown(wait=False, cancel_futures=True)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InvalidArgumentError(f"cannot listen at {host}, port {port}: {error}", "invalid argument") from error


class _Main(uvicorn.Server):
    """The life of the server around uvicorn's."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._server = server
        self._signals = 0
        self.code = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        addresses = [sock.getsockname() for listener in self.servers for sock in listener.sockets]
        for address in addresses:
            where = f"http://{address[0]}:{address[1]}" if isinstance(address, tuple) else address
            log.info("listens at %s: models %s", where, ", ".join(self._server.models))
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._start_models()),
            loop.create_task(watch(self.server_state.connections)),
        ]

    async def _start_models(self) -> None:
        started = time.monotonic()
        try:
            await self._server.start_models()
        except Exception as error:
            log.error("the server cannot start: %s", error)
            self.code = 1
            self.should_exit = True
        else:
            log.info("ready after %.2f s", time.monotonic() - started)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._server.close()
        for task in self._tasks:
            task.cancel()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal: the first one drains, the second one ends the server at once."""
        self._signals += 1
        if self._signals > 1 or self._server.options.drain_seconds <= 0:
            self.should_exit = self.force_exit = True
            return
        self._server.is_draining = True
        active = self._server.active
        log.info("%s: lets %d requests end; again to end at once", signal.Signals(sig).name, active)
        self._drain_until = time.monotonic() + self._server.options.drain_seconds

    async def on_tick(self, counter: int) -> bool:
        if self._server.is_draining and not self.should_exit:
            left = self._server.active
            if left == 0 or time.monotonic() > self._drain_until:
                if left:
                    log.warning("ends %d requests that have not ended in time", left)
                self.should_exit = True
        return await super().on_tick(counter)
