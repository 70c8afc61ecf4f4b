#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures kernels of a GPU against PyTorch (cuBLASLt, its best attention) where that is installed.

Rounds of ours and of each peer alternate in one process; a round is several calls and one wait, and the medians over the
rounds are compared. On a build of `make build`, with `build/dev/python` in PYTHONPATH:

    .venv/bin/python bench/gpu/run.py                      # the GPU of this machine; without one, the emulated device
    .venv/bin/python bench/gpu/run.py --update-docs        # writes the table into docs/benchmarks.md, with date and device

Without a GPU the same path runs at small shapes on the emulated device, to try the script: its times mean nothing and
are not written to the page.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import intarsia
import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- gpu: begin -->", "<!-- gpu: end -->"
GLOSSARY = ROOT / "examples" / "glossary"
RNG = np.random.default_rng(0)

Round = Callable[[], float]
"""Runs a round and returns the seconds of one call."""


@dataclass
class Case:
    """A problem: what it is called, ours, and its peers; `flops` and `stored` (bytes) of a call for the rates."""

    name: str
    ours: Round
    peers: dict[str, Round]
    flops: float = 0
    stored: float = 0


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
            )
    return Setting("emulated:sm_80", "emulated", 1, ((64, 64, 64),), (2, 32, 64), ((1, 16), 64, 128), 2)


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

    def round(self, module: intarsia.Module, *inputs: np.ndarray) -> Round:
        """Return a round of calls whose inputs and results stay on the device. Each call is waited for."""
        call = module.main.on(self.setting.kind)
        there = [intarsia.to_device(value, self.setting.kind) for value in inputs]
        return lambda: timed(lambda: call(*there), self.setting.calls)


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
        def once() -> None:
            call()
            self.torch.cuda.synchronize()

        return lambda: timed(once, self.calls)

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


def cases(setting: Setting, builder: Builder, torch: Torch, model: Path) -> list[Case]:
    """Compile all problems."""
    result = []
    for rows, features, depth in setting.gemms:
        module = builder.load(linear(features, depth, "bf16"), normal(features, depth).astype(ml_dtypes.bfloat16))
        ours = builder.round(module, normal(rows, depth).astype(ml_dtypes.bfloat16))
        peers = torch.linear(rows, features, depth, "bfloat16")
        result.append(Case(f"GEMM bf16 {rows}x{features}x{depth}", ours, peers, flops=2.0 * rows * features * depth))
    heads, tokens, size = setting.attention
    inputs = [normal(1, tokens, heads, size).astype(np.float16) for _ in range(3)]
    ours = builder.round(builder.load(attention(heads, size)), *inputs)
    # Half of the scores are masked; both products count.
    flops = 2.0 * heads * tokens * tokens * size
    name = f"attention f16, {heads} heads, {tokens} tokens of {size}, causal"
    result.append(Case(name, ours, torch.attention(heads, tokens, size), flops=flops))
    counts, features, depth = setting.quantized
    module = builder.load(linear(features, depth, "f32"), normal(features, depth), quantize="int4")
    for rows in counts:
        ours = builder.round(module, normal(rows, depth))
        peers = {f"{name}, f16": peer for name, peer in torch.linear(rows, features, depth, "float16").items()}
        result.append(Case(f"W4A16 {rows}x{features}x{depth}", ours, peers, stored=features * depth / 2))
    artifact = builder.folder / "decode.itx"
    intarsia.compile(model, output=artifact, target=setting.target, quantize="int4")
    generator = intarsia.Generator(artifact)
    bytes_read = artifact.with_suffix(".safetensors").stat().st_size
    decode = lambda: generator.measure([[1, 5, 9]], setting.tokens)[1] / setting.tokens  # noqa: E731
    result.append(Case(f"decode step of {model.name}, W4A16", decode, {}, stored=bytes_read))
    return result


def measure(case: Case, rounds: int) -> list[str]:
    """Return the rows of a case: ours, and the ratio to each peer."""
    times: dict[str, list[float]] = {"ours": [], **{name: [] for name in case.peers}}
    for number in range(rounds + 1):
        for name, run in (("ours", case.ours), *case.peers.items()):
            seconds = run()
            if number:  # the first round is to warm up
                times[name].append(seconds)
    ours = statistics.median(times["ours"])
    rate = (
        f"{case.flops / ours / 1e12:.4g} TFLOP/s" if case.flops else f"{case.stored / ours / 1e9:.4g} GB/s of weights"
    )
    if not case.peers:
        return [f"| {case.name} | {ours * 1e6:.1f} µs | {rate} | | |"]
    return [
        f"| {case.name} | {ours * 1e6:.1f} µs | {rate} | {name} {median * 1e6:.1f} µs | {median / ours:.2f} |"
        for name in case.peers
        for median in [statistics.median(times[name])]
    ]


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
        problems = cases(setting, Builder(setting, Path(folder)), torch, options.model)
        rows = [row for case in problems for row in measure(case, options.rounds)]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    device = next(info["description"] for info in intarsia.devices() if info["name"] == setting.kind)
    peers = f"PyTorch {torch.torch.__version__}" if torch.torch else "no peer installed"
    head = (
        f"{datetime.date.today()}, {device}, {peers}, {commit.strip()}; medians of {options.rounds} alternating rounds"
    )
    table = "\n".join([head, "", "| problem | ours | rate | peer | ratio |", "|---|---:|---:|---:|---:|", *rows])
    print(table)
    if options.update_docs:
        update_page("## GPU kernels\n\n" + table)


if __name__ == "__main__":
    main()
