#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares predicted with published times of a token on few weak devices, and our placement with the papers' own.

Figures are those of the program, which are fitted to PRIMA.CPP's rows; TPI-LLM's are held out.

usage: fleet_tables.py [--build=build/dev]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from fleet_rows import FleetFormula, errors_of, fleet_rows
from parallel_rows import ROOT, Formula


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev")
    formula = FleetFormula(Formula(parser.parse_args().build))
    rows = fleet_rows()
    print(f"{'measured':>9} {'predicted':>9} {'ours':>9} ms   layers of ours, row")
    better = 0
    for row in rows:
        predicted = formula.predict(row)
        ours, layers = formula.place(row)
        ours = min(ours, predicted) if row.tensor else ours  # equal parts of each layer are one of our choices
        better += ours <= predicted * (1 + 1e-12)
        print(f"{row.milliseconds:9.0f} {predicted:9.0f} {ours:9.0f}      {':'.join(map(str, layers)):15} {row.name}")
    for group in dict.fromkeys(row.group for row in rows):
        errors = errors_of(formula, [row for row in rows if row.group == group])
        print(f"{group}: {len(errors)} rows, median error {np.median(errors):.1%}")
    print(f"all: {len(rows)} rows, median error {np.median(errors_of(formula, rows)):.1%}; "
          f"ours is no slower than the paper's own in {better}")  # fmt: skip


if __name__ == "__main__":
    main()
