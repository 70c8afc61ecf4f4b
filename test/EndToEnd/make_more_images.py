#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes models of timm to images/NAME, and networks of diffusers to diffusion/NAME, each with golden.npz.

Needs: pip install torch transformers timm diffusers numpy safetensors. The tests need no more than NumPy and
safetensors: what this script writes is committed. PyTorch computes the answers.

golden.npz of images: as make_images.py says. Of diffusion: FUNCTION.INPUT and FUNCTION.OUTPUT, float32.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import diffusers
import numpy as np
import torch
import transformers
from make_images import HERE, fit_norms
from safetensors.numpy import save_file
from seeded_weights import matrices


def write_timm(name: str, architecture: str, seed: int, size: tuple[int, int], prefix: str = "") -> None:
    """Writes a model of timm without its matrices, which a seed gives. Transformers saves weights with a prefix."""
    config = transformers.TimmWrapperConfig.from_dict(
        {"architecture": architecture, "num_classes": 5, "label_names": ["cat", "dog", "owl", "fox", "bee"]}
    )
    model = transformers.TimmWrapperForImageClassification(config)
    generator = torch.Generator().manual_seed(seed)
    weights = {prefix + key: value for key, value in model.timm_model.named_parameters()}
    shapes = {key: list(value.shape) for key, value in weights.items() if value.ndim > 1}
    with torch.no_grad():
        for key, value in matrices(shapes).items():
            weights[key].copy_(torch.from_numpy(value))
        for key, value in weights.items():
            if value.ndim == 1:
                value.copy_(key.endswith("weight") + 0.2 * torch.randn(value.shape, generator=generator))
    fit_norms(model, torch.randn((16, 3, *size), generator=generator), generator)
    folder = HERE / "images" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    config.to_json_file(folder / "config.json", use_diff=False)
    settings = json.loads((folder / "config.json").read_text()) | {"architectures": [type(model).__name__]}
    kept = ("architecture", "architectures", "label_names", "model_type", "num_classes")
    (folder / "config.json").write_text(json.dumps({key: settings[key] for key in kept}, indent=2) + "\n")
    (folder / "shapes.json").write_text(json.dumps(shapes) + "\n")
    vectors = {prefix + key: value.numpy() for key, value in model.timm_model.state_dict().items() if value.ndim == 1}
    save_file(vectors, folder / "vectors.safetensors")
    pixels = torch.randn((2, 3, *size), generator=generator)
    with torch.no_grad():
        logits = model(pixels).logits.numpy()
    np.savez_compressed(folder / "golden.npz", pixel_values=pixels.numpy(), logits=logits)
    print(f"{name}: logits up to {np.abs(logits).max():.1f}")


def write_diffusion(
    name: str, model: torch.nn.Module, seed: int, answers: Callable[[Callable[..., torch.Tensor]], dict]
) -> None:
    """Writes a network of diffusers, and what it computes for noise."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.copy_(key.endswith("weight") + 0.2 * noise(*parameter.shape))
            else:
                parameter.copy_(noise(*parameter.shape) / parameter[0].numel() ** 0.5)
    folder = HERE / "diffusion" / name
    shutil.rmtree(folder, ignore_errors=True)
    model.eval().save_pretrained(folder)
    with torch.no_grad():
        golden = {key: value.numpy() for key, value in answers(noise).items()}
    np.savez_compressed(folder / "golden.npz", **golden)
    kilobytes = sum(path.stat().st_size for path in folder.iterdir()) / 1024
    print(f"{name}: {kilobytes:.0f} KB, {', '.join(f'{k} {np.abs(v).max():.1f}' for k, v in golden.items())}")


def write_autoencoder(name: str, seed: int, **settings: object) -> None:
    """Writes an AutoencoderKL that decodes latents of 5 x 4."""
    model = diffusers.AutoencoderKL(**settings)

    def answers(noise: Callable[..., torch.Tensor]) -> dict:
        latents, images = noise(2, model.config.latent_channels, 5, 4), noise(2, 3, 12, 10)
        encoded = model.encode(images).latent_dist
        return {
            "decode.z": latents,
            "decode.sample": model.decode(latents).sample,
            "encode.x": images,
            "encode.mean": encoded.mean,
            "encode.logvar": encoded.logvar,
        }

    write_diffusion(name, model, seed, answers)


def write_unet(name: str, seed: int, **settings: object) -> None:
    """Writes a UNet2DConditionModel."""
    model = diffusers.UNet2DConditionModel(**settings)
    size = model.config.sample_size

    def answers(noise: Callable[..., torch.Tensor]) -> dict:
        sample, text = noise(2, 4, size, size), noise(2, 5, model.config.cross_attention_dim)
        # Frequencies of sines are rounded, and steps multiply that: later steps differ by more than a kernel's error.
        steps = torch.tensor([3.0, 61.0])
        result = model(sample, steps, encoder_hidden_states=text).sample
        return {
            "main.sample": sample,
            "main.timestep": steps,
            "main.encoder_hidden_states": text,
            "main.result": result,
        }

    write_diffusion(name, model, seed, answers)


def main() -> None:
    write_timm("mobilenet-v3-small", "mobilenetv3_small_050", 1, (40, 33))
    write_timm("mobilenet-v3-large", "mobilenetv3_large_075", 2, (32, 32), "timm_model.")

    small = {"block_out_channels": [8, 12], "norm_num_groups": 4, "layers_per_block": 1, "latent_channels": 3}
    kinds = {"down_block_types": ["DownEncoderBlock2D"] * 2, "up_block_types": ["UpDecoderBlock2D"] * 2}
    write_autoencoder("autoencoder", 3, **small, **kinds)
    small |= {"layers_per_block": 2, "norm_num_groups": 2, "use_quant_conv": False, "use_post_quant_conv": False}
    small |= {"mid_block_add_attention": False, "act_fn": "relu"}
    write_autoencoder("autoencoder-plain", 4, **small, **kinds)

    small = {"sample_size": 8, "block_out_channels": [8, 16], "norm_num_groups": 4, "layers_per_block": 1}
    small |= {"cross_attention_dim": 12, "attention_head_dim": 2}
    small |= {"down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"]}
    small |= {"up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"]}
    write_unet("unet", 5, **small)
    small |= {"attention_head_dim": [2, 4], "use_linear_projection": True, "transformer_layers_per_block": 2}
    small |= {"flip_sin_to_cos": False, "freq_shift": 1, "downsample_padding": 0, "act_fn": "gelu", "norm_eps": 0.1}
    write_unet("unet-linears", 6, **small)


if __name__ == "__main__":
    main()
