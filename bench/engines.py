#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures an engine of language models without a server: caches that are too small, and texts that must be the same.

- `pressure`: 16 requests at once, with a cache that has all the pages they need ("whole"), and with one that has half of
  them. The state of a text that has to leave the cache is computed again ("recompute") or moved to memory ("move"). Times
  are ratios to the whole cache's time in the same round. The greedy texts must be equal.
- `seeds`: 200 requests, each with its seed, are computed one by one, and then together in several settings. In some of
  them prompts share state, or texts have to leave the cache. Each text must be the one that was computed first.

    python bench/engines.py pressure seeds [--model=M.itx] [--pairs=5]

The exit status is 1 if a text differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import machine
from harness.program import add_options, report
from harness.ratios import median_interval
from harness.report import table
from serving import models
from serving.workloads import FIRST_TOKEN

PRESSED, PROMPT, OUTPUT = 16, 512, 128  # requests of `pressure`, and the tokens of each
SEEDED, SHORTEST, LONGEST, DRAWN = 200, 16, 96, 24  # requests of `seeds`, tokens of prompts, tokens of texts
SHARED = 64  # tokens that half of the prompts of `seeds` begin with
AT_A_TIME = 32


@dataclass
class Run:
    """What an engine did."""

    seconds: float
    texts: list[list[int]]
    stats: dict[str, Any]


def run(engine: Any, requests: Sequence[Any]) -> Run:
    """Submits requests to an engine, and waits until all have ended."""
    import intarsia.generation.engine as engines

    before = engine.stats()
    start = time.perf_counter()
    numbers = [engine.submit(request) for request in requests]
    texts: dict[int, list[int]] = {number: [] for number in numbers}
    left = len(numbers)
    while left:
        for event in engine.poll(None):
            if event.kind == engines.TOKEN:
                texts[event.request].append(event.token)
            elif event.kind == engines.FINISHED:
                left -= 1
                if event.finish != engines.LENGTH:
                    raise RuntimeError(f"a text ended early: finish {event.finish}, status {event.status}")
    seconds = time.perf_counter() - start
    after = engine.stats()
    stats = {key: after[key] - before[key] for key in ("preemptions", "recomputed_sequences", "moved_sequences")}
    return Run(seconds, [texts[number] for number in numbers], stats)


def pressure(make: Callable[..., Any], info: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Measures the time with half of the pages that the requests need, and compares the texts."""
    from intarsia.generation.engine import Request

    pages = PRESSED * -(-(PROMPT + OUTPUT) // info["page_tokens"])
    kinds = {
        "whole": {"pages": pages},
        "recompute": {"pages": pages // 2},
        "move": {"pages": pages // 2, "spill_memory": 8 << 30},
    }
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    stats: dict[str, dict[str, int]] = {}
    differ = 0
    for round in range(arguments.pairs):
        rng = np.random.default_rng([1, round])
        requests = [
            Request(rng.integers(FIRST_TOKEN, info["vocabulary"], PROMPT).tolist(), max_tokens=OUTPUT)
            for _ in range(PRESSED)
        ]
        texts: dict[str, list[list[int]]] = {}
        for kind in np.roll(list(kinds), round).tolist():
            with make(sequences=PRESSED, **kinds[kind]) as engine:
                # The engine admits texts by the lengths of ended ones. After short ones it admits too many of the long
                # ones, and some have to leave the cache.
                run(engine, [Request(request.prompt[:SHORTEST], max_tokens=SHORTEST) for request in requests])
                done = run(engine, requests)
            seconds[kind].append(done.seconds)
            texts[kind], stats[kind] = done.texts, done.stats
        differ += sum(text != whole for kind in kinds for text, whole in zip(texts[kind], texts["whole"], strict=True))
        print(
            f"  round {round + 1}: " + ", ".join(f"{kind} {seconds[kind][-1]:.1f} s" for kind in kinds), file=sys.stderr
        )
    rows = []
    for kind in kinds:
        ratios = np.array(seconds[kind]) / np.array(seconds["whole"])
        low, high = median_interval(ratios)
        counts = ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in stats[kind].items() if value)
        rows.append(
            (kind, f"{np.median(seconds[kind]):.1f}", f"{np.median(ratios):.2f} [{low:.2f}, {high:.2f}]", counts)
        )
    asked = f"{PRESSED} requests of {PROMPT} + {OUTPUT} tokens, {pages} pages or half of them"
    text = f"### pressure\n\n{asked}; texts that differ: {differ}\n\n"
    return {
        "text": text + table(["cache", "s", "ratio to the whole", "in the last round"], rows),
        "seconds": seconds,
        "differ": differ,
    }


def seeds(make: Callable[..., Any], info: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Counts the texts that differ when requests are computed together."""
    from intarsia import SamplingOptions
    from intarsia.generation.engine import Request

    rng = np.random.default_rng(2)
    common = rng.integers(FIRST_TOKEN, info["vocabulary"], SHARED).tolist()
    requests = [
        Request(
            (common if number % 2 else [])
            + rng.integers(FIRST_TOKEN, info["vocabulary"], rng.integers(SHORTEST, LONGEST)).tolist(),
            SamplingOptions(temperature=1.0, top_p=(1.0, 0.9)[number // 2 % 2], seed=number),
            max_tokens=DRAWN,
        )
        for number in range(arguments.requests)
    ]
    expected: list[list[int]] = []
    with make(sequences=1, kept_tokens=0) as engine:
        for request in requests:
            expected += run(engine, [request]).texts
    few = 8 * -(-(SHARED + LONGEST + DRAWN) // info["page_tokens"])
    settings = {
        "at once": {"kept_tokens": 0},
        "at once, beginnings kept": {},
        "at once, few pages": {"pages": few},
        "at once, few pages, moved": {"pages": few, "spill_memory": 8 << 30},
        "steps of 40 tokens": {"step_tokens": 40},
    }
    rows, differ = [], 0
    for name, options in settings.items():
        with make(sequences=AT_A_TIME, **options) as engine:
            # Short texts come first, for the same reason as in `pressure`.
            run(engine, [Request(request.prompt[:SHORTEST], max_tokens=1) for request in requests[:64]])
            done = run(engine, requests)
        wrong = sum(text != its for text, its in zip(done.texts, expected, strict=True))
        differ += wrong
        counts = ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in done.stats.items() if value)
        rows.append((name, f"{len(requests) - wrong} of {len(requests)}", counts))
        print(f"  {name}: {rows[-1][1]}", file=sys.stderr)
    text = f"### seeds\n\n{len(requests)} texts of {DRAWN} tokens, {AT_A_TIME} at a time\n\n"
    return {"text": text + table(["setting", "equal texts", "what happened"], rows), "differ": differ}


MEASUREMENTS: dict[str, Callable[[Callable[..., Any], dict[str, Any], argparse.Namespace], dict[str, Any]]] = {
    "pressure": pressure,
    "seeds": seeds,
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures an engine of language models without a server.")
    add = parser.add_argument
    add("measurements", nargs="+", choices=MEASUREMENTS, metavar="measurement", help=f"of {', '.join(MEASUREMENTS)}")
    add("--model", type=Path, help="an artifact (default: the model of serve.py in int4)")
    add("--requests", type=int, default=SEEDED, help="of seeds (default: %(default)s)")
    add_options(parser, pairs=5)
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    described = machine.describe()
    machine.use_cores(arguments.threads)
    sys.path.insert(0, str(arguments.build.absolute() / "python"))
    import intarsia
    from intarsia.generation.engine import Engine

    artifact = arguments.model or models.make_artifact(arguments.cache, arguments.work, arguments.build, "int4")
    intarsia.set_threads(arguments.threads)
    module = intarsia.Module(artifact)

    def make(**options: Any) -> Engine:
        return Engine(module, **({"cache": 6 << 30} if "pages" not in options else {}), **options)

    with make(sequences=1) as engine:
        info = engine.info
    results = {}
    for name in arguments.measurements:
        print(f"==> {name}", file=sys.stderr)
        results[name] = MEASUREMENTS[name](make, info, arguments)
    body = "\n\n".join(result.pop("text") for result in results.values())
    report(arguments, described, "engines", "Engines", f"{artifact.name}\n\n{body}\n", {"results": results})
    return int(any(result["differ"] for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
