# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small model whose compilation is refused when something about it is wrong, and what a refusal is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

HIDDEN, INTERMEDIATE, VOCABULARY, POSITIONS = 32, 64, 50, 16
CONFIG = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": POSITIONS,
    "num_attention_heads": 4,
    "num_hidden_layers": 1,
    "type_vocab_size": 2,
    "vocab_size": VOCABULARY,
}
LAYER = "encoder.layer.0."
DENSE = LAYER + "intermediate.dense.weight"


def weights() -> dict[str, np.ndarray]:
    shapes = {
        "embeddings.word_embeddings.weight": (VOCABULARY, HIDDEN),
        "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
        DENSE: (INTERMEDIATE, HIDDEN),
        LAYER + "intermediate.dense.bias": (INTERMEDIATE,),
        LAYER + "output.dense.weight": (HIDDEN, INTERMEDIATE),
        LAYER + "output.dense.bias": (HIDDEN,),
    }
    for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        shapes[f"{LAYER}{name}.weight"] = (HIDDEN, HIDDEN)
        shapes[f"{LAYER}{name}.bias"] = (HIDDEN,)
    for name in ("embeddings.LayerNorm", LAYER + "attention.output.LayerNorm", LAYER + "output.LayerNorm"):
        shapes[f"{name}.weight"] = (HIDDEN,)
        shapes[f"{name}.bias"] = (HIDDEN,)
    random = np.random.default_rng(1)
    return {name: random.normal(0, 0.05, shape).astype(np.float32) for name, shape in shapes.items()}


def write_model(folder: Path, config: dict | None = None, tensors: dict[str, np.ndarray] | None = None) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    save_file(weights() if tensors is None else tensors, folder / "model.safetensors")
    return folder


def check_refusal(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    """An ordinary exit (no signal), and a message with all the parts."""
    text = result.stderr
    assert 0 < result.returncode < 128, f"exit code {result.returncode}:\n{result.stdout}{text}"
    for part in parts:
        assert part in text, f"'{part}' is not in:\n{text}"
    assert "Stack dump" not in text
    assert "terminate called" not in text


def refused(tools, source: Path, *parts: str, flags: tuple[str, ...] = ()) -> None:
    """The compiler refuses, and leaves nothing."""
    folder = source.parent / "out"
    folder.mkdir(exist_ok=True)
    check_refusal(tools.run("intarsia-compile", source, "-o", folder / "m.itx", *flags, check=False), *parts)
    assert list(folder.iterdir()) == []
