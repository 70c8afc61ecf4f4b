# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The committed figures of the serving cost model: what they predict is what the committed tables of errors say."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import serving_rows
import serving_validation
from serving_rows import Formula, Row, Table

EFFICIENCY = serving_rows.ROOT / "catalogue/efficiency"
TABLES = {"serving": serving_rows.serving_rows, "serving-splitwise": serving_rows.splitwise_rows}
KINDS = ("decode", "first_token")


@pytest.fixture(scope="module")
def formula(build_dir: Path) -> Formula:
    library = build_dir / "lib/intarsia-serving-fit.so"
    if not library.exists():
        pytest.fail(f"{library} is not built")
    return Formula(library)


def committed(name: str) -> dict[tuple[str, str], dict[str, float]]:
    """Read a table of errors by kind and group."""
    with (EFFICIENCY / f"{name}-errors.csv").open(newline="") as file:
        return {
            (row["kind"], row["group"]): {k: float(v) for k, v in row.items() if k not in ("kind", "group")}
            for row in csv.DictReader(file)
        }


@pytest.mark.parametrize("name", TABLES)
def test_program_predicts_what_the_tables_say(formula: Formula, name: str):
    """With the figures of the program, rounded to five digits as they are in the file."""
    expected = committed(name)
    seen = set()
    for kind, rows in zip(KINDS, TABLES[name](), strict=True):
        table = Table(formula, rows)
        error = np.abs(table.predict() / table.measured - 1)
        for group in ["all", *np.unique(table.groups)]:
            mask = np.full(len(rows), True) if group == "all" else table.groups == group
            wanted = expected[kind, group]
            assert int(mask.sum()) == wanted["rows"]
            assert np.median(error[mask]) == pytest.approx(wanted["fitted_median"], abs=5e-4), (kind, group)
            assert error[mask].mean() == pytest.approx(wanted["fitted_mean"], abs=5e-4), (kind, group)
            seen.add((kind, group))
    assert seen == set(expected)


def test_bars():
    """Hold the errors, on families and systems that the fit has not seen, that the documentation states."""
    serving, splitwise = committed("serving"), committed("serving-splitwise")
    assert serving["decode", "all"]["left_out_median"] <= 0.105
    assert serving["decode", "all"]["left_out_mean"] <= 0.16
    assert serving["first_token", "all"]["left_out_median"] <= 0.28
    for kind in KINDS:
        # A deployment is one cell: intervals hold in the mean of cells, and no less of all rows.
        for level in serving_validation.LEVELS:
            column = f"inside_{level * 100:.0f}"
            cells = [row[column] for (of, group), row in serving.items() if of == kind and group != "all"]
            assert np.mean(cells) == pytest.approx(level, abs=0.05), (kind, level)
            assert serving[kind, "all"][column] > level - 0.03
    assert splitwise["decode", "all"]["left_out_median"] <= 0.12
    assert splitwise["first_token", "all"]["left_out_median"] <= 0.12


def test_a_cell_is_what_the_table_says(formula: Formula, monkeypatch: pytest.MonkeyPatch):
    """Fit without a family and without a system, and find the errors of their cell as they were written."""
    pytest.importorskip("scipy", reason="scipy fits the figures")
    import fit_serving

    group = "minimax-m2.5|h100_sxm"
    later, _ = serving_rows.serving_rows()
    table = Table(formula, later)
    _, problem = fit_serving.serving_problems(formula)[0]
    seen: list[Table] = []
    fit = fit_serving.Problem.fit
    monkeypatch.setattr(
        fit_serving.Problem, "fit", lambda self, rows, **steps: seen.append(rows) or fit(self, rows, **steps)
    )
    predicted = problem.leave_out(table, only=group)
    assert not {"minimax-m2.5", "h100_sxm"} & {name for row in seen[0].rows for name in (row.model, row.system)}
    mask = table.groups == group
    assert np.isnan(predicted[~mask]).all()
    error = np.abs(predicted[mask] / table.measured[mask] - 1)
    wanted = committed("serving")["decode", group]
    assert np.median(error) == pytest.approx(wanted["left_out_median"], abs=0.003)
    assert error.mean() == pytest.approx(wanted["left_out_mean"], abs=0.003)


def left_out(predicted: list[float], cells: list[str]) -> serving_validation.LeftOut:
    """Make predictions of rows that were measured as 1 ms; a cell is `model|system`."""
    rows = []
    for cell in cells:
        model, system = cell.split("|")
        rows.append(Row(model, system, "vllm", "agg", "fp8", "fp8", 1, 1, 1, serving_rows.SHARED, 1, 8, 8, 1.0))
    return serving_validation.LeftOut(rows, np.ones(len(rows)), np.array(predicted))


def test_a_bias_is_signed_and_of_families_and_systems():
    found = left_out([1.5] * 12 + [0.9] * 12, ["llama-3.1-8b|h100_sxm"] * 12 + ["kimi-k2.5|b200_sxm"] * 12)
    biases = serving_validation.biases(found)
    assert biases["family"] == {"llama-3.1": (12, pytest.approx(0.5)), "kimi-k2.5": (12, pytest.approx(-0.1))}
    assert biases["system"] == {"h100_sxm": (12, pytest.approx(0.5)), "b200_sxm": (12, pytest.approx(-0.1))}
    assert serving_validation.share_within(found, 0.2) == 0.5


def test_choices_are_asked_what_was_measured():
    """Of three deployments with a median of 2 ms, by hand; two alone are no choice."""
    found = left_out([1.0] * 5, ["llama-3.1-8b|h100_sxm"] * 3 + ["kimi-k2.5|b200_sxm"] * 2)
    found.rows = [replace(row, batch=of) for row, of in zip(found.rows, (8, 16, 32, 8, 16), strict=True)]
    found.measured = np.array([1.0, 2.0, 3.0, 1.0, 2.0])
    for predicted, of in (
        ([1.0, 2.0, 3.0], (3, 0, 0)),  # bounds of 1.5, 2 and 2.5 ms
        ([1.0, 1.9, 1.9], (3, 2 / 3, 0)),  # the third, with the largest batch, is taken for 2 and 2.5
        ([2.1, 2.2, 3.0], (3, 0, 2 / 3)),  # none seems to hold 1.5 and 2
    ):
        found.predicted = np.array([*predicted, 1.0, 1.0])
        assert serving_validation.choices(found) == pytest.approx(of)
    # With room for 1.2 times as long: the first for 1.5, where none has the room, and for 2; the second for 2.5.
    found.predicted = np.array([1.4, 1.9, 2.4, 1.0, 1.0])
    assert serving_validation.choices(found, margin=1.2) == pytest.approx((3, 0, 0))
    assert serving_validation.choices(found) == pytest.approx((3, 1 / 3, 0))  # the third, for 2.5


def test_intervals_are_those_of_other_families_and_systems():
    """An interval is of the errors that are given for a cell, whatever its own are."""
    logs = np.linspace(-1, 1, 100)
    cells = ["llama-3.1|h100_sxm", "kimi-k2.5|b200_sxm"]
    found = left_out([*np.exp(logs), *[3.0] * 10], ["llama-3.1-8b|h100_sxm"] * 100 + ["kimi-k2.5|b200_sxm"] * 10)

    # The first cell has 100 errors evenly between -1 and 1 and the same ones to compare with, each of a cell of its own: half
    # of its rows are between their quartiles. The ten errors of the second cell are far above all of them.
    def of_one_each(logs: np.ndarray) -> serving_validation.Errors:
        return serving_validation.Errors(logs, np.array([f"cell {index}" for index in range(len(logs))]))

    inside = serving_validation.inside_intervals(found, dict.fromkeys(cells, of_one_each(logs)))
    assert [int(inside[level].sum()) for level in serving_validation.LEVELS] == [50, 80, 90]
    wide = serving_validation.inside_intervals(
        found, {cells[0]: of_one_each(np.zeros(5)), cells[1]: of_one_each(2 * logs)}
    )
    assert [int(wide[level].sum()) for level in serving_validation.LEVELS] == [0, 10, 10]


def test_a_cell_counts_once_however_many_rows_it_has():
    """Of one error for each of nine cells NumPy's unbiased quantiles are ours; many rows do not move them."""
    logs = np.array([-0.9, -0.5, -0.2, -0.1, 0.0, 0.2, 0.3, 0.6, 1.1])
    at = (np.array([1, 3, 5, 7, 9]) - 1 / 3) / (9 + 1 / 3)
    expected = np.quantile(logs, at, method="median_unbiased")
    assert expected == pytest.approx(logs[::2])
    for rows in (np.ones(9, int), np.array([10, 10, 10, 10, 1000, 10, 10, 10, 50])):
        cells = np.repeat(list("abcdefghi"), rows)
        assert serving_validation.Errors(np.repeat(logs, rows), cells).quantiles(at) == pytest.approx(expected)
    # By rows the interval of 80 % would be nothing.
    assert np.quantile(np.repeat(logs, rows), [0.1, 0.9]) == pytest.approx([0.0, 0.0])
    # A single row is a tenth of a cell: far out, it does not move the ends as a whole one does.
    few = serving_validation.Errors(np.r_[np.repeat(logs, rows), -9], np.append(cells, "j"))
    assert few.quantiles([0.1])[0] > -1 > np.quantile(np.r_[logs, -9], 0.1, method="median_unbiased")


def test_twins_are_left_out_together(formula: Formula):
    """Kimi's layers are DeepSeek's, and gb200 has the processor of b200: neither is in the fit of the other's cell."""
    pytest.importorskip("scipy", reason="scipy fits the figures")
    import fit_serving

    later, _ = serving_rows.serving_rows()
    table = Table(formula, later)
    for group, absent in (
        ("kimi-k2.5|h200_sxm", {"kimi-k2.5", "deepseek-r1", "deepseek-v3", "h200_sxm"}),
        ("deepseek|gb200", {"kimi-k2.5", "deepseek-r1", "deepseek-v3", "gb200", "b200_sxm"}),
        ("deepseek|b300_sxm", {"kimi-k2.5", "deepseek-r1", "deepseek-v3", "b300_sxm", "gb300"}),
    ):
        rows = fit_serving.Problem.without(table, group).rows
        assert rows
        assert not absent & {name for row in rows for name in (row.model, row.system)}
    # Hopper's processors are not twins: their memories and clocks differ.
    assert "h100_sxm" in {row.system for row in fit_serving.Problem.without(table, "kimi-k2.5|h200_sxm").rows}


def test_what_is_fixed_is_below_what_was_measured(formula: Formula):
    """Without a prompt's work no first token takes longer than the least that was measured of its engine and system."""
    pytest.importorskip("scipy", reason="scipy fits the figures")
    import fit_serving

    text = (EFFICIENCY / "serving.yaml").read_text()
    given = {name: float(value) for name, value in re.findall(r"^  ([a-z_.]+): ([\d.e+-]+)$", text, re.MULTILINE)}
    figures = np.array([given.get(name, 1.0) for name in formula.names])
    _, first = serving_rows.serving_rows()
    table = Table(formula, first)
    _, problem = fit_serving.serving_problems(formula)[1]
    assert table.predict(figures) == pytest.approx(table.predict())
    alone, least = problem.least_first_tokens(table)
    assert len(least) >= 20
    fixed = alone.predict(problem.fixed_part(figures))
    assert (fixed > 5).all()
    assert (fixed <= 1.005 * least).all()


def test_errors_of_other_cells_never_had_the_cell(formula: Formula, monkeypatch: pytest.MonkeyPatch):
    """The errors that a cell's interval is made of come from fits without its family and system."""
    pytest.importorskip("scipy", reason="scipy fits the figures")
    import fit_serving

    later, _ = serving_rows.serving_rows()
    # A handful of rows of each cell: which rows fits have is asked, not what they find.
    some = [row for group in {row.group for row in later} for row in [r for r in later if r.group == group][:3]]
    table = Table(formula, some)
    _, problem = fit_serving.serving_problems(formula)[0]
    had: list[Table] = []
    monkeypatch.setattr(
        fit_serving.Problem, "fit", lambda self, rows, **_: had.append(rows) or self.medians
    )  # fmt: skip
    errors = problem.leave_out_twice(table, only="deepseek|b200_sxm")["deepseek|b200_sxm"]
    others = [row for row in some if row.kin != "deepseek" and row.processor != "b200_sxm"]
    assert len(errors.logs) == len(others)
    assert np.isfinite(errors.logs).all()
    assert list(errors.cells) == [row.group for row in others]
    rest = problem.without(table, "deepseek|b200_sxm")
    assert len(had) == len({problem.without(rest, row.group).which.tobytes() for row in others})
    for rows in had:
        assert not {"deepseek", "b200_sxm"} & {name for row in rows.rows for name in (row.family, row.system)}
        assert len({row.group for row in others} - {row.group for row in rows.rows}) >= 1


def test_only_what_was_decided_is_left_out():
    with (serving_rows.TABLES / "measured_serving.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    left_out = [row for row in rows if serving_rows.is_left_out(row)]
    assert sum(row["mode"] == "disagg" for row in left_out) == 882
    assert sum(row["mode"] == "agg" for row in left_out) == 55
    later, first = serving_rows.serving_rows()
    assert len(later) == len(rows) - 882 - 55 == 2717
    assert all(row.concurrency <= 8 or row.one_phase for row in first)


def of(spelling: dict[str, str], **changes: str) -> tuple[int, int, int, int]:
    return serving_rows.repaired_degrees(spelling | changes)


@pytest.mark.parametrize(
    ("tensor", "data", "expert_tensor", "expert", "repaired"),
    [
        ("64", "1", "8", "8", (8, 1, 8, 1)),
        ("16", "1", "4", "4", (4, 1, 4, 1)),
        ("1", "64", "8", "8", (1, 8, 8, 8)),
        ("1", "16", "4", "4", (1, 4, 4, 4)),
        ("4", "4", "1", "16", (4, 1, 4, 4)),
        ("2", "2", "1", "4", (2, 1, 2, 2)),
        ("2", "4", "1", "8", (2, 4, 8, 1)),
        ("4", "1", "2", "2", (2, 1, 2, 1)),
        ("4", "", "2", "2", (4, 1, 2, 1)),  # without the column it is what it says
        ("8", "1", "1", "8", (8, 1, 8, 1)),
        ("8", "1", "8", "1", (8, 1, 1, 1)),
        ("4", "", "1", "0", (4, 1, 1, 1)),
    ],
)
def test_degrees_are_repaired(
    tensor: str, data: str, expert_tensor: str, expert: str, repaired: tuple[int, int, int, int]
):
    row = {"mode": "agg", "tp_size": tensor, "attention_dp_size": data, "moe_tp_size": expert_tensor}
    assert of(row, moe_ep_size=expert) == repaired


def test_times_that_recur_are_of_the_same_degrees():
    """vLLM's tensor n, attention-data n, experts n x n has the times of tensor n with n experts at n times the batch."""
    later, _ = serving_rows.serving_rows()
    with (serving_rows.TABLES / "measured_serving.csv").open(newline="") as file:
        raw = [row for row in csv.DictReader(file) if not serving_rows.is_left_out(row)]
    spelled = [
        index
        for index, row in enumerate(raw)
        if row["mode"] == "agg" and float(row["moe_ep_size"] or 0) == float(row["tp_size"]) ** 2 > 1
    ]
    assert len(spelled) == 49
    twins: dict[tuple[object, ...], list[float]] = {}

    def key(row: Row) -> tuple[object, ...]:
        return (row.model, row.system, row.weights, row.tensor, row.attention_data, row.expert, row.batch,
                row.input_tokens, row.output_tokens)  # fmt: skip

    for index, row in enumerate(later):
        if index not in spelled and raw[index]["backend_version"] == "0.19.0":
            twins.setdefault(key(row), []).append(row.milliseconds)
    found = [
        row.milliseconds / np.median(twins[key(row)])
        for row in (later[index] for index in spelled)
        if key(row) in twins
    ]
    assert len(found) >= 15
    assert max(np.abs(np.array(found) - 1)) < 0.02


def test_a_tensor_group_that_would_read_caches_too_fast_is_of_replicas():
    row = {"mode": "disagg", "backend": "vllm", "decode_tp_size": "16", "decode_attention_dp_size": "1"}
    row |= {"decode_moe_tp_size": "1", "decode_moe_ep_size": "16"}
    assert serving_rows.repaired_degrees(row) == (1, 16, 16, 1)
    assert serving_rows.repaired_degrees(row | {"backend": "trtllm"}) == (16, 1, 16, 1)


@pytest.mark.parametrize(("replicas", "repaired"), [("4", (4, 1, 1)), ("8", (1, 8, 8)), ("32", (1, 32, 32))])
def test_experts_are_not_split_into_parts_that_have_no_scale(replicas: str, repaired: tuple[int, int, int]):
    row = {"mode": "disagg", "backend": "sglang", "decode_tp_size": "1", "decode_attention_dp_size": replicas}
    row |= {"decode_moe_tp_size": replicas, "decode_moe_ep_size": "1"}
    assert serving_rows.repaired_degrees(row) == (*repaired, 1)
    # One that says its degrees is what it says.
    assert serving_rows.repaired_degrees(row | {"decode_moe_tp_size": "1", "decode_moe_ep_size": replicas}) == (
        1, int(replicas), int(replicas), 1,
    )  # fmt: skip


def test_requests_that_wait_for_their_prompt_do_not_decode():
    """By Little's law: of 9 requests, 8 are the others, which decode for a quarter of their time."""
    assert serving_rows.decoding_together(9, first_ms=3000, decode_ms=1000) == 3
    assert serving_rows.decoding_together(1, first_ms=3000, decode_ms=1000) == 1
    later, _ = serving_rows.serving_rows()
    waiting = [row for row in later if row.one_phase and row.first_ms > 50000]
    assert waiting
    for row in waiting:
        decode_ms = row.milliseconds * row.output_tokens
        assert row.batch == pytest.approx(1 + (row.requests - 1) * decode_ms / (row.first_ms + decode_ms))
    assert all(row.batch == row.requests for row in later if row.one_phase and row.requests == 1)


def test_a_left_out_row_does_not_lend_its_own_time(formula: Formula):
    """Whatever was measured, the sequences that decode together follow from the predicted time."""
    pytest.importorskip("scipy", reason="scipy fits the figures")
    from dataclasses import replace

    import fit_serving

    later, _ = serving_rows.serving_rows()
    rows = [row for row in later if row.one_phase and row.first_ms > 10000][:5]
    changed = [replace(row, milliseconds=3 * row.milliseconds, batch=row.requests) for row in rows]
    _, problem = fit_serving.serving_problems(formula)[0]
    figures = problem.figures(problem.medians)
    expected = problem.predict(Table(formula, rows), figures)
    assert problem.predict(Table(formula, changed), figures) == pytest.approx(expected, rel=1e-3)
    for row, ms in zip(rows, expected, strict=True):
        batch = serving_rows.decoding_together(row.requests, row.first_ms, ms * row.output_tokens)
        table = Table(formula, [replace(row, batch=batch)])
        assert table.predict(figures)[0] == pytest.approx(ms, rel=1e-3)


def test_families_stay_together():
    """Near duplicates under two names are on one side of every split, the capped H100 with the H100."""
    later, _ = serving_rows.serving_rows()
    assert {row.group for row in later if row.model.startswith("deepseek")} == {
        f"deepseek|{system}" for system in ("b200_sxm", "b300_sxm", "gb200", "gb300", "h100_sxm", "h200_sxm")
    }
    assert {row.family for row in later if row.model.startswith("llama")} == {"llama-3.1"}
    later, _ = serving_rows.splitwise_rows()
    assert len({row.group for row in later}) == 4


def test_unknown_names_are_refused(formula: Formula):
    make: Callable[..., Row] = serving_rows.Row
    row = make("llama-3.1-9b", "h100_sxm", "vllm", "agg", "fp8", "fp8", 1, 1, 1, serving_rows.SHARED, 1, 8, 8, 1.0)
    with pytest.raises(ValueError, match=r"row 0: the catalogue has no model 'llama-3.1-9b'; did you mean"):
        Table(formula, [row])
