# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference lowering of nn.dequantize against the gguf package, bit for bit."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from reference import Reference

TYPES = [
    "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
    "IQ4_XS", "MXFP4", "NVFP4",
]  # fmt: skip


def check(actual: np.ndarray, name: str, blocks: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        wanted = gguf.dequantize(blocks, Type[name])
    assert actual.shape == wanted.shape
    # Which NaN it is depends on the processor.
    different = (actual.view(np.uint32) != wanted.view(np.uint32)) & ~(np.isnan(actual) & np.isnan(wanted))
    assert not different.any(), f"{actual[different][:4]} is not {wanted[different][:4]}"


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_every_type(tools, tmp_path, name: str, dynamic: bool) -> None:
    elements, size = gguf.GGML_QUANT_SIZES[Type[name]]
    # Random bytes have NaN, infinities, subnormals and every bit pattern of scales.
    blocks = np.random.default_rng(TYPES.index(name)).integers(0, 256, (2, 65, 3 * size), np.uint8)
    blocks[0, 0], blocks[0, 1] = 0, 255
    raw, out = ("?x65x?", "?x65x?") if dynamic else (f"2x65x{3 * size}", f"2x65x{3 * elements}")
    reference = Reference(
        tools.path("intarsia-opt"),
        f"""
        func.func @f(%b: tensor<{raw}xi8>) -> tensor<{out}xf32> {{
          %0 = nn.dequantize %b {{format = #nn.ggml_type<{name.lower()}>}} : (tensor<{raw}xi8>) -> tensor<{out}xf32>
          return %0 : tensor<{out}xf32>
        }}""",
        tmp_path,
    )
    actual = reference("f", [blocks], [np.full((2, 65, 3 * elements), 7, np.float32)])[0]
    check(actual, name, blocks)


def test_codebooks(tools, tmp_path) -> None:
    names = ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]
    functions = ""
    for name in names:
        _, size = gguf.GGML_QUANT_SIZES[Type[name]]
        functions += f"""
        func.func @{name.lower()}(%b: tensor<65x{3 * size}xi8>) -> tensor<65x768xf32> {{
          %0 = nn.dequantize %b {{format = #nn.ggml_type<{name.lower()}>}} : (tensor<65x{3 * size}xi8>) -> tensor<65x768xf32>
          return %0 : tensor<65x768xf32>
        }}"""
    reference = Reference(tools.path("intarsia-opt"), functions, tmp_path)
    for number, name in enumerate(names):
        _, size = gguf.GGML_QUANT_SIZES[Type[name]]
        blocks = np.random.default_rng(number).integers(0, 256, (65, 3 * size), np.uint8)
        blocks[0], blocks[1] = 0, 255
        check(reference(name.lower(), [blocks], [np.full((65, 768), 7, np.float32)])[0], name, blocks)
