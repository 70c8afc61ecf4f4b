#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a recognizer of speech beside PyTorch, ONNX Runtime and OpenVINO, in one process, by turns.

Features of 80 numbers go through three convolutions along time, two of them with a stride of 2, then two bidirectional
LSTM layers and a linear head for each step. Weights are random (speed does not depend on their values). The model is
written as MLIR from the tensors of the PyTorch module; peers get it as ONNX. A round times all sides, one after another;
a ratio is of one round, and the median of the ratios is printed beside the medians of the times. Results are compared
with those of PyTorch first.

Usage (in an environment with torch, onnx, onnxruntime and openvino, with PYTHONPATH at a build's python folder):

    bench/speech_model.py --compiler=build/release/bin/intarsia-compile [--hidden=256] [--frames=1000] [--pairs=7]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from harness.clock import timed

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parent.parent
FEATURES, CHANNELS, TOKENS = 80, 256, 64
#: Window and stride of each convolution.
CONVOLUTIONS = ((5, 1), (3, 2), (3, 2))


def make_model(hidden: int, kind: str) -> torch.nn.Module:
    import torch

    class Recognizer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            channels = [FEATURES] + [CHANNELS] * len(CONVOLUTIONS)
            self.convolutions = torch.nn.ModuleList(
                torch.nn.Conv1d(channels[i], CHANNELS, window, stride, window // 2)
                for i, (window, stride) in enumerate(CONVOLUTIONS)
            )
            layers = {"num_layers": 2, "batch_first": True, "bidirectional": True}
            self.recurrent = getattr(torch.nn, kind.upper())(CHANNELS, hidden, **layers)
            self.head = torch.nn.Linear(2 * hidden, TOKENS)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.transpose(1, 2)
            for convolution in self.convolutions:
                x = torch.relu(convolution(x))
            return self.head(self.recurrent(x.transpose(1, 2))[0])

    torch.manual_seed(0)
    return Recognizer().eval()


def tensor(*sizes: int | str) -> str:
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


def write_mlir(model: torch.nn.Module, folder: Path, hidden: int, kind: str, batch: int, frames: int) -> Path:
    """Writes the module and its weights; returns the file."""
    from safetensors.numpy import save_file

    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
    lines: list[str] = []

    def weight(name: str) -> str:
        lines.append(f'%w{len(lines)} = nn.weight @weights["{name}"] : {tensor(*weights[name].shape)}')
        return f"%w{len(lines) - 1}"

    def of_both(name: str) -> str:
        parts = [weight(name), weight(name + "_reverse")]
        part, whole = tensor(*weights[name].shape), tensor(2 * weights[name].shape[0], *weights[name].shape[1:])
        lines.append(f"%w{len(lines)} = tensor.concat dim(0) {', '.join(parts)} : ({part}, {part}) -> {whole}")
        return f"%w{len(lines) - 1}"

    x, shape = "%x", (batch, frames, FEATURES)
    for i, (window, stride) in enumerate(CONVOLUTIONS):
        key = f"convolutions.{i}"
        weights[f"{key}.weight"] = np.ascontiguousarray(
            weights[f"{key}.weight"].transpose(0, 2, 1).reshape(CHANNELS, -1)
        )
        after = (batch, (shape[1] + 2 * (window // 2) - window) // stride + 1, CHANNELS)
        w, b = weight(f"{key}.weight"), weight(f"{key}.bias")
        pads = f"pads_low = array<i64: {window // 2}>, pads_high = array<i64: {window // 2}>"
        lines.append(
            f"%c{i} = nn.conv {x}, {w}, {b} {{window = array<i64: {window}>, strides = array<i64: {stride}>, {pads}}}"
            f" : ({tensor(*shape)}, {tensor(*weights[f'{key}.weight'].shape)}, {tensor(CHANNELS)}) -> {tensor(*after)}"
        )
        lines.append(f"%r{i} = nn.relu %c{i} : {tensor(*after)}")
        x, shape = f"%r{i}", after
    gates = {"lstm": 4, "gru": 3}[kind]
    attributes = {
        "lstm": "gate_order = array<i64: 0, 3, 1, 2>",
        "gru": "gate_order = array<i64: 1, 0, 2>, linear_before_reset",
    }
    rows = 2 * gates * hidden
    for layer in range(2):
        operands = {
            name: of_both(f"recurrent.{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }
        products = (batch, shape[1], rows)
        state = tensor(2, batch, hidden)
        lines.append(
            f"%g{layer} = nn.linear {x}, {operands['weight_ih']}, {operands['bias_ih']} : "
            f"({tensor(*shape)}, {tensor(rows, shape[2])}, {tensor(rows)}) -> {tensor(*products)}"
        )
        shape = (batch, shape[1], 2 * hidden)
        states = ", ".join([state] * (2 if kind == "lstm" else 1))
        lines.append(
            f"%y{layer}:{3 if kind == 'lstm' else 2} = nn.recurrent <{kind}>, <bidirectional>, %g{layer}, "
            f"{operands['weight_hh']} bias {operands['bias_hh']} {{{attributes[kind]}}} : ({tensor(*products)}, "
            f"{tensor(rows, hidden)}, {tensor(rows)}) -> ({tensor(*shape)}, {states})"
        )
        x = f"%y{layer}#0"
    w, b = weight("head.weight"), weight("head.bias")
    y = tensor(batch, shape[1], TOKENS)
    lines.append(
        f"%y = nn.linear {x}, {w}, {b} : ({tensor(*shape)}, {tensor(TOKENS, shape[2])}, {tensor(TOKENS)}) -> {y}"
    )
    body = "\n  ".join(lines)
    save_file(weights, folder / "speech.safetensors")
    file = folder / "speech.mlir"
    file.write_text(
        f'nn.archive @weights {{file = "speech.safetensors"}}\n'
        f'func.func @main(%x: {tensor(batch, frames, FEATURES)} {{nn.name = "x"}}) -> ({y} {{nn.name = "y"}}) {{\n'
        f"  {body}\n  return %y : {y}\n}}\n"
    )
    return file


def sides_of(
    model: torch.nn.Module, ours: Callable[..., np.ndarray], folder: Path, x: np.ndarray, peers: list[str], threads: int
) -> dict[str, Callable[[], object]]:
    """Returns a call of each side. Raises an AssertionError if ours computes something else than PyTorch."""
    import torch

    frames = torch.from_numpy(x)
    with torch.no_grad():
        expected = model(frames).numpy()
    error = np.abs(ours(x) - expected).max() / np.abs(expected).max()
    print(f"    largest difference, of the largest result: {error:.1e}", flush=True)
    assert error < 1e-4
    result: dict[str, Callable[[], object]] = {"ours": lambda: ours(x)}
    if "torch" in peers:
        result["torch"] = lambda: model(frames)
    file = folder / "speech.onnx"
    torch.onnx.export(model, (frames,), file, input_names=["x"], output_names=["y"], dynamo=False)
    if "onnxruntime" in peers:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        result["onnxruntime"] = lambda: session.run(None, {"x": x})
    if "openvino" in peers:
        import openvino

        hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        request = openvino.Core().compile_model(openvino.convert_model(file), "CPU", hints).create_infer_request()
        request.set_input_tensor(0, openvino.Tensor(x, shared_memory=True))
        result["openvino"] = request.infer
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default=ROOT / "build/release/bin/intarsia-compile")
    parser.add_argument("--cache", type=Path, default=ROOT / "build/bench/speech", help="where the model is made")
    parser.add_argument("--peers", default="torch,onnxruntime,openvino", help="some of: torch, onnxruntime, openvino")
    parser.add_argument("--kind", default="lstm", choices=["lstm", "gru"])
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--frames", type=int, default=1000, help="of the input; a fourth of them are steps")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=7, help="rounds")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each side in a round")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ["ITX_THREADS"] = str(arguments.threads)
    import intarsia
    import torch

    torch.set_num_threads(arguments.threads)
    arguments.cache.mkdir(parents=True, exist_ok=True)
    model = make_model(arguments.hidden, arguments.kind)
    file = write_mlir(model, arguments.cache, arguments.hidden, arguments.kind, arguments.batch, arguments.frames)
    artifact = file.with_name("packed.itx")
    subprocess.run([arguments.compiler, file, "-o", artifact], check=True)
    x = np.random.default_rng(0).standard_normal((arguments.batch, arguments.frames, FEATURES)).astype(np.float32)
    with torch.inference_mode():
        sides = sides_of(
            model, intarsia.load(artifact).main, arguments.cache, x, arguments.peers.split(","), arguments.threads
        )
        rounds = [
            {side: timed(call, arguments.seconds) for side, call in sides.items()} for _ in range(arguments.pairs)
        ]
    for side in sides:
        median = statistics.median(times[side] for times in rounds)
        ratio = statistics.median(times[side] / times["ours"] for times in rounds)
        print(f"    {side:12} {median:8.2f} ms a call, {ratio:.2f} times ours", flush=True)


if __name__ == "__main__":
    sys.exit(main())
