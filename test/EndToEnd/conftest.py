# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What end-to-end tests on several devices share: a folder, token ids, and what the CPU makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from intarsia.quantization.safetensors import write_tensors


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Give a folder that the tests of one file share."""
    return tmp_path_factory.mktemp(request.module.__name__.rpartition(".")[2])


@pytest.fixture(scope="module")
def ids(folder: Path) -> Path:
    """Give token ids `[2, 17]` for the encoder in models/bert."""
    path = folder / "ids.npy"
    np.save(path, np.random.default_rng(0).integers(0, 99, (2, 17)))
    return path


@pytest.fixture(scope="module")
def on_cpu(tools, folder: Path, ids: Path) -> np.ndarray:
    """Give the hidden states `[2, 17, features]` that the CPU computes of the ids with models/bert."""
    tools.compile(Path(__file__).parent / "models" / "bert", "-o", folder / "cpu.itx", "--target=cpu")
    output = folder / "cpu.npy"
    tools.run("intarsia-run", folder / "cpu.itx", f"--input=input_ids=@{ids}", f"--output=@{output}")
    return np.load(output)


@pytest.fixture(scope="session")
def tiny_decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a language model of two layers whose random weights have other sizes in each, so that they lose differently."""
    vocabulary, hidden, intermediate, layers = 96, 64, 128, 2
    folder = tmp_path_factory.mktemp("tiny")
    rng = np.random.default_rng(0)
    shapes = dict.fromkeys([f"self_attn.{name}_proj" for name in "qkvo"], (hidden, hidden))
    shapes |= dict.fromkeys(["mlp.gate_proj", "mlp.up_proj"], (intermediate, hidden))
    shapes |= {"mlp.down_proj": (hidden, intermediate)}
    tensors = {"model.embed_tokens.weight": rng.normal(size=(vocabulary, hidden)).astype(np.float32)}
    for layer in range(layers):
        for name, shape in shapes.items():
            weight = rng.normal(size=shape) * (0.1 + 0.1 * layer) + rng.standard_t(3, shape) * 0.02
            tensors[f"model.layers.{layer}.{name}.weight"] = weight.astype(np.float32)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{norm}.weight"] = np.ones(hidden, np.float32)
    tensors["model.norm.weight"] = np.ones(hidden, np.float32)
    tensors["lm_head.weight"] = (rng.normal(size=(vocabulary, hidden)) * 0.2).astype(np.float32)
    write_tensors(folder / "model.safetensors", tensors)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "intermediate_size": intermediate, "num_hidden_layers": layers, "num_attention_heads": 2,
        "num_key_value_heads": 2, "head_dim": 32, "vocab_size": vocabulary, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 128, "rope_theta": 10000.0, "tie_word_embeddings": False, "hidden_act": "silu",
        "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder
