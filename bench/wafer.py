#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times programs of wafers, and compares them with the published rates of WaferLLM (arXiv 2502.04563).

Prints Markdown: the 24 points of Tables 3 and 4, products of matrices by three algorithms, products of vectors by
three ways to add, and tokens on the grid that the compiler chooses beside the published grids. The figures in docs/wafers.md are from here.

SUMMA on 720 x 720 cores takes minutes, as no iteration of its loop is like another; --grids chooses the grids of products.

usage: wafer.py [--build=build/dev] [--target=wse-2] [--grids 240 480] [points] [gemm] [gemv] [choices]
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from wafer_layers import (
    GROUPS,
    HEADS,
    MODELS,
    ROOT,
    emitted,
    figures,
    gemm,
    gemv,
    layer_of,
    points,
    step_of,
    without_broadcast,
    without_overlap,
)


def print_points(tool: Path, target: str, _: list[int]) -> None:
    """Print the published points with the cycles of our programs."""
    print("| phase | model | grid | bytes a core | cycles a layer | published | error |")
    print("|---|---|---:|---:|---:|---:|---:|")
    errors = []
    for point in points():
        programs = figures(tool, layer_of(point), target)
        cycles = sum(program["cycles"] for program in programs)
        memory = max(program["bytes_per_core"] for program in programs)
        published = point.cycles_per_layer()
        errors.append(cycles / published - 1)
        print(
            f"| {point.phase} | {point.model} | {point.grid} | {memory} | {cycles:.0f} | {published:.0f} | "
            f"{100 * errors[-1]:+.1f} % |",
            flush=True,
        )
    sizes = [abs(error) for error in errors]
    within = sum(size <= 0.05 for size in sizes)
    print(f"\nmedian {100 * statistics.median(sizes):.1f} %, largest {100 * max(sizes):.1f} %, {within} within 5 %\n")


def print_gemm(tool: Path, target: str, grids: list[int]) -> None:
    """Print cycles of square products by algorithm, those of MeshGEMM and Cannon if no step multiplies while it transfers,
    and the share of the peak that MeshGEMM reaches."""
    print(
        "| size | grid | MeshGEMM | Cannon | SUMMA | Cannon / Mesh | without overlap | SUMMA / Mesh | MeshGEMM of the peak |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for size in (1024, 2048, 4096, 8192, 16384):
        for grid in grids:
            cycles = [
                figures(tool, gemm("main", size, size, size, grid, algorithm), target)[0]["cycles"]
                for algorithm in ("mesh", "cannon", "summa")
            ]
            serial = [
                figures(
                    tool,
                    without_overlap(emitted(tool, gemm("main", size, size, size, grid, algorithm), target)),
                    target,
                )
                for algorithm in ("mesh", "cannon")
            ]
            peak = size**3 / grid**2 / 2 / cycles[0]
            print(
                f"| {size} | {grid} | {cycles[0]:.0f} | {cycles[1]:.0f} | {cycles[2]:.0f} | "
                f"{cycles[1] / cycles[0]:.2f} | {serial[1][0]['cycles'] / serial[0][0]['cycles']:.2f} | "
                f"{cycles[2] / cycles[0]:.2f} | {100 * peak:.0f} % |",
                flush=True,
            )
    print()


def print_gemv(tool: Path, target: str, grids: list[int]) -> None:
    """Print cycles of products of vectors by the way that partial results are added; the tree with our groups, with the
    published ones, and if its sums stay where they are."""
    print("| size | grid | tree | published groups | sums stay | pipeline | ring | pipeline / tree | ring / tree |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for size in (4096, 8192, 16384, 32768):
        for grid in grids:
            published = f"tree groups {GROUPS.get(grid, 15)}"
            cycles = [
                figures(tool, gemv(size, size, grid, how), target)[0]["cycles"]
                for how in ("tree", published, "pipeline", "ring")
            ]
            stay = without_broadcast(emitted(tool, gemv(size, size, grid, "tree"), target))
            print(
                f"| {size} | {grid} | {cycles[0]:.0f} | {cycles[1]:.0f} | {figures(tool, stay, target)[0]['cycles']:.0f} | "
                f"{cycles[2]:.0f} | {cycles[3]:.0f} | {cycles[2] / cycles[0]:.2f} | {cycles[3] / cycles[0]:.2f} |",
                flush=True,
            )
    print()


def print_choices(tool: Path, target: str, _: list[int]) -> None:
    """Print the microseconds of a token on the grid that the compiler chooses, and on those of Table 4."""
    tool = tool.with_name("intarsia-plan")
    print("| model | layers | chosen grid | us a token | on 420 | on 540 | on 660 | the fastest of these takes |")
    print("|---|---:|---|---:|---:|---:|---:|---:|")
    for model, (_, _, all_layers) in MODELS.items():
        for layers in (HEADS[model][3], all_layers):
            chosen = step_of(tool, model, layers, target)
            published = [
                step_of(tool, model, layers, f"{target}+grid={grid}+regions={1 + (grid < 498)}")
                for grid in (420, 540, 660)
            ]
            times = [one[0] for one in published if one]
            if not chosen:
                print(f"| {model} | {layers} | no grid holds it | " + "| | | | |", flush=True)
                continue
            cells = " | ".join(f"{one[0]:.1f}" if one else "does not fit" for one in published)
            more = f"{100 * (min(times) / chosen[0] - 1):+.1f} %" if times else ""
            print(
                f"| {model} | {layers} | {chosen[2]} x {chosen[1]}² | {chosen[0]:.1f} | {cells} | {more} |", flush=True
            )
    print()


def main() -> None:
    """Print the tables that were asked for; all without arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--target", default="wse-2")
    parser.add_argument("--grids", type=int, nargs="+", default=[240, 480, 720])
    tables = {"points": print_points, "gemm": print_gemm, "gemv": print_gemv, "choices": print_choices}
    parser.add_argument("tables", nargs="*", default=list(tables))
    options = parser.parse_args()
    for name in options.tables:
        tables[name](options.build / "bin" / "intarsia-wafer", options.target, options.grids)


if __name__ == "__main__":
    main()
