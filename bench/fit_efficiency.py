#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures kernels that the compiler makes and fits the cost model of a CPU target to them.

Writes catalogue/efficiency/NAME.csv (the measurements, one kernel a line) and NAME.yaml (the fitted model, which is
built into the compiler at the next build). Run it on an idle machine.

usage: fit_efficiency.py --target=cpu:x86-64-v4 [--build=build/release] [--threads=2] [--fit-only]
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import capi, machine

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = ROOT / "catalogue/efficiency"
ROOTS = ("linear", "matmul", "attention", "rows", "generic")
#: Kinds of kernels that are not measured, and those whose figures they take.
LIKE = {
    "cached_attention": "attention",
    "cache_append": "rows",
    "route": "rows",
    "candidates": "rows",
    "experts": "linear",
    "conv": "linear",
    "recurrent": "linear",
}
NORM_FLOPS = 8  # FLOPs of a layer norm for one element (nn.layer_norm in dialects/Nn/Ops/Norms/Norms.cpp)
WORK = ("flops", "transcendentals", "weight_bytes", "activation_bytes", "finish_elements")
CHAIN = "chain"
# Start of the search and its bounds: launch in us, a transcendental function in ns, then efficiencies of computation
# and bandwidth for each root. Efficiencies of computation are at most 1; those of bandwidth may exceed 1, since nearer
# caches are faster than the measured one.
START = np.log(np.array([1.0, 0.1] + [0.5, 1.0] * len(ROOTS)))
LOWER = np.log(np.array([1e-2, 1e-4] + [1e-3, 1e-3] * len(ROOTS)))
UPPER = np.log(np.array([100.0, 100.0] + [1.0, 4.0] * len(ROOTS)))
# Variants that each model covers; the first is the name in --target.
VARIANTS = {
    "cpu-x86-64-v4": "x86-64-v4, skylake-avx512, cascadelake, cooperlake, icelake-client, icelake-server, tigerlake, "
    "rocketlake, sapphirerapids, emeraldrapids, graniterapids, znver4, znver5",
    "cpu-x86-64-v3": "x86-64-v3, x86-64-v2, haswell, broadwell, skylake, alderlake, raptorlake, arrowlake, znver1, "
    "znver2, znver3",
}

# ---- Measured kernels --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """One function of the measured module: arguments and results by shape, body as text."""

    name: str
    arguments: tuple[tuple[str, str], ...]  # name, type
    result: str
    body: str
    weights: tuple[tuple[str, tuple[int, ...]], ...] = ()


def tensor(*shape: int, element: str = "f32") -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def linear(rows: int, n: int, k: int, epilogue: str) -> Function:
    """Returns a linear of `rows` tokens, alone or with the ops that follow it in a transformer."""
    x, y, w, f = tensor(rows, k), tensor(rows, n), tensor(n, k), tensor(n)
    lines = [f"%h = nn.linear %x, %w, %b : ({x}, {w}, {f}) -> {y}"]
    arguments = [("x", x)]
    weights = [("w", (n, k)), ("b", (n,))]
    if epilogue == "gelu":
        lines.append(f"%r = nn.gelu %h {{form = #nn.gelu_form<erf>}} : {y}")
    elif epilogue.startswith("residual"):
        arguments.append(("y", y))
        lines.append(f"%{'r' if epilogue == 'residual' else 's'} = arith.addf %h, %y : {y}")
        if epilogue == "residual-norm":
            weights += [("g", (n,)), ("c", (n,))]
            lines.append(f"%r = nn.layer_norm %s, %g, %c {{epsilon = 1.0e-12 : f32}} : ({y}, {f}, {f}) -> {y}")
    result = "%h" if epilogue == "none" else "%r"
    lines.append(f"return {result} : {y}")
    name = f"linear_{rows}x{n}x{k}_{epilogue.replace('-', '_')}"
    return Function(name, tuple(arguments), y, "\n".join(lines), tuple(weights))


def attention(batch: int, sequence: int, heads: int, size: int) -> Function:
    concatenated, split = tensor(batch, sequence, 3 * heads * size), tensor(batch, sequence, heads, size)
    part, mask = tensor(batch, sequence, heads * size), tensor(batch, 1, 1, sequence, element="i1")
    lines = []
    for index, name in enumerate("qkv"):
        lines.append(
            f"%{name} = tensor.extract_slice %x[0, 0, {index * heads * size}] [{batch}, {sequence}, {heads * size}] "
            f"[1, 1, 1] : {concatenated} to {part}"
        )
        lines.append(
            f"%{name}h = tensor.expand_shape %{name} [[0], [1], [2, 3]] output_shape "
            f"[{batch}, {sequence}, {heads}, {size}] : {part} into {split}"
        )
    lines.append(
        f"%a = nn.attention %qh, %kh, %vh mask %m {{scale = {1 / math.sqrt(size):.6f} : f32}} : "
        f"({split}, {split}, {split}, {mask}) -> {split}"
    )
    lines.append(f"%r = tensor.collapse_shape %a [[0], [1], [2, 3]] : {split} into {part}")
    lines.append(f"return %r : {part}")
    return Function(
        f"attention_{batch}x{sequence}x{heads}x{size}", (("x", concatenated), ("m", mask)), part, "\n".join(lines)
    )


def matmul(batch: int, m: int, n: int, k: int) -> Function:
    a, b, c = tensor(batch, m, k), tensor(batch, k, n), tensor(batch, m, n)
    body = f"%r = nn.matmul %x, %y : ({a}, {b}) -> {c}\nreturn %r : {c}"
    return Function(f"matmul_{batch}x{m}x{n}x{k}", (("x", a), ("y", b)), c, body)


def rows(count: int, features: int, what: str) -> Function:
    x, f = tensor(count, features), tensor(features)
    body, arguments, weights = "", [("x", x)], []
    if what == "norm":
        weights = [("g", (features,)), ("c", (features,))]
        body = f"%r = nn.layer_norm %x, %g, %c {{epsilon = 1.0e-12 : f32}} : ({x}, {f}, {f}) -> {x}"
    elif what == "add":
        arguments.append(("y", x))
        body = f"%r = arith.addf %x, %y : {x}"
    elif what == "gelu":
        body = f"%r = nn.gelu %x {{form = #nn.gelu_form<erf>}} : {x}"
    elif what == "embedding":
        arguments = [("i", tensor(count, element="i64"))]
        weights = [("t", (1000, features))]
        body = f"%r = nn.embedding %t, %i : ({tensor(1000, features)}, {tensor(count, element='i64')}) -> {x}"
    else:
        body = f"%r = nn.{what} %x : {x}"
    return Function(f"{what}_{count}x{features}", tuple(arguments), x, f"{body}\nreturn %r : {x}", tuple(weights))


def slice_columns(count: int, features: int) -> Function:
    x, y = tensor(count, 3 * features), tensor(count, features)
    body = f"%r = tensor.extract_slice %x[0, {features}] [{count}, {features}] [1, 1] : {x} to {y}\nreturn %r : {y}"
    return Function(f"slice_{count}x{features}", (("x", x),), y, body)


def mean(batch: int, sequence: int, features: int) -> Function:
    x, y = tensor(batch, sequence, features), tensor(batch, features)
    body = f"""%zero = arith.constant 0.0 : f32
%e = tensor.empty() : {y}
%f = linalg.fill ins(%zero : f32) outs(%e : {y}) -> {y}
%r = linalg.generic {{indexing_maps = [affine_map<(b, s, h) -> (b, s, h)>, affine_map<(b, s, h) -> (b, h)>],
    iterator_types = ["parallel", "reduction", "parallel"]}} ins(%x : {x}) outs(%f : {y}) {{
^bb0(%in: f32, %sum: f32):
  %t = arith.addf %sum, %in : f32
  linalg.yield %t : f32
}} -> {y}
return %r : {y}"""
    return Function(f"mean_{batch}x{sequence}x{features}", (("x", x),), y, body)


def chain(length: int) -> Function:
    """Returns kernels that wait for each other and do almost nothing, to measure the time between two kernels."""
    x = tensor(1, 16)
    lines = [f"%v{index + 1} = nn.softmax %{f'v{index}' if index else 'x'} : {x}" for index in range(length)]
    return Function(CHAIN, (("x", x),), x, "\n".join([*lines, f"return %v{length} : {x}"]))


def functions() -> Iterator[Function]:
    """Returns shapes of encoders from MiniLM to BERT-large, with few tokens to many."""
    for count in (1, 16, 128, 512, 1024):
        for hidden in (384, 768):
            for epilogue in ("none", "residual", "residual-norm"):
                yield linear(count, hidden, hidden, epilogue)
                yield linear(count, hidden, 4 * hidden, epilogue)
            for epilogue in ("none", "gelu"):
                yield linear(count, 4 * hidden, hidden, epilogue)
            yield linear(count, 3 * hidden, hidden, "none")
    for batch, sequence in ((1, 16), (1, 128), (8, 128), (1, 197), (1, 512)):
        yield attention(batch, sequence, 12, 32)
        yield attention(batch, sequence, 12, 64)
    for size in (64, 128, 256, 512):
        yield matmul(4, size, size, size)
    for count in (1, 16, 128, 1024):
        for features in (384, 768, 3072):
            for what in ("norm", "add", "gelu", "softmax", "embedding", "tanh"):
                yield rows(count, features, what)
        yield slice_columns(count, 384)
        yield slice_columns(count, 768)
    yield chain(16)
    for batch, sequence in ((1, 16), (1, 128), (8, 128), (8, 512)):
        yield mean(batch, sequence, 384)
        yield mean(batch, sequence, 768)


def module_text(all_functions: list[Function]) -> str:
    lines = ['nn.archive @weights {file = "weights.safetensors"}']
    for function in all_functions:
        arguments = ", ".join(f"%{name}: {kind} {attributes(name, kind)}" for name, kind in function.arguments)
        result = f"{function.result} {attributes('r', function.result)}"
        lines.append(f"func.func @{function.name}({arguments}) -> ({result}) attributes {{nn.metadata = {{}}}} {{")
        for name, shape in function.weights:
            lines.append(f'%{name} = nn.weight @weights["{key(shape)}"] : {tensor(*shape)}')
        lines.append(function.body)
        lines.append("}")
    return "\n".join(lines) + "\n"


def attributes(name: str, kind: str) -> str:
    sizes = ", ".join(['""'] * len(shape_of(kind)))
    return f'{{nn.name = "{name}", nn.sizes = [{sizes}]}}'


def key(shape: tuple[int, ...]) -> str:
    return "w" + "x".join(map(str, shape))


def shape_of(kind: str) -> tuple[int, ...]:
    return tuple(int(size) for size in re.findall(r"(\d+)x", kind))


def array_of(kind: str, generator: np.random.Generator) -> np.ndarray:
    shape = shape_of(kind)
    if kind.endswith("xi64>"):
        return generator.integers(0, 1000, shape)
    if kind.endswith("xi1>"):
        return np.ones(shape, bool)
    return generator.standard_normal(shape).astype(np.float32)


# ---- Measuring ---------------------------------------------------------------------------------------------------


def measure(build: Path, target: str, threads: int) -> list[dict[str, Any]]:
    """Returns work and time of every kernel; the time includes the gap to the next kernel."""
    from safetensors.numpy import save_file

    everything = list(functions())
    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        shapes = sorted({shape for function in everything for _, shape in function.weights})
        weights = {key(shape): generator.standard_normal(shape).astype(np.float32) * 0.05 for shape in shapes}
        save_file(weights, folder / "weights.safetensors")
        (folder / "kernels.mlir").write_text(module_text(everything))
        command = [build / "bin/intarsia-compile", folder / "kernels.mlir", "-o", folder / "kernels.itx"]
        command += [f"--target={target}", f"--explain={folder / 'explain.json'}"]
        subprocess.run(command, check=True)
        explained = json.loads((folder / "explain.json").read_text())["kernels"]

        runtime = capi.Runtime(build / "lib/libintarsia_runtime.so")
        runtime.set_threads(threads)
        module = runtime.load(folder / "kernels.itx")
        table = []
        gap_us = 0.0
        for position, function in enumerate(everything):
            kernels = [kernel for kernel in explained if kernel["function"] == function.name]
            call = module.function(function.name)
            handles = call.wrap({name: array_of(kind, generator) for name, kind in function.arguments})
            begins, ends = profile(runtime, call, handles, len(kernels), folder / "trace.json")
            times = typical(ends - begins)
            if function.name == CHAIN:
                gap_us = float(np.median(typical(begins[:, 1:] - ends[:, :-1])))
            for kernel, time in zip(kernels, times, strict=True):
                table.append({"function": function.name, "root": kernel["root"], "measured_us": time})
                table[-1].update({field: kernel[field] for field in WORK})
            if sys.stderr.isatty():
                print(f"\r{position + 1} of {len(everything)} functions measured", end="", file=sys.stderr)
    for row in table:
        row["measured_us"] = round(row["measured_us"] + gap_us, 3)
    return table


def typical(times: np.ndarray) -> np.ndarray:
    """Returns the fastest twentieth of the calls: other load on the machine only makes calls slower."""
    return np.quantile(times, 0.05, axis=0)


def profile(
    runtime: capi.Runtime, call: capi.Function, handles: object, kernels: int, trace: Path
) -> tuple[np.ndarray, np.ndarray]:
    """Returns begin and end in microseconds, [calls, kernels], of each kernel of a function."""
    for _ in range(5):
        call(handles)
    rounds = 100
    runtime.check(runtime.c.itx_profile_start())
    for _ in range(rounds):
        call(handles)
    runtime.check(runtime.c.itx_profile_stop(str(trace).encode()))
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "kernel"]
    events.sort(key=lambda event: event["ts"])
    if len(events) != rounds * kernels:
        raise RuntimeError(f"{len(events)} launches in the profile, {rounds} calls of {kernels} kernels were made")
    begins = np.array([event["ts"] for event in events]).reshape(rounds, kernels)
    return begins, begins + np.array([event["dur"] for event in events]).reshape(rounds, kernels)


def peaks(build: Path, threads: int) -> dict[str, float]:
    """Returns f32 peak and bandwidths of memory and second-level cache, of all threads; the best of three runs."""
    best: dict[tuple[str, str], float] = {}
    for _ in range(3):
        text = subprocess.run([build / "bin/intarsia-bench-peak"], check=True, capture_output=True, text=True).stdout
        for row in json.loads(text):
            if row["threads"] == threads:
                name = row["key"], row["what"]
                best[name] = max(best.get(name, 0.0), row["value"])
    f32 = next(value for (key, _), value in best.items() if key == "f32")
    return {"peak_gflops": f32, "memory_gbps": best["read", "read 1024 MiB"], "cache_gbps": best["read", "read 1 MiB"]}


# ---- Fitting -----------------------------------------------------------------------------------------------------


def finish_ns(logs: np.ndarray, ceiling: dict[str, float]) -> float:
    """Returns the time of a row-wise finish: a norm's operations at the efficiency of kernels of rows.

    As a separate parameter it was lost in the noise of the GEMMs that it follows.
    """
    return NORM_FLOPS / (ceiling["peak_gflops"] * float(np.exp(logs[2 + 2 * ROOTS.index("rows")])))


def predict(logs: np.ndarray, table: dict[str, np.ndarray], ceiling: dict[str, float]) -> np.ndarray:
    """Evaluates the formula of lib/Cost/DeviceModel.cpp; `logs`: launch, transcendental, two efficiencies a root."""
    launch, transcendental = np.exp(logs[:2])
    finish = finish_ns(logs, ceiling)
    compute = np.exp(logs[2::2])[table["root"]]
    bandwidth = np.exp(logs[3::2])[table["root"]]
    compute_us = table["flops"] / (ceiling["peak_gflops"] * compute) * 1e-3
    moved = table["weight_bytes"] / ceiling["memory_gbps"] + table["activation_bytes"] / ceiling["cache_gbps"]
    bytes_us = moved / bandwidth * 1e-3
    extra = table["transcendentals"] * transcendental + table["finish_elements"] * finish
    return launch + np.maximum(compute_us, bytes_us) + extra * 1e-3


def fit(rows_of: list[dict[str, str]], ceiling: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Fits log(predicted / measured) by least squares with a coordinate search: the formula contains a maximum."""
    table = {field: np.array([float(row[field]) for row in rows_of]) for field in WORK}
    table["root"] = np.array([ROOTS.index(row["root"]) for row in rows_of])
    measured = np.array([float(row["measured_us"]) for row in rows_of])
    logs = START.copy()

    def loss(candidate: np.ndarray) -> float:
        return float(np.mean(np.log(predict(candidate, table, ceiling) / measured) ** 2))

    step, best = 0.5, loss(logs)
    while step > 1e-4:
        improved = False
        for index in range(len(logs)):
            for direction in (step, -step):
                candidate = logs.copy()
                candidate[index] = np.clip(candidate[index] + direction, LOWER[index], UPPER[index])
                if (value := loss(candidate)) < best:
                    logs, best, improved = candidate, value, True
        if not improved:
            step /= 2
    return logs, predict(logs, table, ceiling) / measured


def undetermined(logs: np.ndarray) -> list[str]:
    """Reports figures that the measurements do not determine: those at the start or a bound of the search."""
    names = ["launch", "transcendental"] + [f"{root} {kind}" for root in ROOTS for kind in ("compute", "bandwidth")]
    notes = []
    for what, ends in (
        ("left where the search began (no measured kernel is limited by it)", [START]),
        ("at a bound of the search", [LOWER, UPPER]),
    ):
        found = [name for name, *values in zip(names, logs, *ends, strict=True) if values[0] in values[1:]]
        if found:
            notes.append(f"# Not determined, {what}: {', '.join(found)}.")
    return notes


def write_model(
    path: Path, name: str, logs: np.ndarray, ratios: np.ndarray, ceiling: dict[str, float], where: str
) -> None:
    off = np.exp(np.abs(np.log(ratios)))
    launch, transcendental = np.exp(logs[:2])
    lines = [
        f"# Fitted by bench/fit_efficiency.py from {name}.csv: {len(ratios)} kernels, the model is off by a factor of",
        f"# {np.median(off):.2f} at the median, {np.quantile(off, 0.9):.2f} at the 90th percentile.",
        *undetermined(logs),
        f"name: {name}",
        f"kind: {name.partition('-')[0]}",
        f"variants: [{VARIANTS.get(name, name.partition('-')[2])}]",
        f'machine: "{where}"',
        f"peak_gflops: {ceiling['peak_gflops']:.1f}",
        f"memory_gbps: {ceiling['memory_gbps']:.1f}",
        f"cache_gbps: {ceiling['cache_gbps']:.1f}",
        f"launch_us: {launch:.3f}",
        f"transcendental_ns: {transcendental:.4f}",
        f"finish_ns: {finish_ns(logs, ceiling):.4f}",
        "roots:",
    ]
    for index, root in enumerate(ROOTS):
        compute, bandwidth = np.exp(logs[2 + 2 * index : 4 + 2 * index])
        lines.append(f"  {root}: {{compute: {compute:.4f}, bandwidth: {bandwidth:.4f}}}")
    lines += [f"  {root}: {{like: {measured}}}" for root, measured in LIKE.items()]
    path.write_text("\n".join(lines) + "\n")


# ---- The program -------------------------------------------------------------------------------------------------


def write_table(path: Path, table: list[dict[str, Any]], ceiling: dict[str, float], where: str) -> None:
    with path.open("w", newline="") as file:
        file.write(f"# {where}\n")
        file.write("# " + ", ".join(f"{name} = {value:.1f}" for name, value in ceiling.items()) + "\n")
        writer = csv.DictWriter(file, ["function", "root", *WORK, "measured_us"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def read_table(path: Path) -> tuple[list[dict[str, str]], dict[str, float], str]:
    lines = path.read_text().splitlines()
    ceiling = {name: float(value) for name, value in re.findall(r"(\w+) = ([\d.]+)", lines[1])}
    return list(csv.DictReader(lines[2:])), ceiling, lines[0].removeprefix("# ")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fits the cost model of a CPU target to measured kernels.")
    parser.add_argument("--target", default="cpu:x86-64-v4", help="what to compile the kernels for")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="build folder to measure")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fit-only", action="store_true", help="fit the table that is there, measure nothing")
    options = parser.parse_args()
    name = options.target.replace(":", "-")
    table_file = CATALOGUE / f"{name}.csv"
    if not options.fit_only:
        ceiling = peaks(options.build, options.threads)
        where = f"{options.threads} threads; {machine.sentence(machine.describe(), range(options.threads))}"
        write_table(
            table_file, measure(options.build, options.target, options.threads), ceiling, where.replace("\n", " ")
        )
    table, ceiling, where = read_table(table_file)
    logs, ratios = fit(table, ceiling)
    write_model(CATALOGUE / f"{name}.yaml", name, logs, ratios, ceiling, where.replace('"', "'"))
    print((CATALOGUE / f"{name}.yaml").read_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
