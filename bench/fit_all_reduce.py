# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The part of fit_gpu_kernels.py that is about all-reduces between the devices of a node.

Rows are the best of NCCL and of the engines' own kernels in a captured graph, for each number of devices and of bytes. The
tables count elements of 16 bits: as bytes, NCCL's large all-reduces would reach half of what NVLink is known to give.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gpu_kernel_rows import DEVICES, FAMILY_OF, Formula, pointer
from numpy.typing import NDArray
from scipy.optimize import least_squares

NAMES = ("start_us", "stage_us", "second_us", "one_shot", "two_shots")
# Median and, as a logarithm, the width of the plausible range.
PRIORS = {
    "start_us": (3, 0.7),
    "stage_us": (0.6, 0.7),
    "second_us": (5, 0.7),
    "one_shot": (0.5, 0.4),
    "two_shots": (0.7, 0.3),
}
PRIOR_WEIGHT, USUAL_ERROR = 0.3, 0.1
BYTES_OF_ELEMENT = 2
#: Larger groups cross nodes, except on NVL72, where few were measured.
MOST_DEVICES = 8


@dataclass(frozen=True)
class AllReduce:
    device: str
    devices: int
    bytes: float
    us: float


def read_all_reduces(folder: Path) -> list[AllReduce]:
    import pyarrow.parquet as parquet

    best: dict[tuple[str, int, float], float] = {}
    for file, wanted in (
        ("nccl.parquet", [("op_name", "=", "all_reduce"), ("nccl_dtype", "=", "half")]),
        ("allreduce_custom.parquet", []),
    ):
        filters = [("system", "in", list(DEVICES)), ("num_gpus", "<=", MOST_DEVICES), *wanted]
        for row in parquet.read_table(folder / file, filters=filters).to_pylist():
            # A kernel outside of a graph is timed with its launch.
            if (row.get("backend") or "").endswith("eager"):
                continue
            key = DEVICES[row["system"]], row["num_gpus"], float(row["message_size"]) * BYTES_OF_ELEMENT
            best[key] = min(best.get(key, np.inf), row["latency"] * 1e3)
    return [AllReduce(*key, us) for key, us in sorted(best.items())]


class Predictor:
    """The compiler's formula."""

    def __init__(self, formula: Formula) -> None:
        self.function = formula.c.itx_gpu_all_reduce
        doubles = ctypes.POINTER(ctypes.c_double)
        self.function.argtypes = [ctypes.c_char_p, doubles, doubles, ctypes.c_int64, doubles, doubles]

    def predict(self, rows: list[AllReduce], figures: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Return microseconds, with the program's own figures if `figures` is None; NaN where the catalogue lacks a link."""
        result = np.full(len(rows), np.nan)
        names = np.array([row.device for row in rows])
        devices = np.array([row.devices for row in rows], float)
        sizes = np.array([row.bytes for row in rows], float)
        given = None if figures is None else pointer(np.ascontiguousarray(figures), ctypes.c_double)
        for name in np.unique(names):
            mine = np.flatnonzero(names == name)
            out = np.empty(len(mine))
            arrays = [np.ascontiguousarray(values[mine]) for values in (devices, sizes)]
            if not self.function(
                name.encode(), *(pointer(array, ctypes.c_double) for array in arrays), len(mine), given,
                pointer(out, ctypes.c_double),
            ):  # fmt: skip
                result[mine] = out
        return result


def fit(predictor: Predictor, rows: list[AllReduce]) -> NDArray[np.float64]:
    center = np.log([PRIORS[name][0] for name in NAMES])
    width = np.array([PRIORS[name][1] for name in NAMES])
    measured = np.log([row.us for row in rows])

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        error = (np.log(predictor.predict(rows, np.exp(logs))) - measured) / USUAL_ERROR
        return np.concatenate([error, PRIOR_WEIGHT * (logs - center) / width])

    return np.exp(least_squares(residuals, center, loss="soft_l1", diff_step=1e-3, max_nfev=60).x)


def error_of(predictor: Predictor, rows: list[AllReduce], figures: NDArray[np.float64]) -> float:
    return float(np.median(np.abs(predictor.predict(rows, figures) / [row.us for row in rows] - 1)))


def fit_all_reduces(formula: Formula, folder: Path) -> tuple[list[str], list[list[object]]]:
    """Return the lines of the YAML file, and those of the table of errors (see fit_gpu_kernels.py)."""
    predictor = Predictor(formula)
    rows = read_all_reduces(folder)
    # Devices whose link the catalogue does not have are left out.
    known = ~np.isnan(predictor.predict(rows, np.array([PRIORS[name][0] for name in NAMES])))
    rows = [row for row, has in zip(rows, known, strict=True) if has]
    names = sorted({row.device for row in rows})
    lines, errors = [], []

    def add(name: str, mine: list[AllReduce]) -> NDArray[np.float64]:
        figures = fit(predictor, mine)
        text = ", ".join(f"{key}: {value:.4g}" for key, value in zip(NAMES, figures, strict=True))
        lines.append(f"  - {{of: {name}, rows: {len(mine)}, error: {error_of(predictor, mine, figures):.3f}, {text}}}")
        return figures

    add("any", rows)
    for family in sorted({FAMILY_OF[name] for name in names}):
        add(family, [row for row in rows if FAMILY_OF[row.device] == family])
    sizes = sorted({(row.devices, row.bytes) for row in rows})
    chosen = np.random.default_rng(1).permutation(len(sizes))[: len(sizes) // 4]
    held = {sizes[index] for index in chosen}
    for name in names:
        mine = [row for row in rows if row.device == name]
        kin = [row for row in rows if row.device != name and FAMILY_OF[row.device] == FAMILY_OF[name]]
        strangers = [row for row in rows if FAMILY_OF[row.device] != FAMILY_OF[name]]
        apart = [row for row in mine if (row.devices, row.bytes) in held]
        rest = [row for row in mine if (row.devices, row.bytes) not in held]
        found = [
            error_of(predictor, mine, add(name, mine)),
            error_of(predictor, apart, fit(predictor, rest)),
            error_of(predictor, mine, fit(predictor, kin or strangers)),
            error_of(predictor, mine, fit(predictor, strangers)),
        ]
        errors.append(["all_reduce", "bf16", name, len(mine), *(f"{value:.4f}" for value in found), ""])
    return lines, errors
