#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes images/NAME: small models of images with random weights, each with golden.npz, what PyTorch computes for it.

make_images.py [NAME …]    (all without names)

Needs: pip install torch transformers numpy. The tests need none of these: what this script writes is committed. Every
model differs from the others in a setting that an importer can get wrong.

golden.npz: pixel_values float32 [batch, channels, height, width], and the outputs by their names (last_hidden_state,
pooler_output, logits, predicted_depth float32).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

HERE = Path(__file__).resolve().parent
OUTPUTS = ("last_hidden_state", "pooler_output", "logits", "predicted_depth")


def randomize(model: torch.nn.Module, pixels: torch.Tensor, seed: int) -> None:
    """Gives weights that differ in all that an importer can confuse, and statistics that fit the pixels roughly.

    Batch norms divide by what the layers before them make of the pixels, as those of trained models do: otherwise
    values would grow or vanish with the depth. Their statistics are then changed, so that each of the four vectors
    counts.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                is_scale = name.endswith("weight")
                parameter.copy_((1.0 if is_scale else 0.0) + 0.2 * normal(*parameter.shape))
            else:
                parameter.copy_(normal(*parameter.shape) / parameter[0].numel() ** 0.5)
    fit_norms(model, pixels, generator)


def fit_norms(model: torch.nn.Module, pixels: torch.Tensor, generator: torch.Generator) -> None:
    """Gives batch norms statistics that fit the pixels roughly."""

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    with torch.no_grad():
        norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
        for norm in norms:
            norm.momentum = 1.0  # takes the statistics of these pixels
        model.train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.eval()
        model(pixels)
        model.eval()
        for norm in norms:
            norm.running_mean.add_(0.2 * normal(*norm.running_mean.shape) * norm.running_var.sqrt())
            norm.running_var.mul_(torch.exp(0.3 * normal(*norm.running_var.shape)))
            # Channels that hardly vary would be multiplied by large factors, and their rounding with them.
            norm.running_var.clamp_(min=norm.running_var.mean().item())


def write(name: str, model: transformers.PreTrainedModel, seed: int, size: tuple[int, int], **save: Any) -> None:
    """Writes one model and what it computes for two images of `size` (height, width)."""
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    noise = np.random.default_rng(seed).normal(0, 1, (2, model.config.num_channels, *size))
    pixels = torch.from_numpy(noise.astype(np.float32))
    randomize(model, torch.randn((16, *pixels.shape[1:]), generator=torch.Generator().manual_seed(seed)), seed)
    folder = HERE / "images" / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **save)
    with torch.no_grad():
        result = model(pixels)
    golden = {key: result[key].numpy() for key in OUTPUTS if key in result and result[key] is not None}
    np.savez_compressed(folder / "golden.npz", pixel_values=pixels.numpy(), **golden)
    kilobytes = sum(path.stat().st_size for path in folder.iterdir()) / 1024
    largest = ", ".join(f"{key} {value.shape} up to {np.abs(value).max():.1f}" for key, value in golden.items())
    print(f"{name}: {kilobytes:.0f} KB, {largest}")


def main() -> None:
    t = transformers
    labels = {"id2label": {0: "cat", 1: "dog", 2: "owl", 3: "fox", 4: "bee"}}

    # The activation inside of ResNet's layers is relu, whatever hidden_act says.
    small = {"embedding_size": 8, "hidden_sizes": [16, 24], "depths": [2, 1]}
    basic = t.ResNetConfig(**small, layer_type="basic", hidden_act="silu", **labels)
    write("resnet-basic", t.ResNetForImageClassification(basic), 1, (32, 40))
    small["hidden_sizes"] = [32, 48]
    write("resnet-bottleneck", t.ResNetForImageClassification(t.ResNetConfig(**small, **labels)), 2, (32, 32))
    other = t.ResNetConfig(**small, downsample_in_first_stage=True, downsample_in_bottleneck=True, num_channels=1)
    write("resnet-model", t.ResNetModel(other), 3, (39, 32))

    def narrow(config: type, **settings: Any) -> transformers.PretrainedConfig:
        """The fewest channels that the class has: their numbers are fixed in its code."""
        return config(**{"depth_multiplier": 0.05, "min_depth": 4, "image_size": 32, **labels, **settings})

    first, second = t.MobileNetV1Config, t.MobileNetV2Config
    write("mobilenet-v1", t.MobileNetV1ForImageClassification(narrow(first, depth_multiplier=0.1)), 4, (32, 32))
    padded = narrow(first, image_size=[40, 33], tf_padding=False, hidden_act="relu")
    write("mobilenet-v1-symmetric", t.MobileNetV1ForImageClassification(padded), 5, (40, 33))
    coarse = {"depth_divisible_by": 4, "finegrained_output": False}
    write("mobilenet-v2", t.MobileNetV2ForImageClassification(narrow(second, **coarse)), 6, (32, 32))
    dilated = {"output_stride": 8, "first_layer_is_expansion": False, "expand_ratio": 2.5, "image_size": [37, 32]}
    write("mobilenet-v2-dilated", t.MobileNetV2Model(narrow(second, **coarse, **dilated)), 7, (37, 32))
    fine = {"tf_padding": False, "num_channels": 1, "image_size": 31, "depth_divisible_by": 2, "expand_ratio": 2.0}
    write("mobilenet-v2-fine", t.MobileNetV2ForImageClassification(narrow(second, **fine)), 8, (31, 31))

    small = {"num_stages": 2, "hidden_sizes": [12, 20], "depths": [1, 2], "image_size": 32}
    write("convnext", t.ConvNextForImageClassification(t.ConvNextConfig(**small, **labels)), 9, (32, 32))
    other = {"layer_scale_init_value": 0.0, "patch_size": 3, "hidden_act": "relu", "image_size": [30, 41]}
    write("convnext-model", t.ConvNextModel(t.ConvNextConfig(**(small | other), layer_norm_eps=0.1)), 10, (30, 41))

    small = {
        "width_coefficient": 0.3,
        "depth_coefficient": 1.2,
        "depth_divisor": 4,
        "hidden_dim": 384,
        "image_size": 33,
        "kernel_sizes": [3, 5, 3],
        "in_channels": [32, 16, 24],
        "out_channels": [16, 24, 40],
        "strides": [1, 2, 2],
        "num_block_repeats": [1, 2, 1],
        "expand_ratios": [1, 3, 2],
        "depthwise_padding": [2],
    }
    write("efficientnet", t.EfficientNetForImageClassification(t.EfficientNetConfig(**small, **labels)), 11, (33, 33))
    small |= {"pooling_type": "max", "squeeze_expansion_ratio": 0.5, "hidden_act": "relu", "image_size": 32}
    small |= {"depthwise_padding": [], "strides": [2, 1, 2], "depth_coefficient": 1.0}
    write("efficientnet-model", t.EfficientNetModel(t.EfficientNetConfig(**small)), 12, (32, 32))

    small = {"embedding_size": 8, "hidden_sizes": [16, 24], "depths": [1, 2], "groups_width": 8}
    write("regnet-y", t.RegNetForImageClassification(t.RegNetConfig(**small, **labels)), 13, (32, 24))
    small |= {"layer_type": "x", "groups_width": 5, "hidden_sizes": [15, 20], "downsample_in_first_stage": False}
    write("regnet-x", t.RegNetForImageClassification(t.RegNetConfig(**small, **labels)), 14, (24, 24))

    small = {"num_encoder_blocks": 2, "hidden_sizes": [12, 16], "depths": [1, 2], "patch_sizes": [7, 3]}
    small |= {"strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 3], "sr_ratios": [3, 1]}
    small |= {"decoder_hidden_size": 20, **labels}
    write("segformer", t.SegformerForSemanticSegmentation(t.SegformerConfig(**small)), 15, (45, 64))
    small |= {"sr_ratios": [2, 2], "hidden_act": "relu", "num_channels": 1}
    write("segformer-classifier", t.SegformerForImageClassification(t.SegformerConfig(**small)), 16, (33, 40))
    write("segformer-model", t.SegformerModel(t.SegformerConfig(**small)), 17, (32, 32))

    small = {"hidden_sizes": [8, 12, 8], "neck_hidden_sizes": [4, 4, 8, 8, 8, 12, 16], "num_attention_heads": 2}
    small |= {"image_size": 32, "expand_ratio": 1.5, **labels}
    write("mobilevit", t.MobileViTForImageClassification(t.MobileViTConfig(**small)), 18, (32, 32))
    small |= {"image_size": [72, 64], "output_stride": 16, "qkv_bias": False, "mlp_ratio": 1.5, "hidden_act": "relu"}
    write("mobilevit-dilated", t.MobileViTModel(t.MobileViTConfig(**small)), 19, (72, 64))

    small = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}
    small |= {"image_size": 32, "patch_size": 8, "backbone_out_indices": [0, 1, 2], "reassemble_factors": [2, 1, 0.5]}
    small |= {"neck_hidden_sizes": [8, 12, 16], "fusion_hidden_size": 12}
    write("dpt-depth", t.DPTForDepthEstimation(t.DPTConfig(**small)), 20, (32, 32))
    small |= {"readout_type": "add", "use_batch_norm_in_fusion_residual": True, "head_in_index": 1, "qkv_bias": False}
    write("dpt-segments", t.DPTForSemanticSegmentation(t.DPTConfig(**small, **labels)), 21, (32, 32))

    small = {"embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4], "window_size": 4, "image_size": 32}
    small |= {"use_absolute_embeddings": True}
    write("swin", t.SwinForImageClassification(t.SwinConfig(**small, **labels)), 22, (32, 32))
    # Neither patches nor windows nor pairs of patches divide the image.
    small |= {"image_size": [30, 44], "window_size": 3, "depths": [1, 2], "mlp_ratio": 2.5, "hidden_act": "relu"}
    small |= {"use_absolute_embeddings": False, "qkv_bias": False, "layer_norm_eps": 0.1, "num_channels": 1}
    write("swin-padded", t.SwinModel(t.SwinConfig(**small)), 23, (30, 44))


if __name__ == "__main__":
    main()
