# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Choices of formats within budgets: HiGHS beside a dynamic programme, and what messages say of budgets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from intarsia import InvalidArgumentError
from intarsia.quantization.choice import Budget, Candidate, Item, Problem, neighbours, rank_correlation, table
from intarsia.quantization.knapsack import solve, solve_by_table
from scipy.stats import spearmanr


def problem_of(rng: np.random.Generator, items: int, candidates: int):
    """Items whose larger candidates cost less, by losses of several orders of magnitude."""
    weights = [np.sort(rng.integers(1, 60, candidates)) for _ in range(items)]
    costs = [np.sort(rng.random(candidates) * 10.0 ** rng.integers(-6, 0))[::-1] for _ in range(items)]
    return costs, weights


@pytest.mark.parametrize("seed", range(6))
def test_the_best_choice_is_that_of_a_table(seed):
    rng = np.random.default_rng(seed)
    costs, weights = problem_of(rng, items=10, candidates=6)
    least = sum(int(one.min()) for one in weights)
    for limit in (least, least + 20, least + 120, 10_000):
        chosen, expected = solve(costs, [weights], [limit]), solve_by_table(costs, weights, limit)
        total = [sum(one[at] for one, at in zip(costs, some, strict=True)) for some in (chosen, expected)]
        assert sum(one[at] for one, at in zip(weights, chosen, strict=True)) <= limit
        assert total[0] == pytest.approx(total[1], rel=2e-5)
    assert solve(costs, [weights], [least - 1]) is None
    assert solve_by_table(costs, weights, least - 1) is None


def test_several_limits_hold_together():
    rng = np.random.default_rng(5)
    costs, first = problem_of(rng, items=6, candidates=4)
    second = [rng.integers(1, 60, 4) for _ in range(6)]
    limits = [sum(int(one.mean()) for one in some) for some in (first, second)]
    chosen = solve(costs, [first, second], limits)
    grids = np.meshgrid(*[range(4)] * 6, indexing="ij")
    every = np.stack([grid.ravel() for grid in grids], 1)
    sums = [sum(np.asarray(one)[every[:, at]] for at, one in enumerate(some)) for some in (costs, first, second)]
    allowed = (sums[1] <= limits[0]) & (sums[2] <= limits[1])
    assert sum(one[at] for one, at in zip(costs, chosen, strict=True)) == pytest.approx(
        sums[0][allowed].min(), rel=2e-5
    )
    for weights, limit in zip((first, second), limits, strict=True):
        assert sum(one[at] for one, at in zip(weights, chosen, strict=True)) <= limit


@pytest.fixture
def problem():
    """Two tensors and a cache; 1000 bytes and 10 microseconds beside them."""

    def item(key, weights, *candidates):
        return Item(key, key, weights, [Candidate(*one) for one in candidates])

    return Problem(
        [
            item("a", 100, ("int4", 0.04, 50, 1), ("int8", 0.01, 100, 2), ("none", 0, 200, 4)),
            item("b", 300, ("int4", 0.02, 150, 3), ("int8", 0.001, 300, 6), ("none", 0, 600, 12)),
            item("cache.0.keys", 0, ("int8", 0.005, 20, 0), ("f16", 0, 40, 0)),
        ],
        other_bytes=1000,
        other_microseconds=10,
    )  # fmt: skip


def formats(problem, chosen):
    return [item.candidates[at].format for item, at in zip(problem.items, chosen, strict=True)]


def test_budgets(problem):
    # Bits count tensors alone: 250 bytes of 400 weights are 5 bits, and the cache stays as it is.
    assert formats(problem, problem.choose(Budget(bits=5))) == ["int8", "int4", "f16"]
    assert formats(problem, problem.choose(Budget(size=1000 + 50 + 150 + 20))) == ["int4", "int4", "int8"]
    # A loss alone: the smallest model.
    assert formats(problem, problem.choose(Budget(loss=0.05))) == ["int8", "int4", "int8"]
    assert formats(problem, problem.choose(Budget(microseconds=10 + 8))) == ["int8", "int8", "f16"]
    assert formats(problem, problem.choose(Budget(bits=8, loss=0.02))) == ["int8", "int8", "f16"]
    problem.interaction = 2  # the whole loses twice the sum
    assert formats(problem, problem.choose(Budget(loss=0.036))) == ["int8", "int8", "int8"]


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (Budget(bits=3), "the smallest that can be is 4.000 bits a weight, asked for are 3"),
        (Budget(size=1100), "the smallest size that can be is 1.2 kB, asked for are 1.1 kB"),
        (Budget(microseconds=11), "the fastest that is predicted is 71428.6 tokens a second, asked for are 90909.1"),
        (Budget(bits=5, loss=0.02), "within the other limits the smallest loss that can be is 0.03 nats"),
        (Budget(bits=5, loss=0.02), "with a loss of 0.02 nats the smallest size that can be is 1.4 kB, 7.000 bits"),
    ],
)
def test_budgets_that_cannot_be_met(problem, budget, message):
    with pytest.raises(InvalidArgumentError, match="no choice of formats is within the budget") as caught:
        problem.choose(budget)
    assert message in str(caught.value)


def test_losses_that_cannot_be_met(problem):
    for item in problem.items:
        item.candidates = [one for one in item.candidates if one.loss > 0]
    with pytest.raises(InvalidArgumentError, match=r"the smallest loss that can be is 0.016 nats, asked for are 0.01"):
        problem.choose(Budget(loss=0.01))


def test_why_not_the_next_format(problem):
    smaller, larger = neighbours(problem.items[0], 1)
    assert (smaller.format, larger.format) == ("int4", "none")
    assert neighbours(problem.items[1], 0)[0] is None
    problem.items[2].is_pinned = True
    lines = table(problem, [1, 0, 0]).splitlines()
    assert "int4: loss +0.03, -50 B / none: loss -0.01, +100 B" in lines[1]
    assert "none / int8: loss -0.019, +150 B" in lines[2]
    assert "pinned by --keep" in lines[3]


def test_rank_correlations_are_those_of_scipy():
    rng = np.random.default_rng(0)
    left = rng.integers(0, 9, 50).astype(float)  # with ties
    right = left**3 + rng.normal(size=50) * 100
    assert rank_correlation(left, right) == pytest.approx(spearmanr(left, right).statistic, rel=1e-12)


def test_the_front_has_less_loss_with_more_bytes(problem):
    points = [(problem.size(one), problem.loss(one)) for one in problem.front(8)]
    assert points == sorted(points, key=lambda point: (point[0], -point[1]))
    assert all(after[1] <= before[1] for before, after in itertools.pairwise(points))
    assert points[0][0] == 1220
    assert points[-1][1] == 0
