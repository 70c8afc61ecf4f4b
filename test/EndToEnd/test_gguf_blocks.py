# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Blocks of every ggml type, decoded while weights are packed, bit for bit against the gguf package."""

from __future__ import annotations

from pathlib import Path

import gguf
import intarsia
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import save_file

TYPES = [
    "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
    "IQ4_XS", "MXFP4", "NVFP4", "TQ1_0", "TQ2_0",
]  # fmt: skip
CODEBOOKS = ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]
BLOCKS = 6


def random_blocks(name: str, rows: int, seed: int) -> np.ndarray:
    """Random bytes: NaN, infinities, subnormals, every bit pattern of scales; some rows are all zeros or ones."""
    _, size = gguf.GGML_QUANT_SIZES[Type[name]]
    blocks = np.random.default_rng(seed).integers(0, 256, (rows, BLOCKS * size), np.uint8)
    blocks[0], blocks[1] = 0, 255
    return blocks


def decoded(name: str, blocks: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        if name in ("F32", "F16"):
            return blocks.view(np.float32 if name == "F32" else np.float16).astype(np.float32)
        return gguf.dequantize(blocks, Type[name])


def same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Compare bit for bit; which NaN it is depends on the processor."""
    assert actual.shape == expected.shape
    different = (actual.view(np.uint32) != expected.view(np.uint32)) & ~(np.isnan(actual) & np.isnan(expected))
    assert not different.any(), f"{actual[different][:4]} is not {expected[different][:4]}"


def function(tensors: dict[str, tuple[str, np.ndarray]], file: str) -> str:
    """Write `main`, which gives the dequantized values of all tensors."""
    lines, results, types = [f'nn.archive @weights {{file = "{file}"}}'], [], []
    body = []
    for key, (name, blocks) in tensors.items():
        elements, size = gguf.GGML_QUANT_SIZES[Type[name]]
        rows, width = blocks.shape
        raw, out = f"tensor<{rows}x{width}xi8>", f"tensor<{rows}x{width // size * elements}xf32>"
        body.append(f'  %{key}b = nn.weight @weights["{key}"] : {raw}')
        body.append(f"  %{key} = nn.dequantize %{key}b {{format = #nn.ggml_type<{name.lower()}>}} : ({raw}) -> {out}")
        results.append(f"%{key}")
        types.append(out)
    arguments = ", ".join(f'{t} {{nn.name = "{r[1:]}"}}' for r, t in zip(results, types, strict=True))
    lines += [f"func.func @main() -> ({arguments}) {{", *body]
    return "\n".join([*lines, f"  return {', '.join(results)} : {', '.join(types)}", "}"])


@pytest.mark.parametrize("name", TYPES)
def test_every_type(tools, scratch, name):
    # 4,099 rows: more than one unit of packing, and rows of a block of 64 or 32 that begin in the middle of one.
    blocks = random_blocks(name, 4099, TYPES.index(name))
    save_file({"w": blocks.view(np.int8)}, scratch / f"{name}.safetensors")
    (scratch / f"{name}.mlir").write_text(function({"w": (name, blocks)}, f"{name}.safetensors"))
    tools.compile(scratch / f"{name}.mlir", "-o", scratch / f"{name}-out.itx")
    same(np.asarray(intarsia.load(scratch / f"{name}-out.itx").main()), decoded(name, blocks))


def test_codebooks(tools, scratch):
    """Each vector of each codebook is there: 300 rows have 57,600 numbers of vectors or more, of up to 2,048."""
    tensors = {name: (name, random_blocks(name, 300, number)) for number, name in enumerate(CODEBOOKS)}
    archive = {name: blocks.view(np.int8) for name, (_, blocks) in tensors.items()}
    save_file(archive, scratch / "codebooks.safetensors")
    (scratch / "codebooks.mlir").write_text(function(tensors, "codebooks.safetensors"))
    tools.compile(scratch / "codebooks.mlir", "-o", scratch / "codebooks-out.itx")
    for actual, (name, blocks) in zip(
        intarsia.load(scratch / "codebooks-out.itx").main(), tensors.values(), strict=True
    ):
        same(np.asarray(actual), decoded(name, blocks))


def test_from_a_gguf_file(tools, scratch: Path):
    names = ["Q4_0", "Q6_K", "NVFP4"]
    tensors = {f"t{i}": (name, random_blocks(name, 5, i)) for i, name in enumerate(names)}
    writer = gguf.GGUFWriter(scratch / "mixed.gguf", "none")
    for key, (name, blocks) in tensors.items():
        writer.add_tensor(key, blocks, raw_dtype=Type[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (scratch / "mixed.mlir").write_text(function(tensors, "mixed.gguf"))
    done = tools.compile(scratch / "mixed.mlir", "-o", scratch / "mixed.itx")
    assert (
        "3 tensors are stored decoded to f32, which no kernel reads as blocks: 1 NVFP4, 1 Q4_0, 1 Q6_K" in done.stderr
    )
    results = intarsia.load(scratch / "mixed.itx").main()
    for actual, (name, blocks) in zip(results, tensors.values(), strict=True):
        same(np.asarray(actual), decoded(name, blocks))


def test_in_linears(tools, scratch):
    """A weight of panels with rows beyond the last, concatenated of two types."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((7, 256), np.float32)
    parts = {"a": ("Q8_0", 33), "b": ("Q5_1", 40)}
    packed, dequantized = {}, []
    for key, (name, rows) in parts.items():
        packed[key] = gguf.quantize(rng.standard_normal((rows, 256), np.float32), Type[name])
        dequantized.append(gguf.dequantize(packed[key], Type[name]))
    save_file({key: value.view(np.int8) for key, value in packed.items()}, scratch / "parts.safetensors")
    (scratch / "linear.mlir").write_text("""
nn.archive @weights {file = "parts.safetensors"}
func.func @main(%x: tensor<?x256xf32> {nn.name = "x", nn.sizes = ["n", ""]}) -> (tensor<?x73xf32> {nn.name = "y"}) {
  %ab = nn.weight @weights["a"] : tensor<33x272xi8>
  %bb = nn.weight @weights["b"] : tensor<40x192xi8>
  %a = nn.dequantize %ab {format = #nn.ggml_type<q8_0>} : (tensor<33x272xi8>) -> tensor<33x256xf32>
  %b = nn.dequantize %bb {format = #nn.ggml_type<q5_1>} : (tensor<40x192xi8>) -> tensor<40x256xf32>
  %w = tensor.concat dim(0) %a, %b : (tensor<33x256xf32>, tensor<40x256xf32>) -> tensor<73x256xf32>
  %y = nn.linear %x, %w : (tensor<?x256xf32>, tensor<73x256xf32>) -> tensor<?x73xf32>
  return %y : tensor<?x73xf32>
}
""")
    tools.compile(scratch / "linear.mlir", "-o", scratch / "linear.itx")
    expected = x.astype(np.float64) @ np.concatenate(dequantized).astype(np.float64).T
    error = np.abs(intarsia.load(scratch / "linear.itx").main(x=x) - expected).max()
    # Sums of 256 products up to 10, in f32: a few roundings of 2^-24 of results up to 60.
    assert error < 5e-5, error


@pytest.mark.parametrize(
    ("name", "offset", "value", "why"),
    [
        # MXFP4 as it is stored has no meaning for a scale of 255 (OCP Microscaling 1.0: NaN).
        ("MXFP4", 17, [255], "is 255"),
        ("Q4_0", 18, [0, 0x7C], "or minimum is NaN or infinite"),
        ("Q8_0", 0, [1, 0xFE], "or minimum is NaN or infinite"),
        ("Q4_1", 22, [0, 0xFC], "or minimum is NaN or infinite"),
        ("Q4_K", 2, [1, 0x7C], "or minimum is NaN or infinite"),
        ("Q6_K", 208, [0, 0x7C], "or minimum is NaN or infinite"),
    ],
)
def test_scale_that_is_no_number(tools, tmp_path: Path, name: str, offset: int, value: list[int], why: str):
    elements, size = gguf.GGML_QUANT_SIZES[Type[name]]
    blocks = np.full((40, 512 // elements * size), 56, np.uint8)
    blocks[33, offset : offset + len(value)] = value
    save_file({"w": blocks.view(np.int8)}, tmp_path / "w.safetensors")
    raw, weight = f"tensor<40x{blocks.shape[1]}xi8>", "tensor<40x512xf32>"
    (tmp_path / "m.mlir").write_text(f"""
nn.archive @weights {{file = "w.safetensors"}}
func.func @main(%x: tensor<?x512xf32> {{nn.name = "x", nn.sizes = ["n", ""]}}) -> (tensor<?x40xf32> {{nn.name = "y"}}) {{
  %b = nn.weight @weights["w"] : {raw}
  %w = nn.dequantize %b {{format = #nn.ggml_type<{name.lower()}>}} : ({raw}) -> {weight}
  %y = nn.linear %x, %w : (tensor<?x512xf32>, {weight}) -> tensor<?x40xf32>
  return %y : tensor<?x40xf32>
}}""")
    result = tools.run("intarsia-compile", tmp_path / "m.mlir", "-o", tmp_path / "m.itx", check=False)
    assert result.returncode != 0
    assert f"tensor 'w' has a block in row 33 whose scale {why}" in result.stderr
    assert not (tmp_path / "m.itx").exists()
