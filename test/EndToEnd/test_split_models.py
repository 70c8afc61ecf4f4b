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


def check(tools, model: Path, folder: Path, world: int, *flags: str, hosts: str = "", devices: str = "") -> None:
    inputs = inputs_of(model)
    np.savez(folder / "inputs.npz", **inputs)

    # In one piece it is computed by the CPU, also where ranks have other devices.
    of_one = [flag for flag in flags if not flag.startswith(("--partition", "--rank-", "--target"))]
    expected = results_of(tools.artifact(model, *of_one), inputs)
    tolerance = TOLERANCE
    if any(flag.startswith("--kv=") and flag != "--kv=f32" for flag in flags):
        # A sum that is rounded in another order may be rounded to another value of the cache: that is less than what
        # the format of the cache changes.
        exact = [flag for flag in of_one if not flag.startswith("--kv=")]
        tolerance = difference(expected, results_of(tools.artifact(model, *exact, "--kv=f32"), inputs))
    split = folder / "split.itx"
    tools.compile(model, "-o", split, *flags, f"--world={world}")
    for results in run_world(split, folder / "inputs.npz", folder / "results", world, hosts, devices):
        error = difference(results, expected)
        print(f"{model.name}, {world} ranks {hosts} {' '.join(flags)}: off by {error:.2e}")
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


# Exchanges are in the memory of the devices, which the runtime copies to that of the host.
@pytest.mark.parametrize(
    ("name", "partition", "world"),
    [
        ("llama", "tensor", 2),
        ("qwen3", "pipeline", 2),
        ("gemma3", "tensor,sequence", 2),
        ("mixtral", "expert", 3),
        ("llama", "context,heads", 2),
        ("phi3", "context", 2),
        ("gpt-oss", "pipeline:2,tensor:2", 4),
    ],
)
def test_devices_with_memory_of_their_own(tools, name: str, partition: str, world: int, tmp_path: Path) -> None:
    flags = ["--target=reference", f"--partition={partition}", "--kv=f32"]
    check(tools, HERE / "decoders" / name, tmp_path, world, *flags)


@pytest.mark.parametrize("partition", ["tensor", "pipeline", "context"])
def test_unlike_devices(tools, partition: str, tmp_path: Path) -> None:
    flags = ["--target=cpu,reference", f"--partition={partition}", "--kv=f32"]
    check(tools, HERE / "decoders" / "llama", tmp_path, 2, *flags, devices="reference,cpu")


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


# Each rank, or group of ranks, has some of 3, 4, 5 or 6 experts.
@pytest.mark.parametrize(
    ("name", "partition", "world"),
    [
        ("mixtral", "expert", 2),
        ("gpt-oss", "expert", 3),
        ("gpt-oss", "expert:2,tensor:2", 4),
        ("mixtral", "pipeline:2,expert:2", 4),
        ("qwen3-moe-mixed", "pipeline:2,expert:2,tensor:2", 8),
    ],
)
def test_experts_are_on_different_ranks(tools, name: str, partition: str, world: int, tmp_path: Path) -> None:
    check(tools, HERE / "decoders" / name, tmp_path, world, f"--partition={partition}", "--kv=f32")


def test_experts_on_unlike_ranks(tools, tmp_path: Path) -> None:
    flags = ["--partition=expert", "--rank-speeds=1,0.3", "--kv=f32"]
    check(tools, HERE / "decoders" / "mixtral", tmp_path, 2, *flags)


# Blocks of stored weights stay whole; inputs are as they are.
@pytest.mark.parametrize(("name", "quantize"), [("gpt-oss-mxfp4", "none"), ("mixtral", "int4")])
def test_quantized_experts_are_on_different_ranks(tools, name: str, quantize: str, tmp_path: Path) -> None:
    flags = ["--partition=expert", f"--quantize={quantize}", "--quantize-activations=16", "--kv=f32"]
    check(tools, HERE / "decoders" / name, tmp_path, 2, *flags)


def test_experts_are_stored_once(tools, tmp_path: Path) -> None:
    for world in (1, 4):
        folder = tmp_path / str(world)
        folder.mkdir()
        flags = [f"--world={world}", *(["--partition=expert"] if world > 1 else [])]
        tools.run("intarsia-compile", HERE / "decoders" / "mixtral", "-o", folder / "m.itx", *flags)
    # Experts are stored once, whichever rank has them, and so are the parts of everything else.
    sizes = [(tmp_path / str(world) / "m.safetensors").stat().st_size for world in (1, 4)]
    assert sizes[0] <= sizes[1] < 1.5 * sizes[0]


@pytest.mark.parametrize(
    ("name", "world", "partition", "message"),
    [
        ("llama", 2, "expert", "--partition=expert: the model has no experts; tensor splits all of its layers"),
        ("mixtral", 6, "expert", "has 5 experts, so that at most 5 groups of ranks have some each"),
        ("mixtral", 4, "expert:3", "--world=4 has another number of ranks"),
        ("mixtral", 4, "expert:2,expert:2", "expert is given twice"),
        ("mixtral", 4, "expert,tensor", "expert or tensor needs a number"),
        ("mixtral", 4, "experts", "'experts' is not known"),
    ],
)
def test_refused_experts(tools, name: str, world: int, partition: str, message: str, tmp_path: Path) -> None:
    flags = [f"--world={world}", f"--partition={partition}", "-o", tmp_path / "m.itx"]
    failed = tools.run("intarsia-compile", HERE / "decoders" / name, *flags, check=False)
    assert failed.returncode == 1
    assert message in failed.stderr
    assert not (tmp_path / "m.itx").exists()


# 30 and 27 tokens of two sequences, then one of each: rows that are no multiple of the ranks, and fewer than these.
@pytest.mark.parametrize(
    ("name", "partition", "world"),
    [
        ("llama", "context", 2),
        ("qwen3", "context", 3),
        ("gemma3", "context", 4),
        ("mixtral", "context", 2),
        ("gpt-oss", "context:2,tensor:2", 4),
        ("llama", "context:2,tensor:4", 8),
        ("mixtral", "context:2,expert:2", 4),
        ("llama", "context,heads", 2),
        ("gemma3-text-bf16", "context,heads", 2),
        ("gpt-oss", "context,heads", 2),
        ("gpt2", "context,heads", 3),
    ],
)
def test_tokens_are_on_different_ranks(tools, name: str, partition: str, world: int, tmp_path: Path) -> None:
    check(tools, HERE / "decoders" / name, tmp_path, world, f"--partition={partition}", "--kv=f32")


# Every rank attends for all tokens where keys have 8 bits and less; with heads, for all of some heads.
@pytest.mark.parametrize(
    ("partition", "caches"),
    [("context", "f16"), ("context", "fp8"), ("context", "int8"), ("context,heads", "int8"), ("context,heads", "fp8")],
)
def test_caches_of_tokens_on_different_ranks(tools, partition: str, caches: str, tmp_path: Path) -> None:
    check(tools, HERE / "decoders" / "qwen3", tmp_path, 2, f"--partition={partition}", f"--kv={caches}")


@pytest.mark.parametrize(
    ("name", "partition", "world"), [("bert", "data", 2), ("vit", "data", 3), ("bert", "data:2,tensor:2", 4)]
)
def test_examples_are_on_different_ranks(tools, name: str, partition: str, world: int, tmp_path: Path) -> None:
    check(tools, HERE / "models" / name, tmp_path, world, f"--partition={partition}")


# 57 tokens, then two, over 2 to 4 ranks: rows that some ranks have in vain, and fewer rows than ranks. Norms stand in
# front of layers (llama), behind them (bert), or both (gemma3).
@pytest.mark.parametrize(
    ("name", "partition", "world"),
    [
        ("llama", "tensor,sequence", 2),
        ("qwen3", "sequence", 3),
        ("gemma3", "tensor,sequence", 4),
        ("gpt2", "tensor,sequence", 3),
        ("mixtral", "expert:2,sequence", 2),
        ("gpt-oss", "pipeline:2,tensor:2,sequence", 4),
        ("mixtral", "expert:2,tensor:2,sequence", 4),
        ("llama", "context:2,tensor:4,sequence", 8),
        ("bert", "tensor,sequence", 2),
        ("distilbert", "tensor,sequence", 3),
        ("vit", "tensor,sequence", 2),
        ("bert", "data:2,tensor:2,sequence", 4),
    ],
)
def test_norms_are_shared_by_rows(tools, name: str, partition: str, world: int, tmp_path: Path) -> None:
    is_decoder = (HERE / "decoders" / name).exists()
    flags = [f"--partition={partition}", *(["--kv=f32"] if is_decoder else [])]
    check(tools, HERE / ("decoders" if is_decoder else "models") / name, tmp_path, world, *flags)


# A rank sums and computes its rows in the order in which all ranks did: the same bits. One row is on every rank.
@pytest.mark.parametrize("texts", [1, 2])
def test_rows_change_no_bits(tools, texts: int, tmp_path: Path) -> None:
    inputs = {"ids": inputs_of(HERE / "decoders" / "llama")["ids"][:texts]}
    np.savez(tmp_path / "inputs.npz", **inputs)
    results = []
    for kind in ("tensor", "tensor,sequence"):
        split = tmp_path / f"{kind}.itx"
        flags = ["--world=2", f"--partition={kind}", "--kv=f32"]
        tools.run("intarsia-compile", HERE / "decoders" / "llama", "-o", split, *flags)
        results.append(run_world(split, tmp_path / "inputs.npz", tmp_path / "results", 2))
    for expected, found in zip(*results, strict=True):
        np.testing.assert_array_equal(found["logits"], expected["logits"])


# Values are those of the model in one piece.
@pytest.mark.parametrize("quantize", ["int4", "int8"])
def test_gathered_inputs_of_16_bits(tools, quantize: str, tmp_path: Path) -> None:
    flags = [f"--quantize={quantize}", "--quantize-activations=16", "--kv=f32", "--partition=tensor,sequence"]
    check(tools, GLOSSARY, tmp_path, 2, *flags)


# What is gathered is quantized as a whole: no other blocks, no other rounding.
@pytest.mark.parametrize("quantize", ["int4", "int8"])
def test_gathered_inputs_are_quantized(tools, quantize: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", **inputs_of(GLOSSARY))
    results = []
    for kind in ("tensor", "tensor,sequence"):
        split = tmp_path / f"{kind}.itx"
        flags = ["--world=2", f"--partition={kind}", f"--quantize={quantize}", "--quantize-activations=8", "--kv=f32"]
        tools.run("intarsia-compile", GLOSSARY, "-o", split, *flags)
        results.append(run_world(split, tmp_path / "inputs.npz", tmp_path / "results", 2))
    for expected, found in zip(*results, strict=True):
        assert difference(found, expected) <= TOLERANCE


@pytest.mark.parametrize(
    ("name", "world", "partition", "message"),
    [
        ("llama", 2, "pipeline,sequence", "sequence is about norms between layers that ranks share"),
        ("llama", 2, "context:2,sequence", "sequence is about norms between layers that ranks share"),
        ("llama", 2, "tensor,sequence:2", "sequence has no number"),
        ("llama", 2, "sequence,sequence", "sequence is given twice"),
        ("llama", 8, "tensor,sequence", "the largest world that can split the model is 4"),
    ],
)
def test_refused_sequences(tools, name: str, world: int, partition: str, message: str, tmp_path: Path) -> None:
    flags = [f"--world={world}", f"--partition={partition}", "-o", tmp_path / "m.itx"]
    failed = tools.run("intarsia-compile", HERE / "decoders" / name, *flags, check=False)
    assert failed.returncode == 1
    assert message in failed.stderr
    assert not (tmp_path / "m.itx").exists()


@pytest.mark.parametrize(
    ("model", "flags", "message"),
    [
        ("decoders/llama", ["--partition=data"], "'step' keeps caches of sequences"),
        ("models/bert", ["--partition=context"], "keeps no caches of a context"),
        ("decoders/llama", ["--partition=context", "--rank-speeds=1,0.5"], "rows of a call are shared evenly"),
        ("decoders/llama", ["--world=4", "--partition=pipeline:2,context:2"], "are not carried out together"),
        (
            "decoders/llama",
            ["--world=4", "--partition=context,heads"],
            "'step' has 2 heads of keys, which 4 ranks cannot share evenly; 2 can",
        ),
        ("decoders/llama", ["--partition=heads"], "heads is about ranks that share the tokens of a call"),
        ("decoders/llama", ["--world=4", "--partition=context:2,tensor:2,heads"], "give it beside context alone"),
        ("decoders/llama", ["--partition=context,heads,heads"], "heads is given twice"),
    ],
)
def test_refused_rows(tools, model: str, flags: list[str], message: str, tmp_path: Path) -> None:
    flags = flags if flags[0].startswith("--world") else ["--world=2", *flags]
    failed = tools.run("intarsia-compile", HERE / model, *flags, "-o", tmp_path / "m.itx", check=False)
    assert failed.returncode == 1
    assert message in failed.stderr
    assert not (tmp_path / "m.itx").exists()


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
