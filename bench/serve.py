#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures servers of language models under load: ours beside llama-server, OpenVINO GenAI and vLLM.

Each side is a process (group) of its own with the same number of threads, and all but the measured one are stopped. The
rounds of all sides alternate; ratios are ours over the peer's, the median over the pairs of rounds with its 95 %
interval. Prompts are random token ids, other ones each round. docs/benchmarks-serving.md says more.

    bench/serving/setup-peers.sh build/bench/peers
    python bench/serve.py together prefix guard --sides=ours,llama-server,openvino [--pairs=5] [--set=streams=4]
    python bench/serve.py trace --rate=70% --sides=ours,llama-server     # of our capacity; half:llama-server; 1.5
"""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
from typing import Any

from harness import machine
from harness.program import NotMeasuredError, add_options, report, some_of
from harness.workers import WorkerError
from serving import measures, pages, peers, rounds
from serving.sides import Side, SideError
from serving.workloads import WORKLOADS, Trace, Workload, make_workload

LOUD = 0.5  # load of the machine at the start that makes figures doubtful


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures servers of language models under load.")
    add = parser.add_argument
    add("workloads", nargs="+", choices=WORKLOADS, metavar="workload", help=f"some of: {', '.join(WORKLOADS)}")
    add("--sides", type=some_of(peers.SIDES), default=["ours", "llama-server"], help="the first one is compared with "
        f"the others; some of: {', '.join(peers.SIDES)}")  # fmt: skip
    add("--set", action="append", default=[], metavar="FIELD=VALUE", help="change a field of the workloads")
    add("--rate", default="70%", help="of trace: requests/s; a share of the first side's capacity (70%%); or half:SIDE, "
        "where that side's goodput falls to a half")  # fmt: skip
    add("--promise", default="4,0.25", help="seconds to the first token and a token that a good request holds")
    add("--python", default=sys.executable, help="interpreter of our server")
    add("--one-core", action="store_true", help="each side has one core, the client the other")
    peers.add_options(parser)
    add_options(parser, pairs=5)
    return parser.parse_args()


def set_fields(name: str, settings: list[str]) -> Workload:
    """Returns a workload with changed fields.

    Raises
    ------
    SystemExit
        It has no such field, or the value is none of its.
    """
    types = {field.name: type(field.default) for field in dataclasses.fields(WORKLOADS[name])}
    options: dict[str, Any] = {}
    for setting in settings:
        field, _, value = setting.partition("=")
        if field not in types:
            raise SystemExit(f"{name} has no field '{field}'; it has {', '.join(types)}")
        try:
            options[field] = value == "true" if types[field] is bool else types[field](value)
        except ValueError:
            raise SystemExit(f"--set={setting}: '{value}' is no {types[field].__name__}") from None
    return make_workload(name, options)


def with_rate(workload: Trace, text: str, sides: list[Side], promise: measures.Promise) -> Trace:
    """Returns the workload with the rate that an option asks for."""
    if text.startswith("half:"):
        side = next((side for side in sides if side.name == text[5:]), None)
        if side is None:
            raise SystemExit(f"--rate={text}: {text[5:]} is not measured")
        rate = rounds.find_rate(side, workload, 0.5, promise)
    elif text.endswith("%"):
        rate = float(text[:-1]) / 100 * rounds.capacity(sides[0], workload, promise)
    else:
        rate = float(text)
    return dataclasses.replace(workload, rate=rate)


def start_sides(arguments: argparse.Namespace, missing: list[str]) -> list[Side]:
    """Starts the sides; one that cannot be started is left out, unless it is the one that others are compared with."""
    sides: list[Side] = []
    cores = machine.use_cores(arguments.threads)
    for name in arguments.sides:
        print(f"==> Starting {name}", file=sys.stderr, flush=True)
        try:
            sides.append(peers.start(name, arguments, cores[:1] if arguments.one_core else None))
        except (NotMeasuredError, SideError, WorkerError) as error:
            if not sides:
                raise SystemExit(str(error)) from None
            missing.append(f"{name} is not measured: {error}")
            print(f"  {missing[-1]}", file=sys.stderr, flush=True)
        except BaseException:
            for side in sides:
                side.close()
            raise
    if arguments.one_core:
        machine.pin(cores[-1:])
    return sides


def measure(arguments: argparse.Namespace, sides: list[Side]) -> list[dict[str, Any]]:
    promise = measures.Promise(*map(float, arguments.promise.split(",")))
    results = []
    for name in arguments.workloads:
        workload = set_fields(name, arguments.set)
        print(f"==> {name}", file=sys.stderr, flush=True)
        if isinstance(workload, Trace):
            workload = with_rate(workload, arguments.rate, sides, promise)
        figures = rounds.alternate(sides, workload, arguments.pairs, promise)
        compared = {side.name: measures.ratios(figures[sides[0].name], figures[side.name]) for side in sides[1:]}
        results.append(
            {"workload": name, "options": dataclasses.asdict(workload), "rounds": figures, "ratios": compared}
        )
        print(pages.section(results[-1]), file=sys.stderr, flush=True)
    return results


def main() -> int:
    arguments = parse()
    arguments.work, arguments.build = (path.absolute() for path in (arguments.work, arguments.build))
    for name in arguments.workloads:
        set_fields(name, arguments.set)  # says before anything is started what is wrong
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # runs what ends the servers
    described = machine.describe()
    if described["load_at_start"] > LOUD:
        print(f"warning: the machine has other work (load {described['load_at_start']})", file=sys.stderr)
    missing: list[str] = []
    sides = start_sides(arguments, missing)
    try:
        results = measure(arguments, sides)
    finally:
        for side in sides:
            side.close()
    descriptions = {side.name: side.description for side in sides}
    body = pages.render(results, descriptions, missing, described["load_at_start"])
    everything = {"results": results, "sides": descriptions, "not_measured": missing, "pairs": arguments.pairs}
    report(arguments, described, "serving", "Serving", body, everything)
    return 0


if __name__ == "__main__":
    sys.exit(main())
