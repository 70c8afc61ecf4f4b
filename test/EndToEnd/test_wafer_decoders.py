# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Language models that run on a simulated wafer from the first norm to the logits, caches in the memory of its cores."""

from __future__ import annotations

import json
import re
from pathlib import Path

import intarsia
import numpy as np
import pytest
from safetensors.numpy import save_file

HERE = Path(__file__).resolve().parent
GLOSSARY = HERE.parents[1] / "examples" / "glossary"
PROMPT = [1, 5, 9, 60, 31, 8]
ON_WAFER = ["--place=model.layers.*=@wafer", "--place=model.norm*=@wafer", "--place=lm_head=@wafer"]


@pytest.fixture(scope="module")
def eight_heads(folder: Path) -> Path:
    """A Llama of random weights with two layers, eight heads, and two or four of keys."""
    path = folder / "llama-8-heads"
    path.mkdir()
    hidden, heads, key_heads, features, inner, words = 64, 8, 4, 8, 96, 128
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "head_dim": features,
        "vocab_size": words,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }
    (path / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(11)

    def random(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    tensors = {"model.embed_tokens.weight": random(words, hidden) * 8, "lm_head.weight": random(words, hidden) * 4}
    tensors["model.norm.weight"] = 1 + random(hidden)
    for layer in range(2):
        name = f"model.layers.{layer}"
        tensors[f"{name}.input_layernorm.weight"] = 1 + random(hidden)
        tensors[f"{name}.post_attention_layernorm.weight"] = 1 + random(hidden)
        for part, rows in (("q", heads), ("k", key_heads), ("v", key_heads)):
            tensors[f"{name}.self_attn.{part}_proj.weight"] = random(rows * features, hidden) * 2
        tensors[f"{name}.self_attn.o_proj.weight"] = random(hidden, heads * features)
        for part in ("gate", "up"):
            tensors[f"{name}.mlp.{part}_proj.weight"] = random(inner, hidden)
        tensors[f"{name}.mlp.down_proj.weight"] = random(hidden, inner)
    save_file(tensors, path / "model.safetensors")
    return path


def compare(tools, scratch: Path, model: Path, target: str, *flags: str, precision: str, tolerance: float) -> None:
    """Compare logits of a prompt and of steps after it, and 20 tokens, with those of the CPU in f32."""
    kv = f"--kv={precision}"
    tools.compile(model, "-o", scratch / "cpu.itx", "--matmul-precision=f32", "--kv=f32", *flags)
    tools.compile(
        model,
        "-o",
        scratch / "wafer.itx",
        f"--target=cpu,{target}",
        f"--matmul-precision={precision}",
        kv,
        *ON_WAFER,
        *flags,
    )
    module = intarsia.load(scratch / "wafer.itx")
    there = [one["name"] for one in module.manifest["devices"]].index("wafer")
    elsewhere = [
        kernel
        for kernel, device in zip(module.manifest["kernels"], module.manifest["kernel_devices"], strict=True)
        if device != there
    ]
    assert all("embedding" in kernel for kernel in elsewhere), elsewhere
    on_cpu, on_wafer = intarsia.Generator(scratch / "cpu.itx"), intarsia.Generator(module)
    expected = on_cpu.logits([PROMPT])[0]
    error = np.abs(on_wafer.logits([PROMPT])[0] - expected).max() / np.abs(expected).max()
    assert 0 < error < tolerance
    tokens = {
        name: tools.run(
            "intarsia-run", scratch / f"{name}.itx", f"--ids={','.join(map(str, PROMPT))}", "--max-tokens=20"
        ).stdout.split()
        for name in ("cpu", "wafer")
    }
    assert len(tokens["cpu"]) == 20
    assert tokens["wafer"] == tokens["cpu"]


@pytest.mark.cpu_only
@pytest.mark.parametrize("grid", [8, 13, 16, 32])
@pytest.mark.parametrize(("precision", "tolerance"), [("f32", 2e-5), ("f16", 1e-2)])
def test_eight_heads(tools, scratch, eight_heads: Path, grid: int, precision: str, tolerance: float) -> None:
    """Grids with fewer columns than a head has pairs of features, with more, and that divide nothing."""
    compare(
        tools, scratch, eight_heads, f"wafer:wse-2+grid={grid}", precision=precision, tolerance=tolerance
    )


@pytest.mark.cpu_only
@pytest.mark.parametrize(("target", "precision", "tolerance"), [("wafer", "f32", 2e-5), ("wafer:wse-2+grid=32", "f16", 1e-2)])
def test_glossary(tools, scratch, target: str, precision: str, tolerance: float) -> None:
    """A trained model: on the grid that the compiler chooses, and on 32 by 32."""
    compare(tools, scratch, GLOSSARY, target, "--context=256", precision=precision, tolerance=tolerance)


@pytest.mark.cpu_only
def test_more_heads_than_columns(tools, scratch, eight_heads: Path) -> None:
    """Four heads of keys on three columns: two on the first, two on the second."""
    compare(
        tools, scratch, eight_heads, "wafer:wse-2+grid=3", "--context=64", precision="f32", tolerance=2e-5
    )
