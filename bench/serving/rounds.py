# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rounds that alternate between sides, and rates of requests that are found by measuring."""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
from collections.abc import Callable, Sequence

from serving import measures
from serving.measures import Figures, Promise
from serving.sides import Side
from serving.workloads import Trace, Workload

PROBES = 4  # of a search for a rate within a factor of 3, which leave an uncertainty of 7 %
FIRST_PROBE = 1000  # rounds before the measured ones have prompts of their own, which no server knows in those


def alternate(sides: Sequence[Side], workload: Workload, rounds: int, promise: Promise) -> dict[str, list[Figures]]:
    """Runs the rounds of all sides in turn; the one that goes first changes from round to round."""
    results: dict[str, list[Figures]] = {side.name: [] for side in sides}
    for round in range(rounds):
        first = round % len(sides)
        for side in (*sides[first:], *sides[:first]):
            say(f"round {round + 1} of {rounds}, {side.name}")
            results[side.name].append(run_round(side, workload, round, promise))
    say("")
    return results


def run_round(side: Side, workload: Workload, round: int, promise: Promise) -> Figures:
    phases = side.run(workload, round)
    for line in measures.failures(phases)[:3]:
        print(f"\r  {side.name}: {line}", file=sys.stderr, flush=True)
    figures = measures.of_round(workload, phases, promise)
    if memory := getattr(side, "bytes", 0):
        figures["resident_mb"] = memory / 1e6
    return figures


def capacity(side: Side, workload: Trace, promise: Promise) -> float:
    """Returns the requests a second that a side serves if all are there at once."""
    say(f"capacity of {side.name}")
    rate = run_round(side, dataclasses.replace(workload, rate=0.0), FIRST_PROBE, promise)["requests_per_s"]
    print(f"\r  capacity of {side.name}: {rate:.3f} requests/s", file=sys.stderr, flush=True)
    return rate


def find_rate(side: Side, workload: Trace, goodput: float, promise: Promise) -> float:
    """Returns the rate at which a side's goodput falls to a share of the arrivals."""
    most = capacity(side, workload, promise)
    probes = itertools.count(FIRST_PROBE + 1)

    def good(rate: float) -> float:
        say(f"{side.name} at {rate:.3f} requests/s")
        return run_round(side, dataclasses.replace(workload, rate=rate), next(probes), promise)["goodput"]

    rate = bisect(good, most / 2, most * 1.5, goodput)
    print(f"\r  {side.name}: goodput {goodput} at {rate:.3f} requests/s", file=sys.stderr, flush=True)
    return rate


def bisect(good: Callable[[float], float], low: float, high: float, goodput: float) -> float:
    """Returns the rate between `low` and `high` where a falling function passes `goodput`."""
    for _ in range(PROBES):
        middle = math.sqrt(low * high)
        if good(middle) >= goodput:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


def say(text: str) -> None:
    """Shows what is being done, in one line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K  {text}", end="", file=sys.stderr, flush=True)
