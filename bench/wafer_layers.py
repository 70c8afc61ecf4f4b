# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers of language models as products on a wafer, as WaferLLM (arXiv 2502.04563) ran them: one head of the width of the
model, so that keys and values are as wide as the model."""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "catalogue" / "wafers" / "waferllm-tables.csv"
#: Width, width of the feed-forward layers, and layers of a model.
MODELS = {
    "LLaMA3-8B": (4096, 14336, 32),
    "LLaMA2-13B": (5120, 13824, 40),
    "CodeLLaMA-34B": (8192, 22016, 48),
    "QWen2-72B": (8192, 29568, 80),
}
#: Groups of the tree by cores along an axis: those of the published configurations.
GROUPS = {420: 20, 480: 20, 540: 20, 600: 24, 660: 22, 720: 24}
TOKENS = 4096


@dataclass
class Point:
    """One published rate."""

    phase: str
    model: str
    grid: int
    tokens_per_second: float

    def cycles_per_layer(self, clock_ghz: float = 1.1) -> float:
        """Return the cycles of a layer: for one token of decode, for all tokens of prefill."""
        tokens = TOKENS if self.phase == "prefill" else 1
        return clock_ghz * 1e9 * tokens / (self.tokens_per_second * MODELS[self.model][2])


def points() -> list[Point]:
    """Return the rates of WaferLLM in Tables 3 (prefill) and 4 (decode)."""
    with TABLES.open() as file:
        return [
            Point(row["phase"], row["model"], int(row["cores_side"]), float(row["value"]))
            for row in csv.DictReader(file)
            if row["source"] in ("Table 3", "Table 4") and row["method"] == "WaferLLM"
        ]


def decode_layer(model: str, grid: int, reduction: str | None = None, tokens: int = TOKENS) -> str:
    """Return a layer of decode as a function over vectors: nine products, each with its sum over the cores of an axis, and
    the sum of the softmax."""
    width, inner, _ = MODELS[model]
    how = reduction or f"tree groups {GROUPS[grid]}"
    algorithm, _, groups = how.partition(" ")
    arguments: list[str] = ["%x: " + vector(width)]
    body: list[str] = []

    def product(result: str, x: str, k: int, n: int) -> None:
        arguments.append(f"%w_{result}: tensor<{k}x{n}xf16>")
        body.append(
            f"%{result} = wafer.dist_gemv {algorithm} %{x}, %w_{result} on {grid} {groups} : "
            f"{vector(k)}, tensor<{k}x{n}xf16> -> {vector(n)}"
        )

    def function(result: str, name: str, inputs: str, size: int) -> None:
        body.append(f"%{result} = wafer.dist_map {name} {inputs} on {grid} : {vector(size)}")

    product("q", "x", width, width)
    product("k", "x", width, width)
    product("v", "x", width, width)
    product("scores", "q", width, tokens)  # the cache of keys
    function("p", "exp", "%scores", tokens)
    product("sum", "p", tokens, 1)
    product("attention", "p", tokens, width)  # the cache of values
    product("o", "attention", width, width)
    product("gate", "o", width, inner)
    product("up", "o", width, inner)
    function("hidden", "multiply", "%gate, %up", inner)
    product("down", "hidden", inner, width)
    function("y", "silu", "%down", width)
    results = ["k", "v", "sum", "y"]
    sizes = [width, width, 1, width]
    types = ", ".join(vector(size) for size in sizes)
    values = ", ".join(f"%{name}" for name in results)
    return (
        f"func.func @decode({', '.join(arguments)}) -> ({types}) {{\n  "
        + "\n  ".join(body)
        + f"\n  return {values} : {types}\n}}\n"
    )


def vector(size: int) -> str:
    """Return the type of a vector."""
    return f"tensor<1x{size}xf16>"


def prefill_products(model: str, grid: int, algorithm: str = "mesh") -> str:
    """Return the nine products of a layer of prefill as functions, each of matrices of its own."""
    width, inner, _ = MODELS[model]
    shapes = {
        "q": (TOKENS, width, width),
        "k": (TOKENS, width, width),
        "v": (TOKENS, width, width),
        "scores": (TOKENS, width, TOKENS),
        "attention": (TOKENS, TOKENS, width),
        "o": (TOKENS, width, width),
        "gate": (TOKENS, width, inner),
        "up": (TOKENS, width, inner),
        "down": (TOKENS, inner, width),
    }
    return "".join(gemm(name, *shape, grid, algorithm) for name, shape in shapes.items())


def gemm(name: str, m: int, k: int, n: int, grid: int, algorithm: str) -> str:
    """Return a product of matrices as a function."""
    a, b, c = f"tensor<{m}x{k}xf16>", f"tensor<{k}x{n}xf16>", f"tensor<{m}x{n}xf16>"
    return (
        f"func.func @{name}(%a: {a}, %b: {b}) -> {c} {{\n"
        f"  %c = wafer.dist_gemm {algorithm} %a, %b on {grid} : {a}, {b} -> {c}\n  return %c : {c}\n}}\n"
    )


def gemv(k: int, n: int, grid: int, how: str) -> str:
    """Return a product of a vector and a matrix as a function."""
    algorithm, _, groups = how.partition(" ")
    x, w, y = vector(k), f"tensor<{k}x{n}xf16>", vector(n)
    return (
        f"func.func @main(%x: {x}, %w: {w}) -> {y} {{\n"
        f"  %y = wafer.dist_gemv {algorithm} %x, %w on {grid} {groups} : {x}, {w} -> {y}\n  return %y : {y}\n}}\n"
    )


def layer_of(point: Point) -> str:
    """Return the program of a point."""
    build = decode_layer if point.phase == "decode" else prefill_products
    return build(point.model, point.grid)


def figures(tool: Path, text: str, target: str = "wse-2") -> list[dict[str, float]]:
    """Compile and time programs; return what intarsia-wafer says of each."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.mlir"
        program.write_text(text)
        command = [str(tool), str(program), f"--target={target}", "--json=-"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)
