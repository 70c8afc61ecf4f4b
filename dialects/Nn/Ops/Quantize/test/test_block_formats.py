# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bit patterns of every block format, and quantizing to it, bit for bit against ml_dtypes and the published tables."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from reference import Reference, run

# name: (ml_dtypes type, bits of an element, largest value, its exponent)
FLOATS = {
    "e2m1": (ml_dtypes.float4_e2m1fn, 4, 6.0, 2),
    "e2m3": (ml_dtypes.float6_e2m3fn, 6, 7.5, 2),
    "e3m2": (ml_dtypes.float6_e3m2fn, 6, 28.0, 4),
    "e4m3": (ml_dtypes.float8_e4m3fn, 8, 448.0, 8),
    "e5m2": (ml_dtypes.float8_e5m2, 8, 57344.0, 15),
}
# arXiv 2305.14314, appendix E.
NF4 = np.array(
    [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ],
    np.float32,
)  # fmt: skip
INTEGERS = {"i4": (-8, 7), "u4": (0, 15), "i5": (-16, 15), "i6": (-32, 31), "i8": (-128, 127), "u8": (0, 255)}
SCALES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def storage(element: str) -> str:
    return "i4" if element in ("i4", "u4", "e2m1", "nf4", "ternary") else "i8"


def values_of(element: str) -> np.ndarray:
    """Give the value of each bit pattern, in order."""
    if element in FLOATS:
        kind, bits, _, _ = FLOATS[element]
        return np.arange(1 << bits, dtype=np.uint8).view(kind).astype(np.float32)
    if element == "nf4":
        return NF4
    bits = int(element[1])
    quantized = np.arange(1 << bits)
    return np.where((quantized >= 1 << (bits - 1)) & (element[0] == "i"), quantized - (1 << bits), quantized).astype(
        np.float32
    )


def patterns_of(element: str) -> np.ndarray:
    """Give the bit patterns of those values, uint8: five and six bits lie in eight, integers with their sign."""
    quantized = np.arange(len(values_of(element)), dtype=np.uint8)
    return values_of(element).astype(np.int8).view(np.uint8) if element in ("i5", "i6") else quantized


def same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Compare bit for bit; every NaN equals every other."""
    actual, expected = np.broadcast_arrays(actual.astype(np.float32), expected.astype(np.float32))
    different = (actual.view(np.uint32) != expected.view(np.uint32)) & ~(np.isnan(actual) & np.isnan(expected))
    assert not different.any(), (
        f"{actual[different][:8]} is not {expected[different][:8]} at {np.argwhere(different)[:8]}"
    )


def same_bits(actual: np.ndarray, expected: np.ndarray, bits: int) -> None:
    mask = (1 << bits) - 1
    different = (actual & mask) != (expected & mask)
    assert not different.any(), f"bits {actual[different][:8]} are not {expected[different][:8]}"


@pytest.fixture
def compile_reference(tools, tmp_path: Path):
    return lambda mlir: Reference(tools.path("intarsia-opt"), mlir, tmp_path)


def dequantize(compile_reference, form: str, quantized: np.ndarray, value_type: str, scales: np.ndarray,
               scale_type: str, zero_points: np.ndarray | None = None,
               tensor_scale: float | np.ndarray | None = None) -> np.ndarray:  # fmt: skip
    rows, columns = quantized.shape
    blocks = scales.shape[1]
    types = [f"tensor<{rows}x{columns}x{value_type}>", f"tensor<{rows}x{blocks}x{scale_type}>"]
    operands, inputs = "%0, %1", [quantized, scales]
    if zero_points is not None:
        types.append(f"tensor<{rows}x{blocks}x{value_type}>")
        operands += " zero_points %2"
        inputs.append(zero_points)
    if tensor_scale is not None:
        types.append(f"tensor<{rows}x1xf32>" if np.ndim(tensor_scale) else "tensor<f32>")
        operands += " tensor_scale %2"
        inputs.append(np.array(tensor_scale, np.float32))
    arguments = ", ".join(f"%{index}: {kind}" for index, kind in enumerate(types))
    reference = compile_reference(f"""
        func.func @f({arguments}) -> tensor<{rows}x{columns}xf32> {{
          %r = nn.dequantize {operands} {{format = #nn.block_format<{form}, axis = 1>}}
              : ({", ".join(types)}) -> tensor<{rows}x{columns}xf32>
          return %r : tensor<{rows}x{columns}xf32>
        }}""")
    return reference("f", inputs, [np.empty((rows, columns), np.float32)])[0]


@pytest.mark.parametrize("element", FLOATS)
def test_decode_mx(compile_reference, element: str) -> None:
    """Every bit pattern of elements with every E8M0 scale: 0 is 2^-127, 255 NaN."""
    values = values_of(element)
    quantized = np.tile(np.arange(len(values), dtype=np.uint8), (256, 1))
    blocks = -(-len(values) // 32)
    scales = np.repeat(np.arange(256, dtype=np.uint8)[:, None], blocks, axis=1)
    actual = dequantize(compile_reference, f"{element}, e8m0, 32", quantized, storage(element), scales, "i8")
    powers = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        same(actual, powers[:, None] * values[None, :])


def test_decode_nvfp4(compile_reference) -> None:
    quantized = np.tile(np.arange(16, dtype=np.uint8), (256, 1))
    scales = np.arange(256, dtype=np.uint8)[:, None]
    actual = dequantize(compile_reference, "e2m1, e4m3, 16", quantized, "i4", scales, "i8", tensor_scale=0.3)
    values = scales.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * np.float32(0.3)
    same(actual, values * values_of("e2m1")[None, :])


def test_decode_nvfp4_by_rows(compile_reference) -> None:
    quantized = np.tile(np.arange(16, dtype=np.uint8), (256, 2))
    scales = np.stack([np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8)[::-1]], axis=1)
    row_scales = np.random.default_rng(14).normal(size=(256, 1)).astype(np.float32)
    actual = dequantize(compile_reference, "e2m1, e4m3, 16", quantized, "i4", scales, "i8", tensor_scale=row_scales)
    values = scales.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * row_scales
    same(actual, np.repeat(values, 16, axis=1) * np.tile(values_of("e2m1"), 2))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("element", ["i4", "u4", "i5", "i6", "i8", "u8", "nf4", "ternary"])
def test_decode_groups(compile_reference, element: str, scale: str) -> None:
    block = {"nf4": 64, "ternary": 128}.get(element, 32)
    values = np.array([0, 1, -1] * 2, np.float32) if element == "ternary" else values_of(element)
    quantized = np.tile(np.array([0, 1, 15] * 2, np.uint8) if element == "ternary" else patterns_of(element), (4, 1))
    blocks = -(-quantized.shape[1] // block)
    scales = np.random.default_rng(0).normal(size=(4, blocks)).astype(SCALES[scale])
    actual = dequantize(compile_reference, f"{element}, {scale}, {block}", quantized, storage(element), scales, scale)
    same(actual, np.repeat(scales.astype(np.float32), block, axis=1)[:, : quantized.shape[1]] * values)


@pytest.mark.parametrize("element", INTEGERS)
def test_decode_zero_points(compile_reference, element: str) -> None:
    values = values_of(element)
    quantized = np.tile(patterns_of(element), (16, 1))
    random = np.random.default_rng(1)
    scales = random.normal(size=(16, 1)).astype(np.float32)
    points = random.integers(0, len(values), (16, 1)).astype(np.uint8)
    actual = dequantize(
        compile_reference, f"{element}, f32, 0", quantized, storage(element), scales, "f32",
        zero_points=patterns_of(element)[points],
    )  # fmt: skip
    same(actual, scales * (values[None, :] - values[points]))


@pytest.mark.parametrize("element", ["e4m3", "e5m2"])
def test_decode_fp8(compile_reference, element: str) -> None:
    quantized = np.tile(np.arange(256, dtype=np.uint8), (3, 1))
    scales = np.array([[1.0], [-0.37], [2.0**-20]], np.float32)
    actual = dequantize(compile_reference, f"{element}, f32, 0", quantized, "i8", scales, "f32")
    same(actual, scales * values_of(element)[None, :])


# ---- Quantizing -----------------------------------------------------------------------------------------------------


def quantizing(form: str, shape: tuple[int, int], value_type: str, blocks: int, scale_type: str,
               extra: str | None = None, name: str = "f") -> tuple[str, list[np.ndarray]]:  # fmt: skip
    """Give a function that quantizes a matrix, and arrays for its results."""
    rows, columns = shape
    types = [f"tensor<{rows}x{columns}x{value_type}>", f"tensor<{rows}x{blocks}x{scale_type}>"]
    scale_dtype = np.uint8 if scale_type == "i8" else SCALES[scale_type]
    outputs = [np.empty((rows, columns), np.uint8), np.empty((rows, blocks), scale_dtype)]
    if extra == "zero_points":
        types.append(f"tensor<{rows}x{blocks}x{value_type}>")
        outputs.append(np.empty((rows, blocks), np.uint8))
    if extra == "tensor_scale":
        types.append("tensor<f32>")
        outputs.append(np.empty((), np.float32))
    if extra == "row_scales":
        types.append(f"tensor<{rows}x1xf32>")
        outputs.append(np.empty((rows, 1), np.float32))
    names = ", ".join(f"%r{index}" for index in range(len(types)))
    text = f"""
        func.func @{name}(%x: tensor<{rows}x{columns}xf32>) -> ({", ".join(types)}) {{
          {names} = nn.quantize %x {{format = #nn.block_format<{form}, axis = 1>}}
              : (tensor<{rows}x{columns}xf32>) -> ({", ".join(types)})
          return {names} : {", ".join(types)}
        }}"""
    return text, outputs


def quantize(compile_reference, form: str, values: np.ndarray, *types: object) -> list[np.ndarray]:
    text, outputs = quantizing(form, values.shape, *types)
    return compile_reference(text)("f", [values], outputs)


def hard_values(element: str, count: int) -> np.ndarray:
    """Values of a format, the ties between them, their neighbours, and random bit patterns, within its range."""
    _, _, largest, _ = FLOATS[element]
    exact = np.unique(values_of(element)[np.isfinite(values_of(element))])
    ties = (exact[:-1] + exact[1:]) / 2
    special = np.concatenate([exact, ties, [0.0, -0.0, 1e-40, -1e-40]]).astype(np.float32)
    special = np.concatenate(
        [special, np.nextafter(special, np.float32(np.inf)), np.nextafter(special, -np.float32(np.inf))]
    )
    bits = np.random.default_rng(2).integers(0, 1 << 32, 8 * count, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = np.random.default_rng(3).normal(scale=largest / 4, size=count).astype(np.float32)
    values = np.concatenate([special, near, bits[np.isfinite(bits)]])
    return values[np.abs(values) <= largest][:count]


@pytest.mark.parametrize("element", FLOATS)
def test_encode_mx(compile_reference, element: str) -> None:
    """A block that holds the largest value of the format has scale 1: elements are what ml_dtypes rounds to."""
    kind, bits, largest, _ = FLOATS[element]
    values = hard_values(element, 31 * 2048).reshape(2048, 31)
    exponents = (np.arange(2048) % 20).reshape(-1, 1)
    block = np.concatenate([np.full((2048, 1), largest, np.float32), values], axis=1)
    quantized, scales = quantize(
        compile_reference, f"{element}, e8m0, 32", np.ldexp(block, exponents), storage(element), 1, "i8"
    )
    same_bits(scales, 127 + exponents, 8)
    same_bits(quantized, block.astype(kind).view(np.uint8), bits)


@pytest.mark.parametrize("element", FLOATS)
def test_scale_mx(compile_reference, element: str) -> None:
    """OCP Microscaling 1.0, section 6.3: 2^(floor(log2(m)) - exponent of the largest value); saturating elements."""
    kind, bits, largest, exponent = FLOATS[element]
    values = np.random.default_rng(4).normal(size=(512, 32)).astype(np.float32)
    values *= np.float32(2.0) ** np.linspace(-140, 120, 512).astype(np.float32)[:, None]
    values[0], values[1, 3], values[2, 5] = 0, np.inf, np.nan
    quantized, scales = quantize(compile_reference, f"{element}, e8m0, 32", values, storage(element), 1, "i8")
    peak = np.abs(values[3:]).max(axis=1).astype(np.float64)
    expected = np.clip(np.floor(np.log2(np.maximum(peak, 1e-300))) - exponent, -127, 127) + 127
    assert scales[:3, 0].tolist() == [0, 255, 255]
    same_bits(scales[3:, 0], expected.astype(np.uint8), 8)
    powers = scales[3:].view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    clipped = np.clip(values[3:] / powers, -largest, largest)
    same_bits(quantized[3:], clipped.astype(kind).view(np.uint8), bits)
    assert not quantized[0].any()
    nan = {"e4m3": 0x7F, "e5m2": 0x7E}.get(element, 0)
    assert (quantized[1:3] & ((1 << bits) - 1) == nan).all()


def least_error(
    blocks: np.ndarray, candidates: list[np.ndarray], tensor_scale: np.float32, quantize_ratios
) -> np.ndarray:
    """Give for each block the first stored scale with the least error, summed in order in f32."""
    errors = []
    for stored in candidates:
        scales = (stored.astype(np.float32) * tensor_scale)[..., None]
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = np.where(scales == 0, np.float32(0), blocks / scales)
        differences = blocks - scales * quantize_ratios(ratios)
        errors.append(np.cumsum(differences * differences, axis=-1, dtype=np.float32)[..., -1])
    chosen = np.argmin(np.stack(errors), axis=0)
    assert all((chosen == number).any() for number in range(len(candidates)))
    return np.take_along_axis(np.stack(candidates), chosen[None], axis=0)[0]


def test_encode_nvfp4(compile_reference) -> None:
    values = np.random.default_rng(5).normal(size=(64, 128)).astype(np.float32)
    values *= np.exp(np.random.default_rng(6).normal(size=(64, 1)) * 3).astype(np.float32)
    values[7, :16] = 0
    quantized, scales, tensor_scale = quantize(
        compile_reference, "e2m1, e4m3, 16", values, "i4", 8, "i8", "tensor_scale"
    )
    expected_tensor_scale = np.abs(values).max() / np.float32(448 * 6)
    same(tensor_scale, expected_tensor_scale)
    peaks = np.abs(values).reshape(64, 8, 16).max(axis=2)
    kind = ml_dtypes.float4_e2m1fn
    expected_scales = least_error(
        values.reshape(64, 8, 16),
        [(peaks / np.float32(6) * np.float32(factor) / expected_tensor_scale).clip(max=448).astype(ml_dtypes.float8_e4m3fn)
         for factor in (1, 0.9375, 1.5)],
        expected_tensor_scale,
        lambda ratios: ratios.clip(-6, 6).astype(kind).astype(np.float32),
    )  # fmt: skip
    same_bits(scales, expected_scales.view(np.uint8), 8)
    factors = np.repeat(expected_scales.astype(np.float32) * expected_tensor_scale, 16, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = np.where(factors == 0, 0, values / factors).clip(-6, 6)
    same_bits(quantized, ratios.astype(np.float32).astype(ml_dtypes.float4_e2m1fn).view(np.uint8), 4)


def test_encode_nvfp4_by_rows(compile_reference) -> None:
    """Each row has a scale of its own, and blocks the one that their largest number asks for."""
    random = np.random.default_rng(13)
    values = random.normal(size=(40, 70)).astype(np.float32)
    values *= np.exp2(random.integers(-60, 60, (40, 1))).astype(np.float32)
    values[3], values[4, :16], values[5, 16:] = 0, 0, 1e-38
    quantized, scales, row_scales = quantize(compile_reference, "e2m1, e4m3, 16", values, "i4", 5, "i8", "row_scales")
    expected = np.abs(values).max(1, keepdims=True) / np.float32(448 * 6)
    same(row_scales, expected)
    peaks = np.abs(np.pad(values, ((0, 0), (0, 10)))).reshape(40, 5, 16).max(2)
    divisors = np.where(expected == 0, np.float32(1), expected)
    stored = (peaks / np.float32(6) / divisors).clip(max=448).astype(ml_dtypes.float8_e4m3fn)
    same_bits(scales, stored.view(np.uint8), 8)
    factors = np.repeat(stored.astype(np.float32) * expected, 16, axis=1)[:, :70]
    ratios = np.where(factors == 0, np.float32(0), values / np.where(factors == 0, np.float32(1), factors)).clip(-6, 6)
    elements = ratios.astype(np.float32).astype(ml_dtypes.float4_e2m1fn)
    same_bits(quantized, elements.view(np.uint8), 4)


@pytest.mark.parametrize("element", ["e4m3", "e5m2"])
def test_encode_fp8(compile_reference, element: str) -> None:
    kind, bits, largest, _ = FLOATS[element]
    values = np.random.default_rng(7).normal(size=(16, 4096)).astype(np.float32)
    quantized, scales = quantize(compile_reference, f"{element}, f32, 0", values, "i8", 1, "f32")
    expected = np.abs(values).max(axis=1, keepdims=True) / np.float32(largest)
    same(scales, expected)
    same_bits(quantized, (values / expected).clip(-largest, largest).astype(kind).view(np.uint8), bits)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("element", INTEGERS)
def test_encode_integers(compile_reference, element: str, scale: str) -> None:
    low, high = INTEGERS[element]
    values = np.random.default_rng(8).normal(size=(64, 128)).astype(np.float32)
    values[3, :32] = 0
    quantized, scales = quantize(compile_reference, f"{element}, {scale}, 32", values, storage(element), 4, scale)
    peaks = np.abs(values).reshape(64, 4, 32).max(axis=2)
    expected = (peaks / np.float32(high)).astype(SCALES[scale])
    if element in ("i4", "i5", "i6"):
        # The value with the largest magnitude, whatever its sign, is brought to the lowest.
        lowest = np.where(values.reshape(64, 4, 32).min(axis=2) == -peaks, np.float32(-low), np.float32(low))
        factors = (1, 0.9375) if element == "i4" else (1,)
        expected = least_error(
            values.reshape(64, 4, 32),
            [(peaks / lowest * np.float32(factor)).astype(SCALES[scale]) for factor in factors],
            np.float32(1),
            lambda ratios: np.rint(ratios).clip(low, high),
        )
        assert (expected.astype(np.float32) < 0).any()
    same(scales, expected)
    factors = np.repeat(expected.astype(np.float32), 32, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = np.where(factors == 0, 0, values / factors)
    same_bits(quantized, np.rint(ratios).clip(low, high).astype(np.int32), 4 if "4" in element else 8)


@pytest.mark.parametrize("element", INTEGERS)
def test_encode_zero_points(compile_reference, element: str) -> None:
    low, high = INTEGERS[element]
    bits = 4 if "4" in element else 8
    random = np.random.default_rng(9)
    values = (random.normal(size=(64, 128)) + random.normal(size=(64, 1)) * 2).astype(np.float32)
    values[5, :64] = 0
    quantized, scales, points = quantize(
        compile_reference, f"{element}, f32, 64", values, storage(element), 2, "f32", "zero_points"
    )
    groups = values.reshape(64, 2, 64)
    smallest, largest = np.minimum(groups.min(axis=2), 0), np.maximum(groups.max(axis=2), 0)
    expected = (largest - smallest) / np.float32(high - low)
    same(scales, expected)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected_points = np.where(expected == 0, 0, np.rint(np.float32(low) - smallest / expected)).clip(low, high)
        ratios = np.where(expected[..., None] == 0, 0, groups / expected[..., None])
    same_bits(points, expected_points.astype(np.int32), bits)
    expected_values = (np.rint(ratios) + expected_points[..., None]).clip(low, high).astype(np.int32)
    same_bits(quantized, expected_values.reshape(64, 128), bits)


def test_encode_nf4(compile_reference) -> None:
    values = np.random.default_rng(10).normal(size=(64, 128)).astype(np.float32)
    values[:16, 0] = NF4
    quantized, scales = quantize(compile_reference, "nf4, f32, 64", values, "i4", 2, "f32")
    expected = np.abs(values).reshape(64, 2, 64).max(axis=2)
    same(scales, expected)
    ratios = (values / np.repeat(expected, 64, axis=1)).astype(np.float64)
    same_bits(quantized, np.abs(ratios[..., None] - NF4.astype(np.float64)).argmin(axis=-1), 4)


def test_encode_ternary(compile_reference) -> None:
    """Quantized values of arXiv 2402.17764, equations 1 and 2. The scale of equation 3 is where Lloyd's iteration begins."""
    values = np.random.default_rng(11).normal(size=(64, 100)).astype(np.float32)
    quantized, scales = quantize(compile_reference, "ternary, f32, 64", values, "i4", 2, "f32")
    padded = np.pad(np.abs(values), ((0, 0), (0, 28))).reshape(64, 2, 64)
    expected = np.cumsum(padded, axis=2, dtype=np.float32)[..., -1] / np.array([64, 36], np.float32)
    first = expected
    for _ in range(4):
        above = padded > expected[..., None] * np.float32(0.5)
        sums = np.cumsum(np.where(above, padded, np.float32(0)), axis=2, dtype=np.float32)[..., -1]
        expected = sums / above.sum(axis=2, dtype=np.float32)
    same(scales, expected)
    # In f64: what is nearest to the values among all scales, but for what a fifth step would change.
    assert (expected > 1.2 * first).all()
    magnitudes = np.abs(values[:, None, :64]).astype(np.float64)

    def errors(scales: np.ndarray) -> np.ndarray:
        return np.square(magnitudes - np.where(magnitudes > scales[..., None] / 2, scales[..., None], 0)).sum(-1)

    assert (
        errors(expected[:, :1]) < 1.1 * errors(first[:, :1] * np.linspace(0.8, 2.5, 200)).min(1, keepdims=True)
    ).all()
    ratios = values / np.repeat(expected, 64, axis=1)[:, :100]
    same_bits(quantized, np.rint(ratios).clip(-1, 1).astype(np.int32), 4)


# ---- Folding --------------------------------------------------------------------------------------------------------


FOLDED = (
    [(f"{element}, e8m0, 32", 3, "i8", None) for element in FLOATS]
    + [(f"{element}, {scale}, 32", 3, scale, extra)
       for element in INTEGERS for scale in SCALES for extra in (None, "zero_points")]
    + [(f"{element}, f32, 0", 1, "f32", None) for element in ("e4m3", "e5m2")]
    + [("e2m1, e4m3, 16", 5, "i8", "tensor_scale"), ("nf4, f16, 64", 2, "f16", None), ("ternary, bf16, 32", 3, "bf16", None)]
)  # fmt: skip


def constant(extra: str | None) -> np.ndarray:
    random = np.random.default_rng(12)
    values = (random.normal(size=(40, 70)) * np.exp(random.normal(size=(40, 1)) * 4)).astype(np.float32)
    values[0], values[1, :40], values[2, 3], values[3, 5] = 0, -0.0, 1e-40, -3e38
    values[4] = np.round(values[4] * 4) / 4  # ties
    if extra != "tensor_scale":
        values[5, 8], values[6, 9] = np.nan, np.inf
    return values


def quantizing_constant(number: int) -> tuple[str, list[np.ndarray]]:
    """Give the function @f<number>, which quantizes its input in the number-th of these formats."""
    form, blocks, scale_type, extra = FOLDED[number]
    return quantizing(form, (40, 70), storage(form.split(",")[0]), blocks, scale_type, extra, f"f{number}")


@pytest.fixture(scope="module")
def folds(tools, tmp_path_factory: pytest.TempPathFactory) -> tuple[Reference, Reference, dict[str, str]]:
    """Compile the functions of all formats: as the reference defines them, with constants that are folded; and give
    what the folder has made of each."""
    programs, constants = [], []
    for number, (*_, extra) in enumerate(FOLDED):
        text, _ = quantizing_constant(number)
        words = constant(extra).view(np.uint32)
        bits = ", ".join("[" + ", ".join(f"0x{word:08X}" for word in row) + "]" for row in words)
        line = f"%x = arith.constant dense<[{bits}]> : tensor<40x70xf32>\n"
        programs.append(text)
        constants.append(text.replace("%x: tensor<40x70xf32>", "").replace("%r0", line + "%r0", 1))
    opt = tools.path("intarsia-opt")
    folded = run([str(opt), "--canonicalize"], "".join(constants))
    texts = dict(re.findall(r"func\.func @(f\d+)\((.*?\n  })", folded, re.S))
    # Libraries of their own paths: ctypes finds loaded ones by it.
    libraries = [Reference(opt, text, tmp_path_factory.mktemp("folds")) for text in ("".join(programs), folded)]
    return *libraries, texts


@pytest.mark.parametrize("number", range(len(FOLDED)), ids=["-".join(map(str, case)) for case in FOLDED])
def test_fold(folds, number: int) -> None:
    """A constant is quantized by the folder to the values and scales that the reference, tested above, computes."""
    reference, folded, texts = folds
    form, *_, extra = FOLDED[number]
    assert "return" in texts[f"f{number}"]
    assert "nn.quantize" not in texts[f"f{number}"]
    expected = reference(f"f{number}", [constant(extra)], quantizing_constant(number)[1])
    actual = folded(f"f{number}", [], quantizing_constant(number)[1])
    bits = 4 if storage(form.split(",")[0]) == "i4" else 8
    for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
        if one.dtype == np.uint8:
            same_bits(one, other, 8 if index == 1 else bits)
        else:
            same(one, other)
