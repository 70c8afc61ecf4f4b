# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Model directories of matrices whose values lie in more bits than they have: ternary ones, integers of 5 and 6 bits."""

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

HERE = Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "examples" / "glossary"
LINEAR = "model.layers.2.mlp.down_proj"


@pytest.fixture(scope="module")
def ids() -> np.ndarray:
    texts = (MODEL / "heldout.txt").read_text().removesuffix("\n").split("\n")
    return np.asarray(quantize.encode_documents(MODEL, texts))


def decoded(directory: Path, linear: str) -> tuple[np.ndarray, np.ndarray]:
    """Integers of a matrix, and what they mean by the arithmetic of compressed-tensors."""
    tensors = read_tensors(directory / "model.safetensors")
    packed, scales = tensors[f"{linear}.weight_packed"], tensors[f"{linear}.weight_scale"]
    rows, columns = tensors[f"{linear}.weight_shape"]
    bits = packed.shape[1] * 32 // columns
    values = packed.view(np.uint32)[..., None] >> np.arange(0, 32, bits, dtype=np.uint32)
    values = (values & (2**bits - 1)).reshape(rows, -1).astype(np.float32) - 2 ** (bits - 1)
    return values, values * np.repeat(scales.astype(np.float32), columns // scales.shape[1], 1)


@pytest.mark.parametrize(
    ("name", "highest", "bits"), [("ternary", 1, 4), ("ternary-channel", 1, 4), ("int5-g64", 15, 8)]
)
def test_directories_compile_to_their_own_bits(tools, ids, tmp_path, name, highest, bits):
    """Values are those that NumPy rounds to, and kernels those of --quantize: logits are the same bit for bit."""
    intarsia.quantize(MODEL, tmp_path / "q", name)
    values, meant = decoded(tmp_path / "q", LINEAR)
    assert np.abs(values).max() <= highest + (name[0] == "i")
    original = read_tensors(MODEL / "model.safetensors")[f"{LINEAR}.weight"].view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(meant, quantize_weight(name, original.astype(np.float32)))
    settings = json.loads((tmp_path / "q" / "config.json").read_text())["quantization_config"]
    assert [group["weights"]["num_bits"] for group in settings["config_groups"].values()] == [bits]
    formats = json.loads((tmp_path / "q" / "intarsia-precision.json").read_text())["tensors"]
    assert set(formats.values()) == {name}
    assert f"{LINEAR}.weight" in formats
    logits = []
    for model, flags in ((tmp_path / "q", []), (MODEL, [f"--quantize={name}", "--quantize-parts=linears"])):
        tools.compile(model, "-o", tmp_path / "m.itx", "--quantize-activations=8", *flags)
        logits += intarsia.Generator(tmp_path / "m.itx").logits([ids[:40].tolist()])
        stored = (tmp_path / "m.safetensors").stat().st_size
    np.testing.assert_array_equal(*logits)
    assert stored == (tmp_path / "m.safetensors").stat().st_size


@pytest.mark.slow
def test_less_is_lost_with_a_text(tools, ids, tmp_path):
    """Ternary weights of a model that was not trained for them: errors that cancel lose far less."""
    windows, measured = quantize.read_windows(ids[38401:], 192), ids[: 20 * 192].reshape(20, 192)
    perplexities = []
    for folder, given in (("nearest", {}), ("feedback", {"windows": windows})):
        intarsia.quantize(MODEL, tmp_path / folder, "ternary", **given)
        assert np.unique(decoded(tmp_path / folder, LINEAR)[0]).tolist() == [-1, 0, 1]
        tools.compile(tmp_path / folder, "-o", tmp_path / "m.itx", "--kv=f32", "--quantize-activations=16")
        perplexities.append(intarsia.Generator(tmp_path / "m.itx").perplexity(measured))
    assert perplexities[1] < 0.75 * perplexities[0]


def test_values_that_the_format_does_not_hold(tools, tmp_path):
    intarsia.quantize(MODEL, tmp_path / "q", "ternary")
    weights = tmp_path / "q" / "model.safetensors"
    packed = read_tensors(weights)[f"{LINEAR}.weight_packed"]
    data = bytearray(weights.read_bytes())
    # Of feature 560 in row 40, which the hash of the file does not read: -1, 0 and 1 become 3, -4 and -3.
    data[packed.offset + 4 * (40 * packed.shape[1] + 70)] ^= 0xC
    weights.write_bytes(data)
    result = tools.run("intarsia-compile", tmp_path / "q", "-o", tmp_path / "m.itx", check=False)
    assert result.returncode != 0
    assert f"'{LINEAR}.weight_packed' has " in result.stderr
    assert "which ternary does not hold; are the weights damaged?" in result.stderr
