# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from harness import machine
from harness.cases import CASES, flops

INTRODUCTION = """\
# Benchmarks

`make bench BENCH=--update-docs` measures these figures and writes this page. A *ratio* is a peer's time divided by
ours: above 1, ours is the faster. The rounds of ours and of a peer alternate in one run, each engine in a process of
its own on the same cores, the others stopped meanwhile; a ratio is the median over the pairs of rounds, in brackets its
95 % interval (bootstrap). All engines compute in f32 and give the same results to within 1e-3. *Of FMA peak* is the
rate of ours over that of the loops at the end of the page on as many threads, counting matrix multiplications alone.
"""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table; all columns but the first are aligned to the right."""
    lines = [f"| {' | '.join(header)} |", "|---|" + "---:|" * (len(header) - 1)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def render(results: dict[str, Any]) -> str:
    """Returns the whole page."""
    description = machine.sentence(results["machine"], results["cores"])
    parts = [
        INTRODUCTION,
        f"- Machine: {description}.\n- {results['threads']} threads, {results['pairs']} pairs a ratio; "
        f"commit {results['commit']}, {results['date']}.\n",
    ]
    sections = (
        ("models", _models),
        ("dynamic", _dynamic),
        ("compile", _compile),
        ("first_answer", _first_answer),
        ("size", _size),
        ("gemm", _gemm),
        ("peak_share", _peak_share),
        ("peak", _peak),
        ("not_measured", _not_measured),
    )
    _mark_shares(results)
    parts += [render_one(results[key]) for key, render_one in sections if results.get(key)]
    return "\n".join(parts)


def _mark_shares(results: dict[str, Any]) -> None:
    """Adds to each comparison our share of the FMA peak, if the peak was measured."""
    peaks = {row["threads"]: row["value"] for row in results.get("peak", []) if row["key"] == "f32"}
    peak = peaks.get(results["threads"])
    for case in results.get("models", {}).get("cases", []):
        for one in case["comparisons"]:
            one["share"] = flops(CASES[case["key"]]) / one["ours_ms"] / 1e6 / peak if peak else None
    for shape in results.get("gemm", {}).get("shapes", []):
        for one in shape["comparisons"]:
            one["share"] = shape["flops"] / one["ours_ms"] / 1e6 / peak if peak else None


def _share(row: dict[str, Any]) -> str:
    return f"{100 * row['share']:.0f} %" if row.get("share") else "–"


def _interval(row: dict[str, Any]) -> str:
    return f"{row['ratio']:.2f} [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]"


def _models(models: dict[str, Any]) -> str:
    parts = ["## Whole models\n"]
    rows = []
    for case in models["cases"]:
        for one in sorted(case["comparisons"], key=lambda one: one["ratio"]):
            best = " (best peer)" if one["peer"] == case.get("best_peer") else ""
            times = (f"{one['ours_ms']:.2f}", f"{one['peer_ms']:.2f}")
            rows.append((case["title"], f"{one['peer']}{best}", *times, _interval(one), _share(one)))
    parts.append(table(("case", "peer", f"{models['baseline']}, ms", "peer, ms", "ratio", "of FMA peak"), rows))
    if mean := models.get("geomean"):
        parts.append(
            f"Geometric mean against the best peer over {', '.join(mean['of'])}: "
            f"**{mean['value']:.2f}** [{mean['low']:.2f}, {mean['high']:.2f}].\n"
        )
    engines: dict[str, str] = {}
    for case in models["cases"]:
        for name, engine in case["engines"].items():
            settings = ", ".join(f"{key} {value}" for key, value in engine["settings"].items())
            engines[name] = f"- {engine['version']} ({name}): {settings}"
    parts.append("\n".join(engines.values()) + "\n")
    missing = {name: reason for case in models["cases"] for name, reason in case["missing"].items()}
    if missing:
        parts.append("\n".join(f"- {name} was not measured: {reason}" for name, reason in missing.items()) + "\n")
    return "\n".join(parts)


def _dynamic(row: dict[str, Any]) -> str:
    return (
        "## One artifact for all sizes\n\n"
        f"MiniLM 1×128 with the artifact that takes any batch and sequence: {row['ours_ms']:.2f} ms; with one compiled "
        f"for 1×128 alone: {row['peer_ms']:.2f} ms. Ratio {row['ratio']:.3f} "
        f"[{row['ratio_low']:.3f}, {row['ratio_high']:.3f}].\n"
    )


def _compile(rows: dict[str, Any]) -> str:
    body = table(("model", "compile time, s"), [(row["title"], f"{row['seconds']:.2f}") for row in rows.values()])
    return f"## Compile time\n\nFrom Hugging Face directory to artifact and packed weights, a fresh process.\n\n{body}"


def _first_answer(rows: dict[str, Any]) -> str:
    body = table(
        ("engine", "load, ms", "load and first answer, ms"),
        [(name, f"{row['load_ms']:.1f}", f"{row['first_answer_ms']:.1f}") for name, row in rows.items()],
    )
    note = "MiniLM 1×128, a fresh process, files in the page cache, the engine's libraries loaded."
    return f"## Load to first answer\n\n{note}\n\n{body}"


def _size(rows: dict[str, Any]) -> str:
    body = table(
        ("model", "artifact without weights, KiB", "of which machine code, KiB"),
        [(row["title"], f"{row['file_bytes'] / 1024:.0f}", f"{row['code_bytes'] / 1024:.0f}") for row in rows.values()],
    )
    return f"## Size of the artifact\n\n{body}"


def _gemm(gemm: dict[str, Any]) -> str:
    rows = []
    versions: dict[str, str] = {}
    for shape in gemm["shapes"]:
        for name, engine in shape["engines"].items():
            settings = ", ".join(f"{key} {value}" for key, value in engine["settings"].items())
            versions[name] = f"- {name}: {engine['version']}; {settings}"
        for one in shape["comparisons"]:
            best = " (faster)" if one["peer"] == shape.get("best_peer") else ""
            ours, peer = (shape["flops"] / one[key] / 1e6 for key in ("ours_ms", "peer_ms"))
            rows.append(
                (shape["title"], f"{one['peer']}{best}", f"{ours:.0f}", f"{peer:.0f}", _interval(one), _share(one))
            )
    body = table(("M×N×K", "peer", f"{gemm['baseline']}, GFLOP/s", "peer, GFLOP/s", "ratio", "of FMA peak"), rows)
    note = "All sides compute in f32 with prepacked weights; ours is timed through the C API's `itx_invoke`."
    return f"## Matrix multiplications\n\n{note}\n\n{body}\n" + "\n".join(versions.values()) + "\n"


def _peak_share(row: dict[str, Any]) -> str:
    return (
        f"Share of the FMA peak at {row['title']} ({row['engine']}): {row['gflops']:.1f} of {row['peak_gflops']:.1f} "
        f"GFLOP/s, **{100 * row['share']:.1f} %** [{100 * row['low']:.1f}, {100 * row['high']:.1f}], measured in "
        "alternating rounds.\n"
    )


def _peak(rows: list[dict[str, Any]]) -> str:
    values = {(row["what"], row["threads"]): (row["value"], row["unit"]) for row in rows}
    body = table(
        ("loop", "1 thread", "2 threads"),
        [
            (what, *(f"{values[what, threads][0]:.0f} {values[what, threads][1]}" for threads in (1, 2)))
            for what in dict.fromkeys(row["what"] for row in rows)
        ],
    )
    return f"## Peaks of the machine\n\nA multiply-add counts as two operations.\n\n{body}"


def _not_measured(rows: dict[str, str]) -> str:
    return "## Not measured\n\n" + "\n".join(f"- {name}: {reason}" for name, reason in rows.items()) + "\n"
