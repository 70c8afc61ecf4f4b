#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares predicted with published times of training steps, table by table.

Each table is predicted twice: with the figures of the program, which no held-out group had a part in (*), and with
figures that are fitted to other papers only. A rank correlation (Spearman's) is that of the configurations of a table by
device-seconds a token.

usage: parallel_tables.py [--build=build/dev] [--rows=TABLE]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from fit_parallel import TOTAL, fit, groups_aside, without
from parallel_rows import ROOT, TIME_FIELDS, Formula, Row, table_of, training_rows


def errors_of(rows: list[Row], seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.abs(seconds / np.array([row.seconds for row in rows]) - 1)


def rank_correlation(rows: list[Row], seconds: NDArray[np.float64]) -> float:
    work = np.array([r.values["global_batch"] * r.values["sequence"] / r.values["devices"] for r in rows])
    return float(spearmanr(np.array([row.seconds for row in rows]) / work, seconds / work)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--rows", help="print the rows of the tables whose names begin so")
    arguments = parser.parse_args()
    formula = Formula(arguments.build)
    rows = training_rows(formula)
    shipped = formula.predict(table_of(rows))[:, TOTAL] / 1e3
    parts = np.zeros((len(rows), len(TIME_FIELDS)))
    for paper in sorted({row.paper for row in rows}):
        figures = fit(formula, without(rows, paper))
        own = [i for i, row in enumerate(rows) if row.paper == paper]
        parts[own] = formula.predict(table_of([rows[i] for i in own]), figures)
        print(paper + " by others: " + " ".join(f"{n}={v:.3g}" for n, v in zip(formula.names, figures, strict=True)))
    others = parts[:, TOTAL] / 1e3
    aside = groups_aside(rows)

    print(f"\n{'table':34}{'rows':>5}  {'figures of the program':>24}   {'figures of other papers':>24}")
    print(f"{'':34}{'':>5}  {'median error  rank':>24}   {'median error  rank':>24}")
    summary: dict[str, list[float]] = {"program": [], "others": []}
    for table in dict.fromkeys(row.table for row in rows):
        own = [i for i, row in enumerate(rows) if row.table == table]
        picked = [rows[i] for i in own]
        cells = []
        for name, seconds in (("program", shipped[own]), ("others", others[own])):
            rank = rank_correlation(picked, seconds)
            summary[name].append(rank)
            cells.append(f"{np.median(errors_of(picked, seconds)):>15.1%} {rank:>8.3f}")
        mark = "*" if picked[0].group in aside else ""
        print(f"{table + mark:34}{len(own):>5}  {cells[0]}   {cells[1]}")
    published = [i for i, row in enumerate(rows) if not row.group.startswith("vtrain1")]
    held = [i for i in published if rows[i].group in aside]
    tables = len(dict.fromkeys(rows[i].table for i in published))
    for label, picks in (("training.csv", published), ("of it held out*", held), ("with one node", range(len(rows)))):
        picked = [rows[i] for i in picks]
        cells = [np.median(errors_of(picked, seconds[list(picks)])) for seconds in (shipped, others)]
        print(f"{label:34}{len(picked):>5}  {cells[0]:>15.1%}            {cells[1]:>15.1%}")
    print(f"rank correlation, median of the {tables} tables of training.csv: program "
          f"{np.median(summary['program'][:tables]):.3f}, others {np.median(summary['others'][:tables]):.3f}; least "
          f"{min(summary['program'][:tables]):.3f}, {min(summary['others'][:tables]):.3f}")  # fmt: skip
    if arguments.rows is not None:
        for row, time, seconds in zip(rows, parts, others, strict=True):
            if row.table.startswith(arguments.rows):
                shares = " ".join(f"{n} {v / time[TOTAL]:.0%}" for n, v in zip(TIME_FIELDS[:TOTAL], time, strict=False))
                print(
                    f"{row.name:46} {row.seconds:9.2f} s, predicted {seconds:9.2f} ({seconds / row.seconds:.2f}): {shares}"
                )


if __name__ == "__main__":
    main()
