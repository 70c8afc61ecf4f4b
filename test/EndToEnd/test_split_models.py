# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that are split over processes give what they give in one piece.

What they give in one piece is compared with transformers elsewhere (test_decoders.py, test_architectures.py).
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ranks import results_of, run_world

HERE = Path(__file__).resolve().parent
# Of the largest logit: sums of parts are rounded in another order.
TOLERANCE = 2e-5


def inputs_of(model: Path) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(5)
    config = json.loads((model / "config.json").read_text())
    text = config.get("text_config", config)
    if "vision" in config.get("model_type", "") or config["model_type"] == "vit":
        size = config["image_size"]
        return {"pixel_values": generator.standard_normal((2, config["num_channels"], size, size)).astype(np.float32)}
    ids = generator.integers(5, text["vocab_size"], (2, 40))
    if any(name.startswith(("Bert", "DistilBert", "Roberta")) for name in config["architectures"]):
        mask = np.ones((2, 24), np.int64)
        mask[1, 17:] = 0
        return {"input_ids": ids[:, :24], "attention_mask": mask}
    return {"ids": ids}


def check(tools, model: Path, folder: Path, world: int, *flags: str) -> None:
    inputs = inputs_of(model)
    np.savez(folder / "inputs.npz", **inputs)
    whole, split = folder / "whole.itx", folder / "split.itx"
    splitting = ("--partition", "--rank-speeds")
    tools.run("intarsia-compile", model, "-o", whole, *(flag for flag in flags if not flag.startswith(splitting)))
    tools.run("intarsia-compile", model, "-o", split, *flags, f"--world={world}")
    expected = results_of(whole, inputs)
    for results in run_world(split, folder / "inputs.npz", folder / "results", world):
        for name, array in expected.items():
            error = np.abs(results[name] - array).max() / np.abs(array).max()
            print(f"MEASURED {model.name} {world} {flags} {name} {error:.2e}")
            assert error <= TOLERANCE, f"{name} is off by {error:.2e} of the largest"
            if name == "logits":
                np.testing.assert_array_equal(results[name].argmax(-1), array.argmax(-1))


# Queries have 4 heads and keys 1 or 2: ranks share heads of keys, have one each, or have unequal parts.
DECODERS = ["llama", "llama-linear", "qwen3", "gemma3", "mixtral", "gpt-oss", "gpt2", "phi3"]


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("name", DECODERS)
def test_decoders_split_by_parts_of_layers(tools, name: str, world: int, tmp_path: Path) -> None:
    check(tools, HERE / "decoders" / name, tmp_path, world)


@pytest.mark.parametrize(("name", "world", "speeds"), [("llama", 2, "1,1"), ("mixtral", 3, "1,1,1"), ("gemma3", 2, "1,0.2")])
def test_decoders_split_by_layers(tools, name: str, world: int, speeds: str, tmp_path: Path) -> None:
    check(tools, HERE / "decoders" / name, tmp_path, world, "--partition=pipeline", f"--rank-speeds={speeds}")


@pytest.mark.parametrize("caches", ["f32", "fp8", "int8", "int4"])
def test_caches_are_split_with_their_heads(tools, caches: str, tmp_path: Path) -> None:
    check(tools, HERE / "decoders" / "qwen3-moe-mixed", tmp_path, 4, f"--kv={caches}")


def test_parts_are_as_large_as_ranks_are_fast(tools, tmp_path: Path) -> None:
    check(tools, HERE / "decoders" / "llama", tmp_path, 2, "--rank-speeds=1,0.35")


@pytest.mark.parametrize(("name", "kind"), [("bert", "tensor"), ("distilbert", "tensor"), ("bert", "pipeline")])
def test_encoders(tools, name: str, kind: str, tmp_path: Path) -> None:
    check(tools, HERE / "models" / name, tmp_path, 2, f"--partition={kind}")


# Weights are quantized as a whole and then cut, inputs are not quantized: nothing is rounded differently.
@pytest.mark.parametrize("quantize", ["int4", "int8", "mxfp4", "nvfp4", "int4-channel", "ternary"])
def test_quantized_weights_are_cut_in_whole_blocks(tools, quantize: str, tmp_path: Path) -> None:
    flags = [f"--quantize={quantize}", "--quantize-activations=16", "--kv=f32"]
    check(tools, HERE.parent.parent / "examples" / "glossary", tmp_path, 3, *flags)
