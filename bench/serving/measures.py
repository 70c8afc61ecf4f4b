# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From records to figures: those of a round, and ratios of ours to a peer's over rounds."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness.ratios import median_interval

from serving.requests import Record
from serving.workloads import Chunks, Guard, Phases, Schemas, Workload

PERCENTILES = (50, 95, 99)
Figures = dict[str, float]


@dataclass(frozen=True)
class Promise:
    """What a request must hold to be good."""

    first_s: float = 4.0
    token_s: float = 0.25

    def holds(self, record: Record) -> bool:
        return not record.failure and record.first_s <= self.first_s and record.token_s <= self.token_s


def of_requests(records: Sequence[Record], promise: Promise) -> Figures:
    """Returns rates and percentiles; times are in milliseconds. Requests that failed count as not good, nowhere else."""
    served = [record for record in records if not record.failure]
    figures: Figures = {"requests": len(records), "failed": len(records) - len(served)}
    if not served:
        return figures
    seconds = max(record.times[-1] for record in served) - min(record.sent for record in records)
    figures["seconds"] = seconds
    figures["tokens_per_s"] = sum(record.tokens for record in served) / seconds
    figures["requests_per_s"] = len(served) / seconds
    good = sum(map(promise.holds, records))
    figures |= {"goodput": good / len(records), "good_per_s": good / seconds}
    prompts = sum(record.prompt_tokens for record in served)
    figures["pieces_per_token"] = sum(len(record.times) for record in served) / sum(record.tokens for record in served)
    if all(record.cached is not None for record in served):
        figures["cached"] = sum(record.cached or 0 for record in served) / prompts
    figures |= percentiles("ttft", [record.first_s for record in served])
    figures |= percentiles("itl", list(itertools.chain.from_iterable(record.gaps_s for record in served)))
    figures |= percentiles("tpot", [record.token_s for record in served if record.tokens > 1])
    return figures | percentiles("e2e", [record.whole_s for record in served])


def percentiles(name: str, seconds: Sequence[float]) -> Figures:
    """Returns percentiles in milliseconds."""
    if not seconds:
        return {}
    values = np.percentile(seconds, PERCENTILES) * 1e3
    return {f"{name}_p{which}_ms": float(value) for which, value in zip(PERCENTILES, values, strict=True)}


def of_guard(phases: Phases) -> Figures:
    """Returns how a long prompt disturbs streams, and they it."""
    figures: Figures = {}
    for phase, name in (("without", "itl_without"), ("with", "itl_with")):
        figures |= percentiles(name, list(itertools.chain.from_iterable(record.gaps_s for record in phases[phase])))
    for phase in ("alone", "beside"):
        figures[f"ttft_{phase}_ms"] = 1e3 * phases[phase][0].first_s
    figures["itl_p99_with_over_without"] = figures["itl_with_p99_ms"] / figures["itl_without_p99_ms"]
    figures["ttft_beside_over_alone"] = figures["ttft_beside_ms"] / figures["ttft_alone_ms"]
    pieces = sum(len(record.gaps_s) for record in phases["with"])
    return figures | {"tokens_meanwhile_per_s": 1e3 * pieces / figures["ttft_beside_ms"]}


def of_schemas(phases: Phases) -> Figures:
    """Returns what it costs that texts follow a schema: time per token, by that of the same requests without."""
    figures: Figures = {}
    for phase, records in phases.items():
        figures |= percentiles(f"tpot_{phase}", [record.token_s for record in records if not record.failure])
    figures["failed"] = sum(bool(record.failure) for records in phases.values() for record in records)
    if figures.keys() >= {"tpot_formed_p50_ms", "tpot_free_p50_ms"}:
        figures["formed_over_free"] = figures["tpot_formed_p50_ms"] / figures["tpot_free_p50_ms"]
    return figures


def of_chunks(records: Sequence[Record], step_ms: float) -> Figures:
    """Returns pieces a second while all streams run, and how much longer than a step of the model gaps are meanwhile."""
    times = [record.times for record in records if not record.failure]
    begin, end = max(each[0] for each in times), min(each[-1] for each in times)
    gaps = [after - before for each in times for before, after in itertools.pairwise(each) if begin < after <= end]
    figures = {name: value - step_ms for name, value in percentiles("added", gaps).items()}
    if end > begin:
        figures["pieces_per_s"] = sum(begin < at <= end for each in times for at in each) / (end - begin)
    return figures


def of_round(workload: Workload, phases: Phases, promise: Promise) -> Figures:
    """Returns the figures of one round of any workload."""
    if isinstance(workload, Guard):
        return of_guard(phases)
    if isinstance(workload, Schemas):
        return of_schemas(phases)
    figures = of_requests(phases["all"], promise)
    if isinstance(workload, Chunks) and "seconds" in figures:
        figures |= of_chunks(phases["all"], workload.step_ms)
    return figures


def failures(phases: Phases) -> list[str]:
    """Returns what went wrong in a round, a line for each kind."""
    counts = Counter(record.failure for records in phases.values() for record in records if record.failure)
    return [f"{count} requests failed: {text}" for text, count in counts.most_common()]


def medians(rounds: Sequence[Figures]) -> Figures:
    """Returns the median of each figure over the rounds that have it."""
    names = dict.fromkeys(itertools.chain.from_iterable(rounds))
    return {name: statistics.median(row[name] for row in rounds if name in row) for name in names}


def ratios(ours: Sequence[Figures], peer: Sequence[Figures]) -> dict[str, dict[str, float]]:
    """Returns ours / the peer's of each figure: the median over pairs of rounds, and its 95 % interval."""
    result: dict[str, dict[str, float]] = {}
    for name in medians(ours):
        pairs = [(a[name], b[name]) for a, b in zip(ours, peer, strict=True) if name in a and b.get(name)]
        if not pairs:
            continue
        values = np.array([a / b for a, b in pairs])
        low, high = median_interval(values)
        result[name] = {"ratio": float(np.median(values)), "low": low, "high": high}
    return result


def to_json(phases: Phases) -> dict[str, list[dict[str, Any]]]:
    return {name: [vars(record) for record in records] for name, records in phases.items()}


def from_json(phases: dict[str, list[dict[str, Any]]]) -> Phases:
    return {name: [Record(**record) for record in records] for name, records in phases.items()}
