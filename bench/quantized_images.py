#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times networks that classify images in 8 bits, beside OpenVINO, ONNX Runtime and ours in f32, in one process, by turns.

Models are those of bench/image_models.py. Our scales are found on images of noise by `intarsia quantize`, or at the call
with --quantize=int8. OpenVINO and ONNX Runtime have one file, which onnxruntime.quantization makes on the same images.
How near each side's logits are to those of PyTorch is printed first; noise says little of a trained model's loss.

Usage (in the environment .venv-bench, with PYTHONPATH at a build's python folder):

    bench/quantized_images.py --compiler=build/release/bin/intarsia-compile [--only=resnet-50,…] [--batch=1] [--pairs=7]
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from harness.clock import timed
from image_models import MODELS, ROOT, make_model

if TYPE_CHECKING:
    import torch

PEERS = ("onnxruntime", "openvino")


def quantized_file(logits: torch.nn.Module, images: np.ndarray, file: Path) -> Path:
    """Returns an ONNX file with the operands of products in 8 bits, made by ONNX Runtime on images."""
    import torch
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    if file.exists():
        return file
    plain, prepared = file.with_suffix(".f32.onnx"), file.with_suffix(".prepared.onnx")
    inputs = (torch.from_numpy(images[:1]),)
    torch.onnx.export(logits, inputs, str(plain), input_names=["images"], dynamo=False, opset_version=17)
    quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)

    class Images(CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter(images)

        def get_next(self) -> dict[str, np.ndarray] | None:
            image = next(self.rest, None)
            return None if image is None else {"images": image[None]}

    types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    quantize_static(str(prepared), str(file), Images(), quant_format=QuantFormat.QDQ, per_channel=True, **types)
    return file


def peer_sides(file: Path, pixels: np.ndarray, peers: Sequence[str], threads: int) -> dict[str, Callable]:
    """Returns a call of each peer."""
    result: dict[str, Callable[[], np.ndarray]] = {}
    if "onnxruntime" in peers:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        result["onnxruntime"] = lambda: session.run(None, {"images": pixels})[0]
    if "openvino" in peers:
        import openvino

        hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        converted = openvino.convert_model(str(file), input=[("images", list(pixels.shape))])
        request = openvino.Core().compile_model(converted, "CPU", hints).create_infer_request()
        request.set_input_tensor(0, openvino.Tensor(pixels, shared_memory=True))

        def infer() -> np.ndarray:
            request.infer()
            return request.get_output_tensor(0).data

        result["openvino"] = infer
    return result


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    """Returns the cosine between logits, less their means."""
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default=ROOT / "build/release/bin/intarsia-compile")
    parser.add_argument("--cache", type=Path, default=ROOT / "build/bench/models", help="where the models are made")
    parser.add_argument("--only", default="resnet-50,mobilenet-v2", help="names of models, with commas")
    parser.add_argument("--peers", default=",".join(PEERS), help="some of: " + ", ".join(PEERS))
    parser.add_argument("--quantize", choices=["int8", "int8-static"], default="int8-static", help="how ours is made")
    parser.add_argument("--images", type=int, default=8, help="for calibration")
    parser.add_argument("--batch", type=int, default=1, help="images of a call")
    parser.add_argument("--pairs", type=int, default=7, help="rounds")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each side in a round")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ["ITX_THREADS"] = str(arguments.threads)
    os.environ.setdefault("INTARSIA_COMPILE", str(Path(arguments.compiler).resolve()))
    import intarsia
    import torch

    torch.set_num_threads(arguments.threads)
    arguments.cache.mkdir(parents=True, exist_ok=True)
    for name in arguments.only.split(","):
        network, directory = MODELS[name], arguments.cache / name
        model = make_model(network, directory)
        shape = network.inputs["pixel_values"]
        pixels = np.random.default_rng(0).standard_normal((arguments.batch, *shape)).astype(np.float32)
        noise = np.random.default_rng(1).standard_normal((arguments.images, *shape)).astype(np.float32)

        class Logits(torch.nn.Module):
            def __init__(self, model: torch.nn.Module, call: Callable) -> None:
                super().__init__()
                self.model, self.call = model, call

            def forward(self, images: torch.Tensor) -> torch.Tensor:
                return self.call(self.model, images)

        logits = Logits(model, network.call).eval()
        with torch.no_grad():
            expected = logits(torch.from_numpy(pixels)).numpy()
        source, flags = directory, ["--quantize=int8"]
        if arguments.quantize == "int8-static":
            source, flags = directory.with_name(name + "-static"), []
            if not source.exists():
                intarsia.quantize_static(directory, source, noise)
        functions = {}
        for side, given in (("ours", [source, *flags]), ("ours f32", [directory])):
            artifact = directory.with_name(f"{name}-{side.replace(' ', '-')}.itx")
            subprocess.run([arguments.compiler, *given, "-o", artifact], check=True)
            functions[side] = getattr(intarsia.load(artifact), network.function)
        sides = {side: functools.partial(function, pixel_values=pixels) for side, function in functions.items()}
        file = quantized_file(logits, noise, directory.with_suffix(".int8.onnx"))
        sides |= peer_sides(file, pixels, arguments.peers.split(","), arguments.threads)
        print(f"{name}, batch {arguments.batch}", flush=True)
        for side, call in sides.items():
            print(f"    {side:12} cosine of logits with those of PyTorch {cosine(call(), expected):.4f}", flush=True)
        rounds = []
        for _ in range(arguments.pairs):
            rounds.append({side: timed(call, arguments.seconds) for side, call in sides.items()})
        for side in sides:
            median = statistics.median(times[side] for times in rounds) / arguments.batch
            ratio = statistics.median(times[side] / times["ours"] for times in rounds)
            print(f"    {side:12} {median:8.2f} ms an image, {ratio:.2f} times ours", flush=True)


if __name__ == "__main__":
    sys.exit(main())
