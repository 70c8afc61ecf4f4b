# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights as they lie in the memory of the reference device: layouts and formats against NumPy and gguf."""

from __future__ import annotations

from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
import pytest
from random_numbers import RNG, normal
from reference_object import BF16, ReferenceObject, close, kernel
from safetensors.numpy import save_file


@pytest.fixture
def compiled(tools, tmp_path: Path):
    return lambda program: ReferenceObject(tools, program, tmp_path)


def panels(weight: np.ndarray, width: int, slices: int = 1) -> np.ndarray:
    """Store [..., N, K] as [..., panels, K, width]; panels of slices alternate."""
    *leading, rows, depth = weight.shape
    count = -(-rows // width)
    padded = np.zeros((*leading, count * width, depth), weight.dtype)
    padded[..., :rows, :] = weight
    stored = padded.reshape(*leading, count, width, depth).swapaxes(-1, -2)
    order = np.arange(count).reshape(slices, -1).T.ravel()
    return np.ascontiguousarray(np.take(stored, order, axis=len(leading)))


def linear(layout: str, weight: str, element: str = "f32") -> str:
    rows, depth = weight
    return kernel(
        "linear",
        "linear",
        f'%x: tensor<?x{depth}x{element}> {{nn.sizes = ["s0", ""]}}, '
        f"%w: tensor<{rows}x{depth}x{element}> {{rt.layout = #rt.{layout}}}",
        f'tensor<?x{rows}x{element}> {{nn.sizes = ["s0", ""]}}',
        f"  %r = nn.linear %x, %w : (tensor<?x{depth}x{element}>, tensor<{rows}x{depth}x{element}>) -> "
        f"tensor<?x{rows}x{element}>\n  rt.yield %r : tensor<?x{rows}x{element}>",
        '"s0"',
    )


@pytest.mark.parametrize(
    ("layout", "rows", "width", "slices"),
    [
        ("row_major", 37, 0, 1),
        ("panels<16>", 37, 16, 1),
        ("panels<32>", 37, 32, 1),
        ("panels<5>", 37, 5, 1),
        ("panels<8 in 2 slices>", 48, 8, 2),
    ],
)
@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("bf16", BF16), ("f16", np.float16)])
def test_linear(compiled, layout, rows, width, slices, element, dtype) -> None:
    x, weight = normal(3, 20, dtype=dtype), normal(rows, 20, dtype=dtype)
    stored = panels(weight, width, slices) if width else weight
    [result] = compiled(linear(layout, (rows, 20), element))(0, [x, stored], [np.empty((3, rows), dtype)], (3,))
    expected = x.astype(np.float64) @ weight.astype(np.float64).T
    close(result, expected, {"f32": 2**-24, "bf16": 2**-8, "f16": 2**-11}[element])


class QuantizedPanels:
    """Panels of quantized values, written by the description in dialects/Rt/BlockPanels.h."""

    def __init__(self, width: int, bits: int, unit: int, unit_scales: int, head: int = 0) -> None:
        self.width, self.bits, self.unit, self.head = width, bits, unit, head
        self.unit_scales = unit_scales
        self.step = width * 32 * bits // 8
        self.unit_bytes = unit_scales + unit // 32 * self.step

    def store(self, quantized: np.ndarray, scales) -> np.ndarray:
        """Store values [N, K]; `scales(panel bytes, unit bytes or None, row, number of the unit)` writes the rest."""
        rows, depth = quantized.shape
        units = -(-depth // self.unit)
        panel = np.zeros((-(-rows // self.width), self.head + units * self.unit_bytes), np.uint8)
        for row in range(rows):
            memory, index = panel[row // self.width], row % self.width
            scales(memory[: self.head], None, index, row)
            for unit in range(units):
                begin = self.head + unit * self.unit_bytes
                scales(memory[begin : begin + self.unit_scales], unit, index, row)
            for k in range(depth):
                unit, inside = divmod(k, self.unit)
                begin = self.head + unit * self.unit_bytes + self.unit_scales + inside // 32 * self.step
                self.store_value(memory[begin:], index, k % 32, int(quantized[row, k]))
        return panel

    def store_value(self, memory: np.ndarray, row: int, k: int, value: int) -> None:
        word, byte = divmod(k, 4)
        offset = row // 16 * 64 * self.bits + row % 16 * 4 + byte
        if self.bits == 8:
            memory[offset + word * 64] = value
            return
        if self.bits == 2:
            memory[offset + word // 4 * 64] |= value << (word % 4 * 2)
            return
        memory[offset + word % 4 * 64] |= (value & 15) << (word // 4 * 4)
        if high := self.bits - 4:
            line = 8 // high
            memory[offset + (4 + word // line) * 64] |= value >> 4 << (word % line * high)


def put(memory: np.ndarray, offset: int, value, dtype) -> None:
    data = np.array([value], dtype).view(np.uint8)
    memory[offset : offset + len(data)] = data


def decoded(compiled, attribute: str, shape: tuple[int, int], width: int, stored: np.ndarray) -> np.ndarray:
    """Read a stored weight through a linear with the identity, which changes no value."""
    x = np.eye(shape[1], dtype=np.float32)
    program = linear(f"panels<{width}, {attribute}>", shape)
    [result] = compiled(program)(0, [x, stored], [np.empty((shape[1], shape[0]), np.float32)], (shape[1],))
    return result.T


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


@pytest.mark.parametrize("width", [16, 32, 48])
@pytest.mark.parametrize(
    ("element", "scale", "block", "bits"),
    [
        ("i4", "f16", 32, 4),
        ("u4", "f16", 32, 4),
        ("u4", "bf16", 128, 4),
        ("i8", "bf16", 64, 8),
        ("i6", "f32", 128, 6),
        ("ternary", "f16", 0, 2),
        ("ternary", "f16", 256, 2),
        ("ternary", "bf16", 32, 2),
        ("i8", "f32", 0, 8),
        ("e2m1", "e8m0", 32, 4),
        ("e2m1", "e4m3", 16, 4),
        ("e4m3", "f32", 0, 8),
        ("e4m3", "e8m0", 32, 8),
    ],
)
def test_block_formats(compiled, width, element, scale, block, bits) -> None:
    rows, depth = 37, 300
    dtype = {"f16": np.float16, "bf16": BF16, "f32": np.float32, "e8m0": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn}[
        scale
    ]
    scale_bytes = np.dtype(dtype).itemsize
    blocks = -(-depth // block) if block else 1
    quantized = RNG.integers(0, 1 << bits, (rows, depth))  # of ternary values the fourth means 2, as in TQ2_0
    if element == "e2m1":
        elements = np.where(quantized & 8, -1, 1) * E2M1[quantized & 7]
    elif element == "e4m3":
        quantized = np.where(quantized & 0x7F == 0x7F, 0x7E, quantized)  # no NaN
        elements = quantized.astype(np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    elif element == "u4":
        zero_points = RNG.integers(0, 16, (rows, blocks))
        elements = quantized - np.repeat(zero_points, block, axis=1)[:, :depth]
    else:
        elements = quantized - (1 if element == "ternary" else 1 << (bits - 1))
    if scale == "e8m0":
        stored_scales = RNG.integers(120, 130, (rows, blocks)).astype(np.uint8)
        factors = 2.0 ** (stored_scales.astype(np.float64) - 127)
    else:
        stored_scales = np.abs(normal(rows, blocks)).astype(dtype)
        factors = stored_scales.astype(np.float64)
    tensor_scale = np.float32(0.37) if scale == "e4m3" else None
    # A unit: whole lines of scales, or half ones in panels of an odd number of 16 rows, and whole steps.
    line = 64 if width % 32 == 0 else 32
    unit, unit_scales, head = 32, 0, -(-width * scale_bytes // line) * line
    if block:
        of_block = width * scale_bytes
        unit = np.lcm(block * (np.lcm(of_block, line) // of_block), 32)
        unit_scales, head = unit // block * of_block, width * 4 if tensor_scale else 0
        unit_scales *= 2 if element == "u4" else 1

    def write(memory: np.ndarray, number: int | None, index: int, row: int) -> None:
        if number is None:
            if tensor_scale:
                put(memory, index * 4, tensor_scale, np.float32)
            elif not block:
                put(memory, index * scale_bytes, stored_scales[row, 0], dtype)
            return
        for i in range(unit // block if block else 0):
            if number * (unit // block) + i < blocks:
                value = stored_scales[row, number * (unit // block) + i]
                put(memory, (i * width + index) * scale_bytes, value, dtype)
                if element == "u4":  # negated, behind the scales of the unit
                    zero = np.asarray(-float(zero_points[row, number * (unit // block) + i])).astype(dtype)
                    put(memory, unit_scales // 2 + (i * width + index) * scale_bytes, zero, dtype)

    stored = QuantizedPanels(width, bits, int(unit), int(unit_scales), head).store(quantized, write)
    result = decoded(compiled, f"#nn.block_format<{element}, {scale}, {block}, axis = 1>", (rows, depth), width, stored)
    factors = np.repeat(factors, block or depth, axis=1)[:, :depth] * (tensor_scale or 1)
    np.testing.assert_allclose(result, factors * elements, rtol=3e-7)


@pytest.mark.parametrize("width", [16, 32])
@pytest.mark.parametrize(
    ("keyword", "bits", "block"), [("q4_1", 4, 32), ("q4_k", 4, 32), ("q5_k", 5, 32), ("q6_k", 6, 16)]
)
def test_ggml_types(compiled, width, keyword, bits, block) -> None:
    rows, depth = 21, 512
    quantized = RNG.integers(0, 1 << bits, (rows, depth))
    parts = depth // 32 if keyword == "q4_1" else depth // 256
    whole, least = (np.abs(normal(rows, parts)).astype(np.float16) for _ in range(2))
    blocks = depth // block
    if keyword == "q4_1":
        blocks_of_unit = 1  # 16 rows of f16 are half a line, which is what such panels begin at
        unit, unit_scales = 32, width * 4
        scales, minima = whole.astype(np.float64), least.astype(np.float64)
    else:
        unit, steps = 256, 256 // block
        small = RNG.integers(-128, 128, (rows, blocks)) if bits == 6 else RNG.integers(0, 64, (rows, blocks))
        lowest = np.zeros_like(small) if bits == 6 else RNG.integers(0, 64, (rows, blocks))
        integers = width * 2 if bits == 6 else width * 4
        unit_scales = -(-(integers + width * (steps if bits == 6 else steps * 3 // 2)) // (2 * width)) * 2 * width
        scales = np.repeat(whole.astype(np.float64), steps, axis=1) * small
        minima = -np.repeat(least.astype(np.float64), steps, axis=1) * lowest

    def write(memory: np.ndarray, number: int | None, index: int, row: int) -> None:
        if number is None:
            return
        if keyword == "q4_1":
            for i in range(blocks_of_unit):
                put(memory, (i * width + index) * 2, whole[row, number * blocks_of_unit + i], np.float16)
                put(
                    memory,
                    ((blocks_of_unit + i) * width + index) * 2,
                    least[row, number * blocks_of_unit + i],
                    np.float16,
                )
            return
        put(memory, index * 2, whole[row, number], np.float16)
        if bits != 6:
            put(memory, (width + index) * 2, least[row, number], np.float16)
        for i in range(steps):
            scale, minimum = int(small[row, number * steps + i]), int(lowest[row, number * steps + i])
            if bits == 6:
                memory[integers + i * width + index] = scale & 255
                continue
            memory[integers + i * width + index] = (scale & 15) | (minimum & 15) << 4
            upper = (scale >> 4) | (minimum >> 4) << 2
            memory[integers + (steps + i // 2) * width + index] |= upper << (i % 2 * 4)

    stored = QuantizedPanels(width, bits, int(unit), int(unit_scales)).store(quantized, write)
    result = decoded(compiled, f"#nn.ggml_type<{keyword}>", (rows, depth), width, stored)
    elements = quantized - (32 if keyword == "q6_k" else 0)
    expected = np.repeat(scales, block, axis=1) * elements
    if keyword != "q6_k":
        expected = expected + np.repeat(minima, block, axis=1)
    # A multiplication and an addition, each rounded: relative to the larger of both.
    np.testing.assert_allclose(result, expected, rtol=3e-7, atol=3e-7 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "MXFP4"])
def test_weights_of_an_artifact(tools, tmp_path: Path, name: str) -> None:
    """What the compiler packs for the device, in panels of 16 rows, against the gguf package."""
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    rows, depth = 37, 512
    blocks = RNG.integers(0, 256, (rows, depth // elements, size)).astype(np.uint8)
    # Scales must be finite.
    offsets = {"Q4_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "MXFP4": ()}.get(name, (0,))
    for offset in offsets:
        blocks[..., offset : offset + 2] = np.abs(normal(rows, depth // elements, 1, dtype=np.float16)).view(np.uint8)
    if name == "MXFP4":
        blocks[..., 0] = RNG.integers(120, 130, blocks.shape[:2])
    stored = blocks.reshape(rows, -1)
    save_file({"w": stored.view(np.int8)}, tmp_path / "w.safetensors")
    raw, weight = f"tensor<{rows}x{stored.shape[1]}xi8>", f"tensor<{rows}x{depth}xf32>"
    input_type, output_type = f"tensor<?x{depth}xf32>", f"tensor<?x{rows}xf32>"
    (tmp_path / "m.mlir").write_text(f"""nn.archive @weights {{file = "w.safetensors"}}
func.func @main(%x: {input_type} {{nn.name = "x", nn.sizes = ["n", ""]}}) -> ({output_type} {{nn.name = "y"}}) {{
  %b = nn.weight @weights["w"] : {raw}
  %w = nn.dequantize %b {{format = #nn.ggml_type<{name.lower()}>}} : ({raw}) -> {weight}
  %y = nn.linear %x, %w : ({input_type}, {weight}) -> {output_type}
  return %y : {output_type}
}}
""")
    np.save(tmp_path / "x.npy", np.eye(depth, dtype=np.float32))
    options = ["--quantize-activations=16", "--target=reference", "-o", tmp_path / "m.itx"]
    tools.compile(tmp_path / "m.mlir", *options)
    assert "panels<16, " in tools.compile(tmp_path / "m.mlir", *options[:2], "--stop-after=lower", "-o", "-").stdout
    tools.run("intarsia-run", tmp_path / "m.itx", f"--input=x=@{tmp_path}/x.npy", f"--output=@{tmp_path}/y.npy")
    expected = gguf.dequantize(stored, gguf.GGMLQuantizationType[name]).T
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("llama", ()),
        ("gemma3-text-bf16", ()),
        ("gpt-oss-mxfp4", ()),
        ("qwen3-moe-mixed", ()),
        ("llama", ("--quantize=int4",)),
        ("llama", ("--quantize=ternary",)),
        ("llama", ("--quantize=int5",)),
        pytest.param("llama", ("--quantize=int6",), marks=pytest.mark.slow),
        pytest.param("llama", ("--quantize=int8-channel",), marks=pytest.mark.slow),
        pytest.param("llama", ("--quantize=nvfp4",), marks=pytest.mark.slow),
        pytest.param("llama", ("--quantize=fp8",), marks=pytest.mark.slow),
        ("llama", ("--quantize=fp8", "--quantize-activations=fp8")),
        pytest.param("llama", ("--quantize=mxfp4", "--quantize-activations=mxfp4"), marks=pytest.mark.slow),
        ("llama", ("--quantize=nvfp4", "--quantize-activations=nvfp4")),
        ("qwen3-moe-mixed", ("--quantize=fp8",)),
    ],
)
def test_models_as_on_the_cpu(tools, tmp_path: Path, model: str, options: tuple[str, ...]) -> None:
    """Every kernel of a decoder, on weights that were packed for the device, against those of the CPU. How each format
    is packed and read is tested above."""
    logits, folder = [], Path(__file__).parents[1] / "EndToEnd" / "decoders" / model
    for target in ("cpu", "reference"):
        artifact, output = tmp_path / f"{target}.itx", tmp_path / f"{target}.npy"
        tools.compile(folder, f"--target={target}", *options, "-o", artifact)
        tools.run("intarsia-run", artifact, "--ids=1,45,73,12,9,3,3,7", f"--output=@{output}")
        logits.append(np.load(output))
    # The CPU sums in f32; narrow caches and activations turn that into units in the last place of theirs.
    close(logits[1], logits[0], 2e-2 if model.endswith(("bf16", "mixed")) else 1e-5)
