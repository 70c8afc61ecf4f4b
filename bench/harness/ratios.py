# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Alternating rounds, and their statistics: medians, ratios and intervals."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.workers import Worker

# Resamples of the bootstrap. The seed is fixed: the same rounds give the same interval.
RESAMPLES = 10_000
SEED = 20240229


@dataclass
class Comparison:
    """Pairs of rounds of two engines, each pair measured back to back.

    Attributes
    ----------
    ours_ms, peer_ms
        Median milliseconds a call of each round, [pairs].
    """

    ours: str
    peer: str
    ours_ms: list[float] = field(default_factory=list)
    peer_ms: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> np.ndarray:
        """Returns the peer's time / our time, [pairs]: above 1 ours is faster."""
        return np.asarray(self.peer_ms) / np.asarray(self.ours_ms)

    def share(self, ours_work: float, peer_work: float) -> tuple[float, float, float]:
        """Returns the ratio of work a second, ours / the peer's, for so much work a call: (value, low, high)."""
        scale = ours_work / peer_work
        return tuple(scale * value for value in (self.ratio, *self.interval()))

    @property
    def ratio(self) -> float:
        return float(np.median(self.ratios))

    def interval(self) -> tuple[float, float]:
        """Returns the 95 % interval of the median ratio."""
        return median_interval(self.ratios)

    def to_json(self) -> dict[str, Any]:
        low, high = self.interval()
        return {
            "ours": self.ours,
            "peer": self.peer,
            "pairs": len(self.ours_ms),
            "ours_ms": statistics.median(self.ours_ms),
            "peer_ms": statistics.median(self.peer_ms),
            "ratio": self.ratio,
            "ratio_low": low,
            "ratio_high": high,
            "rounds": {"ours_ms": self.ours_ms, "peer_ms": self.peer_ms},
        }


def median_interval(values: np.ndarray) -> tuple[float, float]:
    """Returns the 95 % interval of the median (bootstrap)."""
    low, high = np.percentile(_resampled_medians(values, SEED), [2.5, 97.5])
    return float(low), float(high)


def geomean(comparisons: Sequence[Comparison]) -> tuple[float, float, float]:
    """Returns the geometric mean of the median ratios, and its 95 % interval: (value, low, high)."""
    value = math.exp(statistics.fmean(math.log(one.ratio) for one in comparisons))
    logs = [np.log(_resampled_medians(one.ratios, SEED + i)) for i, one in enumerate(comparisons)]
    low, high = np.exp(np.percentile(np.mean(logs, axis=0), [2.5, 97.5]))
    return value, float(low), float(high)


def alternate(
    ours: Worker, peers: Sequence[Worker], pairs: int, round_ms: float = 60.0, least: int = 3
) -> list[Comparison]:
    """Measures ours, peer A, ours, peer B, … until each peer has `pairs` pairs.

    The side that goes first alternates from pair to pair. A round is some `round_ms` of calls, at least `least`, after
    calls that do not count, because another process has just used the caches.
    """
    calls = {worker.name: _calibrate(worker, round_ms, least) for worker in (ours, *peers)}
    results = [Comparison(ours.name, peer.name) for peer in peers]
    for index in range(pairs):
        for peer, result in zip(peers, results, strict=True):
            order = (ours, peer) if index % 2 == 0 else (peer, ours)
            for worker in order:
                count = calls[worker.name]
                ms = statistics.median(worker.time(count, max(1, count // 4)))
                (result.ours_ms if worker is ours else result.peer_ms).append(ms)
        _progress(f"  pair {index + 1} of {pairs}", last=index + 1 == pairs)
    return results


def _calibrate(worker: Worker, round_ms: float, least: int) -> int:
    """Warms the engine up for about the time of ten rounds, and returns its calls a round."""
    ms = statistics.median(worker.time(least, least))
    ms = statistics.median(worker.time(max(least, min(1000, int(5 * round_ms / ms))), min(2, least)))
    return max(least, min(2000, math.ceil(round_ms / ms)))


def _resampled_medians(values: np.ndarray, seed: int) -> np.ndarray:
    chosen = np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))
    return np.median(values[chosen], axis=1)


def _progress(text: str, last: bool) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}", end="\n" if last else "", file=sys.stderr, flush=True)
