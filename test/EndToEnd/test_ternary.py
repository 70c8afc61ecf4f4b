# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ternary weights: blocks of GGUF files, multiplied and stored, and BitNet checkpoints as their model computes them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import gguf
import intarsia
import numpy as np
import pytest
from random_numbers import RNG
from refusals import refused
from safetensors.numpy import load_file, save_file
from test_decoders import Server
from test_quantized_linears import build_blocks

DECODERS = Path(__file__).resolve().parent / "decoders"
NAMES = ["bitnet", "bitnet-divided", "bitnet-online-bf16"]


def blocks_of(name: str, values: np.ndarray) -> np.ndarray:
    """Give values -1, 0 and 1 [rows, columns] as blocks of the gguf package, whose scales are 1."""
    return gguf.quantize(values.astype(np.float32), gguf.GGMLQuantizationType[name.upper()])


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64", "cpu:x86-64-v3", "cpu:x86-64-v4", "reference"])
def test_sums_are_exact(tools, scratch, target):
    """All patterns, also the fourth one, which ggml reads as 2, and inputs at the ends of their range."""
    features, depth = 40, 512
    blocks = RNG.integers(0, 256, (features, depth // 256, 66), np.uint8)
    blocks[..., 64:] = np.array([1, -2], np.float16)[:, None].view(np.uint8)
    blocks = blocks.reshape(features, -1)
    weight = gguf.dequantize(blocks, gguf.GGMLQuantizationType.TQ2_0)
    assert set(np.unique(weight)) == {-4, -2, -1, 0, 1, 2}
    x = RNG.choice([-127, 127, 126, 0, -1], (40, depth)).astype(np.float32)
    x[:, ::256] = 127
    flags = ("--quantize-activations=8",) if target != "reference" else ()
    main = build_blocks(tools, scratch / target.replace(":", "-"), "tq2_0", features, depth, blocks, target, *flags)[
        "main"
    ]
    for count in (1, 3, 40) if target != "reference" else (3,):
        np.testing.assert_array_equal(main(x[:count], np.zeros(count, np.int64))[0], x[:count] @ weight.T)


def test_both_types_are_stored_alike(tools, scratch):
    """TQ1_0 is unpacked to the two bits of a value that TQ2_0 has."""
    values = RNG.integers(-1, 2, (70, 512))
    values[:, ::256] = 1  # the package's scale is the largest magnitude
    stored = {}
    for name in ("tq1_0", "tq2_0"):
        folder = scratch / f"alike-{name}"
        main = build_blocks(tools, folder, name, 70, 512, blocks_of(name, values))["main"]
        np.testing.assert_array_equal(main(np.zeros((70, 512), np.float32), np.arange(70))[1], values)
        stored[name] = load_file(folder / "m.safetensors")
    for one, other in zip(stored["tq1_0"].values(), stored["tq2_0"].values(), strict=True):
        np.testing.assert_array_equal(one, other)


# -- BitNet ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_inputs_as_the_model_quantizes_them(tools, scratch, name):
    """A token of up to 256 features has one scale, as in the model: but for sums in another order, logits are equal.
    Where one moves an input across a half, its value differs by one of 127."""
    folder = DECODERS / name
    tools.compile(folder, "-o", scratch / f"{name}-8.itx", "--kv=f32", "--quantize-activations=8")
    with np.load(folder / "golden.npz") as golden:
        ids, expected, exact = golden["input_ids"], golden["quantized_logits"], golden["logits"]
    module = intarsia.load(scratch / f"{name}-8.itx")
    server = Server(module, len(ids), 64)
    actual = np.stack(server.run([(s, ids[s]) for s in range(len(ids))]))
    error, effect = np.abs(actual - expected), np.abs(exact - expected)
    assert np.median(error) < 1e-5 < 0.01 < np.median(effect)
    assert error.max() < 0.5 * effect.max()


def test_weights_take_two_bits(tools, scratch):
    tools.compile(DECODERS / "bitnet", "-o", scratch / "two-bits.itx")
    sizes = {name: value.nbytes for name, value in load_file(scratch / "two-bits.safetensors").items()}
    linears = {name: size for name, size in sizes.items() if "proj" in name}
    # Panels of 32 rows of ternary values, each with the scale of the matrix, in f32.
    rows = 2 * (64 + 32 + 32 + 64 + 96 + 96 + 64)
    values = 2 * (64 * 64 + 32 * 64 + 32 * 64 + 64 * 64 + 96 * 64 + 96 * 64 + 64 * 96)
    assert sum(linears.values()) == values // 4 + 4 * rows


def test_remarks(tools):
    for name, kept in zip(NAMES, ("bits, as ternary-channel", "ternary-channel", "ternary-channel"), strict=True):
        printed = tools.run("intarsia-compile", DECODERS / name, "--stop-after=import").stderr
        assert kept in printed
        assert "inputs of linears are quantized as --quantize-activations says" in printed


QUERY = "model.layers.0.self_attn.q_proj"
WRONG = [
    ({"use_rms_norm": True}, {}, ["use_rms_norm", "a norm before each linear is not imported"]),
    ({"linear_class": "linear"}, {}, ["linear_class 'linear' is not supported; supported: autobitlinear, bitlinear"]),
    ({"quantization_mode": "later"}, {}, ["quantization_mode 'later' is not supported; supported: offline, online"]),
    ({}, {QUERY + ".weight_scale": None}, [f"has no tensor '{QUERY}.weight_scale'"]),
    ({}, {QUERY + ".weight_scale": np.ones(2, np.float32)}, ["has 2 scales, a ternary matrix has one"]),
    ({}, {QUERY + ".weight_scale": np.full(1, np.nan, np.float32)}, ["has a scale that is not finite", QUERY]),
    ({}, {QUERY + ".weight": np.zeros((64, 64), np.uint8)}, [QUERY + ".weight' is [64, 64]", "imply [16, 64]"]),
    ({}, {QUERY + ".weight": np.zeros((64, 64), np.float16)}, [QUERY + ".weight", "F16"]),
    ({"linear_class": "bitlinear"}, {QUERY + ".weight_scale": np.zeros(1, np.float32)},
     ["has a scale 0.00, which values are divided by", QUERY]),
]  # fmt: skip


def change(folder: Path, settings: dict[str, object], tensors: dict[str, np.ndarray | None]) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] |= settings
    (folder / "config.json").write_text(json.dumps(config))
    stored = load_file(folder / "model.safetensors") | tensors
    save_file({name: value for name, value in stored.items() if value is not None}, folder / "model.safetensors")


@pytest.mark.parametrize(("settings", "tensors", "parts"), WRONG)
def test_refused(tools, tmp_path, settings, tensors, parts):
    folder = Path(shutil.copytree(DECODERS / "bitnet", tmp_path / "m"))
    change(folder, settings, tensors)
    refused(tools, folder, *parts)


def test_floats_that_are_not_finite(tools, tmp_path):
    import ml_dtypes

    folder = Path(shutil.copytree(DECODERS / "bitnet-online-bf16", tmp_path / "m"))
    key = QUERY + ".weight"
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "np") as archive:
        weight = archive.get_tensor(key).copy()
    weight[3, 5] = ml_dtypes.bfloat16(np.nan)
    change(folder, {}, {key: weight})
    refused(tools, folder, f"tensor '{key}' has nan at [3, 5]")
