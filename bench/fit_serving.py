#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fits the figures of the serving cost formula to the measured tables of catalogue/serving.

Writes catalogue/efficiency/serving.yaml and serving-splitwise.yaml, which become part of the program at the next build,
beside each the errors of a cross-validation (*-errors.csv), and pictures of it (docs/serving-*.svg). Each model family on
a system is predicted with figures fitted to other families on other systems (serving_validation.py). The
formula is the compiler's (lib/Cost/ServingCost.cpp, through intarsia-serving-fit.so); what is measured, left out and
repaired is in serving_rows.py.

Every figure has a prior: what a data sheet's share, a kernel's time or a factor plausibly is. It keeps figures that few
rows determine where they mean something, and generalizes better to a pair that was not seen.

usage: fit_serving.py [--build=build/dev] [--no-write]
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import serving_validation
from numpy.typing import NDArray
from scipy.optimize import least_squares
from serving_rows import DECODE, FIRST, ROOT, Formula, Row, Table, decoding_together, serving_rows, splitwise_rows
from serving_validation import Errors, Inside, LeftOut

EFFICIENCY = ROOT / "catalogue/efficiency"
ENGINES = ("trtllm", "vllm", "sglang")
# A residual of this size is usual: beyond it a row counts linearly, not squared.
USUAL_ERROR = 0.15
# A prior counts like this many rows of 400.
PRIOR_WEIGHT = 4.0
# Weight of a residual that bounds first tokens: a prediction without a prompt's work must not exceed the least first token
# that was measured. It is large enough to act as a bound, and finite, so that steps of the fit may touch it.
FIXED_WEIGHT = 1000.0
# Evaluations of a fit that starts from one which lacks a cell less.
NESTED_STEPS = 8

# Median and, as a logarithm, the width of the plausible range; a width of 0 fixes the figure.
Prior = tuple[float, float]
DECODE_PRIORS: dict[str, Prior] = {
    "layer_us": (36, 0.5),  # about ten kernels
    "expert_layer_us": (25, 0.5),
    "latent_layer_us": (12, 0.5),
    "linear_layer_us": (20, 0.5),
    "selected_layer_us": (60, 0.5),
    "biased_layer_us": (10, 0.5),
    "layer_factor": (1, 0.2),
    "hopper_factor": (1.1, 0.2),
    "ampere_factor": (1, 0),
    "slow_build_factor": (1.2, 0.2),
    "step_us": (500, 0.5),
    "sequence_us": (15, 0.5),
    "sequence_factor": (1, 0.3),
    "dense_bandwidth": (0.82, 0.15),
    "expert_bandwidth": (0.7, 0.15),
    "cache_bandwidth": (0.65, 0.2),
    "blackwell_bandwidth": (1, 0.1),
    "four_bit_bandwidth": (0.85, 0.2),
    "four_bit_expert_bandwidth": (1, 0.2),
    "dequantized_bandwidth": (0.85, 0.2),
    "sixteen_bit_compute": (0.65, 0.15),
    "eight_bit_compute": (0.5, 0.15),
    "four_bit_compute": (0.4, 0.2),
    "attention_compute": (0.45, 0.3),
    "blackwell_compute": (1, 0.1),
    "expert_compute": (0.6, 0.2),
    "collective_us": (5, 0.4),
    "collective_factor": (1, 0.2),
    "network_us": (15, 0.5),
    "link_efficiency": (0.6, 0.2),
    "all_to_all_factor": (1, 0.3),
    "prefill_layer_us": (30, 0.5),
    "interference": (1, 0.2),
    "data_parallel_imbalance": (1.1, 0.15),
    "expert_parallel_imbalance": (1.1, 0.15),
    "expert_dispersion": (0.5, 0.5),
    "blend": (1.08, 0.1),
    "one_phase_factor": (1, 0.1),
    "linear_factor": (1, 0.1),
    "attention_factor": (1, 0.15),
    "experts_factor": (1, 0.15),
}
FIRST_PRIORS: dict[str, Prior] = {
    "first.overhead_us": (30000, 0.5),
    "first.overhead_factor": (1, 0.4),
    "first.layer_us": (400, 0.5),
    "first.expert_layer_us": (400, 0.7),
    "first.latent_layer_us": (200, 0.7),
    "first.linear_layer_us": (400, 0.7),
    "first.selected_layer_us": (400, 0.7),
    "first.layer_factor": (1, 0.4),
    "first.hopper_factor": (1.3, 0.4),
    "first.sixteen_bit_compute": (0.65, 0.15),
    "first.eight_bit_compute": (0.5, 0.15),
    "first.four_bit_compute": (0.4, 0.2),
    "first.attention_compute": (0.45, 0.3),
    "first.blackwell_compute": (1, 0.1),
    "first.expert_compute": (0.6, 0.2),
    "first.bandwidth": (0.7, 0.2),
    "first.link_efficiency": (0.5, 0.2),
    "first.wait": (0.1, 0.5),
    "first.one_phase_us": (30000, 0.7),
    "first.slow_build_factor": (1, 0.2),
    "first.power_cap_factor": (1, 0),
    "first.operators_factor": (1.1, 0.2),
    "first.long_slowdown": (0, 0),
    "first.long_tokens": (4096, 0),
}
# With the times of measured operators: layers take what is between them, and shares of peaks are not asked. Those that
# the planner takes for encoders stay as they were fitted before operators were.
OPERATOR_PRIORS = DECODE_PRIORS | {
    "layer_us": (15, 0.7),
    "expert_layer_us": (10, 0.7),
    "latent_layer_us": (8, 0.7),
    # Each of these two is measured in one family only, which has kernels of its own. A wide prior lets these figures take
    # what the family needs, so that it does not move the figures that all models share.
    "linear_layer_us": (15, 2.0),
    "selected_layer_us": (20, 2.0),
    # An exchange with the experts of other replicas: 45 us for few tokens between 8 devices, the best of four libraries
    # (moe_all_to_all of the tables that fit_gpu_kernels.py reads).
    "collective_us": (45, 0.5),
    "dense_bandwidth": (0.84, 0),
    "expert_bandwidth": (0.7, 0),
    "cache_bandwidth": (0.69, 0),
    "blackwell_bandwidth": (0.93, 0),
    "four_bit_bandwidth": (0.82, 0),
    "four_bit_expert_bandwidth": (1.2, 0),
    "dequantized_bandwidth": (0.86, 0),
    "sixteen_bit_compute": (0.77, 0),
    "eight_bit_compute": (0.49, 0),
    "four_bit_compute": (0.4, 0),
    "attention_compute": (0.47, 0),
    "blackwell_compute": (1, 0),
    "expert_compute": (0.43, 0),
    "expert_dispersion": (0.5, 0),
    "prefill_layer_us": (60, 0.7),  # of steps that hold prompts, which run without graphs
}
OPERATOR_FIRST_PRIORS = FIRST_PRIORS | {
    # Narrow, so that what an engine takes before a prompt does not hide in the layers of the models that it was measured with.
    # Predictions without work are bounded by the least first token that was measured (least_first_tokens).
    "first.layer_us": (100, 0.4),
    "first.expert_layer_us": (50, 0.4),
    "first.latent_layer_us": (30, 0.4),
    "first.linear_layer_us": (100, 0.4),
    "first.selected_layer_us": (100, 0.4),
    "first.overhead_factor": (1, 0.6),
    "first.sixteen_bit_compute": (0.64, 0),
    "first.eight_bit_compute": (0.4, 0),
    "first.four_bit_compute": (0.44, 0),
    "first.attention_compute": (0.43, 0),
    "first.blackwell_compute": (1, 0),
    "first.expert_compute": (0.43, 0),
    "first.bandwidth": (0.71, 0),
}
# An engine of 2023: kernels one by one from Python, so fixed times are tens of times longer; no experts, no Blackwell.
SPLITWISE_DECODE_PRIORS = DECODE_PRIORS | {
    "layer_us": (400, 0.7),
    "biased_layer_us": (100, 0.7),
    "hopper_factor": (1, 0),
    "ampere_factor": (1.3, 0.3),
    "layer_factor": (1, 0),
    "sequence_factor": (1, 0),
    "collective_factor": (1, 0),
    "interference": (1, 0),
    "sequence_us": (100, 1.0),
    "blend": (3, 0.5),
    "one_phase_factor": (1, 0),
    "slow_build_factor": (1, 0),
    "linear_factor": (1, 0),
    "attention_factor": (1, 0),
    "experts_factor": (1, 0),
    "blackwell_bandwidth": (1, 0),
    "blackwell_compute": (1, 0),
}
SPLITWISE_FIRST_PRIORS = FIRST_PRIORS | {
    "first.overhead_factor": (1, 0),
    "first.layer_factor": (1, 0),
    "first.hopper_factor": (1, 0),
    "first.slow_build_factor": (1, 0),
    "first.blackwell_compute": (1, 0),
    "first.power_cap_factor": (1.2, 0.3),
    "first.operators_factor": (1, 0),
    "first.long_slowdown": (0.5, 1.0),
    "first.long_tokens": (4096, 0.5),
}


def is_efficiency(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    return (last.endswith(("_compute", "_bandwidth", "_efficiency")) or last == "bandwidth") and not any(
        word in last for word in ("blackwell", "expert_compute", "four_bit_bandwidth", "four_bit_expert", "dequantized")
    )


@dataclass
class Problem:
    """Figures to fit by name, with priors, to rows of one kind."""

    formula: Formula
    names: list[str]  # free ones
    medians: NDArray[np.float64]  # logarithms
    widths: NDArray[np.float64]
    base: NDArray[np.float64]  # all figures, in the formula's order
    found: dict[bytes, NDArray[np.float64]] = field(default_factory=dict)  # of parts of a table, by their rows

    @staticmethod
    def make(formula: Formula, priors: dict[str, Prior], engines: tuple[str, ...], base: dict[str, float]) -> Problem:
        figures = np.ones(len(formula.names))
        names, medians, widths = [], [], []
        for index, name in enumerate(formula.names):
            stem, _, engine = name.rpartition(".")
            of_engine = engine in (*ENGINES, "splitwise")
            if of_engine and engine not in engines:
                continue
            prior = priors.get(stem if of_engine else name)
            if prior is None:
                figures[index] = base.get(name, 1.0)
                continue
            figures[index] = prior[0]
            if prior[1] > 0:
                names.append(name)
                medians.append(np.log(prior[0]))
                widths.append(prior[1])
        return Problem(formula, names, np.array(medians), np.array(widths), figures)

    def figures(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        figures = self.base.copy()
        for name, value in zip(self.names, values, strict=True):
            figures[self.formula.names.index(name)] = np.exp(value)
        return figures

    def fit(self, table: Table, start: NDArray[np.float64] | None = None, steps: int = 60) -> NDArray[np.float64]:
        """Give the logarithms of the free figures that explain the table best."""
        measured = np.log(table.measured)
        weight = PRIOR_WEIGHT * np.sqrt(len(table.rows) / 400)

        alone, least = self.least_first_tokens(table)

        def residuals(values: NDArray[np.float64]) -> NDArray[np.float64]:
            figures = self.figures(values)
            errors = (np.log(table.predict(figures)) - measured) / USUAL_ERROR
            above = np.log(alone.predict(self.fixed_part(figures)) / least) if len(least) else np.zeros(0)
            above = FIXED_WEIGHT * np.maximum(0.0, above)
            return np.concatenate([errors, above, weight * (values - self.medians) / self.widths])

        upper = np.array([np.log(1.0) if is_efficiency(name) else np.inf for name in self.names])
        start = np.minimum(self.medians if start is None else start, upper - 1e-3)
        found = least_squares(
            residuals,
            start,
            bounds=(-np.inf, upper),
            loss="soft_l1",
            x_scale="jac",
            max_nfev=steps,
            xtol=1e-6,
            ftol=1e-6,
        )
        return found.x

    def fixed_part(self, figures: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give figures with which a first token takes its fixed times alone: no work, no transfer, no waiting."""
        fixed = figures.copy()
        for name, value in (("first.operators_factor", 1e-9), ("first.link_efficiency", 1e9), ("first.wait", 1e-9)):
            fixed[self.formula.names.index(name)] = value
        return fixed

    @staticmethod
    def least_first_tokens(table: Table) -> tuple[Table, NDArray[np.float64]]:
        """Give a row for each engine, model and system of one pool, and the least first token measured there, in ms.

        Pools apart also have a hand-over, and rows without operators other figures.
        """
        rows: dict[tuple[str, str, str], int] = {}
        for index, row in enumerate(table.rows):
            key = (row.engine, row.model, row.system)
            if row.kind != FIRST or row.mode != "agg":
                continue
            if key not in rows or row.milliseconds < table.rows[rows[key]].milliseconds:
                rows[key] = index
        mask = np.zeros(len(table.rows), bool)
        mask[list(rows.values())] = True
        alone = table.subset(mask)
        return alone, alone.measured

    def leave_out(
        self, table: Table, only: str | None = None, start: NDArray[np.float64] | None = None, steps: int = 40
    ) -> NDArray[np.float64]:
        """Predict each cell with figures fitted to other families on other systems, in ms; NaN for cells not asked.

        Fits start at the priors, or at figures that have not seen the cell: those of the whole fit have.
        Splitwise's tables have two models on two systems: all other cells are in the fits of theirs.
        """
        predicted = np.full(len(table.rows), np.nan)
        for group in [only] if only else np.unique(table.groups):
            others = self.without(table, group)
            key = others.which.tobytes()
            if key not in self.found:
                self.found[key] = self.fit(others, start=start, steps=steps)
            cell = table.groups == group
            predicted[cell] = self.predict(table.subset(cell), self.figures(self.found[key]))
        return predicted

    @staticmethod
    def without(table: Table, group: str) -> Table:
        """Give the rows of other families on other systems than a cell's, twins of these left out too."""
        cell = table.groups == group
        row = table.rows[int(np.flatnonzero(cell)[0])]
        if row.mode == "splitwise":
            return table.subset(~cell)
        return table.subset((table.families != row.kin) & (table.systems != row.processor))

    def leave_out_twice(self, table: Table, only: str | None = None) -> dict[str, Errors]:
        """Give, for each cell, the left-out errors that would be known if it were not there."""
        found: dict[str, Errors] = {}
        for group in [only] if only else np.unique(table.groups):
            others = self.without(table, group)
            # A cell less moves the figures little, so a few steps lead from those without the one to those without both.
            start = self.found.get(others.which.tobytes())
            errors = self.leave_out(others, start=start, steps=40 if start is None else NESTED_STEPS)
            found[group] = Errors(np.log(errors / others.measured), others.groups)
        return found

    @staticmethod
    def predict(table: Table, figures: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predict rows as if their output tokens had not been measured.

        How many sequences decode together in a pool of its own then follows from the predicted times, and from the measured
        ones to the first token: the load that the pool had.
        """
        predicted = table.predict(figures)
        apart = np.array([row.kind == DECODE and row.requests > 0 for row in table.rows])
        if not apart.any():
            return predicted
        rows = [row for row, is_apart in zip(table.rows, apart, strict=True) if is_apart]
        step = predicted[apart]
        for _ in range(8):
            loaded = [
                replace(row, batch=decoding_together(row.requests, row.first_ms, ms * row.output_tokens))
                for row, ms in zip(rows, step, strict=True)
            ]
            step = table.formula.table(loaded).predict(figures)
        predicted[apart] = step
        return predicted


def errors(predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.abs(predicted / measured - 1)


def report(name: str, error: NDArray[np.float64]) -> None:
    print(
        f"{name:44} {len(error):5} rows  median {np.median(error):6.1%}  mean {error.mean():6.1%}  "
        f"90 % below {np.quantile(error, 0.9):6.1%}",
        flush=True,
    )


def residual_summary(predicted: NDArray[np.float64], table: Table) -> dict[str, object]:
    """Spread of ln(predicted / measured) between and within pairs, robust against the few rows that nothing explains."""
    logs = np.log(predicted / table.measured)
    groups = np.unique(table.groups)
    middles = np.array([np.median(logs[table.groups == group]) for group in groups])
    within = np.concatenate([logs[table.groups == group] - m for group, m in zip(groups, middles, strict=True)])

    def spread(values: NDArray[np.float64]) -> float:
        return float(1.4826 * np.median(np.abs(values - np.median(values))))

    return {
        "rows": len(logs),
        "groups": len(groups),
        "group_spread": round(spread(middles), 4),
        "row_spread": round(spread(within), 4),
        "quantiles": [round(float(q), 4) for q in Errors(logs, table.groups).quantiles(np.arange(1, 20) / 20)],
    }


@dataclass
class Part:
    """One kind of piece: its rows, figures, and predictions."""

    kind: str
    problem: Problem
    table: Table
    values: NDArray[np.float64]
    inside: NDArray[np.float64]
    outside: NDArray[np.float64]


def run_part(kind: str, problem: Problem, rows: list[Row]) -> Part:
    table = problem.formula.table(rows)
    values = problem.fit(table)
    inside = table.predict(problem.figures(values))
    return Part(kind, problem, table, values, inside, problem.leave_out(table))


def write_yaml(path: Path, parts: list[Part], engines: tuple[str, ...], generations: tuple[str, ...]) -> None:
    undetermined = []
    figures: dict[str, float] = {}
    for part in parts:
        all_figures = part.problem.figures(part.values)
        # A figure that no row of the table moves stays at its prior.
        for i, name in enumerate(part.problem.names):
            moved = part.values.copy()
            moved[i] += 0.01
            if np.abs(np.log(part.table.predict(part.problem.figures(moved)) / part.inside)).max() < 1e-4:
                undetermined.append(name)
        for name, value in zip(part.problem.formula.names, all_figures, strict=True):
            engine = name.rpartition(".")[2]
            if (part.kind == "first_token") != name.startswith("first.") or (
                engine in (*ENGINES, "splitwise") and engine not in engines
            ):
                continue
            figures[name] = value
    lines = [
        "# Written by bench/fit_serving.py from the tables of catalogue/serving. Times in microseconds, efficiencies as",
        "# shares of the catalogue's peaks, factors without unit; ServingFigures in intarsia/Cost/ServingCost.h says of what.",
    ]
    if undetermined:
        lines += ["# No measured row determines, so priors stand for:"]
        lines += [f"#   {name}" for name in undetermined]
    lines += [f"engines: [{', '.join(engines)}]", f"generations: [{', '.join(generations)}]"]
    lines += ["operators: measured"] if parts[0].table.rows[0].operators else []
    lines += ["figures:"]
    lines += [f"  {name}: {float(f'{value:.5g}'):g}" for name, value in figures.items()]
    lines += ["# ln(predicted / measured) of rows whose model family and system were both left out of the fit."]
    lines += ["residuals:"]
    for part in parts:
        lines += [f"  {part.kind}:"]
        for key, value in residual_summary(part.outside, part.table).items():
            text = "[" + ", ".join(f"{v:g}" for v in value) + "]" if isinstance(value, list) else value
            lines += [f"    {key}: {text}"]
    path.write_text("\n".join(lines) + "\n")


def write_errors(path: Path, parts: list[Part], inside: dict[str, Inside]) -> None:
    """Write the errors of each cell, and where intervals were checked the shares of rows inside of them."""
    levels = [] if not inside else list(inside[parts[0].kind])
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(
            ["kind", "group", "rows", "left_out_median", "left_out_mean", "fitted_median", "fitted_mean"]
            + [f"inside_{level:.0%}".rstrip("%") for level in levels]
        )
        for part in parts:
            outside, fitted = errors(part.outside, part.table.measured), errors(part.inside, part.table.measured)
            names = ["all", *np.unique(part.table.groups)]
            for name in names:
                mask = np.full(len(outside), True) if name == "all" else part.table.groups == name
                figures = [f(e[mask]) for e in (outside, fitted) for f in (np.median, np.mean)]
                figures += [inside[part.kind][level][mask].mean() for level in levels]
                out.writerow([part.kind, name, int(mask.sum()), *(f"{value:.4f}" for value in figures)])


def serving_problems(formula: Formula) -> list[tuple[str, Problem]]:
    return [
        ("decode", Problem.make(formula, OPERATOR_PRIORS, ENGINES, {})),
        ("first_token", Problem.make(formula, OPERATOR_FIRST_PRIORS, ENGINES, {"ampere_factor": 1.0})),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--no-write", action="store_true", help="print errors only")
    options = parser.parse_args()
    formula = Formula(options.build / "lib/intarsia-serving-fit.so")

    parts = [
        run_part(kind, problem, rows)
        for (kind, problem), rows in zip(serving_problems(formula), serving_rows(), strict=True)
    ]
    print("errors of model families on systems; the fit had neither the family nor the system")
    left_out = {part.kind: LeftOut(part.table.rows, part.table.measured, part.outside) for part in parts}
    inside: dict[str, Inside] = {}
    for part in parts:
        of = left_out[part.kind]
        others = part.problem.leave_out_twice(part.table)
        inside[part.kind] = serving_validation.inside_intervals(of, others)
        print("\n".join(serving_validation.report(part.kind, of, inside[part.kind], others)), flush=True)
        outside = np.abs(left_out[part.kind].error)
        report("  (of the fit itself)", errors(part.inside, part.table.measured))
        for group in np.unique(part.table.groups):
            report(f"    {group}", outside[part.table.groups == group])

    later, first = splitwise_rows()
    decode = run_part("decode", Problem.make(formula, SPLITWISE_DECODE_PRIORS, ("splitwise",), {}), later)
    ampere = float(np.exp(decode.values[decode.problem.names.index("ampere_factor")]))
    prompt = run_part(
        "first_token", Problem.make(formula, SPLITWISE_FIRST_PRIORS, ("splitwise",), {"ampere_factor": ampere}), first
    )
    for part in (decode, prompt):
        outside = errors(part.outside, part.table.measured)
        uncapped = ~np.array([row.power_capped for row in part.table.rows])
        report(f"splitwise {part.kind}: A100, H100", outside[uncapped])
        report("  with the capped H100", outside)
        for group in np.unique(part.table.groups):
            report(f"    {group}", outside[part.table.groups == group])
    if not options.no_write:
        write_yaml(EFFICIENCY / "serving.yaml", parts, ENGINES, ("hopper", "blackwell"))
        write_yaml(EFFICIENCY / "serving-splitwise.yaml", [decode, prompt], ("splitwise",), ("ampere", "hopper"))
        write_errors(EFFICIENCY / "serving-errors.csv", parts, inside)
        write_errors(EFFICIENCY / "serving-splitwise-errors.csv", [decode, prompt], {})
        for kind, of in left_out.items():
            serving_validation.plot(ROOT / f"docs/serving-{kind.replace('_', '-')}.svg", kind, of)


if __name__ == "__main__":
    main()
