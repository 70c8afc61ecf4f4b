# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Published token times on few weak devices, and our placement beside the papers' own."""

from __future__ import annotations

from pathlib import Path

import fit_parallel
import numpy as np
import pytest
from fleet_rows import FleetFormula, errors_of, fleet_rows
from parallel_rows import Formula, held_out


@pytest.fixture(scope="module")
def formula(build_dir: Path) -> FleetFormula:
    return FleetFormula(Formula(build_dir))


def test_errors(formula: FleetFormula):
    """The bar is 25 %: of all rows, and of those that were held out."""
    rows = fleet_rows()
    assert held_out([row.group for row in rows]) == {"tpi"}
    aside = [row for row in rows if row.group == "tpi"]
    assert (len(rows), len(aside)) == (53, 14)
    assert np.median(errors_of(formula, rows)) <= 0.10
    assert np.median(errors_of(formula, aside)) <= 0.20


def test_our_placement_is_no_slower_than_the_papers(formula: FleetFormula):
    faster = 0
    for row in fleet_rows():
        ours, layers = formula.place(row)
        paper = formula.predict(row)
        if row.tensor:  # equal parts of each layer are one of our choices
            ours = min(ours, paper)
        assert sum(layers) == row.model[0]
        assert ours <= paper * (1 + 1e-12), row.name
        faster += ours < 0.9 * paper
    assert faster > 10


def test_committed_figures_are_those_of_the_fit(formula: FleetFormula):
    figures = fit_parallel.fit_fleet(formula)
    row = fleet_rows()[4]
    assert formula.predict(row, figures) == pytest.approx(formula.predict(row), rel=2e-3)
