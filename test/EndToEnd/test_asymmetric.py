# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integers of 4 bits with zero points: model directories, what they mean, and what they lose."""

from __future__ import annotations

import json
from pathlib import Path

import intarsia
import ml_dtypes
import numpy as np
import pytest
from block_formats import quantize_weight
from intarsia.quantization import quantize
from intarsia.quantization.safetensors import read_tensors

MODEL = Path(__file__).resolve().parents[2] / "examples" / "glossary"
LINEAR = "model.layers.2.mlp.down_proj"


@pytest.fixture(scope="module")
def ids() -> np.ndarray:
    texts = (MODEL / "heldout.txt").read_text().removesuffix("\n").split("\n")
    return np.asarray(quantize.encode_documents(MODEL, texts))


def unpacked(words: np.ndarray) -> np.ndarray:
    """Eight integers of 4 bits of each word, the first in the lowest bits: a last dimension of 8."""
    return words.view(np.uint32)[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15


def decoded(directory: Path, linear: str) -> np.ndarray:
    """The arithmetic of compressed-tensors: (value - zero point) * scale; words of zero points lie along rows."""
    tensors = read_tensors(directory / "model.safetensors")
    rows, columns = tensors[f"{linear}.weight_shape"]
    values = unpacked(tensors[f"{linear}.weight_packed"]).reshape(rows, columns)
    zeros = unpacked(tensors[f"{linear}.weight_zero_point"]).transpose(0, 2, 1).reshape(rows, -1)
    group = columns // zeros.shape[1]
    differences = values.astype(np.float32) - np.repeat(zeros, group, 1).astype(np.float32)
    return differences * np.repeat(tensors[f"{linear}.weight_scale"].astype(np.float32), group, 1)


def weight() -> np.ndarray:
    return read_tensors(MODEL / "model.safetensors")[f"{LINEAR}.weight"].view(ml_dtypes.bfloat16).astype(np.float32)


@pytest.mark.parametrize(("name", "group", "bits"), [("int4-asymmetric", 32, 5), ("int4-asymmetric-g128", 128, 4.25)])
def test_directories_compile_to_the_same_kernels(tools, ids, tmp_path, name, group, bits):
    """Values are those that NumPy rounds to; what is compiled is the same as with --quantize, bit for bit."""
    intarsia.quantize(MODEL, tmp_path / "q", name)
    np.testing.assert_array_equal(decoded(tmp_path / "q", LINEAR), quantize_weight(name, weight()))
    [settings] = json.loads((tmp_path / "q" / "config.json").read_text())["quantization_config"][
        "config_groups"
    ].values()
    given = {key: settings["weights"][key] for key in ("num_bits", "type", "symmetric", "strategy", "group_size")}
    assert given == {"num_bits": 4, "type": "int", "symmetric": False, "strategy": "group", "group_size": group}
    logits, sizes = [], []
    for model, flags in ((tmp_path / "q", []), (MODEL, [f"--quantize={name}", "--quantize-parts=linears"])):
        tools.compile(model, "-o", tmp_path / "m.itx", "--quantize-activations=8", *flags)
        logits += intarsia.Generator(tmp_path / "m.itx").logits([ids[:40].tolist()])
        sizes.append((tmp_path / "m.safetensors").stat().st_size)
    np.testing.assert_array_equal(logits[0], logits[1])
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-3)  # names differ
    # The linears of the model have 4,718,592 weights, in bf16.
    tools.compile(MODEL, "-o", tmp_path / "m.itx")
    assert 16 - 8 * ((tmp_path / "m.safetensors").stat().st_size - sizes[0]) / 4_718_592 == pytest.approx(bits, abs=0.1)


def test_scales_with_the_least_error(tmp_path):
    """Of 60 ranges and all zero points that NumPy tries for each block in f64, few leave less than what was chosen."""
    for folder, is_searched in (("searched", True), ("nearest", False)):
        intarsia.quantize(MODEL, tmp_path / folder, "int4-asymmetric", search_scales=is_searched)
    rows = weight().astype(np.float64).reshape(-1, 32)[::16]
    errors = [
        ((decoded(tmp_path / folder, LINEAR).reshape(-1, 32)[::16] - rows) ** 2).sum(1)
        for folder in ("searched", "nearest")
    ]
    best = np.full(len(rows), np.inf)
    ranges = rows.max(1, keepdims=True).clip(0) - rows.min(1, keepdims=True).clip(None, 0)
    for share in np.linspace(0.6, 1.1, 60):
        scales = share * ranges / 15
        for zero in range(16):
            values = (np.clip(np.rint(rows / scales) + zero, 0, 15) - zero) * scales
            best = np.minimum(best, ((values - rows) ** 2).sum(1))
    assert errors[0].sum() < 1.02 * best.sum()
    assert errors[0].sum() < 0.95 * errors[1].sum()


def test_less_is_lost_with_a_text(tools, ids, tmp_path):
    windows, measured = quantize.read_windows(ids[38401:], 192)[:64], ids[: 20 * 192].reshape(20, 192)
    tools.compile(MODEL, "-o", tmp_path / "m.itx", "--kv=f32")
    perplexities = [intarsia.Generator(tmp_path / "m.itx").perplexity(measured)]
    for folder, given in (("nearest", {}), ("feedback", {"windows": windows})):
        intarsia.quantize(MODEL, tmp_path / folder, "int4-asymmetric-g128", **given)
        tools.compile(tmp_path / folder, "-o", tmp_path / "m.itx", "--kv=f32", "--quantize-activations=16")
        perplexities.append(intarsia.Generator(tmp_path / "m.itx").perplexity(measured))
    exact, nearest, feedback = perplexities
    assert 1e-3 < feedback / exact - 1 < 0.6 * (nearest / exact - 1)


def test_candidates_know_their_size(tools, tmp_path):
    tools.run(
        "intarsia-quantize", MODEL, "-o", tmp_path / "c.json", "--candidates=int4,int4-asymmetric,int4-asymmetric-g64"
    )
    [matrix] = [
        one for one in json.loads((tmp_path / "c.json").read_text())["tensors"] if one["key"] == f"{LINEAR}.weight"
    ]
    sizes = {one["format"]: one["bytes"] for one in matrix["candidates"]}
    elements = weight().size
    assert sizes["int4"] == elements * 4.5 / 8
    assert sizes["int4-asymmetric"] == elements * 5 / 8
    assert sizes["int4-asymmetric-g64"] == elements * 4.5 / 8
