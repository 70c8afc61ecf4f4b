#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes every fusion decision of a model the other way, one at a time, and measures both.

Each artifact is loaded beside the one with the cost model's decisions; calls alternate, and the ratio is the median
over pairs of flipped / chosen. Below 1 the cost model chose the slower side. Ends with exit code 1 if that side is
slower by more than the tolerance.

usage: flip_decisions.py [--case=minilm-1x128] [--build=build/release] [--pairs=60] [--together] [--only=TEXT]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import capi
from harness.cases import CASES, make_inputs, model_directory

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Flip:
    """A flip: an id or, for several equal decisions, a pattern; and one of these decisions."""

    pattern: str
    count: int
    decision: dict[str, object]


def compile_model(options: argparse.Namespace, model: Path, output: Path, *more: str) -> None:
    command = [options.build / "bin/intarsia-compile", model, "-o", output, f"--target={options.target}", *more]
    subprocess.run(command, check=True, capture_output=True, text=True)


def flips_of(decisions: list[dict[str, object]], together: bool) -> list[Flip]:
    """Returns the decisions of main; `together` merges decisions that differ only in the layer."""
    groups: dict[str, list[dict[str, object]]] = {}
    for decision in decisions:
        if decision["function"] != "main":
            continue
        identity = str(decision["id"])
        pattern = re.sub(r"\.\d+\.", ".*.", identity) if together else identity
        groups.setdefault(pattern, []).append(decision)
    return [Flip(pattern, len(group), group[0]) for pattern, group in groups.items()]


def ratio(base: object, flipped: object, pairs: int) -> tuple[float, float, float]:
    """Returns the median of flipped / base over alternating pairs, and its 95 % interval from binomial ranks."""

    def seconds(call: object) -> float:
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    for _ in range(5):
        base()
        flipped()
    ratios = []
    for index in range(pairs):
        first, second = (base, flipped) if index % 2 == 0 else (flipped, base)
        a, b = seconds(first), seconds(second)
        ratios.append(b / a if index % 2 == 0 else a / b)
    ratios.sort()
    half = 0.98 * np.sqrt(pairs)
    low, high = int(max(pairs / 2 - half, 0)), int(min(pairs / 2 + half, pairs - 1))
    return float(np.median(ratios)), ratios[low], ratios[high]


def main() -> int:
    parser = argparse.ArgumentParser(description="Flips each fusion decision of a model and measures.")
    parser.add_argument("--case", choices=list(CASES), default="minilm-1x128")
    parser.add_argument("--model", type=Path, help="directory of the model (default: the case's in --cache)")
    parser.add_argument("--cache", type=Path, default=ROOT / "build/bench/models")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="build folder to measure")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--tolerance", type=float, default=0.03, help="how much slower the chosen side may be")
    parser.add_argument("--together", action="store_true", help="flip equal decisions of all layers at once")
    parser.add_argument("--only", default="", help="flip the decisions whose id has this text")
    options = parser.parse_args()

    case = CASES[options.case]
    model = options.model or model_directory(options.cache, case.model)
    inputs = make_inputs(case)
    runtime = capi.Runtime(options.build / "lib/libintarsia_runtime.so")
    runtime.set_threads(options.threads)

    def loaded(artifact: Path) -> object:
        function = runtime.load(artifact).function("main")
        handles = function.wrap(inputs)
        return lambda: function(handles)

    wrong = 0
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        compile_model(options, model, folder / "chosen.itx", f"--explain={folder / 'chosen.json'}")
        decisions = json.loads((folder / "chosen.json").read_text())["decisions"]
        base = loaded(folder / "chosen.itx")
        flips = [flip for flip in flips_of(decisions, options.together) if options.only in flip.pattern]
        print(
            f"| decision | chosen | expected inside, apart (us) | flipped / chosen ({options.pairs} pairs) |\n|---|---|---|---|"
        )
        for flip in flips:
            artifact = folder / "flipped.itx"
            compile_model(options, model, artifact, f"--flip={flip.pattern}")
            median, low, high = ratio(base, loaded(artifact), options.pairs)
            for file in folder.glob("flipped.*"):  # stays mapped; the next flip writes new files
                file.unlink()
            bad = median < 1 / (1 + options.tolerance)
            wrong += bad
            decision = flip.decision
            times = f" ({flip.count} times)" if flip.count > 1 else ""
            print(
                f"| `{flip.pattern}`{times} | {decision['chosen']} | {decision['inside_us']:.1f}, "
                f"{decision['apart_us']:.1f} | {median:.3f} [{low:.3f}, {high:.3f}]{' **slower side chosen**' if bad else ''} |",
                flush=True,
            )
    print(f"\n{len(flips)} decisions flipped, {wrong} chosen sides are more than {options.tolerance:.0%} the slower")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
