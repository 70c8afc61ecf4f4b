# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How wrong the cost formula is about models and systems that its figures have not seen.

A cell is a model family on a system. Its rows are predicted with figures fitted to the rows that share neither the family
nor the system with it, nor their twins: a family of the same layers, a system with the same processor. Leaving out the cell
alone promises too much: both its model and its system then remain in the fit.

An interval around a prediction comes from such errors of other cells. A deployment errs as a whole, so a cell counts once,
however many rows it has, and the cell that is asked about may be further out than all that were seen. Whether an interval
holds is asked of what would have been there without the cell: errors of other cells in fits that had neither the one's
family and system nor the other's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from serving_rows import Row

#: Levels of the intervals that are checked.
LEVELS = (0.5, 0.8, 0.9)
#: Whether each row is within its interval, by level.
Inside = dict[float, NDArray[np.bool_]]


@dataclass
class Errors:
    """ln(predicted / measured) of rows, and the cells that they are of."""

    logs: NDArray[np.float64]
    cells: NDArray[np.str_]

    def quantiles(self, at: Sequence[float]) -> NDArray[np.float64]:
        """Give quantiles of the error of a cell that is not among these.

        Each cell has the same weight, shared by its rows; a cell with too few rows to be judged has less. Errors
        beyond all that were seen have the share of the estimator whose quantiles are unbiased in the median (Hyndman and
        Fan 1996, definition 8), with cells in place of values.
        """
        _, cell, rows = np.unique(self.cells, return_inverse=True, return_counts=True)
        of_cell = np.minimum(rows, LEAST_ROWS) / min(rows.max(), LEAST_ROWS)
        order = np.argsort(self.logs, kind="stable")
        weights = (of_cell / rows)[cell][order]
        reached = (np.cumsum(weights) - weights / 2 + 1 / 6) / (of_cell.sum() + 1 / 3)
        return np.interp(at, reached, self.logs[order])


#: A bias is judged from this many rows on.
LEAST_ROWS = 10
#: A choice is made between this many deployments or more.
LEAST_DEPLOYMENTS = 3


@dataclass
class LeftOut:
    """Predictions of rows, in milliseconds, with the figures of other families and systems."""

    rows: list[Row]
    measured: NDArray[np.float64]
    predicted: NDArray[np.float64]

    def __post_init__(self) -> None:
        self.family = np.array([row.family for row in self.rows])
        self.group = np.array([row.group for row in self.rows])
        self.system = np.array([row.system for row in self.rows])
        self.mode = np.array([row.mode for row in self.rows])
        self.error = self.predicted / self.measured - 1
        self.logs = np.log(self.predicted / self.measured)


def biases(left_out: LeftOut) -> dict[str, dict[str, tuple[int, float]]]:
    """Give, for each model family and each system, the number of rows and the median signed error."""
    found: dict[str, dict[str, tuple[int, float]]] = {}
    for what, names in (("family", left_out.family), ("system", left_out.system)):
        found[what] = {
            name: (int((names == name).sum()), float(np.median(left_out.error[names == name])))
            for name in np.unique(names)
        }
    return found


def share_within(left_out: LeftOut, bound: float) -> float:
    """Give the share of families and systems, of at least LEAST_ROWS rows, whose bias is within `bound`."""
    judged = [bias for of in biases(left_out).values() for rows, bias in of.values() if rows >= LEAST_ROWS]
    return float(np.mean([abs(bias) <= bound for bias in judged]))


def inside_intervals(left_out: LeftOut, others: dict[str, Errors]) -> Inside:
    """Tell, for each level, which rows are within their interval.

    The interval of a cell is between quantiles of `others`: errors of the rows that share neither its family nor its
    system, from fits that never had its family nor its system (fit_serving.Problem.leave_out_twice).
    """
    inside = {level: np.zeros(len(left_out.rows), bool) for level in LEVELS}
    for group, errors in others.items():
        cell = left_out.group == group
        for level in LEVELS:
            low, high = errors.quantiles([(1 - level) / 2, (1 + level) / 2])
            inside[level][cell] = (left_out.logs[cell] >= low) & (left_out.logs[cell] <= high)
    return inside


def share_of_cells(left_out: LeftOut, inside: NDArray[np.bool_]) -> float:
    """Give the share of rows inside their interval, cells having the same weight."""
    return float(np.mean([inside[left_out.group == group].mean() for group in np.unique(left_out.group)]))


def margins(left_out: LeftOut, others: dict[str, Errors], level: float) -> NDArray[np.float64]:
    """Give, for each row, the factor that one in (1 - level) times is slower by, as errors of other cells have it."""
    factors = {group: float(np.exp(-errors.quantiles([1 - level])[0])) for group, errors in others.items()}
    return np.array([factors[group] for group in left_out.group])


def choices(left_out: LeftOut, margin: NDArray[np.float64] | float = 1.0) -> tuple[int, float, float]:
    """Choose among measured deployments by predicted times, and ask what was measured.

    A choice is between at least LEAST_DEPLOYMENTS deployments (degrees, batch, engine) of a model in a precision on a
    system, for prompts and answers of the same length, under a bound on the time of a token: each quartile of the times
    that were measured there. Of the deployments whose predicted time holds the bound `margin` times (of each row), the one with the most
    tokens a second and device is taken; if there are none, the fastest of those whose predicted time holds it once, as
    `intarsia-plan --confidence` takes the surest plan. Gives the number of choices, the share of those that break the
    bound as measured, and the share in which none seemed to hold it, though at least one does.
    """
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(left_out.rows):
        groups[row.model, row.system, row.weights, row.mode, row.input_tokens, row.output_tokens].append(index)
    factor = np.broadcast_to(margin, len(left_out.rows))
    devices = np.array([row.tensor * row.attention_data for row in left_out.rows])
    rates = np.array([row.batch for row in left_out.rows]) / left_out.predicted / devices
    count = broken = impossible = 0
    for indices in groups.values():
        rows = [left_out.rows[index] for index in indices]
        if (
            len({(row.tensor, row.attention_data, row.expert, row.batch, row.engine) for row in rows})
            < LEAST_DEPLOYMENTS
        ):
            continue
        for bound in np.quantile(left_out.measured[indices], [0.25, 0.5, 0.75]):
            times = {index: left_out.predicted[index] for index in indices if left_out.predicted[index] <= bound}
            count += 1
            impossible += not times
            if times:
                roomy = [index for index, time in times.items() if time * factor[index] <= bound]
                best = (
                    max(roomy, key=lambda index: rates[index]) if roomy else min(times, key=lambda index: times[index])
                )
                broken += bool(left_out.measured[best] > bound)
    return count, broken / max(count, 1), impossible / max(count, 1)


def report(kind: str, left_out: LeftOut, inside: Inside, others: dict[str, Errors]) -> list[str]:
    """Give the lines of the report that the bars of the cost model are read from."""
    lines = []
    absolute = np.abs(left_out.error)
    for mode in ("all", *np.unique(left_out.mode)):
        error = absolute if mode == "all" else absolute[left_out.mode == mode]
        lines.append(
            f"{kind}, {mode}: {len(error)} rows, median {np.median(error):.1%}, mean {error.mean():.1%}, "
            f"90 % below {np.quantile(error, 0.9):.1%}"
        )
    for what, of in biases(left_out).items():
        text = ", ".join(f"{name} {bias:+.0%} ({rows})" for name, (rows, bias) in of.items())
        lines.append(f"{kind}, median signed error by {what} (rows): {text}")
    lines.append(
        f"{kind}, families and systems of at least {LEAST_ROWS} rows with a bias within 20 %: "
        f"{share_within(left_out, 0.2):.0%}, within 10 %: {share_within(left_out, 0.1):.0%}"
    )
    text = ", ".join(
        f"{level:.0%}: {rows.mean():.1%} ({share_of_cells(left_out, rows):.1%} of cells)"
        for level, rows in inside.items()
    )
    lines.append(f"{kind}, rows inside the intervals of the level {text}")
    if kind == "decode":
        slow = margins(left_out, others, 0.9)
        for what, margin in (
            ("predicted times", 1.0),
            (f"times of which one in ten is slower ({slow.mean():.2f})", slow),
        ):
            count, broken, impossible = choices(left_out, margin)
            lines.append(
                f"{kind}, {count} choices by {what}: {broken:.1%} break their bound, {impossible:.1%} are wrongly called "
                "impossible"
            )
    return lines


def plot(path: Path, kind: str, left_out: LeftOut) -> None:
    """Draw predicted against measured, a panel for each family, a colour for each system."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    # Names of elements that do not change from run to run.
    matplotlib.rcParams["svg.hashsalt"] = kind
    matplotlib.rcParams["svg.fonttype"] = "none"
    families = np.unique(left_out.family)
    systems = np.unique(left_out.system)
    columns = 4
    figure, axes = pyplot.subplots(-(-len(families) // columns), columns, figsize=(13, 6.5), sharex=True, sharey=True)
    ends = np.array([left_out.measured.min(), left_out.measured.max()])
    for axis in axes.flat[len(families) :]:
        axis.set_visible(False)
    for axis, family in zip(axes.flat, families, strict=False):
        axis.loglog(ends, ends, "k-", linewidth=0.8)
        for factor in (0.8, 1.25):
            axis.loglog(ends, ends * factor, "k:", linewidth=0.6)
        for index, system in enumerate(systems):
            mask = (left_out.family == family) & (left_out.system == system)
            # One picture of the points, as an SVG of thousands of elements is slow to show.
            axis.loglog(
                left_out.measured[mask], left_out.predicted[mask], ".", color=f"C{index}", markersize=3, label=system,
                rasterized=True,
            )  # fmt: skip
        mine = left_out.error[left_out.family == family]
        axis.set_title(f"{family}: median error {np.median(np.abs(mine)):.0%}, bias {np.median(mine):+.0%}", fontsize=9)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower right", ncols=3, markerscale=3)
    figure.supxlabel("measured ms")
    figure.supylabel("predicted ms, family and system left out")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90, metadata={"Date": None})
    pyplot.close(figure)
