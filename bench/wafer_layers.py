# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers of language models as products on a wafer, as WaferLLM (arXiv 2502.04563) ran them: one head of the width of the
model, so that keys and values are as wide as the model."""

from __future__ import annotations

import csv
import json
import re
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
#: Heads of queries and of keys, vocabulary, and layers of which a wafer holds all on each published grid of decode.
HEADS = {
    "LLaMA3-8B": (32, 8, 128256, 16),
    "LLaMA2-13B": (40, 40, 32000, 16),
    "CodeLLaMA-34B": (64, 8, 32000, 8),
    "QWen2-72B": (64, 8, 152064, 4),
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


def emitted(tool: Path, text: str, target: str = "wse-2") -> str:
    """Return the program of cores that a function becomes, as text that may be changed."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "function.mlir").write_text(text)
        command = [str(tool), f"{folder}/function.mlir", f"--target={target}", f"--emit={folder}/program.mlir"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return (Path(folder) / "program.mlir").read_text()


def without_overlap(program: str) -> str:
    """Change a product of matrices so that each step ends its transfers before it multiplies."""
    changed = re.sub(r"( +wafer\.compute +gemm [^\n]*\n)( +wafer\.await\n)", r"\2\1", program)
    assert changed != program
    return changed


def without_broadcast(program: str) -> str:
    """Change a product of a vector so that its sums stay on the cores in the middle."""
    changed = re.sub(r" +wafer\.(send|receive) %\d+ on @from_\d+[^\n]*\n", "", program)
    changed = re.sub(r" +wafer\.route @from_\d+[^\n]*\n", "", changed)
    assert changed != program
    return changed


def step_of(tool: Path, model: str, layers: int, wafer: str) -> tuple[float, int, int] | None:
    """Return the microseconds of a token of a model with so many layers on a wafer, the side of its grid and the regions, as
    the planner has them from the compiler's choice; None if the model does not fit."""
    width, inner, _ = MODELS[model]
    heads, key_heads, vocabulary, _ = HEADS[model]
    config = {
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "vocab_size": vocabulary,
        "tie_word_embeddings": False,
    }
    device = (ROOT / "catalogue" / "devices" / "cerebras" / "wse-2.yaml").read_text()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "device.yaml").write_text(device.replace("wafer: wse-2", f"wafer: {wafer}"))
        (folder / "fleet.mlir").write_text(
            'fleet.system @s {\n  fleet.device @wafer {file = "device.yaml"}\n'
            "  fleet.pool @wafers of @wafer count 2 price #fleet.rental<dollars_per_hour = 1.0>\n}\n"
        )
        (folder / "agent.mlir").write_text(
            f'agent.model @model {{shape = "{folder / "config.json"}", precisions = ["f16"]}}\n'
            f"agent.graph @chat(%q: !agent.text {{agent.size = #agent.amount<{TOKENS - 200} tokens>}}) -> !agent.text "
            "attributes {sla = #agent.sla<requests_per_second = 0.001>} {\n"
            "  %a = agent.llm @model(%q) produces <101 tokens> : (!agent.text) -> !agent.text\n"
            "  agent.return %a : !agent.text\n}\n"
        )
        command = [tool, folder / "agent.mlir", f"--fleet={folder / 'fleet.mlir'}", f"--json={folder / 'plan.json'}"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode != 0:
            if "its layers need" in done.stdout + done.stderr:
                return None
            raise RuntimeError((done.stdout + done.stderr).strip())
        place = re.search(r"on (?:(\d+) regions of )?(\d+) by \d+ cores", done.stdout)
        decode = next(
            one for one in json.loads((folder / "plan.json").read_text())["pieces"] if one["kind"] == "decode"
        )
        return 1000 * decode["token_ms"], int(place[2]), int(place[1] or 1)


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
