#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures linears of quantized weights: many rows against the peak of vpdpbusd, one row against the read bandwidth.

Each is a module with one nn.linear, called through the C interface; quantizing its input is part of the call. Its rounds
alternate with those of the loop that it is compared with. For one row, calls rotate through copies of the weights that
together exceed every cache, and the loop reads the same files. Markdown to standard output, Markdown and JSON to
build/bench. On a build of `make bench`:

    python bench/quantized_linears.py [--formats=int4,q4_k] [--products=gemm] [--shapes=4096x14336] [--pairs=20]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gemm_torch import test_values
from harness import machine
from harness.artifact import stored_bytes
from harness.gemm import copy_artifact
from harness.program import NotMeasuredError, add_options, compile_model, report, some_of
from harness.ratios import alternate
from harness.report import table
from harness.workers import Worker

# Input and output features, as papers write shapes of layers.
SHAPES = {
    "2048x2048": (2048, 2048),
    "2048x5632": (2048, 5632),
    "5632x2048": (5632, 2048),
    "2048x32000": (2048, 32000),
    "4096x14336": (4096, 14336),
    "14336x4096": (14336, 4096),
}
QUANTIZED = ("int4", "int8", "mxfp4", "nvfp4")
# Formats of GGUF files, and where the f16 elements of a block lie that must not be NaN (ggml-common.h).
GGML = {"q4_0": (0,), "q4_1": (0, 2), "q8_0": (0,), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,)}
ROWS = 512  # rows of a GEMM
# Bytes of all copies that a GEMV rotates through: four times the largest usual last-level cache.
ROTATING_BYTES = 256 << 20
# The least cosine between the results and the GEMM of exact inputs with unquantized weights.
LEAST_COSINE = 0.98
CHECKED = 256  # outputs that are compared
# An artifact that exceeds the size of its quantized weights by this factor stores dequantized values.
MOST_GROWTH = 1.25

MODULE = """\
nn.archive @weights {{file = "w.safetensors"}}
func.func @main(%x: tensor<?x{k}xf32> {{nn.name = "x", nn.sizes = ["rows", ""]}})
    -> (tensor<?x{n}xf32> {{nn.name = "y"}}) {{
{weight}
  %y = nn.linear %x, %w : (tensor<?x{k}xf32>, tensor<{n}x{k}x{element}>) -> tensor<?x{n}xf32>
  return %y : tensor<?x{n}xf32>
}}
"""
FLOATS = '  %w = nn.weight @weights["w"] : tensor<{n}x{k}xf16>'
BLOCKS = """\
  %b = nn.weight @weights["w"] : tensor<{n}x{width}xi8>
  %w = nn.dequantize %b {{format = #nn.ggml_type<{format}>}} : (tensor<{n}x{width}xi8>) -> tensor<{n}x{k}xf32>"""


@dataclass(frozen=True)
class Linear:
    """y[rows, n] = x[rows, k] * W[n, k]^T with W in a format."""

    format: str
    k: int
    n: int

    @property
    def key(self) -> str:
        return f"{self.format}-{self.k}x{self.n}"


def random_blocks(format: str, rows: int, columns: int) -> np.ndarray:
    """Returns blocks [rows, bytes] of random quantized values, with f16 scales and minima between 2^-8 and 2^-7."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[format.upper()]]
    rng = np.random.default_rng(5)
    blocks = rng.integers(0, 256, (rows * columns // elements, size), np.uint8)
    for offset in GGML[format]:
        scales = np.exp2(rng.uniform(-8, -7, len(blocks))).astype(np.float16)
        blocks[:, offset : offset + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, -1)


def write_source(linear: Linear, folder: Path) -> Path:
    """Writes module and weights, unless they are there."""
    from safetensors.numpy import save_file

    source = folder / "linear.mlir"
    if source.exists():
        return source
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"n": linear.n, "k": linear.k}
    if linear.format in GGML:
        stored = random_blocks(linear.format, linear.n, linear.k).view(np.int8)
        weight, element = BLOCKS.format(width=stored.shape[1], format=linear.format, **sizes), "f32"
    else:
        stored = test_values(linear.n * linear.k, 2).reshape(linear.n, linear.k).astype(np.float16)
        weight, element = FLOATS.format(**sizes), "f16"
    save_file({"w": stored}, folder / "w.safetensors")
    source.write_text(MODULE.format(weight=weight, element=element, **sizes))
    return source


def first_values(linear: Linear, folder: Path) -> np.ndarray:
    """Returns the weights of some outputs, [outputs, k] in f32."""
    from safetensors import safe_open

    with safe_open(folder / "w.safetensors", "np") as file:
        stored = file.get_slice("w")[: min(CHECKED, linear.n)]
    if linear.format not in GGML:
        return stored.astype(np.float32)
    from gguf import GGMLQuantizationType, dequantize

    return dequantize(stored.view(np.uint8), GGMLQuantizationType[linear.format.upper()])


def code_bytes(linear: Linear, folder: Path) -> int:
    """Returns the bytes of the quantized weights; without the scales if they are not from a GGUF file."""
    if linear.format in GGML:
        return sum(stored_bytes(folder / "w.safetensors").values())
    return linear.n * linear.k * (8 if linear.format.startswith("int8") else 4) // 8


class Session:
    """The arguments and the compiled linears of a run."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments

    def compile(self, linear: Linear) -> Path:
        """Returns the artifact.

        Raises
        ------
        NotMeasuredError
            The compiler has no kernel for the format, and stores dequantized values.
        """
        folder = self.arguments.work / "linears" / linear.key
        artifact = folder / "linear.itx"
        flags = [] if linear.format in GGML else [f"--quantize={linear.format}"]
        compile_model(self.arguments.build, write_source(linear, folder), artifact, *flags)
        stored, size = sum(stored_bytes(folder / "linear.safetensors").values()), code_bytes(linear, folder)
        if stored > MOST_GROWTH * size:
            raise NotMeasuredError(
                f"stored in {stored >> 20} MiB, its quantized values take {size >> 20}: no kernel reads them"
            )
        return artifact

    def start(self, linear: Linear, rows: int, artifacts: list[Path]) -> Worker:
        command = [self.arguments.build / "bin/intarsia-bench-gemm", str(rows), str(linear.k), *artifacts]
        log = self.arguments.work / f"log/linear-{linear.key}.log"
        return Worker(linear.format, command, log, self.arguments.threads)

    def peak(self, loop: str, files: Sequence[Path] = ()) -> Worker:
        command = [self.arguments.build / "bin/intarsia-bench-peak", loop, str(self.arguments.threads), *files]
        return Worker(loop, command, self.arguments.work / f"log/peak-{loop}.log", self.arguments.threads)

    def check(self, linear: Linear, rows: int, worker: Worker, artifact: Path) -> None:
        """Compares some results with the matmul in f32."""
        worker.time(1, 0)
        path = self.arguments.work / "linears/result.f32"
        worker.save(path)
        count = min(rows, 4)
        x = test_values(rows * linear.k, 1).reshape(rows, linear.k)[-count:]
        y = np.fromfile(path, "<f4").reshape(rows, linear.n)[-count:, :CHECKED]
        expected = x @ first_values(linear, artifact.parent).T
        cosine = float((y * expected).sum() / np.linalg.norm(y) / np.linalg.norm(expected))
        if not cosine > LEAST_COSINE:
            raise RuntimeError(f"{linear.key}: the matmul of {rows} rows is wrong, its cosine is {cosine:.4f}")

    def gemm(self, linear: Linear, artifact: Path) -> dict[str, Any]:
        with self.start(linear, ROWS, [artifact]) as ours, self.peak("int8") as peak:
            self.check(linear, ROWS, ours, artifact)
            comparison = alternate(ours, [peak], self.arguments.pairs, round_ms=60)[0]
            work, peak_work = 2 * ROWS * linear.n * linear.k, peak.ready["operations"]
        share = comparison.share(work, peak_work)
        return {"work": work, "peak_work": peak_work, "share": share, **comparison.to_json()}

    def gemv(self, linear: Linear, artifact: Path) -> dict[str, Any]:
        work = sum(stored_bytes(artifact.with_suffix(".safetensors")).values())
        artifacts = copy_artifact(artifact, -(-ROTATING_BYTES // work))
        archives = [copy.with_suffix(".safetensors") for copy in artifacts]
        with self.start(linear, 1, artifacts) as ours, self.peak("read", archives) as peak:
            self.check(linear, 1, ours, artifact)
            comparison = alternate(ours, [peak], self.arguments.pairs, round_ms=60)[0]
            peak_work = peak.ready["bytes"]
        share = comparison.share(work, peak_work)
        return {"work": work, "peak_work": peak_work, "share": share, **comparison.to_json()}


def measure(session: Session, linear: Linear) -> list[dict[str, Any]]:
    """Measures GEMM and GEMV of a linear."""
    artifact = session.compile(linear)
    rows = []
    for operation in session.arguments.products:
        measured = (session.gemm if operation == "gemm" else session.gemv)(linear, artifact)
        share, low, high = (100 * value for value in measured["share"])
        speed = measured["work"] / measured["ours_ms"] / 1e6
        print(f"  {operation}: {speed:.0f} G/s, {share:.1f} % [{low:.1f}, {high:.1f}]", file=sys.stderr, flush=True)
        rows.append({"operation": operation, "format": linear.format, "k": linear.k, "n": linear.n, **measured})
    return rows


def render(rows: list[dict[str, Any]], missing: list[str], unit_peaks: dict[str, str]) -> str:
    parts = []
    for operation, unit in (("gemm", "GOP/s"), ("gemv", "GB/s")):
        header = ("inputs × outputs", "format", "ms", unit, "of the peak", "peak")
        cells = [
            (
                f"{row['k']}×{row['n']}",
                row["format"],
                f"{row['ours_ms']:.2f}",
                f"{row['work'] / row['ours_ms'] / 1e6:.{0 if operation == 'gemm' else 1}f}",
                "{:.0f} % [{:.0f}, {:.0f}]".format(*(100 * value for value in row["share"])),
                f"{row['peak_work'] / row['peer_ms'] / 1e6:.{0 if operation == 'gemm' else 1}f}",
            )
            for row in rows
            if row["operation"] == operation
        ]
        if cells:
            parts.append(f"{unit_peaks[operation]}\n\n{table(header, cells)}")
    if missing:
        parts.append("\n".join(f"- {line}" for line in missing) + "\n")
    return "\n".join(parts)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures linears of coded weights against the machine's peaks.")

    formats = [*QUANTIZED, *GGML]
    add = parser.add_argument
    add("--formats", type=some_of(formats), default=formats, help=f"some of: {', '.join(formats)}")
    add("--shapes", type=some_of(SHAPES), default=list(SHAPES), help=f"some of: {', '.join(SHAPES)}")
    add("--products", type=some_of(("gemm", "gemv")), default=["gemm", "gemv"], help="gemm: 512 rows; gemv: one")
    add_options(parser, pairs=20)
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    described = machine.describe()
    machine.use_cores(arguments.threads)
    session = Session(arguments)
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    for shape in arguments.shapes:
        for format in arguments.formats:
            linear = Linear(format, *SHAPES[shape])
            print(f"==> {linear.key}", file=sys.stderr, flush=True)
            try:
                rows += measure(session, linear)
            except NotMeasuredError as error:
                missing.append(f"{linear.key} is not measured: {error}")
                print(f"  {error}", file=sys.stderr, flush=True)
    notes = {
        "gemm": f"{ROWS} rows, rounding them to 8 bits included; the peak is that of vpdpbusd.",
        "gemv": f"One row, weights of {ROTATING_BYTES >> 20} MiB in turn; the peak is that of a loop that reads the same files.",
    }
    results = {"rows": rows, "not_measured": missing}
    report(arguments, described, "quantized_linears", "Linears of coded weights", render(rows, missing, notes), results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
