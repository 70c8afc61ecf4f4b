#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes goldens/quantized-experts.npz: what PyTorch computes for decoders/mixtral with dequantized weights.

Needs: pip install torch transformers ml_dtypes numpy. The tests need neither torch nor transformers: what this script
writes is committed. Every matrix but the router is quantized and dequantized, and so is, in 8 bits, the input of each
linear that reads one of them (block_formats.py), all in float32.

input_ids int64 [tokens], and for each format logits float32 [tokens, vocabulary].
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import transformers
from block_formats import activation_block, quantize_activations, quantize_weight

HERE = Path(__file__).resolve().parent


def logits_of(folder: Path, ids: np.ndarray, name: str) -> np.ndarray:
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager"
    )
    routers, blocks = set(), {}
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith(".gate.weight"):
                routers.add(parameter.data_ptr())
            elif parameter.ndim > 1:
                rows = parameter.numpy().reshape(-1, parameter.shape[-1])
                # The head and the embedding have 6 bits beside 4 of the others.
                kind = "int6" if key.startswith(("model.embed_tokens", "lm_head")) else name
                parameter.copy_(torch.from_numpy(quantize_weight(kind, rows).reshape(parameter.shape)))
                if ".experts." not in key:
                    blocks[parameter.data_ptr()] = activation_block(kind)
    linear, calls = torch.nn.functional.linear, 0

    def of_quantized(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        nonlocal calls
        if weight.data_ptr() not in routers:
            calls += 1
            x = torch.from_numpy(
                quantize_activations(x.detach().numpy().astype(np.float32), blocks.get(weight.data_ptr(), 32))
            )
        return linear(x, weight, bias)

    torch.nn.functional.linear = of_quantized
    with torch.no_grad():
        logits = model(torch.from_numpy(ids)[None]).logits[0].numpy()
    torch.nn.functional.linear = linear
    assert calls > 2 * 4 + 1 + 2 * 2 * 2, "experts are not computed by torch.nn.functional.linear"
    return logits


def main() -> None:
    folder = HERE / "decoders" / "mixtral"
    with np.load(folder / "golden.npz") as golden:
        ids = golden["input_ids"][0, : golden["lengths"][0]]
    logits = {name: logits_of(folder, ids, name) for name in ("int4", "mxfp4")}
    np.savez_compressed(HERE / "goldens" / "quantized-experts.npz", input_ids=ids, **logits)


if __name__ == "__main__":
    main()
