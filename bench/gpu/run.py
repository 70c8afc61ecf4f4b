#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures kernels of a GPU against PyTorch (cuBLASLt, its best attention) where that is installed.

Rounds of ours and of each peer alternate in one process, and the medians over the rounds are compared. A round of ours is
several calls, each of which is waited for (`call`); the time of its kernels alone (`kernels`) is by the device's clock, a
little more than they take, since each has events around it. A round of a peer is a graph of as many calls, which takes the
time of its kernels: it is compared with `kernels`.
On a build of `make build`, with `build/dev/python` in PYTHONPATH:

    .venv/bin/python bench/gpu/run.py                      # the GPU of this machine; without one, the emulated device
    .venv/bin/python bench/gpu/run.py --update-docs        # writes the table into docs/benchmarks.md, with date and device

Without a GPU the same path runs at small shapes on the emulated device, to try the script: its times mean nothing and
are not written to the page.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import intarsia
import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
INTRODUCTION = """\
Rows of f32, a call that is waited for, and its kernels alone; what a peer takes is its kernels' time, too.
[Decision 56](decisions/0056-what-an-h200-said.md) says what limits them."""
BEGIN, END = "<!-- gpu: begin -->", "<!-- gpu: end -->"
GLOSSARY = ROOT / "examples" / "glossary"
RNG = np.random.default_rng(0)

Round = Callable[[], float]
"""Runs a round and returns the seconds of one call."""


@dataclass
class Case:
    """A problem: what it is called, ours, and its peers; `amount` is of a call, in what `unit` counts each second."""

    name: str
    ours: Round
    kernels: Round
    peers: dict[str, Round]
    amount: float
    unit: str


@dataclass(frozen=True)
class Setting:
    """Where to measure: the target, the device's kind, calls of a round, and the shapes."""

    target: str
    kind: str
    calls: int
    gemms: tuple[tuple[int, int, int], ...]  # rows, features, depth
    attention: tuple[int, int, int]  # heads, tokens, features of a head
    quantized: tuple[tuple[int, ...], int, int]  # rows of each, features, depth
    tokens: int  # of a decode
    prompt: int  # tokens of a prefill


def target_of(architecture: str) -> str:
    """Return the target with the instructions of an architecture: "sm_90a" for "sm_90"."""
    return architecture + "a" if architecture in ("sm_90", "sm_100", "sm_120") else architecture


def find_setting() -> Setting:
    """Return the GPU of this machine with the shapes that are compared, or the emulated one with small ones."""
    for device in intarsia.devices():
        if device["name"] in ("cuda", "hip"):
            return Setting(
                f"{device['name']}:{target_of(device['variant'])}",
                device["name"],
                50,
                ((4096, 4096, 4096), (128, 4096, 14336)),
                (16, 4096, 128),
                ((1, 16, 32, 64), 4096, 4096),
                64,
                512,
            )
    return Setting("emulated:sm_80", "emulated", 1, ((64, 64, 64),), (2, 32, 64), ((1, 16), 64, 128), 2, 8)


# ---- Programs ----------------------------------------------------------------------------------------------------


class Builder:
    """Compiles programs for the device, in a folder of its own."""

    def __init__(self, setting: Setting, folder: Path) -> None:
        self.setting = setting
        self.folder = folder

    def load(self, text: str, weight: np.ndarray | None = None, **options: object) -> intarsia.Module:
        """Return the module of a program, whose weight is @weights["w"]."""
        if weight is not None:
            save_file({"w": weight}, self.folder / "w.safetensors")
            text = 'nn.archive @weights {file = "w.safetensors"}\n' + text
        source, output = self.folder / "m.mlir", self.folder / "m.itx"
        source.write_text(text)
        return intarsia.compile(source, output=output, target=self.setting.target, **options)

    def rounds(self, module: intarsia.Module, *inputs: np.ndarray) -> tuple[Round, Round]:
        """Return rounds of calls whose inputs and results stay on the device, and of their kernels."""
        call = module.main.on(self.setting.kind)
        there = [intarsia.to_device(value, self.setting.kind) for value in inputs]
        calls = self.setting.calls
        return (
            lambda: timed(lambda: call(*there), calls),
            lambda: self.kernels(lambda: [call(*there) for _ in range(calls)]) / calls,
        )

    def kernels(self, run: Callable[[], object]) -> float:
        """Return the seconds of the kernels that a function starts, by the device's clock."""
        trace = self.folder / "trace.json"
        with intarsia.profile(trace):
            run()
        events = json.loads(trace.read_text())["traceEvents"]
        device = [event for event in events if event.get("args", {}).get("device", "").startswith(self.setting.kind)]
        return sum(event["dur"] for event in device if event["cat"] == "kernel") / 1e6


def timed(call: Callable[[], object], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) / calls


def linear(features: int, depth: int, element: str) -> str:
    return f"""func.func @main(%x: tensor<?x{depth}x{element}> {{nn.name = "x", nn.sizes = ["n", ""]}})
        -> (tensor<?x{features}x{element}> {{nn.name = "y", nn.sizes = ["n", ""]}}) {{
      %w = nn.weight @weights["w"] : tensor<{features}x{depth}x{element}>
      %y = nn.linear %x, %w : (tensor<?x{depth}x{element}>, tensor<{features}x{depth}x{element}>)
        -> tensor<?x{features}x{element}>
      return %y : tensor<?x{features}x{element}> }}"""


def attention(heads: int, features: int) -> str:
    kind = f"tensor<?x?x{heads}x{features}xf16>"
    inputs = ", ".join(f'%{name}: {kind} {{nn.name = "{name}", nn.sizes = ["batch", "n", "", ""]}}' for name in "qkv")
    return f"""func.func @main({inputs}) -> ({kind} {{nn.name = "y"}}) {{
      %y = nn.attention %q, %k, %v {{causal, scale = {features**-0.5:e} : f32}} : ({kind}, {kind}, {kind}) -> {kind}
      return %y : {kind} }}"""


# ---- Peers -------------------------------------------------------------------------------------------------------


class Torch:
    """PyTorch on the GPU; there is none without a GPU, or where it is not installed."""

    def __init__(self, setting: Setting) -> None:
        self.calls = setting.calls
        self.torch = None
        if setting.kind != "emulated" and importlib.util.find_spec("torch"):
            import torch

            self.torch = torch if torch.cuda.is_available() else None

    def round(self, call: Callable[[], object]) -> Round:
        """Return a round of calls that were captured in a graph, so that starting them takes no time of the host."""
        call()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for _ in range(self.calls):
                call()

        def once() -> None:
            graph.replay()
            self.torch.cuda.synchronize()

        return lambda: timed(once, 1) / self.calls

    def random(self, *sizes: int, element: str) -> object:
        return self.torch.randn(*sizes, device="cuda", dtype=getattr(self.torch, element))

    def linear(self, rows: int, features: int, depth: int, element: str) -> dict[str, Round]:
        if not self.torch:
            return {}
        x, w = self.random(rows, depth, element=element), self.random(features, depth, element=element)
        return {"PyTorch": self.round(lambda: self.torch.nn.functional.linear(x, w))}

    def attention(self, heads: int, tokens: int, features: int) -> dict[str, Round]:
        if not self.torch:
            return {}
        q, k, v = (self.random(1, heads, tokens, features, element="float16") for _ in range(3))
        best = self.torch.nn.functional.scaled_dot_product_attention
        return {"PyTorch": self.round(lambda: best(q, k, v, is_causal=True))}


# ---- Cases -------------------------------------------------------------------------------------------------------


def normal(*sizes: int) -> np.ndarray:
    return RNG.standard_normal(sizes, dtype=np.float32)


def cases(setting: Setting, builder: Builder, torch: Torch, model: Path) -> Iterator[Case]:
    """Compile one problem after the other."""
    for rows, features, depth in setting.gemms:
        module = builder.load(linear(features, depth, "bf16"), normal(features, depth).astype(ml_dtypes.bfloat16))
        ours = builder.rounds(module, normal(rows, depth).astype(ml_dtypes.bfloat16))
        peers = torch.linear(rows, features, depth, "bfloat16")
        yield Case(f"GEMM bf16 {rows}x{features}x{depth}", *ours, peers, 2e-12 * rows * features * depth, "TFLOP/s")
    heads, tokens, size = setting.attention
    inputs = [normal(1, tokens, heads, size).astype(np.float16) for _ in range(3)]
    ours = builder.rounds(builder.load(attention(heads, size)), *inputs)
    # Half of the scores are masked; both products count.
    operations = 2e-12 * heads * tokens * tokens * size
    name = f"attention f16, {heads} heads, {tokens} tokens of {size}, causal"
    yield Case(name, *ours, torch.attention(heads, tokens, size), operations, "TFLOP/s")
    counts, features, depth = setting.quantized
    module = builder.load(linear(features, depth, "f32"), normal(features, depth), quantize="int4")
    for rows in counts:
        ours = builder.rounds(module, normal(rows, depth))
        peers = {f"{name}, f16": peer for name, peer in torch.linear(rows, features, depth, "float16").items()}
        yield Case(f"W4A16 {rows}x{features}x{depth}", *ours, peers, features * depth / 2e9, "GB/s of weights")
    artifact = builder.folder / "decode.itx"
    intarsia.compile(model, output=artifact, target=setting.target, quantize="int4")
    generator = intarsia.Generator(artifact)
    bytes_read = artifact.with_suffix(".safetensors").stat().st_size
    prompt, tokens = [1, 5, 9], setting.tokens

    def decode(steps: int) -> Callable[[], object]:
        return lambda: generator.measure([prompt], steps)

    # The kernels of the steps are those of a call with steps less those of one with none, which is the prefill.
    yield Case(
        f"decode step of {model.name}, W4A16",
        lambda: generator.measure([prompt], tokens)[1] / tokens,
        lambda: (builder.kernels(decode(tokens)) - builder.kernels(decode(0))) / tokens,
        {},
        bytes_read / 1e9,
        "GB/s of the file of weights",
    )
    long = [5 + number % 90 for number in range(setting.prompt)]
    yield Case(
        f"prefill of {model.name}, W4A16, {setting.prompt} tokens",
        lambda: generator.measure([long], 0)[0],
        lambda: builder.kernels(lambda: generator.measure([long], 0)),
        {},
        setting.prompt,
        "tokens/s",
    )


def measure(case: Case, rounds: int) -> list[str]:
    """Return the rows of a case: ours, and the ratio to each peer."""
    runs = {"call": case.ours, "kernels": case.kernels, **case.peers}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            seconds = run()
            if number:  # the first round is to warm up
                times[name].append(seconds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    kernels = medians["kernels"]
    row = f"| {case.name} | {medians['call'] * 1e6:.1f} µs | {kernels * 1e6:.1f} µs | {case.amount / kernels:.4g} {case.unit} |"
    if not case.peers:
        return [f"{row} | |"]
    return [f"{row} {name} {medians[name] * 1e6:.1f} µs | {medians[name] / kernels:.2f} |" for name in case.peers]


def update_page(table: str) -> None:
    text = PAGE.read_text()
    block = f"{BEGIN}\n{table}\n{END}"
    found = re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: block, text, flags=re.DOTALL)
    PAGE.write_text(found if BEGIN in text else f"{text.rstrip()}\n\n{block}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11, help="rounds that are measured (default: 11)")
    parser.add_argument("--model", type=Path, default=GLOSSARY, help="directory of the language model that decodes")
    parser.add_argument("--update-docs", action="store_true", help="write the table into docs/benchmarks.md")
    options = parser.parse_args()
    setting = find_setting()
    if options.update_docs and setting.kind == "emulated":
        sys.exit("error: --update-docs: this machine has no GPU, and times of the emulated device mean nothing")
    torch = Torch(setting)
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for case in cases(setting, Builder(setting, Path(folder)), torch, options.model):
            rows += measure(case, options.rounds)
            print(rows[-1], file=sys.stderr, flush=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    device = next(info["description"] for info in intarsia.devices() if info["name"] == setting.kind)
    peers = f"PyTorch {torch.torch.__version__}" if torch.torch else "no peer installed"
    head = (
        f"{datetime.date.today()}, {device}, {peers}, {commit.strip()}; medians of {options.rounds} alternating rounds"
    )
    table = "\n".join(
        [head, "", "| problem | call | kernels | rate | peer | ratio |", "|---|---:|---:|---:|---:|---:|", *rows]
    )
    print(table)
    if options.update_docs:
        update_page(f"## GPU kernels\n\n{INTRODUCTION}\n\n{table}")


if __name__ == "__main__":
    main()
