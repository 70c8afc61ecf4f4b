# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Workloads: which requests are sent when. Each round has prompts of its own, so that no server knows them already.

A workload runs against a target and returns its records by phase.
"""

from __future__ import annotations

import asyncio
import csv
import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from serving.requests import Record, Request, Target

FIRST_TOKEN = 16  # special tokens have lower ids
TRACE = Path(__file__).with_name("azure_2023_conversation.csv")
Phases = dict[str, list[Record]]


async def send(target: Target, requests: Sequence[Request], offsets_s: Sequence[float] | None = None) -> list[Record]:
    """Sends requests at their times after now, all at once without them, and waits for all answers."""
    records = [Record.of(request) for request in requests]
    start = time.perf_counter()

    async def one(request: Request, record: Record, offset: float) -> None:
        record.sent = start + offset
        if (wait := record.sent - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        await target.generate(request, record)

    offsets = offsets_s if offsets_s is not None else [0.0] * len(requests)
    await asyncio.gather(*map(one, requests, records, offsets))
    return records


@dataclass(frozen=True)
class Workload:
    """Base of workloads: the fields are options. `seed` chooses the prompts, ids of which are below `vocabulary`."""

    seed: int = 1
    vocabulary: int = 32000

    async def run(self, target: Target, round: int) -> Phases:
        return {"all": await send(target, self.requests(round))}

    def requests(self, round: int) -> list[Request]:
        raise NotImplementedError

    def rng(self, round: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, round])

    def draw(self, rng: np.random.Generator, count: int) -> list[int]:
        """Returns random tokens."""
        return rng.integers(FIRST_TOKEN, self.vocabulary, count).tolist()


@dataclass(frozen=True)
class Together(Workload):
    """Streams that begin at once and have the same lengths."""

    streams: int = 8
    prompt: int = 512
    output: int = 64

    def requests(self, round: int) -> list[Request]:
        rng = self.rng(round)
        return [Request(self.draw(rng, self.prompt), self.output) for _ in range(self.streams)]


#: Its values are longer than any answer here, and have what grammars are made of: keys, texts, numbers, choices.
SCHEMA = {
    "type": "array",
    "minItems": 1000,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 24},
            "kind": {"enum": ["person", "place", "thing"]},
            "count": {"type": "integer"},
            "share": {"type": "number"},
            "notes": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        },
        "required": ["name", "kind", "count", "share"],
        "additionalProperties": False,
    },
}


@dataclass(frozen=True)
class Schemas(Together):
    """Streams at once whose texts follow a JSON schema (phase "formed"), and the same without it ("free")."""

    prompt: int = 32

    async def run(self, target: Target, round: int) -> Phases:
        free = self.requests(round)
        formed = [dataclasses.replace(request, schema=SCHEMA) for request in free]
        # Prompts are kept by the server; the phase that comes first has to compute them.
        await send(target, [dataclasses.replace(request, max_tokens=1) for request in free])
        phases = {"free": free, "formed": formed}
        order = sorted(phases, reverse=round % 2 == 1)
        return {name: await send(target, phases[name]) for name in order}


@dataclass(frozen=True)
class Prefix(Workload):
    """Requests at once that begin with one system prompt, which the server has not seen."""

    count: int = 32
    system: int = 1024
    own: int = 64
    output: int = 32

    def requests(self, round: int) -> list[Request]:
        rng = self.rng(round)
        system = self.draw(rng, self.system)
        return [Request(system + self.draw(rng, self.own), self.output) for _ in range(self.count)]


@dataclass(frozen=True)
class Mixed(Workload):
    """Requests at once whose answers have between 8 and 256 tokens, evenly on a logarithmic scale."""

    count: int = 32
    prompt: int = 128
    least: int = 8
    most: int = 256

    def requests(self, round: int) -> list[Request]:
        rng = self.rng(round)
        outputs = np.geomspace(self.least, self.most, self.count).round().astype(int)
        return [Request(self.draw(rng, self.prompt), int(output)) for output in rng.permutation(outputs)]


@dataclass(frozen=True)
class Trace(Workload):
    """Requests with lengths of a trace, at a rate that does not depend on the answers.

    Lengths are those of Azure's conversations divided by `divisor`: of every so many requests one, the same ones in each
    round, so that a rate is the same share of the capacity in all rounds. Arrivals are a Poisson process, or with
    `bursts` the trace's own, at the same mean rate. A rate of 0 sends all at once: what is served a second is the
    capacity.
    """

    rate: float = 0.0  # requests/s
    count: int = 60
    divisor: int = 8
    bursts: bool = False

    async def run(self, target: Target, round: int) -> Phases:
        return {"all": await send(target, self.requests(round), self.arrivals_s(round))}

    def requests(self, round: int) -> list[Request]:
        rng = self.rng(round)
        rows = read_trace()
        chosen = [rows[index * len(rows) // self.count] for index in range(self.count)]
        scaled = [[max(1, round_half_up(value / self.divisor)) for value in row[1:]] for row in chosen]
        return [Request(self.draw(rng, prompt), output) for prompt, output in rng.permutation(scaled).tolist()]

    def arrivals_s(self, round: int) -> list[float] | None:
        if self.rate == 0:
            return None
        if self.bursts:
            rows = read_trace()
            start = round * self.count % (len(rows) - self.count)
            times = np.array([row[0] for row in rows[start : start + self.count]])
            times -= times[0]
            return (times * (self.count - 1) / (times[-1] * self.rate)).tolist()
        gaps = np.random.default_rng([self.seed, round, 1]).exponential(1 / self.rate, self.count)
        return np.cumsum(gaps).tolist()


def read_trace() -> list[tuple[float, int, int]]:
    """Returns seconds, tokens of the prompt and tokens of the answer of each request."""
    with TRACE.open() as file:
        lines = [line for line in file if not line.startswith("#")]
    return [(float(row["seconds"]), int(row["prompt"]), int(row["output"])) for row in csv.DictReader(lines)]


def round_half_up(value: float) -> int:
    return int(value + 0.5)


@dataclass(frozen=True)
class Guard(Workload):
    """A long prompt beside streams that decode.

    Phases: the long prompt "alone", streams "without" it, the same streams "with" it (gaps from when it was sent until
    its first token), the prompt "beside" them. The streams end as soon as the prompt has its answer.
    """

    streams: int = 4
    prompt: int = 128
    output: int = 64
    long: int = 4096
    long_output: int = 4
    room: int = 1024  # the most tokens that the streams generate while the long prompt is computed

    async def run(self, target: Target, round: int) -> Phases:
        rng = self.rng(round)

        def short(output: int) -> list[Request]:
            return [Request(self.draw(rng, self.prompt), output) for _ in range(self.streams)]

        alone = await send(target, [Request(self.draw(rng, self.long), self.long_output)])
        without = await send(target, short(self.output))
        requests = short(self.room)
        records = [Record.of(request) for request in requests]
        tasks = [asyncio.create_task(target.generate(*pair)) for pair in zip(requests, records, strict=True)]
        try:
            while min(len(record.times) for record in records) < self.output // 8:
                if any(task.done() for task in tasks):
                    raise RuntimeError(f"a stream ended early: {[record.failure for record in records]}")
                await asyncio.sleep(0.005)
            beside = await send(target, [Request(self.draw(rng, self.long), self.long_output)])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        # The next phase or round begins when the server has noticed that the streams are gone.
        await send(target, [Request(self.draw(rng, 8), 1)])
        if beside[0].times:
            begin, end = beside[0].sent, beside[0].times[0]
            records = [_between(record, begin, end) for record in records]
        return {"alone": alone, "without": without, "with": records, "beside": beside}


def _between(record: Record, begin: float, end: float) -> Record:
    """Returns the part of a record whose gaps touch an interval."""
    times = record.times
    first = max((index for index, at in enumerate(times) if at <= begin), default=0)
    last = min((index for index, at in enumerate(times) if at >= end), default=len(times) - 1)
    return dataclasses.replace(record, times=times[first : last + 1])


@dataclass(frozen=True)
class Users(Workload):
    """Users who read an answer at once and ask again: a closed loop of conversations that grow.

    A turn's prompt is all that was said before and `more` new tokens. The answer stands in it as random tokens of the
    same number, since a stream has texts and no ids: a server can keep the prompts of the earlier turns alone.
    """

    users: int = 8
    turns: int = 4
    prompt: int = 256
    more: int = 64
    output: int = 32

    async def run(self, target: Target, round: int) -> Phases:
        async def user(number: int) -> list[Record]:
            rng = np.random.default_rng([self.seed, round, number])
            prompt, records = self.draw(rng, self.prompt), []
            for _ in range(self.turns):
                records += await send(target, [Request(list(prompt), self.output)])
                prompt += self.draw(rng, self.output + self.more)
            return records

        of_users = await asyncio.gather(*map(user, range(self.users)))
        return {"all": [record for records in of_users for record in records]}


@dataclass(frozen=True)
class Chunks(Together):
    """Many streams with short prompts for the side `mock`, whose model costs nothing: the front end is measured.

    A step of the model takes `step_ms`, which is all that should be between two tokens.
    """

    vocabulary: int = 4096
    step_ms: float = 50.0

    streams: int = 1000
    prompt: int = 16
    output: int = 100


WORKLOADS: dict[str, type[Workload]] = {
    kind.__name__.lower(): kind for kind in (Together, Schemas, Prefix, Mixed, Trace, Guard, Users, Chunks)
}


def make_workload(name: str, options: dict[str, Any]) -> Workload:
    return WORKLOADS[name](**options)
