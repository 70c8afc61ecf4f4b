# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The linears that bench/quantized_linears.py measures: blocks that can be dequantized, and matmuls of them."""

from __future__ import annotations

import argparse

import gguf
import intarsia
import numpy as np
import pytest
import quantized_linears as linears
from gemm_torch import test_values as values_of
from harness.artifact import stored_bytes
from harness.program import NotMeasuredError


@pytest.fixture
def session(build_dir, tmp_path):
    return linears.Session(argparse.Namespace(build=build_dir, work=tmp_path, threads=1, pairs=1))


@pytest.mark.parametrize("format", linears.GGML)
def test_blocks_are_finite_when_dequantized(format):
    blocks = linears.random_blocks(format, 40, 512)
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[format.upper()]]
    assert blocks.shape == (40, 512 // elements * size)
    dequantized = gguf.dequantize(blocks, gguf.GGMLQuantizationType[format.upper()])
    assert np.isfinite(dequantized).all()
    assert 1e-3 < np.abs(dequantized).mean() < 10


@pytest.mark.parametrize("format", ["int4", "q4_0"])
def test_matmuls(session, format):
    linear = linears.Linear(format, 256, 96)
    artifact = session.compile(linear)
    dequantized = linears.first_values(linear, artifact.parent)
    x = values_of(5 * 256, 1).reshape(5, 256)
    y, expected = np.asarray(intarsia.load(artifact).main(x)), x @ dequantized.T
    assert (y * expected).sum() / np.linalg.norm(y) / np.linalg.norm(expected) > linears.LEAST_COSINE
    assert sum(stored_bytes(artifact.with_suffix(".safetensors")).values()) == 96 * 256 * 18 // 32


def test_dequantized_weights_are_no_rival(session, monkeypatch):
    monkeypatch.setattr(linears, "MOST_GROWTH", 0.9)
    with pytest.raises(NotMeasuredError, match="no kernel"):
        session.compile(linears.Linear("q4_0", 256, 96))
