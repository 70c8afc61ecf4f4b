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
GLOSSARY = HERE.parent.parent / "examples" / "glossary"
# Of the largest logit: sums of parts are rounded in another order.
TOLERANCE = 2e-5


def inputs_of(model: Path) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(5)
    config = json.loads((model / "config.json").read_text())
    if config["model_type"] == "vit":
        size = config["image_size"]
        return {"pixel_values": generator.standard_normal((2, config["num_channels"], size, size)).astype(np.float32)}
    ids = generator.integers(5, config.get("text_config", config)["vocab_size"], (2, 40))
    if any(name.startswith(("Bert", "DistilBert")) for name in config["architectures"]):
        mask = np.ones((2, 24), np.int64)
        mask[1, 17:] = 0
        return {"input_ids": ids[:, :24], "attention_mask": mask}
    return {"ids": ids}


def difference(results: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    return max(np.abs(results[name] - array).max() / np.abs(array).max() for name, array in expected.items())


def check(tools, model: Path, folder: Path, world: int, *flags: str) -> None:
    inputs = inputs_of(model)
    np.savez(folder / "inputs.npz", **inputs)

    def compiled(name: str, *given: str) -> Path:
        tools.run("intarsia-compile", model, "-o", folder / f"{name}.itx", *given)
        return folder / f"{name}.itx"

    of_one = [flag for flag in flags if not flag.startswith(("--partition", "--rank-speeds"))]
    expected = results_of(compiled("whole", *of_one), inputs)
    tolerance = TOLERANCE
    if any(flag.startswith("--kv=") and flag != "--kv=f32" for flag in flags):
        # A sum that is rounded in another order may be rounded to another value of the cache: that is less than what
        # the format of the cache changes.
        exact = [flag for flag in of_one if not flag.startswith("--kv=")]
        tolerance = difference(expected, results_of(compiled("exact", *exact, "--kv=f32"), inputs))
    split = compiled("split", *flags, f"--world={world}")
    for results in run_world(split, folder / "inputs.npz", folder / "results", world):
        error = difference(results, expected)
        print(f"{model.name}, {world} ranks {' '.join(flags)}: off by {error:.2e}")
        assert error <= tolerance
        if "logits" in expected:
            np.testing.assert_array_equal(results["logits"].argmax(-1), expected["logits"].argmax(-1))


# Queries have 4 heads and keys 1 or 2: ranks share heads of keys, have one each, or have unequal parts.
DECODERS = ["llama", "llama-linear", "qwen3", "gemma3", "mixtral", "gpt-oss", "gpt2", "phi3"]


@pytest.mark.parametrize(("name", "world"), [(name, 2 + number % 2) for number, name in enumerate(DECODERS)])
def test_decoders_split_by_parts_of_layers(tools, name: str, world: int, tmp_path: Path) -> None:
    check(tools, HERE / "decoders" / name, tmp_path, world, "--kv=f32")


@pytest.mark.parametrize(
    ("name", "world", "speeds"), [("llama", 2, "1,1"), ("mixtral", 3, "1,1,1"), ("gemma3", 2, "1,0.2")]
)
def test_decoders_split_by_layers(tools, name: str, world: int, speeds: str, tmp_path: Path) -> None:
    check(tools, HERE / "decoders" / name, tmp_path, world, "--partition=pipeline", f"--rank-speeds={speeds}")


# Stages of neighbouring layers, each shared by several ranks.
@pytest.mark.parametrize(
    ("name", "partition", "world"),
    [
        ("llama", "pipeline:2,tensor:2", 4),
        ("qwen3", "tensor:2,pipeline", 4),
        ("mixtral", "pipeline:3,tensor:2", 6),
        ("gpt-oss", "pipeline:2,tensor:4", 8),
        ("gemma3", "pipeline,tensor:2", 4),
    ],
)
def test_stages_are_shared_by_ranks(tools, name: str, partition: str, world: int, tmp_path: Path) -> None:
    check(tools, HERE / "decoders" / name, tmp_path, world, f"--partition={partition}", "--kv=f32")


def test_more_ranks_than_a_stage_has_heads(tools, tmp_path: Path) -> None:
    flags = ["--world=16", "--partition=pipeline:2,tensor:8", "-o", tmp_path / "m.itx"]
    failed = tools.run("intarsia-compile", HERE / "decoders" / "llama", *flags, check=False)
    assert failed.returncode == 1
    assert "--partition=pipeline:2,tensor:8: 'model.layers.0.self_attn.o_proj' has 4 heads" in failed.stderr
    assert "the largest number of ranks that can split the layers is 4" in failed.stderr
    assert not (tmp_path / "m.itx").exists()


def test_stages_are_shared_by_unlike_ranks(tools, tmp_path: Path) -> None:
    flags = ["--partition=pipeline:2,tensor:2", "--rank-speeds=1,0.5,0.4,0.2", "--kv=f32"]
    check(tools, HERE / "decoders" / "llama", tmp_path, 4, *flags)


@pytest.mark.parametrize("caches", ["f16", "fp8", "int8"])
def test_caches_are_split_with_their_heads(tools, caches: str, tmp_path: Path) -> None:
    check(tools, HERE / "decoders" / "qwen3-moe-mixed", tmp_path, 4, f"--kv={caches}")


def test_caches_of_4_bits(tools, tmp_path: Path) -> None:
    check(tools, GLOSSARY, tmp_path, 2, "--kv=int4")


def test_parts_are_as_large_as_ranks_are_fast(tools, tmp_path: Path) -> None:
    check(tools, HERE / "decoders" / "llama", tmp_path, 2, "--rank-speeds=1,0.35", "--kv=f32")


@pytest.mark.parametrize(
    ("name", "kind"), [("bert", "tensor"), ("vit", "tensor"), ("distilbert", "pipeline"), ("bert", "both")]
)
def test_encoders(tools, name: str, kind: str, tmp_path: Path) -> None:
    partition, world = ("pipeline:2,tensor:2", 4) if kind == "both" else (kind, 2)
    check(tools, HERE / "models" / name, tmp_path, world, f"--partition={partition}")


# Weights are quantized as a whole and then cut, inputs are not quantized: nothing is rounded differently.
@pytest.mark.parametrize("quantize", ["int4", "mxfp4", "nvfp4", "int4-channel"])
def test_quantized_weights_are_cut_in_whole_blocks(tools, quantize: str, tmp_path: Path) -> None:
    flags = [f"--quantize={quantize}", "--quantize-activations=16", "--kv=f32"]
    check(tools, GLOSSARY, tmp_path, 3, *flags)
