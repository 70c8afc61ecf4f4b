# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is computed from alternating rounds, with engines that answer at once."""

from __future__ import annotations

import pytest
from harness.ratios import Comparison, alternate


class Clock:
    """Takes `ms` for each call and writes down who is asked for how many."""

    def __init__(self, name: str, ms: float, log: list[tuple[str, int, int]]) -> None:
        self.name, self.ms, self.log = name, ms, log

    def time(self, calls: int, warmup: int) -> list[float]:
        self.log.append((self.name, calls, warmup))
        return [self.ms] * calls


def test_rounds_alternate():
    log: list[tuple[str, int, int]] = []
    ours, peer = Clock("ours", 10, log), Clock("peer", 20, log)
    comparison = alternate(ours, [peer], pairs=4, round_ms=60)[0]
    assert [name for name, _, _ in log[-8:]] == ["ours", "peer", "peer", "ours", "ours", "peer", "peer", "ours"]
    assert {(name, calls) for name, calls, _ in log[-8:]} == {("ours", 6), ("peer", 3)}
    assert comparison.ratio == 2
    assert comparison.interval() == (2, 2)


@pytest.mark.parametrize(("least", "calls"), [(3, 3), (1, 1)])
def test_long_calls(least, calls):
    log: list[tuple[str, int, int]] = []
    alternate(Clock("ours", 5000, log), [Clock("peer", 5000, log)], pairs=2, round_ms=60, least=least)
    assert all(entry[1] == calls and entry[2] <= calls for entry in log)


def test_share_of_a_peak():
    # Ours does 6 operations in 2 ms, the loop 100 in 25: 3 of 4 operations a millisecond.
    share, low, high = Comparison("ours", "peak", [2, 2, 2], [25, 25, 25]).share(6, 100)
    assert (share, low, high) == pytest.approx((0.75, 0.75, 0.75))
    # Rounds in which the machine was slow for both do not count.
    assert Comparison("ours", "peak", [2, 4, 2], [25, 50, 25]).share(6, 100)[1:] == pytest.approx((0.75, 0.75))
