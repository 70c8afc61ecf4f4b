# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What 8 bits cost: embeddings of MiniLM with its real weights, of sentences that nothing was calibrated with."""

from __future__ import annotations

import shutil
from pathlib import Path

import intarsia
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

SOURCE = Path(__file__).resolve().parents[2]
# Bounds of what 8 bits may cost. bench/quantized_encoders.py measures 500 sentences, and the peers beside them.
LEAST_COSINE = LEAST_CORRELATION = 0.995
SENTENCES = 120


@pytest.fixture(scope="module")
def sentences(minilm_dir) -> list[np.ndarray]:
    """Give the token ids of the first entries of the example's held-out text, [1, tokens] each."""
    tokenizer = Tokenizer.from_file(str(minilm_dir / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(128)
    lines = (SOURCE / "examples" / "glossary" / "heldout.txt").read_text().splitlines()[:SENTENCES]
    return [np.asarray([tokenizer.encode(line).ids], np.int64) for line in lines]


def embed(module, sentences: list[np.ndarray]) -> np.ndarray:
    """Give embeddings of length 1, [sentences, features]."""
    return np.concatenate([np.asarray(module.embed(input_ids=ids)) for ids in sentences]).astype(np.float64)


def ranks(values: np.ndarray) -> np.ndarray:
    """Give the position of each value in the order of all."""
    result = np.empty(len(values))
    result[np.argsort(values)] = np.arange(len(values))
    return result


def stored_in_bf16(directory: Path, copy: Path) -> Path:
    """Copy a model whose floats become bf16, which it then computes in."""
    shutil.copytree(directory, copy)
    weights = load_file(directory / "model.safetensors")
    floats = {name: array for name, array in weights.items() if array.dtype == np.float32}
    (copy / "model.safetensors").unlink()
    save_file(weights | {name: array.astype(ml_dtypes.bfloat16) for name, array in floats.items()},
              copy / "model.safetensors")  # fmt: skip
    return copy


@pytest.mark.parametrize("stored", ["f32", "bf16"])
def test_int8_keeps_embeddings_and_their_order(tools, scratch, tmp_path, minilm_dir, minilm, sentences, stored):
    directory = minilm_dir if stored == "f32" else stored_in_bf16(minilm_dir, tmp_path / "minilm")
    tools.compile(directory, "-o", scratch / "minilm-tokens.itx", "--quantize=int8")
    actual, expected = (embed(module, sentences) for module in (intarsia.load(scratch / "minilm-tokens.itx"), minilm))
    cosines = (actual * expected).sum(-1)
    pairs = np.triu_indices(len(sentences), 1)
    order = np.corrcoef(*(ranks((rows @ rows.T)[pairs]) for rows in (actual, expected)))[0, 1]
    print(f"mean cosine {cosines.mean():.5f}, least {cosines.min():.5f}, Spearman of pairs {order:.5f}")
    assert LEAST_COSINE <= cosines.mean() < 1 - 1e-6
    assert LEAST_CORRELATION <= order < 1
