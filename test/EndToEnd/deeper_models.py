# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Language models with more layers than those of this folder, for ranks that have several stages each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

HERE = Path(__file__).resolve().parent
_LAYER = re.compile(r"^(.*\b(?:layers|h)\.)(\d+)(\..*)$")


def deepen(name: str, layers: int, folder: Path) -> Path:
    """Write a decoder of this folder with so many layers: those that it has again and again, each a little different."""
    folder.mkdir()
    source = HERE / "decoders" / name
    config = json.loads((source / "config.json").read_text())
    key = "n_layer" if "n_layer" in config else "num_hidden_layers"
    before, config[key] = config[key], layers
    if "layer_types" in config:
        config["layer_types"] = [config["layer_types"][layer % before] for layer in range(layers)]
    (folder / "config.json").write_text(json.dumps(config))
    random = np.random.default_rng(7)
    tensors = {}
    for tensor, values in load_file(source / "model.safetensors").items():
        found = _LAYER.match(tensor)
        if not found:
            tensors[tensor] = values
            continue
        for layer in range(int(found[2]), layers, before):
            changed = values * (1 + 0.1 * random.standard_normal(values.shape)).astype(values.dtype)
            tensors[f"{found[1]}{layer}{found[3]}"] = changed
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def wide_llama(folder: Path, hidden: int = 1024, layers: int = 6, context: int = 1024) -> Path:
    """Write a Llama with long rows between layers: messages of a part are longer than what a send leaves behind."""
    folder.mkdir()
    config = json.loads((HERE / "decoders" / "llama" / "config.json").read_text())
    heads, features, inner, words = 2, 32, 64, 99
    config |= {"hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers, "head_dim": features}
    config |= {"num_attention_heads": heads, "num_key_value_heads": heads, "max_position_embeddings": context}
    (folder / "config.json").write_text(json.dumps(config))
    random = np.random.default_rng(3)

    def matrix(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    tensors = {"model.embed_tokens.weight": matrix(words, hidden) * 10, "lm_head.weight": matrix(words, hidden)}
    tensors["model.norm.weight"] = np.ones(hidden, np.float32)
    for layer in range(layers):
        own = {f"self_attn.{part}_proj": matrix(heads * features, hidden) for part in "qkv"}
        own |= {"self_attn.o_proj": matrix(hidden, heads * features), "mlp.down_proj": matrix(hidden, inner)}
        own |= {f"mlp.{part}_proj": matrix(inner, hidden) for part in ("gate", "up")}
        own |= {f"{norm}_layernorm": np.ones(hidden, np.float32) for norm in ("input", "post_attention")}
        tensors |= {f"model.layers.{layer}.{part}.weight": values for part, values in own.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
