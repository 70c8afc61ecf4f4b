#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times networks that classify images beside PyTorch and OpenVINO, in one process, by turns.

Models have the sizes that were published and random weights (speed does not depend on their values), as Hugging Face
directories; existing ones are kept. A round times all sides, one after another; a ratio is of one round, and the median
of the ratios is printed beside the medians of the times. Logits are compared with those of transformers first.

Usage (in an environment with torch, transformers and openvino, with PYTHONPATH at a build's python folder):

    bench/image_models.py --compiler=build/release/bin/intarsia-compile [--only=resnet-50,…] [--batch=1] [--pairs=7]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    import transformers

ROOT = Path(__file__).resolve().parent.parent
LABELS = {"num_labels": 1000}
#: Class, settings other than the defaults of its configuration, and the height and width of images.
MODELS = {
    "resnet-50": ("ResNet", {}, 224),
    "mobilenet-v2": ("MobileNetV2", {}, 224),
    "efficientnet-b0": (
        "EfficientNet",
        {"width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280, "image_size": 224},
        224,
    ),
    "convnext-tiny": ("ConvNext", {}, 224),
}


def make_directory(name: str, target: Path) -> None:
    """Makes the Hugging Face directory of a model, complete or not at all."""
    if (target / "config.json").exists():
        return
    import torch
    import transformers

    kind, settings, size = MODELS[name]
    config = getattr(transformers, kind + "Config")(**settings, **LABELS)
    torch.manual_seed(0)
    model = getattr(transformers, kind + "ForImageClassification")(config)
    # Batch norms get the statistics of what reaches them: with those of new ones values vanish on the way.
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    momentums = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        for norm in norms:
            norm.weight.fill_(1.0)
        model.train()(torch.randn(8, 3, size, size))
    for norm, momentum in zip(norms, momentums, strict=True):
        norm.momentum = momentum
    partial = target.with_name(target.name + ".partial")
    model.eval().save_pretrained(partial)
    partial.rename(target)


def load_torch(directory: Path) -> transformers.PreTrainedModel:
    """Returns the model for PyTorch, in f32."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForImageClassification.from_pretrained(directory).eval()
    if hasattr(model, "efficientnet"):
        # Its mean has a window as large as the number of channels, rounded up to the image, which OpenVINO refuses.
        model.efficientnet.pooler = torch.nn.AdaptiveAvgPool2d(1)
    return model


def timed(call: Callable[[], object], seconds: float) -> float:
    """Returns the milliseconds of a call, the mean over `seconds`."""
    call()
    count, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        call()
        count += 1
    return elapsed / count * 1e3


def sides_of(
    directory: Path, ours: Callable[..., np.ndarray], pixels: np.ndarray, peers: Sequence[str], threads: int
) -> dict[str, Callable[[], object]]:
    """Returns a call of each side. Raises an AssertionError if ours computes other logits than PyTorch."""
    import torch

    model, images = load_torch(directory), torch.from_numpy(pixels)

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.model(pixel_values=images).logits

    logits = Logits().eval()
    with torch.no_grad():
        expected = logits(images).numpy()
    error = np.abs(ours(pixel_values=pixels) - expected).max() / np.abs(expected).max()
    print(f"    largest difference of logits, of the largest: {error:.1e}", flush=True)
    # Sums of thousands of products in another order, through some fifty layers.
    assert error < 1e-4
    result: dict[str, Callable[[], object]] = {"ours": lambda: ours(pixel_values=pixels)}
    if "torch" in peers:
        result["torch"] = lambda: logits(images)
    if "inductor" in peers:
        compiled = torch.compile(logits, dynamic=False)
        result["inductor"] = lambda: compiled(images)
    if "openvino" in peers:
        import openvino

        with torch.no_grad():
            converted = openvino.convert_model(torch.export.export(logits, (images,)))
        hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        request = openvino.Core().compile_model(converted, "CPU", hints).create_infer_request()
        request.set_input_tensor(0, openvino.Tensor(pixels, shared_memory=True))
        result["openvino"] = request.infer
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default=ROOT / "build/release/bin/intarsia-compile")
    parser.add_argument("--cache", type=Path, default=ROOT / "build/bench/models", help="where the models are made")
    parser.add_argument("--only", default=",".join(MODELS), help="names of models, with commas")
    parser.add_argument("--peers", default="torch,openvino", help="some of: torch, inductor, openvino")
    parser.add_argument("--batch", type=int, default=1, help="images of a call")
    parser.add_argument("--pairs", type=int, default=7, help="rounds")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each side in a round")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ.setdefault("INTARSIA_THREADS", str(arguments.threads))
    import intarsia
    import torch

    torch.set_num_threads(arguments.threads)
    arguments.cache.mkdir(parents=True, exist_ok=True)
    for name in arguments.only.split(","):
        directory, size = arguments.cache / name, MODELS[name][2]
        make_directory(name, directory)
        artifact = directory.with_suffix(".itx")
        subprocess.run([arguments.compiler, directory, "-o", artifact], check=True)
        pixels = np.random.default_rng(0).standard_normal((arguments.batch, 3, size, size)).astype(np.float32)
        print(name, flush=True)
        sides = sides_of(directory, intarsia.load(artifact).main, pixels, arguments.peers.split(","), arguments.threads)
        rounds = []
        with torch.inference_mode():
            for _ in range(arguments.pairs):
                rounds.append({side: timed(call, arguments.seconds) for side, call in sides.items()})
        for side in sides:
            median = statistics.median(times[side] for times in rounds) / arguments.batch
            ratio = statistics.median(times[side] / times["ours"] for times in rounds)
            print(f"    {side:10} {median:8.2f} ms an image, {ratio:.2f} times ours", flush=True)


if __name__ == "__main__":
    sys.exit(main())
