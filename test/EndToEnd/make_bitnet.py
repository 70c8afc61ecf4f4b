# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes decoders/bitnet*: BitNet b1.58 with random weights, stored in the ways that transformers reads, and its logits.

golden.npz has the logits of inputs of linears as they are ("logits"), and those with inputs quantized for each token,
as the model has them ("quantized_logits").

usage: TORCH_COMPILE_DISABLE=1 python make_bitnet.py      (torch, transformers, accelerate, safetensors)
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import transformers
from transformers.integrations import bitnet

HERE = Path(__file__).resolve().parent
LENGTHS, STEPS = (19, 5, 12), 4
# Name, linear_class, quantization_mode, type of the weights.
VARIANTS = (
    ("bitnet", "autobitlinear", "offline", torch.float32),
    ("bitnet-divided", "bitlinear", "offline", torch.float32),
    ("bitnet-online-bf16", "autobitlinear", "online", torch.bfloat16),
)


def random_model(seed: int) -> transformers.BitNetForCausalLM:
    """Gives a model of two layers whose norms are not 1."""
    config = transformers.BitNetConfig(
        vocab_size=101, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, rope_parameters={"rope_type": "default", "rope_theta": 5e5},
        bos_token_id=1, eos_token_id=2, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.BitNetForCausalLM(config).eval()
    for name, parameter in model.named_parameters():
        random = torch.randn(parameter.shape)
        # The table is also the head: its size is that of the logits.
        parameter.data = 1 + 0.2 * random if "norm" in name else (0.15 if "embed" in name else 0.3) * random
    return model


def stored_tensors(
    model: transformers.BitNetForCausalLM, linear_class: str, mode: str, dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    """Gives the tensors of the archive: ternary values in bytes and a scale, or floats."""
    tensors = {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        if mode == "online" or not name.endswith("_proj.weight"):
            tensors[name] = value.to(dtype)
            continue
        scale = value.abs().mean()
        tensors[name] = bitnet.pack_weights((value / scale).round().clamp(-1, 1))
        factor = scale if linear_class == "autobitlinear" else 1 / scale
        tensors[name.removesuffix("weight") + "weight_scale"] = factor.reshape(1).to(dtype)
    return {name: value.contiguous() for name, value in tensors.items()}


def logits_of(folder: Path, ids: np.ndarray, quantizes_inputs: bool) -> np.ndarray:
    """Gives the logits of the stored model, computed in float32."""
    model = transformers.BitNetForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    originals = bitnet.BitLinear.forward, bitnet.ActQuant.forward
    if not quantizes_inputs:
        bitnet.ActQuant.forward = staticmethod(lambda context, activation: activation)

        def forward(self: bitnet.BitLinear, input: torch.Tensor) -> torch.Tensor:
            weight = bitnet.unpack_weights(self.weight, dtype=torch.float32)
            return torch.nn.functional.linear(input, weight) / self.weight_scale

        bitnet.BitLinear.forward = forward
    with torch.no_grad():
        logits = model(torch.from_numpy(ids)).logits.numpy().astype(np.float32)
    bitnet.BitLinear.forward, bitnet.ActQuant.forward = originals
    return logits


def main() -> None:
    for seed, (name, linear_class, mode, dtype) in enumerate(VARIANTS):
        folder = HERE / "decoders" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        model = random_model(seed + 70)
        settings = {"quant_method": "bitnet", "linear_class": linear_class, "quantization_mode": mode}
        config = json.loads(model.config.to_json_string(use_diff=True))
        config |= {"architectures": ["BitNetForCausalLM"], "quantization_config": settings}
        config["dtype"] = str(dtype).removeprefix("torch.")
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        tensors = stored_tensors(model, linear_class, mode, dtype)
        safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        ids = np.random.default_rng(seed).integers(0, 101, (len(LENGTHS), max(LENGTHS) + STEPS))
        golden = {
            "input_ids": ids,
            "lengths": np.array(LENGTHS),
            "logits": logits_of(folder, ids, quantizes_inputs=False),
            "quantized_logits": logits_of(folder, ids, quantizes_inputs=True),
        }
        np.savez_compressed(folder / "golden.npz", **golden)
        difference = np.abs(golden["logits"] - golden["quantized_logits"]).max()
        print(name, "largest logit", np.abs(golden["logits"]).max(), "by quantized inputs", difference)


if __name__ == "__main__":
    main()
