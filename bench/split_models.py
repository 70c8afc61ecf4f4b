#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a language model that is split over processes of one thread against one process with as many threads.

Prints a table for the prefill of a text and for decoding a token behind it: milliseconds of a call (median of rounds),
and the time of one process over that of the split model, with its 95 % interval, from alternating rounds. Or, with
``--partition=pipeline --limits=100,35``, stages that are cut by those speeds against stages cut evenly, each rank held to
so many percent of a processor by a cgroup (as root); with ``--figures``, a file that ``ITX_THREADS=1 intarsia-plan
--probe`` wrote, also against the whole model in one process that has a processor, and beside that ratio the one that
the compiler predicts. Or, with ``--against=tensor``, one partition against another, each with
the text in the parts that it best takes.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness.ratios import Comparison

ROOT = Path(__file__).resolve().parent.parent
LEAST_QUOTA_US = 1000  # of a cgroup's quota, by the kernel's documentation
TOKENS = 64  # that a text is continued by: the cut of the stages and what is predicted are for these


def answer(prefill: Callable[[], object], decode: Callable[[int], object]) -> None:
    """Answer lines "prefill COUNT" and "decode COUNT" with milliseconds of a call."""
    for line in sys.stdin:
        what, count = line.split()
        times = []
        for number in range(int(count)):
            start = time.perf_counter()
            prefill() if what == "prefill" else decode(number % 64)
            times.append(1000 * (time.perf_counter() - start))
        print(statistics.median(times), flush=True)


def serve_parts(artifact: Path, tokens: int) -> None:
    """Compute the text in the parts that a program gives it in."""
    import intarsia
    import numpy as np

    cache = intarsia.Cache(intarsia.load(artifact))
    sequence = cache.sequence()
    ids = np.random.default_rng(1).integers(0, cache.info["vocabulary"], tokens).tolist()
    part = cache.prefill_tokens(tokens)

    def prefill() -> None:
        sequence.truncate(0)
        for begin in range(0, tokens, part):
            cache.step([(sequence, ids[begin : begin + part], int(begin + part >= tokens))])

    answer(prefill, lambda _: cache.step([(sequence, ids[:1], 1)]))


def serve(artifact: Path, tokens: int) -> None:
    """Compute the text in one call."""
    import intarsia
    import numpy as np

    module = intarsia.load(artifact)
    page_tokens = next(f["page_tokens"] for f in module.manifest["functions"] if f.get("page_tokens"))
    pages = (tokens + 64) // page_tokens + 1
    state = intarsia.make_state(module.step, pages=pages, sequences=1)
    vocabulary = next(value for value in module.signature("step").inputs if value.name == "input_ids").value_range[1]
    ids = np.random.default_rng(1).integers(0, vocabulary, tokens)

    def step(given: np.ndarray, first: int) -> None:
        module.step(
            input_ids=given,
            positions=np.arange(first, first + len(given)),
            sequences=np.zeros(len(given), np.int64),
            page_table=np.arange(pages)[None],
            output_tokens=np.array([len(given) - 1]),
            **state,
        )

    answer(lambda: step(ids, 0), lambda number: step(ids[:1], tokens + number))


def limit(process: int, percent: int, least: int) -> Path:
    """Hold a process to so much of a processor, and return its cgroup, of version 1 or 2.

    What a process has not used of a period is lost, but a rank that has waited begins with a fresh one: periods are as
    short as the smallest quota, of `least` percent, allows.
    """
    period_us = LEAST_QUOTA_US * 100 // least
    quota_us = max(LEAST_QUOTA_US, period_us * percent // 100)
    root = Path("/sys/fs/cgroup")
    is_second = (root / "cgroup.controllers").exists()
    group = (root if is_second else root / "cpu") / f"bench-{process}"
    group.mkdir()
    if is_second:
        (group / "cpu.max").write_text(f"{quota_us} {period_us}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(period_us))
        (group / "cpu.cfs_quota_us").write_text(str(quota_us))
    (group / "cgroup.procs").write_text(str(process))
    return group


class Engine:
    """Processes that run one artifact together; all get the same requests."""

    def __init__(
        self, artifact: Path, tokens: int, ranks: int, threads: int, limits: list[int], *, in_parts: bool
    ) -> None:
        processors = sorted(os.sched_getaffinity(0))
        common = os.environ | {"ITX_THREADS": str(threads)}
        if ranks > 1:
            common |= {"ITX_WORLD_SIZE": str(ranks), "ITX_WORLD_ADDRESS": f"local:bench-{secrets.token_hex(8)}"}
        command = [sys.executable, __file__, "--serve", str(artifact), "--tokens", str(tokens)]
        command += ["--parts"] if in_parts else []
        self.ranks, self.groups = [], []
        for rank in range(ranks):
            environment = common | ({"ITX_WORLD_RANK": str(rank)} if ranks > 1 else {})
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            if ranks > 1:
                os.sched_setaffinity(process.pid, {processors[rank % len(processors)]})
            if limits and limits[rank] < 100:  # a quota of all takes more than nothing
                self.groups.append(limit(process.pid, limits[rank], min(limits)))
            self.ranks.append(process)

    def ms(self, what: str, count: int) -> float:
        """Return the milliseconds of a call, that of the slowest rank."""
        for process in self.ranks:
            process.stdin.write(f"{what} {count}\n")
            process.stdin.flush()
        return max(float(process.stdout.readline()) for process in self.ranks)

    def close(self) -> None:
        """End the processes."""
        for process in self.ranks:
            process.stdin.close()
        for process in self.ranks:
            process.wait(timeout=60)
        for group in self.groups:
            group.rmdir()


def build(model: Path, artifact: Path, flags: list[str]) -> Path:
    """Compile a model."""
    subprocess.run([ROOT / "build/dev/bin/intarsia-compile", model, "-o", artifact, *flags], check=True)
    return artifact


def predicted(explained: Path) -> dict[str, float]:
    """Read the predicted times from what --explain wrote: of the text, and of a token behind it."""
    row = json.loads(explained.read_text())["partition"][0]
    return {"prefill": row["prompts_us"], "decode": row["tokens_us"] / TOKENS}


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", help="Hugging Face directory of a language model")
    parser.add_argument("--quantize", default="int4")
    parser.add_argument("--partition", default="tensor")
    parser.add_argument("--against", help="another partition, to compare with instead of one process")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=512, help="of the text")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--limits", default="", help="percent of a processor that each rank has")
    parser.add_argument("--figures", type=Path, help="measured times of a rank, to predict with")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--parts", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return (serve_parts if arguments.parts else serve)(arguments.serve, arguments.tokens)
    limits = [int(limit) for limit in arguments.limits.split(",") if limit]
    flags = [f"--quantize={arguments.quantize}"]
    load = [f"--rank-load=prompt:{arguments.tokens},tokens:{TOKENS}"] if limits else []
    load += [f"--rank-figures={arguments.figures}"] if arguments.figures else []
    ratios: dict[str, float] = {}  # of one process over ours, as predicted
    split = [*flags, f"--world={arguments.ranks}", f"--partition={arguments.partition}"]
    with tempfile.TemporaryDirectory() as folder:
        why = Path(folder) / "why.json"
        if limits and not arguments.against:
            even = build(arguments.model, Path(folder) / "even.itx", split)
            speeds = ",".join(str(limit / 100) for limit in limits)
            ours = build(
                arguments.model,
                Path(folder) / "ours.itx",
                [*split, f"--rank-speeds={speeds}", *load, f"--explain={why}"],
            )
            engines = {"by speed": (ours, arguments.ranks, 1), "evenly": (even, arguments.ranks, 1)}
            if arguments.figures:
                times = predicted(why)
                one = build(arguments.model, Path(folder) / "one.itx", [*flags, *load, f"--explain={why}"])
                engines["one"] = (one, 1, 1)
                ratios = {what: ms / times[what] for what, ms in predicted(why).items()}
        elif arguments.against:
            other = [*flags, f"--world={arguments.ranks}", f"--partition={arguments.against}"]
            engines = {
                arguments.partition: (build(arguments.model, Path(folder) / "ours.itx", split), arguments.ranks, 1),
                arguments.against: (build(arguments.model, Path(folder) / "other.itx", other), arguments.ranks, 1),
            }
        else:
            one = build(arguments.model, Path(folder) / "one.itx", flags)
            ours = build(arguments.model, Path(folder) / "split.itx", split)
            engines = {f"{arguments.ranks} processes": (ours, arguments.ranks, 1), "one": (one, 1, arguments.ranks)}
        running = {
            name: Engine(
                artifact,
                arguments.tokens,
                ranks,
                threads,
                limits if ranks > 1 else [],
                in_parts=bool(arguments.against or limits),
            )
            for name, (artifact, ranks, threads) in engines.items()
        }
        first, *others = running
        peers = "".join(f" {other} (ms) | ratio |" for other in others)
        print(f"| | {first} (ms) |{peers}{' predicted |' if ratios else ''}")
        print(f"|---|---:|{'---:|---:|' * len(others)}{'---:|' if ratios else ''}")
        for what, count in (("prefill", 1), ("decode", 16)):
            results = {other: Comparison(first, other) for other in others}
            for index in range(-1, arguments.rounds):  # the first is not counted
                for name in list(running)[:: 1 if index % 2 == 0 else -1]:
                    ms = running[name].ms(what, count)
                    for other, result in results.items() if index >= 0 else ():
                        if name in (first, other):
                            (result.ours_ms if name == first else result.peer_ms).append(ms)
            row = f"| {what} | {statistics.median(results[others[0]].ours_ms):.1f} |"
            for result in results.values():
                low, high = result.interval()
                row += f" {statistics.median(result.peer_ms):.1f} | {result.ratio:.2f} [{low:.2f}, {high:.2f}] |"
            if ratios:
                row += f" {ratios[what]:.2f}, {results['one'].ratio / ratios[what] - 1:+.0%} |"
            print(row, flush=True)
        for engine in running.values():
            engine.close()


if __name__ == "__main__":
    main()
