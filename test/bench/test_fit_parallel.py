# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Published training runs: what figures of other papers predict, and what the committed figures do."""

from __future__ import annotations

from pathlib import Path

import fit_parallel
import numpy as np
import parallel_rows
import pytest
from parallel_rows import Formula, Row
from scipy.stats import spearmanr


@pytest.fixture(scope="module")
def formula(build_dir: Path) -> Formula:
    return Formula(build_dir)


@pytest.fixture(scope="module")
def rows(formula: Formula) -> list[Row]:
    return [row for row in parallel_rows.training_rows(formula) if not row.group.startswith("vtrain1")]


def seconds(formula: Formula, rows: list[Row], figures: np.ndarray | None = None) -> np.ndarray:
    return formula.predict(parallel_rows.table_of(rows), figures)[:, fit_parallel.TOTAL] / 1e3


def test_groups_that_are_held_out(formula: Formula, rows: list[Row]):
    every = parallel_rows.training_rows(formula)
    fitted = {row.group for row in fit_parallel.without(every)}
    assert fitted.isdisjoint({"moefold:T1-3", "megatron:T1", "vtrain:18.4B", "vtrain1:h1024-l12", "vtrain1:h2048-l16"})
    assert "vtrain:39.1B" in fitted
    assert not [row for row in fit_parallel.without(every, "vtrain") if row.paper == "vtrain"]


def test_other_papers_predict_each_paper(formula: Formula, rows: list[Row]):
    """Median error of all rows of the tables, and the rank of configurations within a table."""
    every = parallel_rows.training_rows(formula)
    errors, ranks = [], []
    for paper in sorted({row.paper for row in rows}):
        figures = fit_parallel.fit(formula, fit_parallel.without(every, paper))
        for table in {row.table for row in rows if row.paper == paper}:
            own = [row for row in rows if row.table == table]
            predicted, measured = seconds(formula, own, figures), np.array([row.seconds for row in own])
            work = np.array(
                [row.values["global_batch"] * row.values["sequence"] / row.values["devices"] for row in own]
            )
            errors += list(np.abs(predicted / measured - 1))
            ranks.append(spearmanr(predicted / work, measured / work)[0])
    assert len(errors) == len(rows)
    assert np.median(errors) <= 0.09
    assert np.median(ranks) >= 0.97


def test_committed_figures(formula: Formula, rows: list[Row]):
    aside = parallel_rows.held_out([row.group for row in rows])
    own = [row for row in rows if row.group in aside]
    assert len(own) == 43
    error = np.abs(seconds(formula, own) / [row.seconds for row in own] - 1)
    assert np.median(error) <= 0.065


def test_peaks_and_flops(formula: Formula):
    """Shares of the peak that are printed become times by the paper's own count: Mixtral 8x22B has 39 billion active
    parameters of 141, six flops each, and the scores of attention."""
    row = next(r for r in parallel_rows.training_rows(formula) if r.name.startswith("MCore w/ Folding tp2 pp8 ep8"))
    time = formula.predict(parallel_rows.table_of([row]))[0]
    names = parallel_rows.TIME_FIELDS
    assert time[names.index("parameters")] == pytest.approx(141e9, rel=0.01)
    tokens = row.values["global_batch"] * row.values["sequence"]
    scores = 3 * 4 * row.values["sequence"] * row.values["heads"] * row.values["head_dim"] * row.values["layers"]
    assert time[names.index("model_flops")] == pytest.approx(tokens * (6 * 39e9 + scores), rel=0.01)


def test_wrong_rows_are_refused(formula: Formula, rows: list[Row]):
    values = rows[0].values | {"tensor": 5.0}
    broken = Row("megatron", "megatron:T1", "t", "n", values, ("seconds", 1.0))
    with pytest.raises(ValueError, match=r"row 1: degrees 5 x 1 x 1 x 32 \(tensor, context, pipeline, data\) make 160"):
        formula.predict(parallel_rows.table_of([rows[0], broken]))
    with pytest.raises(ValueError, match="unknown fields"):
        parallel_rows.struct_of({"tensors": 2.0})
