# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Language models on simulated wafers, for the tests: random ones, and what they compute beside the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import intarsia
import numpy as np
from safetensors.numpy import save_file

ON_WAFER = ["--place=model.layers.*=@wafer", "--place=model.norm*=@wafer", "--place=lm_head=@wafer"]


def write_llama(
    path: Path, *, words: int, hidden: int, heads: int, key_heads: int, features: int, inner: int, layers: int = 2
) -> None:
    """Write a Llama of random weights."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
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
    for layer in range(layers):
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


def compare(
    tools, scratch: Path, model: Path, target: str, *flags: str, precision: str, tolerance: float, prompt: list[int]
) -> None:
    """Compare the logits of a prompt, and 20 tokens after it, with those of the CPU in f32."""
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
    expected = on_cpu.logits([prompt])[0]
    error = np.abs(on_wafer.logits([prompt])[0] - expected).max() / np.abs(expected).max()
    assert 0 < error < tolerance
    tokens = {
        name: tools.run(
            "intarsia-run", scratch / f"{name}.itx", f"--ids={','.join(map(str, prompt))}", "--max-tokens=20"
        ).stdout.split()
        for name in ("cpu", "wafer")
    }
    assert len(tokens["cpu"]) == 20
    assert tokens["wafer"] == tokens["cpu"]


def refusal(tools, scratch: Path, model: Path, *flags: str) -> str:
    """Return the message of a compilation that must fail."""
    artifact = scratch / "refused.itx"
    artifact.unlink(missing_ok=True)
    done = tools.run("intarsia-compile", model, "-o", artifact, *flags, check=False)
    assert done.returncode == 1, done.stderr
    assert not artifact.exists()
    return done.stderr
