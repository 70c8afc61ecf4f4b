# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""lib/Quantize/BlockCodec on random rows, bit for bit against ml_dtypes and NumPy's own rounding.

2^18 values a format, or, with INTARSIA_EXHAUSTIVE=1 in the environment, 2^24.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

FLOATS = {
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
INTEGERS = {
    "i4": (-8, 7),
    "u4": (0, 15),
    "i5": (-16, 15),
    "i6": (-32, 31),
    "i8": (-128, 127),
    "u8": (0, 255),
    "ternary": (-1, 1),
}
SCALES = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e8m0": ml_dtypes.float8_e8m0fnu,
    "e4m3": ml_dtypes.float8_e4m3fn,
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

WIDTH = 1000  # the last block is short whatever its size is
CHUNK = 1 << 18
COUNT = 1 << 24 if os.environ.get("INTARSIA_EXHAUSTIVE") else CHUNK


@dataclass(frozen=True)
class Format:
    element: str
    scale: str
    block: int
    zero_points: bool = False

    def __str__(self) -> str:
        return f"{self.element}-{self.scale}-{self.block}" + ("-zero-points" if self.zero_points else "")


FORMATS = (
    [Format("i4", scale, block, points) for scale in ("f32", "f16", "bf16") for block in (32, 64, 128, 0) for points in (False, True)]
    + [Format(element, scale, 32, points) for element in ("u4", "i5", "i6", "i8", "u8") for scale in ("f32", "f16") for points in (False, True)]
    + [Format("i8", "f32", 0), Format("u8", "bf16", 0, True)]
    + [Format(element, "e8m0", 32) for element in FLOATS]
    + [Format("e2m1", "e4m3", 16), Format("e4m3", "f32", 0), Format("e5m2", "f32", 0)]
    + [Format("nf4", scale, 64) for scale in ("f32", "f16", "bf16")]
    + [Format("ternary", "f32", 0), Format("ternary", "f16", 128), Format("ternary", "bf16", 32)]
)  # fmt: skip


@dataclass
class Encoded:
    tensor_scale: np.float32
    quantized: np.ndarray  # [rows, WIDTH]
    scales: np.ndarray  # [rows, blocks], of the scale's type
    zero_points: np.ndarray | None  # [rows, blocks]
    decoded: np.ndarray  # [rows, WIDTH]


def run_codec(tools, form: Format, values: np.ndarray) -> Encoded:
    command = [tools.path("intarsia-block-codec"), form.element, form.scale, str(form.block), str(int(form.zero_points)), str(WIDTH)]  # fmt: skip
    result = subprocess.run(command, input=values.tobytes(), capture_output=True, timeout=600)
    assert result.returncode == 0, result.stderr.decode()
    rows, blocks = len(values), -(-WIDTH // form.block) if form.block else 1
    data, position = result.stdout, 0

    def take(shape: tuple[int, ...], kind: type) -> np.ndarray:
        nonlocal position
        array = np.frombuffer(data, kind, int(np.prod(shape, dtype=int)), position).reshape(shape)
        position += array.nbytes
        return array

    encoded = Encoded(
        take((), np.float32)[()],
        take((rows, WIDTH), np.uint8),
        take((rows, blocks), SCALES[form.scale]),
        take((rows, blocks), np.uint8) if form.zero_points else None,
        take((rows, WIDTH), np.float32),
    )
    assert position == len(data)
    return encoded


def same(actual: np.ndarray, expected: np.ndarray, what: str) -> None:
    actual, expected = np.ascontiguousarray(actual), np.ascontiguousarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    different = actual.view(f"u{actual.itemsize}") != expected.view(f"u{actual.itemsize}")
    assert not different.any(), (
        f"{np.count_nonzero(different)} {what} differ: {actual[different][:8]} is not {expected[different][:8]} "
        f"at {np.argwhere(different)[:8].tolist()}"
    )


def quantize(form: Format, ratios: np.ndarray, points: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the elements of scaled values as bit patterns, and the values that these mean (less the zero points)."""
    if form.element in FLOATS:
        kind = FLOATS[form.element]
        largest = np.float32(ml_dtypes.finfo(kind).max)
        rounded = ratios.clip(-largest, largest).astype(kind)
        return rounded.view(np.uint8), rounded.astype(np.float32)
    if form.element == "nf4":
        # Midpoints in f32, as bitsandbytes has them; on one, the even pattern.
        middles = ((NF4[:-1].astype(np.float64) + NF4[1:]) / 2).astype(np.float32)
        below, above = np.searchsorted(middles, ratios, "left"), np.searchsorted(middles, ratios, "right")
        patterns = np.where(below % 2 == 0, below, above).astype(np.uint8)
        return patterns, NF4[patterns]
    low, high = INTEGERS[form.element]
    integers = (np.rint(ratios) + points).clip(low, high)
    mask = 0x0F if "4" in form.element or form.element == "ternary" else 0xFF
    return (integers.astype(np.int32) & mask).astype(np.uint8), (integers - points).astype(np.float32)


def best_scales(form: Format, chosen: np.ndarray, blocks: np.ndarray, tensor_scale: np.float32) -> np.ndarray:
    """Returns the first multiple of a scale that has the least error, not yet converted to its stored type."""
    best, least = np.zeros_like(chosen), np.full(chosen.shape, np.inf, np.float32)
    for factor in (1, 0.9375, 1.5) if form.scale == "e4m3" else (1, 0.9375):
        scales = chosen * np.float32(factor)
        if form.scale == "e4m3":
            scales = (scales / tensor_scale).clip(max=448)
        stored = scales.astype(SCALES[form.scale]).astype(np.float32)
        if form.scale == "e4m3":
            stored *= tensor_scale
        ratios = np.where(stored[..., None] == 0, np.float32(0), blocks / stored[..., None])
        differences = blocks - stored[..., None] * quantize(form, ratios, np.float32(0))[1]
        errors = np.cumsum(np.square(differences), axis=2, dtype=np.float32)[..., -1]
        # The first is taken whatever it is, also where it is infinite.
        better = (errors < least) | (factor == 1)
        best, least = np.where(better, scales, best), np.where(better, errors, least)
    return best


def check(tools, form: Format, values: np.ndarray) -> None:
    encoded = run_codec(tools, form, values)
    block = form.block or WIDTH
    blocks = -(-WIDTH // block)
    padded = np.zeros((len(values), blocks * block), np.float32)
    padded[:, :WIDTH] = values
    padded = padded.reshape(len(values), blocks, block)
    peaks = np.abs(padded).max(axis=2)
    assert encoded.tensor_scale == np.abs(values).max() / np.float32(448 * 6)

    if form.scale == "e8m0":
        exponent = int(np.floor(np.log2(float(ml_dtypes.finfo(FLOATS[form.element]).max))))
        exact = np.frexp(np.maximum(peaks, np.float32(2.0**-149)).astype(np.float64))[1] - 1
        chosen = np.exp2((exact - exponent).clip(-127, 127).astype(np.float64))
    elif form.zero_points:
        low, high = INTEGERS[form.element]
        smallest = padded.min(axis=2).clip(max=0)
        chosen = (padded.max(axis=2).clip(min=0) - smallest) / np.float32(high - low)
    elif form.element == "ternary":
        counts = np.full(blocks, block, np.float32)
        counts[-1] = WIDTH - (blocks - 1) * block
        magnitudes = np.abs(padded)
        chosen = np.cumsum(magnitudes, axis=2, dtype=np.float32)[..., -1] / counts
        for _ in range(4):
            above = magnitudes > chosen[..., None] * np.float32(0.5)
            sums = np.cumsum(np.where(above, magnitudes, np.float32(0)), axis=2, dtype=np.float32)[..., -1]
            counts = above.sum(axis=2).astype(np.float32)
            chosen = np.where(counts > 0, sums / counts, chosen)
    else:
        largest = {"nf4": 1.0, **{name: high for name, (_, high) in INTEGERS.items()}}
        chosen = peaks / np.float32(largest.get(form.element) or ml_dtypes.finfo(FLOATS[form.element]).max)
        if form.element in ("i4", "i5", "i6"):
            lowest = np.float32(INTEGERS[form.element][0])
            chosen = peaks / np.where(padded.min(axis=2) == -peaks, -lowest, lowest)
        if form.scale == "e4m3" or form.element == "i4":
            chosen = best_scales(form, chosen, padded, encoded.tensor_scale)
    expected_scales = chosen.astype(SCALES[form.scale])
    same(encoded.scales, expected_scales, "scales")

    scales = expected_scales.astype(np.float32)
    if form.scale == "e4m3":
        scales *= encoded.tensor_scale
    points = np.zeros_like(scales)
    if form.zero_points:
        points = np.where(scales == 0, 0, np.rint(np.float32(low) - smallest / scales)).clip(low, high)
        mask = 0x0F if "4" in form.element or form.element == "ternary" else 0xFF
        same(encoded.zero_points, (points.astype(np.int32) & mask).astype(np.uint8), "zero points")
    ratios = np.where(scales[..., None] == 0, np.float32(0), padded / scales[..., None])
    quantized, dequantized = quantize(form, ratios, points[..., None].astype(np.float32))
    same(encoded.quantized, quantized.reshape(len(values), -1)[:, :WIDTH], "quantized values")
    # Adding zero takes the sign of zeros away, which a subtracted zero point leaves to rounding.
    expected = (scales[..., None] * dequantized).reshape(len(values), -1)[:, :WIDTH]
    same(encoded.decoded + np.float32(0), expected + np.float32(0), "dequantized values")


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_random_rows(tools, form: Format) -> None:
    """Returns rows of all magnitudes that their scales can represent; some are rounded, so that there are ties."""
    # f16 scales end at 65504 and are subnormal below 2^-14; NVFP4's are relative to the largest value of the tensor.
    low, high = {"f16": (-34, 8), "e4m3": (-20, 0)}.get(form.scale, (-145, 100))
    with np.errstate(all="ignore"):
        for chunk in range(COUNT // CHUNK):
            random = np.random.default_rng([chunk, FORMATS.index(form)])
            values = random.standard_normal((-(-CHUNK // WIDTH), WIDTH), np.float32)
            values[::5] = np.round(values[::5] * 4) / 4
            values[1::5] = np.round(values[1::5] * 32) / 32
            values[2] = np.abs(values[2])
            values[3] = -np.abs(values[3])
            values[4, 100:700] = 0
            check(tools, form, np.ldexp(values, random.integers(low, high, (len(values), 1))))


@pytest.mark.parametrize("element", FLOATS)
def test_values_of_a_float_stay(tools, element: str) -> None:
    """Every value of an MX element, times every scale that leaves it a normal f32, is quantized to itself."""
    kind, bits = FLOATS[element], {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(element, 8)
    elements = np.arange(1 << bits, dtype=np.uint8).view(kind)
    elements = elements[np.isfinite(elements.astype(np.float32))]
    largest = ml_dtypes.finfo(kind).max
    exponent = int(np.floor(np.log2(float(largest))))
    powers = np.arange(-100, 127 - exponent)
    row = np.resize(elements, WIDTH // 32 * 31).reshape(-1, 31)
    row = np.concatenate([np.full((len(row), 1), largest, kind), row], axis=1).reshape(1, -1)
    row = np.concatenate([row, np.full((1, WIDTH - row.size), largest, kind)], axis=1)
    encoded = run_codec(tools, Format(element, "e8m0", 32), np.ldexp(row.astype(np.float32), powers[:, None]))
    same(encoded.scales.view(np.uint8), np.broadcast_to((powers + 127).astype(np.uint8)[:, None], encoded.scales.shape), "scales")  # fmt: skip
    same(encoded.quantized, np.broadcast_to(row.view(np.uint8), encoded.quantized.shape), "quantized values")


def test_a_value_that_cannot_be_quantized_is_named(tools) -> None:
    values = np.ones((3, WIDTH), np.float32)
    values[2, 77] = np.inf
    with pytest.raises(AssertionError, match="value 77 of row 2 is inf"):
        run_codec(tools, Format("i4", "f16", 32), values)
