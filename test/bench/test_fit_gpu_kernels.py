# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cost formula of GPU kernels: figures of the program, errors that the catalogue promises, and a fit of the extract."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import fit_gpu_kernels
import gpu_kernel_rows
import numpy as np
import pytest
from gpu_kernel_rows import FAMILIES, FAMILY_OF, KINDS, Formula, Row, Table

EFFICIENCY = gpu_kernel_rows.ROOT / "catalogue/efficiency"


@pytest.fixture(scope="module")
def formula(build_dir: Path) -> Formula:
    library = build_dir / "lib/intarsia-gpu-fit.so"
    if not library.exists():
        pytest.fail(f"{library} is not built")
    return Formula(library)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return gpu_kernel_rows.read_extract(Path(__file__).with_name("gpu-kernel-times.csv"))


@pytest.fixture(scope="module")
def committed() -> dict[tuple[str, str, str], dict[str, float]]:
    with (EFFICIENCY / "gpu-kernels-errors.csv").open(newline="") as file:
        return {
            (row["kind"], row["type"], row["device"]): {
                name: float(row[name])
                for name in ("fitted", "shapes_left_out", "device_left_out", "family_left_out", "roofline")
                if row[name]
            }
            for row in csv.DictReader(file)
        }


def figures_of_file() -> dict[tuple[str, str, str], dict[str, float]]:
    """Read the lines of the table of figures without the program's reader."""
    text = (EFFICIENCY / "gpu-kernels.yaml").read_text()
    figures = {}
    for line in re.findall(r"^  - \{(.*)\}$", text, re.MULTILINE):
        entries = dict(entry.split(": ") for entry in line.split(", "))
        if "kind" not in entries:  # of all-reduces
            continue
        key = entries.pop("kind"), entries.pop("type"), entries.pop("of")
        figures[key] = {name: float(value) for name, value in entries.items()}
    return figures


def test_program_takes_each_device_its_own_figures(formula: Formula, rows: list[Row]):
    table, figures = Table(formula, rows), figures_of_file()
    everything = np.arange(len(rows))
    seen = set()
    for index, row in enumerate(rows):
        line = figures[row.kind, row.type, row.device]
        values = np.array([line[name] for name in formula.names])
        expected = table.predict(everything[index : index + 1], values)
        assert table.predict(everything[index : index + 1]) == pytest.approx(expected, rel=1e-12)
        seen.add((row.kind, row.type, row.device))
    assert seen == {key for key in figures if key[2] in FAMILY_OF}


def test_rows_that_were_fitted_are_predicted(formula: Formula, rows: list[Row]):
    """The extract's rows, by kind: they would be off if they were read another way than they were fitted."""
    table = Table(formula, rows)
    error = np.abs(table.predict(np.arange(len(rows))) / table.measured - 1)
    bounds = {"linear": 0.065, "prefill": 0.085, "decode": 0.075, "experts": 0.11}
    for kind in KINDS:
        assert np.median(error[table.kind == kind]) <= bounds[kind], kind


def test_families_are_those_of_the_file():
    text = (EFFICIENCY / "gpu-kernels.yaml").read_text()
    entries = re.search(r"^families: \{(.*)\}$", text, re.MULTILINE).group(1)
    assert dict(entry.split(": ") for entry in entries.split(", ")) == FAMILIES


def test_bars(committed: dict[tuple[str, str, str], dict[str, float]]):
    """Hold the errors of rows that were left out, which the catalogue promises."""
    for kind in ("all", *KINDS):
        line = committed[kind, "all", "all"]
        assert line["device_left_out"] <= 0.20, kind
        assert line["roofline"] >= 3 * line["shapes_left_out"], kind
    assert committed["all", "all", "all"]["shapes_left_out"] <= 0.08
    for kind in ("linear", "prefill", "decode"):
        assert committed[kind, "all", "all"]["shapes_left_out"] <= 0.08, kind
    # Experts have few shapes: a quarter of them left out is another range of sizes.
    assert committed["experts", "all", "all"]["shapes_left_out"] <= 0.135


def test_a_fit_of_the_extract_predicts_what_it_did_not_see(formula: Formula, rows: list[Row]):
    """Linears in bf16: a quarter of the shapes and each device left out of the fit, as the whole fit does it."""
    linears = [row for row in rows if row.kind == "linear" and row.type == "bf16"]
    fits = fit_gpu_kernels.Fits(Table(formula, linears), "linear", "bf16").run()
    median = {what: float(np.nanmedian(np.abs(values))) for what, values in fits.errors.items()}
    assert median["shapes"] <= 0.08
    assert median["device"] <= 0.20
    roofline = fits.table.roofline() / fits.table.measured - 1
    assert np.median(np.abs(roofline)) >= 3 * median["shapes"]
