# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results as Markdown."""

from __future__ import annotations

from typing import Any

from harness.report import table

from serving.measures import medians

# Figures of the page, in order, with their digits; those that a workload does not have are left out.
SHOWN = {
    "tokens_per_s": ("tokens/s", 1),
    "requests_per_s": ("requests/s", 2),
    "goodput": ("good of arrivals", 2),
    "ttft_p50_ms": ("first token, p50, ms", 0),
    "ttft_p95_ms": ("first token, p95, ms", 0),
    "itl_p50_ms": ("between tokens, p50, ms", 1),
    "itl_p95_ms": ("between tokens, p95, ms", 1),
    "itl_p99_ms": ("between tokens, p99, ms", 1),
    "tpot_p50_ms": ("time per token, p50, ms", 1),
    "e2e_p50_ms": ("whole answer, p50, ms", 0),
    "e2e_p95_ms": ("whole answer, p95, ms", 0),
    "cached": ("prompts kept, share", 2),
    "pieces_per_s": ("pieces/s while all streams run", 0),
    "added_p50_ms": ("between tokens beyond the step, p50, ms", 1),
    "added_p99_ms": ("between tokens beyond the step, p99, ms", 1),
    "itl_without_p99_ms": ("between tokens without the prompt, p99, ms", 1),
    "itl_with_p99_ms": ("between tokens with it, p99, ms", 1),
    "itl_p99_with_over_without": ("with / without", 2),
    "ttft_alone_ms": ("prompt alone, first token, ms", 0),
    "ttft_beside_ms": ("prompt beside streams, first token, ms", 0),
    "ttft_beside_over_alone": ("beside / alone", 2),
    "tokens_meanwhile_per_s": ("tokens/s of the streams meanwhile", 1),
    "tpot_free_p50_ms": ("time per token without a schema, p50, ms", 1),
    "tpot_formed_p50_ms": ("time per token with it, p50, ms", 1),
    "formed_over_free": ("with / without", 3),
    "resident_mb": ("resident memory, MB", 0),
    "failed": ("failed requests", 0),
}


def section(result: dict[str, Any]) -> str:
    """Returns one workload: medians of each side over rounds, and ratios of the first side to the others."""
    figures = {side: medians(rows) for side, rows in result["rounds"].items()}
    header = ["", *figures, *(f"ratio to {peer}" for peer in result["ratios"])]
    rows = []
    for key, (title, digits) in SHOWN.items():
        if not any(key in of_side for of_side in figures.values()):
            continue
        cells = [f"{of_side[key]:.{digits}f}" if key in of_side else "–" for of_side in figures.values()]
        rows.append((title, *cells, *(_ratio(ratios.get(key)) for ratios in result["ratios"].values())))
    options = ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in result["options"].items()
    )
    count = max(map(len, result["rounds"].values()))
    return f"### {result['workload']}\n\n{options}; {count} rounds\n\n{table(header, rows)}"


def _ratio(ratio: dict[str, float] | None) -> str:
    return f"{ratio['ratio']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]" if ratio else "–"


def render(results: list[dict[str, Any]], sides: dict[str, str], missing: list[str], load: float) -> str:
    """Returns the page of a run."""
    lines = [f"- {name}: `{description}`" for name, description in sides.items()]
    lines += [f"- {line}" for line in missing]
    lines += [f"- load of the machine at the start: {load}"]
    return "\n".join([*map(section, results), "\n".join(lines) + "\n"])
