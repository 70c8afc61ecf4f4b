# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Multiple-choice knapsacks: one candidate for each item, at the least cost within limits, solved by HiGHS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..support.errors import Error, NotFoundError

#: Seconds after which HiGHS gives the best choice that it has found. A model of 10,000 matrices takes less.
TIME_LIMIT = 60.0
#: Share of the cost by which a choice may be worse than the best one: losses are measured less exactly than this.
RELATIVE_GAP = 1e-5


def solve(
    costs: Sequence[np.ndarray], weights: Sequence[Sequence[np.ndarray]], limits: Sequence[float]
) -> list[int] | None:
    """Return the candidate of each item, so that the sum of costs is least.

    Parameters
    ----------
    costs : sequence of arrays
        By item, the cost of each of its candidates.
    weights : sequence of sequences of arrays
        By limit and item, what each candidate takes of the limit.
    limits : sequence of float
        The most that the sums may be.

    Returns
    -------
    list of int or None
        An index for each item; none if no choice is within the limits.
    """
    highs = _highs()
    count = sum(len(one) for one in costs)
    rows: list[tuple[float, float, list[int], list[float]]] = []
    at = 0
    for one in costs:
        rows.append((1.0, 1.0, list(range(at, at + len(one))), [1.0] * len(one)))
        at += len(one)
    for some, limit in zip(weights, limits, strict=True):
        flat = np.concatenate([np.asarray(one, np.float64) for one in some])
        scale = max(abs(limit), flat.max(), 1e-300)  # tolerances of the solver are absolute
        rows.append((-np.inf, limit / scale, list(range(count)), list(flat / scale)))
    flat = np.concatenate([np.asarray(one, np.float64) for one in costs])
    largest = float(np.abs(flat).max()) or 1.0
    model = _model(highs, flat / largest * 1000, rows)
    solver = highs.Highs()
    for name, value in (("output_flag", False), ("threads", 1), ("time_limit", TIME_LIMIT)):
        solver.setOptionValue(name, value)
    solver.setOptionValue("mip_rel_gap", RELATIVE_GAP)
    solver.setOptionValue("mip_abs_gap", 1e-9)
    solver.passModel(model)
    solver.run()
    status = solver.getModelStatus()
    if status in (highs.HighsModelStatus.kInfeasible, highs.HighsModelStatus.kUnboundedOrInfeasible):
        return None
    values = np.asarray(solver.getSolution().col_value)
    if len(values) != count:
        raise Error(f"HiGHS found no choice: {solver.modelStatusToString(status)}", "internal")
    chosen, at = [], 0
    for one in costs:
        chosen.append(int(values[at : at + len(one)].argmax()))
        at += len(one)
    # The solver keeps to limits up to its tolerance, 1e-6; a user's limit is exact.
    for number, (some, limit) in enumerate(zip(weights, limits, strict=True)):
        if sum(float(one[candidate]) for one, candidate in zip(some, chosen, strict=True)) > limit * (1 + 1e-12):
            tighter = [*limits[:number], limit - 2e-6 * abs(limit), *limits[number + 1 :]]
            return solve(costs, weights, tighter)
    return chosen


def solve_by_table(costs: Sequence[np.ndarray], weights: Sequence[np.ndarray], limit: int) -> list[int] | None:
    """Return the same for one limit and whole weights, by dynamic programming over all sums of weights.

    Time and memory are proportional to the limit; tests compare `solve` with it.
    """
    best = np.full(limit + 1, np.inf)
    best[0] = 0
    taken = []
    for cost, weight in zip(costs, weights, strict=True):
        following = np.full(limit + 1, np.inf)
        choice = np.full(limit + 1, -1)
        for candidate, (value, size) in enumerate(zip(cost, weight, strict=True)):
            if size > limit:
                continue
            moved = np.full(limit + 1, np.inf)
            moved[int(size) :] = best[: limit + 1 - int(size)] + value
            better = moved < following
            following[better], choice[better] = moved[better], candidate
        taken.append(choice)
        best = following
    if not np.isfinite(best).any():
        return None
    at, chosen = int(best.argmin()), []
    for choice, weight in zip(reversed(taken), reversed(weights), strict=True):
        chosen.append(int(choice[at]))
        at -= int(weight[chosen[-1]])
    return chosen[::-1]


def _highs():
    try:
        import highspy
    except ImportError as error:
        raise NotFoundError(
            "formats are chosen with HiGHS, which is not installed: pip install 'intarsia[choose]' or highspy",
            "not found",
        ) from error
    return highspy


def _model(highs, costs: np.ndarray, rows: list[tuple[float, float, list[int], list[float]]]):
    """Return a program of binary columns: minimize costs x within rows (lower, upper, columns, factors)."""
    model = highs.HighsLp()
    model.num_col_, model.num_row_ = len(costs), len(rows)
    model.col_cost_ = costs
    model.col_lower_, model.col_upper_ = np.zeros(len(costs)), np.ones(len(costs))
    model.integrality_ = [highs.HighsVarType.kInteger] * len(costs)
    model.row_lower_ = np.array([row[0] for row in rows])
    model.row_upper_ = np.array([row[1] for row in rows])
    model.a_matrix_.format_ = highs.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.cumsum([0, *(len(row[2]) for row in rows)]).astype(np.int32)
    model.a_matrix_.index_ = np.concatenate([row[2] for row in rows]).astype(np.int32)
    model.a_matrix_.value_ = np.concatenate([row[3] for row in rows]).astype(np.float64)
    return model
