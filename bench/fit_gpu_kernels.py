#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fits the figures of the cost formula of GPU kernels to measured times of single operators.

Writes catalogue/efficiency/gpu-kernels.yaml, which becomes part of the program at the next build, gpu-kernels-errors.csv
with the errors of rows that were left out of the fit, and test/bench/gpu-kernel-times.csv, an extract of the rows. The
formula is the compiler's (lib/Cost/GpuKernels.cpp, through intarsia-gpu-fit.so); what is read of the tables is in
gpu_kernel_rows.py.

Each kind of kernel and type has figures for every measured device, for each family of devices, and for any device.
Errors are medians of |predicted / measured - 1| of rows that the fit did not see:

- shapes: a quarter of the weights' shapes, or of the heads and batches, left out with all their rows, on each device;
- device: the device left out, predicted by its datasheet and the figures of its family's other devices, or of all others
  where it is the only one;
- family: its whole family left out, predicted by the figures of all other devices;
- roofline: no fit, the longer of flops at the peak and bytes at the bandwidth of the datasheet.

usage: fit_gpu_kernels.py --tables=FOLDER [--build=build/dev] [--rows=1000] [--no-write]
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import sys
from datetime import date
from pathlib import Path

import numpy as np
from fit_all_reduce import fit_all_reduces
from gpu_kernel_rows import FAMILIES, KINDS, ROOT, Formula, Row, Table, read_extract, read_tables, write_extract
from numpy.typing import NDArray
from scipy.optimize import least_squares

EFFICIENCY = ROOT / "catalogue/efficiency"
# A residual of this size is usual: beyond it a row counts linearly, not squared.
USUAL_ERROR = 0.1
# A prior counts like this share of the rows.
PRIOR_WEIGHT = 1e-4
# The most rows of a fit of several devices.
MOST_TOGETHER = 2000
# Rows of the extract for each device and type; more of bf16, which a test fits.
EXTRACT_ROWS, EXTRACT_ROWS_BF16 = 12, 60

# In the order of the file.
TYPES = ["bf16", "fp8", "fp4", "latent", "latent_fp8"]

# Median and, as a logarithm, the width of the plausible range; a width of 0 fixes a figure that the kind has not.
Prior = tuple[float, float]
PRIORS: dict[str, dict[str, Prior]] = {
    "linear": {
        "launch_us": (2.5, 0.7),  # a kernel of a captured graph
        "compute": (0.85, 0.3),
        "prologue": (100, 0.7),  # a few stages of a pipeline
        "edge": (10, 1),
        "memory": (0.85, 0.15),
        "cache": (2, 0.5),
        "processor": (3.5, 0.5),
        "quantization": (0.2, 0.8),
        "blend": (3, 0.5),
        "split_us": (4.5, 0.7),
        "tile_us": (0.1, 1),
        "resident": (0.2, 1),
        "input": (0.5, 1),
        "expert_us": (0.001, 0),
        "head_64": (1, 0),
        "head_192": (1, 0),
        "head_256": (1, 0),
        "head_512": (1, 0),
    }
}
HEADS: dict[str, Prior] = {"head_64": (0.8, 0.5), "head_192": (1, 0.5), "head_256": (1, 0.5), "head_512": (0.8, 0.5)}
NO_MATMUL: dict[str, Prior] = {"input": (1, 0), "expert_us": (0.001, 0)}
PRIORS["prefill"] = {
    **PRIORS["linear"], **NO_MATMUL, **HEADS, "launch_us": (9, 0.7), "compute": (0.7, 0.3), "memory": (0.8, 0.15),
    "edge": (10, 1), "processor": (5, 0.5), "quantization": (0.3, 0.8), "tile_us": (0.3, 1), "split_us": (1, 0),
}  # fmt: skip
PRIORS["decode"] = {
    **PRIORS["linear"], **NO_MATMUL, **HEADS, "launch_us": (8, 0.7), "compute": (0.3, 0.3), "prologue": (50, 0.7),
    "edge": (1, 0), "processor": (3, 0.5), "quantization": (0.5, 0.8), "split_us": (3, 0.7), "tile_us": (1, 1),
}  # fmt: skip
PRIORS["experts"] = {
    **PRIORS["linear"], "launch_us": (20, 0.7), "compute": (0.8, 0.3), "cache": (1.5, 0.5), "input": (0.5, 1),
    "expert_us": (0.05, 1),
}  # fmt: skip


def fit(table: Table, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Fit the figures of one kind and type to rows by index."""
    priors = PRIORS[table.rows[rows[0]].kind]
    center = np.log([priors[name][0] for name in table.formula.names])
    width = np.array([priors[name][1] for name in table.formula.names])
    free = np.flatnonzero(width)
    measured = np.log(table.measured[rows])
    weight = np.sqrt(PRIOR_WEIGHT * len(rows))

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        figures = center.copy()
        figures[free] = logs
        error = np.log(table.predict(rows, np.exp(figures))) - measured
        return np.concatenate([error, weight * (logs - center[free]) / width[free]])

    # More than a whole wave is none: the formula takes 1 for all that is above it.
    most = np.where(np.array(table.formula.names)[free] == "quantization", 0.0, np.inf)
    found = least_squares(
        residuals,
        center[free],
        bounds=(-np.inf, most),
        loss="soft_l1",
        f_scale=USUAL_ERROR,
        diff_step=1e-3,
        max_nfev=25,
    )
    figures = center.copy()
    figures[free] = found.x
    return np.exp(figures)


def median_error(table: Table, rows: NDArray[np.int64], figures: NDArray[np.float64]) -> float:
    return float(np.median(np.abs(table.predict(rows, figures) / table.measured[rows] - 1)))


def errors(table: Table, rows: NDArray[np.int64], figures: NDArray[np.float64]) -> NDArray[np.float64]:
    return table.predict(rows, figures) / table.measured[rows] - 1


def quarter(table: Table, rows: NDArray[np.int64], seed: int = 1) -> NDArray[np.bool_]:
    """Mark the rows of a quarter of the shapes; a shape is in it on all devices or on none."""
    shapes = sorted({table.rows[index].shape for index in rows})
    chosen = np.random.default_rng(seed).permutation(len(shapes))[: len(shapes) // 4]
    held = {shapes[index] for index in chosen}
    return np.array([table.rows[index].shape in held for index in rows])


def together(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bound the rows of several devices, for the time of a fit."""
    return np.sort(np.random.default_rng(2).permutation(rows)[:MOST_TOGETHER])


class Fits:
    """All fits of one kind and type."""

    def __init__(self, table: Table, kind: str, type_: str) -> None:
        self.table, self.kind, self.type = table, kind, type_
        self.rows = np.flatnonzero((table.kind == kind) & (table.type == type_))
        self.figures: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        #: By row: what is left out, then the relative error.
        self.errors = {what: np.full(len(table.rows), np.nan) for what in ("fitted", "shapes", "device", "family")}

    def run(self) -> Fits:
        table, rows = self.table, self.rows
        device, family = table.device[rows], table.family[rows]
        held = quarter(table, rows)
        self.add("any", rows)
        for name in np.unique(family):
            self.add(name, rows[family == name])
            if (family != name).any():
                figures = fit(table, together(rows[family != name]))
                self.record("family", rows[family == name], figures)
        for name in np.unique(device):
            mine = rows[device == name]
            self.add(name, mine)
            self.record("fitted", mine, self.figures[name][1])
            self.record("shapes", mine[held[device == name]], fit(table, mine[~held[device == name]]))
            kin = family == family[device == name][0]
            others = rows[kin & (device != name)]
            if not len(others):
                others = rows[device != name]
            if len(others):
                self.record("device", mine, fit(table, together(others)))
        return self

    def add(self, name: str, rows: NDArray[np.int64]) -> None:
        rows = together(rows)
        self.figures[name] = rows, fit(self.table, rows)

    def record(self, what: str, rows: NDArray[np.int64], figures: NDArray[np.float64]) -> None:
        self.errors[what][rows] = errors(self.table, rows, figures)


def run(job: tuple[Path, list[Row], str, str]) -> tuple[str, str, dict, dict]:
    """Do the fits of one kind and type in a process of its own."""
    library, rows, kind, type_ = job
    fits = Fits(Table(Formula(library), rows), kind, type_).run()
    mine = {what: values[fits.rows] for what, values in fits.errors.items()}
    return kind, type_, fits.figures, mine


def table_of_errors(table: Table, found: dict[str, NDArray[np.float64]]) -> list[list[object]]:
    """Return medians by kind, type and device, and over all of a kind."""
    found = {**found, "roofline": table.roofline() / table.measured - 1}
    columns = ("fitted", "shapes", "device", "family", "roofline")

    def line(kind: str, type_: str, device: str, rows: NDArray[np.bool_]) -> list[object]:
        values: list[object] = [kind, type_, device, int(rows.sum())]
        for what in columns:
            known = np.abs(found[what][rows])
            known = known[~np.isnan(known)]
            values.append(f"{np.median(known):.4f}" if len(known) else "")
        return values

    lines = []
    everything = np.full(len(table.rows), True)
    lines.append(line("all", "all", "all", everything))
    for kind in KINDS:
        of_kind = table.kind == kind
        lines.append(line(kind, "all", "all", of_kind))
        for type_ in np.unique(table.type[of_kind]):
            of_type = of_kind & (table.type == type_)
            lines.append(line(kind, type_, "all", of_type))
            for device in np.unique(table.device[of_type]):
                lines.append(line(kind, type_, device, of_type & (table.device == device)))
    titles = ["fitted", "shapes_left_out", "device_left_out", "family_left_out", "roofline"]
    return [["kind", "type", "device", "rows", *titles], *lines]


def yaml_text(table: Table, results: list[tuple[str, str, dict, dict]], all_reduces: list[str]) -> str:
    lines = [
        "# Written by bench/fit_gpu_kernels.py from tables of single operators of ai-dynamo/aiconfigurator (core 0.12.0,",
        "# Apache-2.0), measured on NVIDIA's GPUs with the kernels of vLLM, SGLang and TensorRT-LLM, the best of them for",
        f"# each shape; fitted {date.today():%Y-%m-%d}. Figures are those of GpuKernelFigures (intarsia/Cost/GpuKernels.h).",
        "# `of` is a device, a family of devices, or any; `error` is the median of |predicted / measured - 1| of the",
        "# fitted rows, gpu-kernels-errors.csv has those of rows that were left out. No kernel of this compiler is in it.",
        "families: {" + ", ".join(f"{generation}: {family}" for generation, family in FAMILIES.items()) + "}",
        "figures:",
    ]
    for kind, type_, figures, _ in results:
        for name, (rows, values) in figures.items():
            error = median_error(table, rows, values)
            text = ", ".join(f"{key}: {value:.4g}" for key, value in zip(table.formula.names, values, strict=True))
            head = f"kind: {kind}, type: {type_}, of: {name}, rows: {len(rows)}, error: {error:.3f}"
            lines.append(f"  - {{{head}, {text}}}")
    lines += ["# Figures are those of AllReduceFigures.", "all_reduce:", *all_reduces]
    return "\n".join(lines) + "\n"


def extract(rows: list[Row]) -> list[Row]:
    """Choose rows for the tests: every device and type, spread over the rows that were drawn."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.kind, row.type, row.device), []).append(row)
    chosen = []
    for (_, type_, _), group in groups.items():
        count = EXTRACT_ROWS_BF16 if type_ == "bf16" else EXTRACT_ROWS
        chosen += [group[index] for index in np.linspace(0, len(group) - 1, min(count, len(group))).astype(int)]
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description="Fits the cost formula of GPU kernels to measured operators.")
    parser.add_argument("--tables", type=Path, required=True, help="folder of Parquet files, or an extract (.csv)")
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev", help="build folder with intarsia-gpu-fit.so")
    parser.add_argument("--rows", type=int, default=1000, help="the most rows of a kind, type and device")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--no-write", action="store_true", help="print errors, leave the catalogue as it is")
    options = parser.parse_args()
    library = options.build / "lib/intarsia-gpu-fit.so"
    is_extract = options.tables.suffix == ".csv"
    rows = read_extract(options.tables) if is_extract else read_tables(options.tables, options.rows)
    table = Table(Formula(library), rows)
    jobs = [
        (library, rows, kind, type_)
        for kind in KINDS
        for type_ in sorted({row.type for row in rows if row.kind == kind}, key=TYPES.index)
    ]
    found = {what: np.full(len(rows), np.nan) for what in ("fitted", "shapes", "device", "family")}
    results = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for kind, type_, figures, mine in pool.imap(run, jobs):
            results.append((kind, type_, figures, mine))
            for what, values in mine.items():
                found[what][(table.kind == kind) & (table.type == type_)] = values
            print(f"fitted {kind} in {type_}", file=sys.stderr)
    lines = table_of_errors(table, found)
    # An extract has no exchanges: the figures of the catalogue stay.
    all_reduces, reduce_errors = ([], []) if is_extract else fit_all_reduces(table.formula, options.tables)
    lines += reduce_errors
    for line in lines:
        print("".join(f"{value!s:>16}" if index != 2 else f"{value!s:>28}" for index, value in enumerate(line)))
    if is_extract and not options.no_write:
        parser.error("an extract is too little to write the catalogue from; give --no-write")
    if not options.no_write:
        (EFFICIENCY / "gpu-kernels.yaml").write_text(yaml_text(table, results, all_reduces))
        with (EFFICIENCY / "gpu-kernels-errors.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
        head = (
            "# An extract of tables of single operators of ai-dynamo/aiconfigurator (core 0.12.0, Apache-2.0), for\n"
            "# tests of the cost formula; written by bench/fit_gpu_kernels.py.\n"
        )
        write_extract(ROOT / "test/bench/gpu-kernel-times.csv", extract(rows), head)
    return 0


if __name__ == "__main__":
    sys.exit(main())
