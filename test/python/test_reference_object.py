# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Objects of the reference device: kernels of every kind, layouts of weights and conversions against NumPy.

The formulas of ops are tested in test_reference_*.py; here are what stands around them: buffers and sizes of a launch,
results in the memory of inputs, weights as they lie in memory, and floats that a baseline processor cannot convert. A
result is off by one rounding: half a unit in the last place of its type.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
import pytest
from reference_object import ReferenceObject
from safetensors.numpy import save_file

BF16 = np.dtype(ml_dtypes.bfloat16)
random = np.random.default_rng(7)


@pytest.fixture
def compiled(tools, tmp_path: Path):
    return lambda program: ReferenceObject(tools, program, tmp_path)


def normal(*shape: int, dtype=np.float32) -> np.ndarray:
    return random.standard_normal(shape).astype(dtype)


def close(actual: np.ndarray, expected: np.ndarray, tolerance: float = 2**-24) -> None:
    expected = np.asarray(expected, np.float64)
    np.testing.assert_allclose(
        np.asarray(actual, np.float64), expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max(initial=0))
    )


def kernel(name: str, root: str, arguments: str, results: str, body: str, sizes: str = "") -> str:
    return (
        f"rt.kernel @{name}({arguments}) -> ({results}) attributes {{root = #nn.root<{root}>, sizes = [{sizes}]}} {{\n"
        f"{body}\n}}\n"
    )


# ---- Buffers of a launch -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("bf16", BF16), ("f16", np.float16)])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_rows(compiled, element, dtype, rows) -> None:
    tensor = f"tensor<?x6x{element}>"
    program = kernel(
        "rows",
        "rows",
        f'%x: {tensor} {{nn.sizes = ["s0 * s1", ""]}}, %y: {tensor} {{nn.sizes = ["s0 * s1", ""]}}',
        f'{tensor} {{nn.sizes = ["s0 * s1", ""]}}',
        f"  %a = arith.addf %x, %y : {tensor}\n  %r = nn.relu %a : {tensor}\n  rt.yield %r : {tensor}",
        '"s0", "s1"',
    )
    x, y = normal(rows * 3, 6, dtype=dtype), normal(rows * 3, 6, dtype=dtype)
    [result] = compiled(program)(0, [x, y], [np.empty_like(x)], (rows, 3))
    # Sums of two small floats are rounded once, here as there.
    expected = np.maximum((x.astype(np.float32) + y.astype(np.float32)).astype(dtype), 0)
    np.testing.assert_array_equal(result, expected)


def test_outputs_in_the_memory_of_inputs(compiled) -> None:
    tensor = "tensor<4xf32>"
    program = kernel(
        "swap",
        "generic",
        f"%x: {tensor}, %y: {tensor}",
        f"{tensor}, {tensor}",
        f"  rt.yield %y, %x : {tensor}, {tensor}",
    )
    x, y = normal(4), normal(4)
    before = x.copy(), y.copy()
    compiled(program)(0, [x, y], [x, y])
    np.testing.assert_array_equal(x, before[1])
    np.testing.assert_array_equal(y, before[0])


def test_cache_append_in_place(compiled) -> None:
    cache = "tensor<4x2x8x16xf32>"
    arguments = (
        f'%c: {cache}, %r: tensor<?x2x16xf32> {{nn.sizes = ["s0", "", ""]}}, '
        '%p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<2x2xi64>'
    )
    append = (
        f"  %n = nn.cache_append(%c) <values, f32, page = 8>, %r, %p, %s, %t : ({cache}, tensor<?x2x16xf32>, tensor<?xi64>, tensor<?xi64>, "
        f"tensor<2x2xi64>) -> {cache}\n  rt.yield %n : {cache}"
    )
    program = kernel("append", "cache_append", arguments, cache, append, '"s0"')
    state, rows = normal(4, 2, 8, 16), normal(3, 2, 16)
    expected = state.copy()
    positions, sequences = np.array([7, 8, 0]), np.array([0, 0, 1])
    table = np.array([[3, 1], [2, 0]])
    for token, (position, sequence) in enumerate(zip(positions, sequences, strict=True)):
        expected[table[sequence, position // 8], :, position % 8] = rows[token]
    compiled(program)(0, [state, rows, positions, sequences, table], [state], (3,))
    np.testing.assert_array_equal(state, expected)


def test_booleans_take_bytes(compiled) -> None:
    program = kernel(
        "invert",
        "rows",
        '%x: tensor<?xi1> {nn.sizes = ["s0"]}',
        'tensor<?xi1> {nn.sizes = ["s0"]}',
        "  %t = arith.constant dense<true> : tensor<4xi1>\n  %d = tensor.cast %t : tensor<4xi1> to tensor<?xi1>\n"
        "  %r = arith.xori %x, %d : tensor<?xi1>\n  rt.yield %r : tensor<?xi1>",
        '"s0"',
    )
    [result] = compiled(program)(0, [np.array([0, 1, 2, 255], np.uint8)], [np.full(4, 9, np.uint8)], (4,))
    np.testing.assert_array_equal(result, [1, 0, 0, 0])


def test_views(compiled) -> None:
    sizes = 'nn.sizes = ["s0", ""]'
    program = kernel(
        "views",
        "generic",
        f"%a: tensor<?x6xf32> {{{sizes}}}, %b: tensor<?x4xf32> {{{sizes}}}, %i: tensor<3xi64>",
        f'tensor<?x10xf32> {{{sizes}}}, tensor<?x2x2xf32> {{nn.sizes = ["s0", "", ""]}}, tensor<?x2xf32> {{{sizes}}}, '
        'tensor<3xf32>, tensor<6x?xf32> {nn.sizes = ["", "s0"]}',
        """
  %c = tensor.concat dim(1) %a, %b : (tensor<?x6xf32>, tensor<?x4xf32>) -> tensor<?x10xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %b, %c0 : tensor<?x4xf32>
  %e = tensor.expand_shape %b [[0], [1, 2]] output_shape [%n, 2, 2] : tensor<?x4xf32> into tensor<?x2x2xf32>
  %s = tensor.extract_slice %a[0, 3] [%n, 2] [1, 1] : tensor<?x6xf32> to tensor<?x2xf32>
  %o = tensor.empty() : tensor<3xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%i : tensor<3xi64>) outs(%o : tensor<3xf32>) {
  ^bb0(%in: i64, %out: f32):
    %x = arith.index_cast %in : i64 to index
    %z = arith.constant 1 : index
    %v = tensor.extract %a[%x, %z] : tensor<?x6xf32>
    linalg.yield %v : f32
  } -> tensor<3xf32>
  %t0 = tensor.empty(%n) : tensor<6x?xf32>
  %t = linalg.transpose ins(%a : tensor<?x6xf32>) outs(%t0 : tensor<6x?xf32>) permutation = [1, 0]
  rt.yield %c, %e, %s, %g, %t
      : tensor<?x10xf32>, tensor<?x2x2xf32>, tensor<?x2xf32>, tensor<3xf32>, tensor<6x?xf32>""",
        '"s0"',
    )
    a, b = normal(5, 6), normal(5, 4)
    shapes = [(5, 10), (5, 2, 2), (5, 2), (3,), (6, 5)]
    outputs = compiled(program)(
        0, [a, b, np.array([4, 5, -1])], [np.empty(shape, np.float32) for shape in shapes], (5,)
    )
    gathered = np.array([a[4, 1], np.nan, np.nan], np.float32)  # outside of the tensor there is NaN
    expected = [np.hstack([a, b]), b.reshape(5, 2, 2), a[:, 3:5], gathered, a.T]
    for output, value in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(output, value)


# ---- Kernels of other roots ----------------------------------------------------------------------------------


def test_attention_and_softmax(compiled) -> None:
    tensor = "tensor<1x?x2x8xf32>"
    sizes = 'nn.sizes = ["", "s0", "", ""]'
    program = kernel(
        "attention",
        "attention",
        f"%q: {tensor} {{{sizes}}}, %k: {tensor} {{{sizes}}}, %v: {tensor} {{{sizes}}}",
        f"{tensor} {{{sizes}}}",
        f"  %r = nn.attention %q, %k, %v {{causal, scale = 0.5 : f32}} : ({tensor}, {tensor}, {tensor}) -> {tensor}\n"
        f"  rt.yield %r : {tensor}",
        '"s0"',
    )
    q, k, v = (normal(1, 9, 2, 8) for _ in range(3))
    scores = np.einsum("bihd,bjhd->bhij", q, k, dtype=np.float64) * 0.5
    scores[..., np.triu(np.ones((9, 9), bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    kernels = compiled(program)
    [result] = kernels(0, [q, k, v], [np.empty_like(q)], (9,))
    close(result, np.einsum("bhij,bjhd->bihd", weights, v))
    assert kernels.imports == ["exp", "free", "malloc"]


def test_matmul_and_route(compiled) -> None:
    program = kernel(
        "product",
        "matmul",
        '%a: tensor<3x?x5xf32> {nn.sizes = ["", "s0", ""]}, %b: tensor<3x5x7xf32>',
        'tensor<3x?x7xf32> {nn.sizes = ["", "s0", ""]}',
        "  %r = nn.matmul %a, %b : (tensor<3x?x5xf32>, tensor<3x5x7xf32>) -> tensor<3x?x7xf32>\n"
        "  rt.yield %r : tensor<3x?x7xf32>",
        '"s0"',
    ) + kernel(
        "route",
        "route",
        '%l: tensor<?x6xf32> {nn.sizes = ["s0", ""]}',
        'tensor<?x2xi32> {nn.sizes = ["s0", ""]}, tensor<?x2xf32> {nn.sizes = ["s0", ""]}',
        "  %i, %w = nn.route %l {top_k = 2 : i64, normalize} : (tensor<?x6xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)\n"
        "  rt.yield %i, %w : tensor<?x2xi32>, tensor<?x2xf32>",
        '"s0"',
    )
    a, b, logits = normal(3, 4, 5), normal(3, 5, 7), normal(4, 6)
    kernels = compiled(program)
    [result] = kernels(0, [a, b], [np.empty((3, 4, 7), np.float32)], (4,))
    close(result, a.astype(np.float64) @ b)
    indices, weights = kernels(1, [logits], [np.empty((4, 2), np.int32), np.empty((4, 2), np.float32)], (4,))
    expected = np.argsort(-logits, axis=1)[:, :2]
    np.testing.assert_array_equal(indices, expected)
    powers = np.exp(np.take_along_axis(logits, expected, 1).astype(np.float64))
    close(weights, powers / powers.sum(1, keepdims=True))


# ---- Weights as they lie in memory ---------------------------------------------------------------------------


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
        ("i8", "bf16", 64, 8),
        ("i6", "f32", 128, 6),
        ("ternary", "f16", 0, 4),
        ("i8", "f32", 0, 8),
        ("e2m1", "e8m0", 32, 4),
        ("e2m1", "e4m3", 16, 4),
    ],
)
def test_block_formats(compiled, width, element, scale, block, bits) -> None:
    rows, depth = 37, 300
    dtype = {"f16": np.float16, "bf16": BF16, "f32": np.float32, "e8m0": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn}[
        scale
    ]
    scale_bytes = np.dtype(dtype).itemsize
    blocks = -(-depth // block) if block else 1
    quantized = random.integers(0, 3 if element == "ternary" else 1 << bits, (rows, depth))
    if element == "e2m1":
        elements = np.where(quantized & 8, -1, 1) * E2M1[quantized & 7]
    else:
        elements = quantized - (1 if element == "ternary" else 1 << (bits - 1))
        quantized = quantized + (7 if element == "ternary" else 0)
    if scale == "e8m0":
        stored_scales = random.integers(120, 130, (rows, blocks)).astype(np.uint8)
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
    quantized = random.integers(0, 1 << bits, (rows, depth))
    parts = depth // 32 if keyword == "q4_1" else depth // 256
    whole, least = (np.abs(normal(rows, parts)).astype(np.float16) for _ in range(2))
    blocks = depth // block
    if keyword == "q4_1":
        blocks_of_unit = 1  # 16 rows of f16 are half a line, which is what such panels begin at
        unit, unit_scales = 32, width * 4
        scales, minima = whole.astype(np.float64), least.astype(np.float64)
    else:
        unit, steps = 256, 256 // block
        small = random.integers(-128, 128, (rows, blocks)) if bits == 6 else random.integers(0, 64, (rows, blocks))
        lowest = np.zeros_like(small) if bits == 6 else random.integers(0, 64, (rows, blocks))
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
    blocks = random.integers(0, 256, (rows, depth // elements, size)).astype(np.uint8)
    # Scales must be finite.
    offsets = {"Q4_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "MXFP4": ()}.get(name, (0,))
    for offset in offsets:
        blocks[..., offset : offset + 2] = np.abs(normal(rows, depth // elements, 1, dtype=np.float16)).view(np.uint8)
    if name == "MXFP4":
        blocks[..., 0] = random.integers(120, 130, blocks.shape[:2])
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
        ("llama", ("--quantize=int5",)),
        ("llama", ("--quantize=int6",)),
        ("llama", ("--quantize=int8-channel",)),
        ("llama", ("--quantize=nvfp4",)),
    ],
)
def test_models_as_on_the_cpu(tools, tmp_path: Path, model: str, options: tuple[str, ...]) -> None:
    """Every kernel of a decoder, on weights that were packed for the device, against those of the CPU."""
    logits, folder = [], Path(__file__).parents[1] / "EndToEnd" / "decoders" / model
    for target in ("cpu", "reference"):
        artifact, output = tmp_path / f"{target}.itx", tmp_path / f"{target}.npy"
        tools.compile(folder, f"--target={target}", *options, "-o", artifact)
        tools.run("intarsia-run", artifact, "--ids=1,45,73,12,9,3,3,7", f"--output=@{output}")
        logits.append(np.load(output))
    # The CPU sums in f32; narrow caches and activations turn that into units in the last place of theirs.
    close(logits[1], logits[0], 2e-2 if model.endswith(("bf16", "mixed")) else 1e-5)


# ---- Floats that a baseline processor cannot convert ---------------------------------------------------------


def conversion(op: str, source: str, target: str) -> str:
    a, b = f"tensor<?x{source}>", f"tensor<?x{target}>"
    sizes = '{nn.sizes = ["s0"]}'
    return kernel(
        "convert",
        "rows",
        f"%x: {a} {sizes}",
        f"{b} {sizes}",
        f"  %r = {op} %x : {a} to {b}\n  rt.yield %r : {b}",
        '"s0"',
    )


@pytest.mark.parametrize(
    ("element", "dtype"),
    [("bf16", BF16), ("f16", np.float16), ("f8E4M3FN", ml_dtypes.float8_e4m3fn), ("f8E5M2", ml_dtypes.float8_e5m2)],
)
def test_every_small_float_widens(compiled, element, dtype) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    x = np.arange(1 << bits, dtype=f"u{bits // 8}").view(dtype)
    [result] = compiled(conversion("arith.extf", element, "f32"))(0, [x], [np.empty(len(x), np.float32)], (len(x),))
    np.testing.assert_array_equal(result, x.astype(np.float32))


@pytest.mark.parametrize(("element", "dtype"), [("bf16", BF16), ("f16", np.float16)])
def test_floats_narrow(compiled, element, dtype) -> None:
    # Every small float, the middle to its neighbour, and values right beside that; then random bits.
    small = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        middle = ((small.astype(np.float64) + np.roll(small, 1)) / 2).astype(np.float32)
    beside = [np.nextafter(middle, np.float32(side)) for side in (-np.inf, np.inf)]
    bits = random.integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)
    x = np.concatenate([small, middle, *beside, bits])
    [result] = compiled(conversion("arith.truncf", "f32", element))(0, [x], [np.empty(len(x), dtype)], (len(x),))
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(dtype)
    isnan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(result), isnan)
    np.testing.assert_array_equal(result.view(np.uint16)[~isnan], expected.view(np.uint16)[~isnan])


@pytest.mark.parametrize(("element", "dtype"), [("bf16", BF16), ("f16", np.float16)])
def test_doubles_narrow_once(compiled, element, dtype) -> None:
    """Values whose nearest f32 is half way between two small floats, on either side of it."""
    infinity = 0x7F80 if element == "bf16" else 0x7C00
    small = np.arange(infinity, dtype=np.uint16).view(dtype).astype(np.float64)
    middle = (small[:-1] + small[1:]) / 2
    x = np.concatenate([middle * (1 + sign * 2.0**-40) for sign in (-1, 0, 1)])
    with np.errstate(over="ignore"):
        lower = np.concatenate([small[:-1]] * 3), np.concatenate([small[1:]] * 3)
    isEven = np.arange(len(middle)) % 2 == 0
    expected = np.where(np.concatenate([np.ones_like(isEven), isEven, np.zeros_like(isEven)]), *lower)
    x, expected = np.concatenate([x, -x]), np.concatenate([expected, -expected])
    beyond = np.array([1e300, -1e300, np.inf, -np.inf, 1e-300, -1e-300])
    x, expected = np.concatenate([x, beyond]), np.concatenate([expected, [np.inf, -np.inf] * 2, [0.0, -0.0]])
    [result] = compiled(conversion("arith.truncf", "f64", element))(0, [x], [np.empty(len(x), dtype)], (len(x),))
    np.testing.assert_array_equal(result.view(np.uint16), expected.astype(np.float32).astype(dtype).view(np.uint16))


@pytest.mark.parametrize(
    ("element", "dtype"), [("f8E4M3FN", ml_dtypes.float8_e4m3fn), ("f8E5M2", ml_dtypes.float8_e5m2)]
)
def test_floats_of_8_bits_narrow(compiled, element, dtype) -> None:
    small = np.arange(1 << 8, dtype=np.uint8).view(dtype).astype(np.float32)
    middle = (small + np.roll(small, 1)) / 2
    beside = [np.nextafter(middle, np.float32(side)) for side in (-np.inf, np.inf)]
    edges = np.array([464, 480, 61440, 65536, 1e30, 1e-30, 1e-45], np.float32)
    bits = random.integers(0, 1 << 32, 1 << 14, np.uint32).view(np.float32)
    x = np.concatenate([small, middle, *beside, edges, -edges, bits, normal(1 << 12)])
    [result] = compiled(conversion("arith.truncf", "f32", element))(0, [x], [np.empty(len(x), dtype)], (len(x),))
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(dtype)
    isnan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(result), isnan)
    np.testing.assert_array_equal(result.view(np.uint8)[~isnan], expected.view(np.uint8)[~isnan])


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_small_floats_move(compiled, element) -> None:
    """Selects, loops and constants, for which a code generator may convert a float that the processor lacks."""
    tensor, dtype = f"tensor<8x{element}>", BF16 if element == "bf16" else np.float16
    program = kernel(
        "moves",
        "generic",
        f"%x: {tensor}, %m: tensor<8xi1>",
        f"{tensor}, tensor<{element}>",
        f"""
  %c = arith.constant dense<[1.0, -2.0, 0.5, 3.0, 1.5, -1.0, 4.0, -8.0]> : {tensor}
  %s = arith.select %m, %x, %c : tensor<8xi1>, {tensor}
  %i = arith.constant dense<-100.0> : tensor<{element}>
  %r = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}}
      ins(%s : {tensor}) outs(%i : tensor<{element}>) {{
  ^bb0(%in: {element}, %out: {element}):
    %l = arith.cmpf ogt, %in, %out : {element}
    %v = arith.select %l, %in, %out : {element}
    linalg.yield %v : {element}
  }} -> tensor<{element}>
  rt.yield %s, %r : {tensor}, tensor<{element}>""",
    )
    x, mask = normal(8, dtype=dtype), np.array([0, 1, 0, 0, 1, 1, 0, 1], np.uint8)
    selected, largest = compiled(program)(0, [x, mask], [np.empty(8, dtype), np.empty((), dtype)])
    expected = np.where(mask, x, np.array([1, -2, 0.5, 3, 1.5, -1, 4, -8], dtype))
    np.testing.assert_array_equal(selected, expected)
    assert largest == expected.max()


@pytest.mark.parametrize(("op", "function"), [("exp", np.exp), ("log1p", np.log1p), ("expm1", np.expm1)])
def test_functions_are_rounded_once(compiled, op, function) -> None:
    x = np.abs(np.concatenate([normal(2000), np.exp2(-np.arange(140.0)).astype(np.float32)]))
    tensor = f"tensor<{len(x)}xf32>"
    program = kernel(
        "unary", "rows", f"%x: {tensor}", tensor, f"  %r = math.{op} %x : {tensor}\n  rt.yield %r : {tensor}"
    )
    [result] = compiled(program)(0, [x], [np.empty_like(x)])
    np.testing.assert_array_equal(result, function(x.astype(np.float64)).astype(np.float32))


def test_rounds_to_even(compiled) -> None:
    x = np.concatenate([np.arange(-9, 9, 0.25), [2**22 + 0.5, 2**23 + 1, -(2**22) - 1.5, 1e30, -0.0, np.inf, np.nan]])
    x = x.astype(np.float32)
    tensor = f"tensor<{len(x)}xf32>"
    program = kernel(
        "round", "rows", f"%x: {tensor}", tensor, f"  %r = math.roundeven %x : {tensor}\n  rt.yield %r : {tensor}"
    )
    kernels = compiled(program)
    [result] = kernels(0, [x], [np.empty_like(x)])
    np.testing.assert_array_equal(result, np.round(x))
    np.testing.assert_array_equal(np.signbit(result), np.signbit(x))
    assert "roundevenf" not in kernels.imports
