#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures Intarsia against other runtimes; Markdown to standard output, Markdown and JSON to build/bench.

Run it with a Python that has bench/requirements.txt, on an idle machine.

usage: run.py [--build=build/release] [--only=models,gemm,…] [--cases=…] [--pairs=30] [--update-docs]
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import gemm, machine, measures, report
from harness.cases import CASES
from make_models import make_models

ROOT = Path(__file__).resolve().parent.parent
PEERS = ["onnxruntime", "openvino", "torch", "torch.compile"]
MEASURES: dict[str, Callable[[measures.Session], Any]] = {
    "peak": measures.measure_peak,
    "size": measures.measure_size,
    "compile": measures.measure_compile,
    "first_answer": measures.measure_first_answer,
    "models": measures.measure_models,
    "dynamic": measures.measure_dynamic,
    "gemm": measures.measure_gemm,
    "peak_share": measures.measure_peak_share,
}
# Measurements of the compiler or its artifacts alone.
OURS_ALONE = {"size", "compile", "dynamic"}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures Intarsia against other runtimes.")
    names = ", ".join(MEASURES)

    def listed(text: str) -> list[str]:
        return [entry for entry in text.split(",") if entry]

    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="build folder to measure")
    parser.add_argument("--cache", type=Path, default=ROOT / "build/bench/models", help="where the models are made")
    parser.add_argument("--work", type=Path, default=ROOT / "build/bench/work", help="artifacts, logs, results")
    parser.add_argument("--minilm", type=Path, help="directory of MiniLM-L6-v2 (default: the installed package's)")
    parser.add_argument("--only", type=listed, default=list(MEASURES), help=f"some of: {names}")
    parser.add_argument("--cases", type=listed, default=list(CASES), help=f"some of: {', '.join(CASES)}")
    shapes = ", ".join(shape.key for shape in gemm.SHAPES)
    parser.add_argument("--shapes", type=listed, default=[], help=f"GEMMs, all by default; some of: {shapes}")
    parser.add_argument("--engines", type=listed, default=PEERS, help=f"peers, some of: {', '.join(PEERS)}")
    parser.add_argument("--pairs", type=int, default=30, help="pairs of rounds a ratio")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--baseline",
        default=measures.OURS,
        help="engine instead of ours; another one tries the harness without a build",
    )
    parser.add_argument("--output", type=Path, default=ROOT / "build/bench", help="folder of results.*")
    parser.add_argument("--merge", action="store_true", help="keep what results.json has of other measurements")
    parser.add_argument("--update-docs", action="store_true", help="write docs/benchmarks.md too")
    arguments = parser.parse_args()
    for given, known in ((arguments.only, MEASURES), (arguments.cases, CASES)):
        if unknown := [entry for entry in given if entry not in known]:
            parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return arguments


def commit() -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def measure(arguments: argparse.Namespace, session: measures.Session) -> dict[str, Any]:
    """Runs the selected measurements. A failed one does not end the others."""
    results: dict[str, Any] = {"not_measured": {}}
    for name in arguments.only:
        if session.baseline != measures.OURS and name in OURS_ALONE:
            continue
        try:
            results[name] = MEASURES[name](session)
        except (RuntimeError, OSError, ValueError) as error:
            results["not_measured"][name] = str(error)
            print(f"error: {name}: {error}", file=sys.stderr)
    return results


def circumstances(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the machine, the date and how thoroughly the run measures."""
    described = machine.describe()
    if described["load_at_start"] > 0.5:
        print(
            f"warning: this machine is busy (load {described['load_at_start']}), figures will be off", file=sys.stderr
        )
    return {
        "machine": described,
        "cores": machine.use_cores(arguments.threads),
        "threads": arguments.threads,
        "pairs": arguments.pairs,
        "commit": commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    }


def previous(path: Path) -> dict[str, Any]:
    """Returns the results of an earlier run; empty if there was none."""
    return json.loads(path.read_text()) if path.exists() else {}


def main() -> int:
    arguments = parse()
    results = circumstances(arguments)
    make_models(arguments.cache, arguments.minilm, sorted({CASES[key].model for key in arguments.cases}))
    session = measures.Session(
        build=arguments.build.resolve(),
        cache=arguments.cache.resolve(),
        work=arguments.work.resolve(),
        pairs=arguments.pairs,
        threads=arguments.threads,
        engines=arguments.engines,
        cases=arguments.cases,
        shapes=arguments.shapes,
        baseline=arguments.baseline,
    )
    if arguments.merge:
        results = previous(arguments.output / "results.json") | results
    results |= measure(arguments, session)
    page = report.render(results)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "results.md").write_text(page)
    (arguments.output / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    if arguments.update_docs:
        (ROOT / "docs/benchmarks.md").write_text(page)
    print(page)
    return 1 if results["not_measured"] else 0


if __name__ == "__main__":
    sys.exit(main())
