#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times networks of images beside PyTorch, its compiler, ONNX Runtime and OpenVINO, in one process, by turns.

Models have the sizes that were published and random weights (speed does not depend on their values), as directories of
Hugging Face; existing ones are kept. A round times all sides, one after another; a ratio is of one round, and the
median of the ratios is printed beside the medians of the times. Outputs are compared with those of PyTorch first.

Usage (in the environment .venv-bench, with PYTHONPATH at a build's python folder):

    bench/image_models.py --compiler=build/release/bin/intarsia-compile [--only=resnet-50,…] [--batch=1,8] [--pairs=7]
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from harness.clock import timed

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parent.parent
PEERS = ("torch", "inductor", "onnxruntime", "openvino")
LABELS = {"num_labels": 1000}


@dataclass
class Network:
    """A network of a published size."""

    #: Makes the PyTorch module with random weights; save_pretrained() writes its directory.
    make: Callable[[], torch.nn.Module]
    #: Shapes of its inputs without the batch, by the names that the artifact has.
    inputs: dict[str, tuple[int, ...]]
    #: Computes the one output that is compared.
    call: Callable[..., torch.Tensor] = lambda model, pixel_values: model(pixel_values=pixel_values).logits
    function: str = "main"


def classifier(kind: str, size: int = 224, **settings: Any) -> Network:
    """Returns a model of transformers that classifies images of size x size."""

    def make() -> torch.nn.Module:
        import transformers

        config = getattr(transformers, kind + "Config")(**settings, **LABELS)
        return getattr(transformers, kind + "ForImageClassification")(config)

    return Network(make, {"pixel_values": (3, size, size)})


def make_mobilenet_v3() -> torch.nn.Module:
    """Returns timm's model in the class that transformers opens its directories with."""
    import transformers

    settings = {"architecture": "mobilenetv3_large_100", "num_classes": 1000}
    settings["label_names"] = [f"LABEL_{i}" for i in range(1000)]
    return transformers.TimmWrapperForImageClassification(transformers.TimmWrapperConfig.from_dict(settings))


def make_autoencoder() -> torch.nn.Module:
    """Returns the autoencoder of Stable Diffusion 1 and 2."""
    import diffusers

    channels = [128, 256, 512, 512]
    kinds = {"down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4}
    return diffusers.AutoencoderKL(block_out_channels=channels, layers_per_block=2, **kinds)


def make_unet() -> torch.nn.Module:
    """Returns the U-Net of Stable Diffusion 1 with half of its channels, for latents of 32 x 32: 1 GB less of weights."""
    import diffusers

    channels = [160, 320, 640, 640]
    return diffusers.UNet2DConditionModel(32, block_out_channels=channels, cross_attention_dim=768)


#: Networks by name.
MODELS = {
    "resnet-50": classifier("ResNet"),
    "mobilenet-v2": classifier("MobileNetV2"),
    "mobilenet-v3-large": Network(make_mobilenet_v3, {"pixel_values": (3, 224, 224)}),
    "efficientnet-b0": classifier(
        "EfficientNet", width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280, image_size=224
    ),
    "convnext-tiny": classifier("ConvNext"),
    "swin-tiny": classifier("Swin"),
    "vae-decoder": Network(make_autoencoder, {"z": (4, 16, 16)}, lambda model, z: model.decode(z).sample, "decode"),
    "unet": Network(
        make_unet,
        {"sample": (4, 32, 32), "timestep": (), "encoder_hidden_states": (77, 768)},
        lambda model, sample, timestep, encoder_hidden_states: model(sample, timestep, encoder_hidden_states).sample,
    ),
}


def make_model(network: Network, directory: Path) -> torch.nn.Module:
    """Returns the model of a directory, which is made if it is not there, complete or not at all."""
    import torch

    torch.manual_seed(0)
    model = network.make()
    weights = directory / "weights.pt"
    if weights.exists():
        model.load_state_dict(torch.load(weights, weights_only=True))
        return model.eval()
    # Batch norms get the statistics of what reaches them: with those of new ones values vanish on the way.
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    momentums = [norm.momentum for norm in norms]
    with torch.no_grad():
        for norm in norms:
            norm.momentum = 1.0
            norm.weight.fill_(1.0)
        if norms:
            network.call(model.train(), *(torch.randn(8, *shape) for shape in network.inputs.values()))
    for norm, momentum in zip(norms, momentums, strict=True):
        norm.momentum = momentum
    partial = directory.with_name(directory.name + ".partial")
    model.eval().save_pretrained(partial)
    torch.save(model.state_dict(), partial / "weights.pt")
    partial.rename(directory)
    return model


def sides_of(
    network: Network,
    model: torch.nn.Module,
    ours: Callable[..., np.ndarray],
    batch: int,
    names: Sequence[str],
    threads: int,
) -> dict[str, Callable[[], object]]:
    """Returns a call of each side. Raises an AssertionError if ours computes another output than PyTorch."""
    import torch

    random = np.random.default_rng(0)
    inputs = {
        name: random.standard_normal((batch, *shape)).astype(np.float32) for name, shape in network.inputs.items()
    }
    tensors = tuple(torch.from_numpy(value) for value in inputs.values())
    if hasattr(model, "efficientnet"):
        # Its mean has a window as large as the number of channels, rounded up to the image, which OpenVINO refuses.
        model.efficientnet.pooler = torch.nn.AdaptiveAvgPool2d(1)

    class Output(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: torch.Tensor) -> torch.Tensor:
            return network.call(self.model, *values)

    output = Output().eval()
    with torch.no_grad():
        expected = output(*tensors).numpy()
    error = np.abs(ours(**inputs) - expected).max() / np.abs(expected).max()
    print(f"    largest difference of the output, of the largest: {error:.1e}", flush=True)
    # Sums of thousands of products in another order, through some fifty layers.
    assert error < 1e-4
    result: dict[str, Callable[[], object]] = {"ours": lambda: ours(**inputs)}
    if "torch" in names:
        result["torch"] = lambda: output(*tensors)
    if "inductor" in names:
        # Images with the channels last are the faster ones.
        last = [t.to(memory_format=torch.channels_last) if t.ndim == 4 else t for t in tensors]
        compiled = torch.compile(copy.deepcopy(output).to(memory_format=torch.channels_last), dynamic=False)
        result["inductor"] = lambda: compiled(*last)
    if "onnxruntime" in names:
        result["onnxruntime"] = onnxruntime_call(copy.deepcopy(output), tensors, list(inputs.values()), threads)
    if "openvino" in names:
        import openvino

        with torch.no_grad():
            converted = openvino.convert_model(torch.export.export(output, tensors))
        hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        request = openvino.Core().compile_model(converted, "CPU", hints).create_infer_request()
        for number, value in enumerate(inputs.values()):
            request.set_input_tensor(number, openvino.Tensor(value, shared_memory=True))
        result["openvino"] = request.infer
    return result


def onnxruntime_call(
    output: torch.nn.Module, tensors: tuple[torch.Tensor, ...], values: list[np.ndarray], threads: int
) -> Callable[[], object]:
    """Returns a call of ONNX Runtime. Tracing changes the modules of some models."""
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / "model.onnx"
        torch.onnx.export(output, tensors, path, dynamo=False)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    feed = dict(zip(names, values, strict=True))
    return lambda: session.run(None, feed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default=ROOT / "build/release/bin/intarsia-compile")
    parser.add_argument("--cache", type=Path, default=ROOT / "build/bench/models", help="where the models are made")
    parser.add_argument("--only", default=",".join(MODELS), help="names of models, with commas")
    parser.add_argument("--peers", default=",".join(PEERS), help="some of: " + ", ".join(PEERS))
    parser.add_argument("--batch", default="1", help="images of a call; several numbers with commas")
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
    for name in arguments.only.split(","):
        network, directory = MODELS[name], arguments.cache / name
        model = make_model(network, directory)
        artifact = directory.with_suffix(".itx")
        subprocess.run([arguments.compiler, directory, "-o", artifact], check=True)
        ours = getattr(intarsia.load(artifact), network.function)
        for batch in map(int, arguments.batch.split(",")):
            print(f"{name}, batch {batch}", flush=True)
            sides = sides_of(network, model, ours, batch, arguments.peers.split(","), arguments.threads)
            rounds = []
            with torch.inference_mode():
                for _ in range(arguments.pairs):
                    rounds.append({side: timed(call, arguments.seconds) for side, call in sides.items()})
            for side in sides:
                median = statistics.median(times[side] for times in rounds) / batch
                ratio = statistics.median(times[side] / times["ours"] for times in rounds)
                print(f"    {side:12} {median:8.2f} ms an image, {ratio:.2f} times ours", flush=True)


if __name__ == "__main__":
    sys.exit(main())
