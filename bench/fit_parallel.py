#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fits the figures of the formula for parallel configurations to published training runs.

Writes catalogue/efficiency/parallel.yaml, which becomes part of the program at the next build. Two figures for processes
of one host are fitted to the tables of docs/benchmarks-collectives.md. The formula is the
compiler's (lib/Cost/ParallelCost.cpp, through intarsia-parallel-fit.so); rows are those of parallel_rows.py, without
the groups that are held out. Every figure has a prior, which stands where rows say nothing.

usage: fit_parallel.py [--build=build/dev] [--no-write]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from fleet_rows import FleetFormula, fleet_rows
from numpy.typing import NDArray
from parallel_rows import ROOT, Formula, Row, held_out, table_of, training_rows
from scipy.optimize import least_squares

OUTPUT = ROOT / "catalogue/efficiency/parallel.yaml"
TOTAL = 11  # of TIME_FIELDS
# A residual of this size is usual: beyond it a row counts linearly, not squared.
USUAL_ERROR = 0.1
# A table counts as this many rows, however many it has, so that 900 rows of one node do not outvote papers.
ROWS_OF_TABLE = 12.0
# A prior counts as much as so many rows.
PRIOR_WEIGHT = 2.0

# Median and, as a logarithm, the width of the plausible range.
PRIORS: dict[str, tuple[float, float]] = {
    "linear_compute": (0.75, 0.12),  # cuBLAS on large products
    "linear_half": (150, 0.7),  # about a tile
    "attention_compute": (0.55, 0.2),  # FlashAttention 2 and 3, forward
    "unfused_compute": (0.4, 0.3),  # batched products of 64 to 128 features
    "expert_compute": (0.85, 0.15),  # grouped products
    "memory": (0.8, 0.15),
    "expert_passes": (6, 0.4),  # permuted and back, read and written, and what the gate multiplies
    "link": (0.75, 0.15),
    "network": (0.75, 0.2),
    "link_us": (8, 0.5),
    "network_us": (20, 0.5),
    "overlap": (0.6, 0.3),
    "gather_overlap": (0.9, 0.15),
    "layer_us": (300, 0.7),  # about 30 kernels from Python
    "expert_layer_us": (400, 0.7),
    "step_us": (30000, 0.7),
    "host_gbps": (20, 0.5),  # PCIe of 4 or 5, shared
}
SHARES = {
    name
    for name in PRIORS
    if name.endswith("compute") or name in ("memory", "link", "network", "overlap", "gather_overlap")
}


def figures_of(logs: NDArray[np.float64], names: Sequence[str]) -> NDArray[np.float64]:
    figures = np.exp(logs)
    return np.array([min(value, 1.0) if name in SHARES else value for name, value in zip(names, figures, strict=True)])


def fit(formula: Formula, rows: Sequence[Row]) -> NDArray[np.float64]:
    """Figures in the formula's order, fitted to rows."""
    table = table_of(rows)
    logs = np.log([row.seconds for row in rows])
    counts = Counter(row.table for row in rows)
    weights = np.array([np.sqrt(min(1.0, ROWS_OF_TABLE / counts[row.table])) for row in rows])
    medians = np.log([PRIORS[name][0] for name in formula.names])
    widths = np.array([PRIORS[name][1] for name in formula.names])

    def residuals(point: NDArray[np.float64]) -> NDArray[np.float64]:
        times = formula.predict(table, figures_of(point, formula.names))[:, TOTAL] / 1e3
        errors = weights * (np.log(times) - logs) / USUAL_ERROR
        # Beyond a usual error squares become absolute values; priors stay squares.
        robust = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
        return np.concatenate([robust, np.sqrt(PRIOR_WEIGHT) * (point - medians) / widths])

    upper = np.array([0.0 if name in SHARES else np.inf for name in formula.names])
    start = np.minimum(medians, upper - 1e-6)
    return figures_of(least_squares(residuals, start, bounds=(-np.inf, upper), max_nfev=60).x, formula.names)


def shared_memory() -> tuple[float, float]:
    """Microseconds before the first byte and 10^9 bytes a second of a ring all-reduce between two processes: both states
    of the virtual processors, messages up to 4 MiB (larger ones leave the caches)."""
    units = {"KiB": 1024.0, "MiB": 1048576.0}
    sizes, times = [], []
    for line in (ROOT / "docs/benchmarks-collectives.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > 3 and cells[0] == "2" and cells[1].split()[-1] in units:
            count, unit = cells[1].split()
            if float(count) * units[unit] <= 4 * units["MiB"]:
                sizes.append(float(count) * units[unit])
                times.append(float(cells[2]))
    bytes_, measured = np.array(sizes), np.array(times)

    def residuals(point: NDArray[np.float64]) -> NDArray[np.float64]:
        alpha, rate = np.exp(point)
        return np.log(2 * alpha + bytes_ / (rate * 1e3)) - np.log(measured)

    alpha, rate = np.exp(least_squares(residuals, np.log([1.0, 8.0])).x)
    return float(alpha), float(rate)


FLEET_PRIORS: dict[str, tuple[float, float]] = {
    "accelerator": (0.6, 0.3),  # products of a matrix with one vector
    "host": (0.8, 0.2),
    "resident": (1.5, 0.5),
    "disk": (0.9, 0.2),
    "message_us": (5000, 0.7),  # wireless
}


def fit_fleet(formula: FleetFormula) -> NDArray[np.float64]:
    """Figures of weak fleets, fitted to the group that is not held out."""
    every = fleet_rows()
    aside = held_out([row.group for row in every])
    rows = [row for row in every if row.group not in aside]
    medians = np.log([FLEET_PRIORS[name][0] for name in formula.names])
    widths = np.array([FLEET_PRIORS[name][1] for name in formula.names])
    resident = formula.names.index("resident")

    def residuals(point: NDArray[np.float64]) -> NDArray[np.float64]:
        errors = np.log([formula.predict(r, np.exp(point)) / r.milliseconds for r in rows]) / USUAL_ERROR
        robust = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
        return np.concatenate([robust, np.sqrt(PRIOR_WEIGHT) * (point - medians) / widths])

    # Times jump where a model stops fitting, so that this figure is tried value by value.
    best, least = medians, np.inf
    for multiple in np.arange(1.0, 2.55, 0.1):
        start = medians.copy()
        start[resident] = np.log(multiple)
        free = np.arange(len(start)) != resident

        def partial(point: NDArray[np.float64], start=start, free=free) -> NDArray[np.float64]:
            whole = start.copy()
            whole[free] = point
            return residuals(whole)

        result = least_squares(partial, start[free], max_nfev=30)
        if result.cost < least:
            least, best = result.cost, start.copy()
            best[free] = result.x
    return np.exp(best)


def groups_aside(rows: Sequence[Row]) -> set[str]:
    """Groups that are held out, of the published tables and of vTrain's runs in one node each for itself."""
    one_node = [row.group for row in rows if row.group.startswith("vtrain1")]
    return held_out([row.group for row in rows if not row.group.startswith("vtrain1")]) | held_out(one_node)


def without(rows: Sequence[Row], paper: str = "") -> list[Row]:
    """Rows that may be fitted: neither held out, nor doubted by the table's readers, nor of `paper`."""
    kept_aside = groups_aside(rows)
    return [row for row in rows if row.group not in kept_aside and not row.suspect and row.paper != paper]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--no-write", action="store_true")
    arguments = parser.parse_args()
    formula = Formula(arguments.build)
    rows = without(training_rows(formula))
    figures = fit(formula, rows)
    lines = [
        "# Written by bench/fit_parallel.py from the tables of catalogue/parallel. Times in microseconds, rates in 10^9",
        "# bytes a second, shares of the data sheets' peaks; ParallelFigures in intarsia/Cost/ParallelCost.h says of what.",
        f"# Fitted to {len(rows)} rows of the groups {', '.join(sorted({row.group for row in rows}))}.",
        "figures:",
    ]
    lines += [f"  {name}: {value:.5g}" for name, value in zip(formula.names, figures, strict=True)]
    alpha, rate = shared_memory()
    lines += [
        "# docs/benchmarks-collectives.md, two ranks",
        "shared_memory:",
        f"  alpha_us: {alpha:.3g}",
        f"  gbps: {rate:.3g}",
    ]
    fleet = FleetFormula(formula)
    lines += ["# catalogue/parallel/fleets.csv, group prima", "fleet:"]
    lines += [f"  {name}: {value:.5g}" for name, value in zip(fleet.names, fit_fleet(fleet), strict=True)]
    text = "\n".join(lines) + "\n"
    print(text)
    if not arguments.no_write:
        OUTPUT.write_text(text)


if __name__ == "__main__":
    main()
