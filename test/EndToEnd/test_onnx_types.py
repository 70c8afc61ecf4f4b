# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elements of 8 bits and fewer in ONNX files, against ml_dtypes and what the standard says of Cast and QuantizeLinear."""

from __future__ import annotations

from typing import Any

import intarsia
import ml_dtypes
import numpy as np
import pytest
from onnx_wire import BOOL, DOUBLE, FLOAT, FLOAT16, INT16, INT64, UINT8, graph, model, node, packed, tensor, value

#: Numbers of the floats in files. https://onnx.ai/onnx/repo-docs/IR.html
FLOATS = {
    "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20, "float4_e2m1fn": 23,
    "float8_e8m0fnu": 24, "float6_e2m3fn": 27, "float6_e3m2fn": 28,
}  # fmt: skip
UINT4, INT4, UINT2, INT2 = 21, 22, 25, 26
ROUNDED = [name for name in FLOATS if name != "float8_e8m0fnu"]


def run(tmp_path, nodes: list[bytes], inputs: dict[str, Any], kinds: dict[str, int], stored: Any = None) -> list[Any]:
    """Return the results of nodes, in their order."""
    described = [value(name, array.shape, kinds[name]) for name, array in inputs.items()]
    outputs = " ".join(f"y{number}" for number in range(len(nodes)))
    (tmp_path / "m.onnx").write_bytes(model(graph(nodes, described, outputs, stored), 28))
    results = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx").main(**inputs)
    return list(results) if isinstance(results, tuple) else [results]


def patterns(name: str) -> np.ndarray:
    """Return the bits of all elements of a type."""
    return np.arange(1 << {"4": 4, "6": 6, "8": 8}[name[5]], dtype=np.uint8)


def values(name: str) -> np.ndarray:
    """Return all elements of a type as f32."""
    return patterns(name).view(getattr(ml_dtypes, name)).astype(np.float32)


def encoded(numbers: np.ndarray, name: str, saturates: bool) -> np.ndarray:
    """Return the bits that Cast gives."""
    kind = getattr(ml_dtypes, name)
    if saturates:
        most = float(ml_dtypes.finfo(kind).max)
        numbers = np.clip(numbers, -most, most)
    with np.errstate(all="ignore"):
        return numbers.astype(kind).view(np.uint8)


def hard_numbers() -> np.ndarray:
    """Return numbers at all ties of all types and beside them, and at their ends."""
    numbers = [np.array([0, np.nan, np.inf, 1e-45, 1e-38, 3e38, 1e5], np.float32)]
    for name in ROUNDED:
        known = np.unique(np.abs(values(name)[np.isfinite(values(name))]))
        beyond = known[-1] + (known[-1] - known[-2])
        ties = (known + np.append(known[1:], beyond)) / 2
        numbers += [known, ties, np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(np.inf))]
    all_numbers = np.unique(np.concatenate(numbers)).astype(np.float32)
    return np.concatenate([all_numbers, -all_numbers])


def test_all_elements(tmp_path):
    """Each element of each type means its number, in the call and where the compiler knows it."""
    inputs = {name: patterns(name) for name in FLOATS}
    stored = {name + "s": packed(name + "s", kind, patterns(name), name[5]) for name, kind in FLOATS.items()}
    nodes = [node("Cast", name + suffix, f"y{2 * number + at}", to=FLOAT)
             for number, name in enumerate(FLOATS) for at, suffix in enumerate(["", "s"])]  # fmt: skip
    results = run(tmp_path, nodes, inputs, FLOATS, stored)
    for number, name in enumerate(FLOATS):
        for result in results[2 * number : 2 * number + 2]:
            np.testing.assert_array_equal(result, values(name), name)
            assert (np.signbit(result) == np.signbit(values(name)))[np.isfinite(result)].all(), name


@pytest.mark.parametrize("kind", [FLOAT, DOUBLE])
def test_roundings(tmp_path, kind):
    """Numbers become the nearest elements, ties even; a double is rounded once."""
    numbers = hard_numbers()
    if kind == DOUBLE:
        numbers = np.concatenate([numbers * (1 + 2.0**-40), numbers * (1 - 2.0**-40), numbers.astype(np.float64)])
    cases = [(name, saturates) for name in ROUNDED for saturates in (True, False)]
    nodes = [node("Cast", "x", f"y{at}", to=FLOATS[name], saturate=int(saturates))
             for at, (name, saturates) in enumerate(cases)]  # fmt: skip
    for result, (name, saturates) in zip(run(tmp_path, nodes, {"x": numbers}, {"x": kind}), cases, strict=True):
        np.testing.assert_array_equal(result, encoded(numbers, name, saturates), f"{name} {saturates}")


def test_roundings_of_constants(tmp_path):
    """The compiler rounds what it knows as calls do."""
    numbers = hard_numbers()
    cases = [(name, saturates) for name in ROUNDED for saturates in (True, False)]
    nodes = [node("Cast", "x", f"y{at}", to=FLOATS[name], saturate=int(saturates))
             for at, (name, saturates) in enumerate(cases)]  # fmt: skip
    results = run(tmp_path, nodes, {}, {}, {"x": tensor(numbers, "x", "f4")})
    for result, (name, saturates) in zip(results, cases, strict=True):
        np.testing.assert_array_equal(result, encoded(numbers, name, saturates), f"{name} {saturates}")


def powers(numbers: np.ndarray, mode: str, saturates: bool) -> np.ndarray:
    """Return the bits of float8e8m0 by the text and the table of Cast's document."""
    numbers = np.abs(numbers.astype(np.float64))
    least, most = 2.0**-127, 2.0**127
    isnan = np.isnan(numbers) | (not saturates) & ((numbers < least) | (numbers > most))
    fraction, exponent = np.frexp(np.clip(np.where(isnan, 1, numbers), least, most))  # in [0.5, 1)
    up = {"up": fraction > 0.5, "down": np.zeros_like(isnan), "nearest": fraction >= 0.75}[mode]
    return np.where(isnan, 255, exponent - 1 + up + 127).astype(np.uint8)


def test_powers(tmp_path):
    """Numbers become powers of two as 'round_mode' says."""
    around = np.float32(2.0) ** np.arange(-149, 128, 7, dtype=np.float32)
    ends = np.float32([0, np.nan, np.inf, 2**-127, 1.25 * 2**-127, 1.5 * 2**-127, 1.75 * 2**-127, 1.2 * 2.0**127,
                       1.5 * 2.0**127, 2.0**127])  # fmt: skip
    numbers = np.concatenate([around, around * np.float32(1.499), around * np.float32(1.5), around * 1.75, ends])
    numbers = np.concatenate([numbers, np.nextafter(around, np.float32(np.inf))]).astype(np.float32)
    cases = [(mode, saturates) for mode in ("up", "down", "nearest") for saturates in (True, False)]
    nodes = [node("Cast", "x" if at < 6 else "s", f"y{at}", to=24, round_mode=mode, saturate=int(saturates))
             for at, (mode, saturates) in enumerate(cases * 2)]  # fmt: skip
    results = run(tmp_path, nodes, {"x": numbers}, {"x": FLOAT}, {"s": tensor(numbers, "s", "f4")})
    for result, (mode, saturates) in zip(results, cases * 2, strict=True):
        np.testing.assert_array_equal(result, powers(numbers, mode, saturates), f"{mode} {saturates}")


def test_other_casts(tmp_path):
    """Small integers wrap and have their signs; bool is 0 or 1; an integer that f32 does not hold is rounded once."""
    inputs = {
        "x": np.array([-9, 200, 300, -1, 7], np.int16), "f": np.array([-9, -1.5, 3.7, 16.2, 7], np.float32),
        "i": np.array([0x0F, 0xF8, 7, 8, 0], np.uint8).view(np.int8), "u": np.array([15, 8, 7, 3, 0], np.uint8),
        "b": np.array([True, False]), "e": np.array([0x38, 0xBC, 0x80, 0x7F, 0x01], np.uint8),
        "l": np.array([(1 << 30) + 1, 1 << 30, 0, 3, -5]),
    }  # fmt: skip
    kinds = {"x": INT16, "f": FLOAT, "i": INT4, "u": UINT4, "b": BOOL, "e": 17, "l": INT64}
    nan = np.nan
    expected = [
        ("x", INT4, [7, -8, -4, -1, 7]), ("x", UINT2, [3, 0, 0, 3, 3]), ("x", INT2, [-1, 0, 0, -1, -1]),
        ("f", UINT4, [7, 15, 3, 0, 7]), ("f", INT4, [7, -1, 3, 0, 7]), ("i", FLOAT, [-1, -8, 7, -8, 0]),
        ("i", UINT4, [15, 8, 7, 8, 0]), ("i", BOOL, [True, True, True, True, False]), ("u", INT4, [-1, -8, 7, 3, 0]),
        ("u", FLOAT16, [15, 8, 7, 3, 0]), ("b", 17, [0x38, 0]), ("b", INT2, [1, 0]), ("e", FLOAT16, [1, -1.5, 0, nan, 2**-9]),
        ("e", BOOL, [True, True, False, True, True]), ("e", 19, [0x3C, 0xBE, 0x80, 0x7E, 0x18]), ("e", INT4, [1, -1, 0, 0, 0]),
        ("l", 24, [127 + 31, 127 + 30, 0, 129, 127 + 3]),
    ]  # fmt: skip
    nodes = [node("Cast", name, f"y{at}", to=kind) for at, (name, kind, _) in enumerate(expected)]
    for result, (name, kind, wanted) in zip(run(tmp_path, nodes, inputs, kinds), expected, strict=True):
        if (name, kind) == ("e", INT4):
            result, wanted = result[:3], wanted[:3]  # the integer of NaN is any
        np.testing.assert_array_equal(result, wanted, f"{name} to {kind}")


def test_bits_of_other_types(tmp_path):
    """BitCast keeps the bits of elements of each width."""
    inputs = {
        "f": np.float32([1, -2.5, np.nan]), "i": np.array([-1, 7, -8], np.int8), "h": np.float16([1, -2, 0.5]),
        "b": np.array([True, False]), "e": np.array([0, 0x7F, 0xFF], np.uint8),
    }  # fmt: skip
    kinds = {"f": FLOAT, "i": INT4, "h": FLOAT16, "b": BOOL, "e": 17}
    expected = [
        ("f", 6, inputs["f"].view(np.int32)), ("i", 23, [15, 7, 8]), ("i", UINT4, [15, 7, 8]),
        ("h", 16, inputs["h"].view(ml_dtypes.bfloat16)), ("b", UINT8, [1, 0]), ("e", 3, [0, 127, -1]),
        ("e", BOOL, [False, True, True]),
    ]  # fmt: skip
    nodes = [node("BitCast", name, f"y{at}", to=kind) for at, (name, kind, _) in enumerate(expected)]
    for result, (name, kind, wanted) in zip(run(tmp_path, nodes, inputs, kinds), expected, strict=True):
        np.testing.assert_array_equal(result, wanted, f"{name} to {kind}")


def test_moved_elements(tmp_path):
    """Elements of small types are moved, in the call, in constants, and in weights that the file has packed."""
    x = np.arange(256, dtype=np.uint8).reshape(4, 64)
    fours, sixes = np.arange(3 * 1001) % 16, np.arange(5 * 501) * 7 % 64
    shape = tensor([-1, 3], "s")
    stored = {"w": packed("w", INT4, fours.reshape(3, 1001), "4"), "v": packed("v", 27, sixes.reshape(5, 501), "6"),
              "c": packed("c", UINT2, np.array([[1, 2, 3]]), "2"), "n": tensor([8], "n"), "m": tensor([3, 2], "m"),
              "p": tensor([0, 1, 0, 2], "p"), "t": packed("t", 17, np.array(0x38), "8")}  # fmt: skip
    nodes = [
        node("Transpose", "x", "y0"), node("Pad", "x p t", "y1"), node("Transpose", "w", "y2"),
        node("Cast", "w", "y3", to=FLOAT), node("Cast", "v", "y4", to=FLOAT), node("Reshape", "c s", "y5"),
        node("ConstantOfShape", "m", "y6", value=packed("", INT4, np.array([9]), "4")), node("Identity", "t", "y7"),
    ]  # fmt: skip
    results = run(tmp_path, nodes, {"x": x}, {"x": 17}, stored | {"s": shape})
    signed = (fours - 16 * (fours > 7)).reshape(3, 1001)
    wanted = [
        x.T, np.pad(x, [(0, 0), (1, 2)], constant_values=0x38), signed.T, signed,
        sixes.astype(np.uint8).view(ml_dtypes.float6_e2m3fn).astype(np.float32).reshape(5, 501), [[1, 2, 3]],
        np.full((3, 2), -7), 0x38,
    ]  # fmt: skip
    for number, (result, other) in enumerate(zip(results, wanted, strict=True)):
        np.testing.assert_array_equal(result, other, str(number))
        assert result.dtype == (np.int8 if number in (2, 6) else np.float32 if number in (3, 4) else np.uint8)


def quantized(name: str) -> Any:
    """Return the type of ml_dtypes or NumPy."""
    return getattr(ml_dtypes, name, None) or getattr(np, name)


QUANTIZED = FLOATS | {"int4": INT4, "uint4": UINT4, "int2": INT2, "uint2": UINT2, "int8": 3, "uint16": 4}


@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e5m2fnuz", "float4_e2m1fn", "float6_e3m2fn", "int4", "uint2"]
)
def test_quantization(tmp_path, name):
    """Tensors are quantized and dequantized by one scale, one for each index of an axis, and one for each block."""
    kind, dtype, isfloat = QUANTIZED[name], quantized(name), name.startswith("float")
    numbers = np.random.default_rng(0).standard_normal((3, 10)).astype(np.float32) * 4
    scales = {"": np.float32(0.5), "a": np.float32([0.25, 1, 2]), "b": np.float32(np.arange(1, 10).reshape(3, 3) / 4)}
    wide = {"": scales[""], "a": scales["a"][:, None], "b": np.repeat(scales["b"], 4, axis=1)[:, :10]}
    zeros = {key: (np.zeros if isfloat else np.ones)(scale.shape, np.uint8) for key, scale in scales.items()}
    bits = "8" if "8" in name else "6" if "6" in name else "2" if "2" in name and "4" not in name else "4"
    stored: dict[str, Any] = {f"s{key}": tensor(scale, f"s{key}", "f4") for key, scale in scales.items()}
    stored |= {f"z{key}": packed(f"z{key}", kind, zero, bits) for key, zero in zeros.items()}
    attributes: dict[str, dict[str, int]] = {"": {}, "a": {"axis": 0}, "b": {"axis": 1, "block_size": 4}}
    nodes, wanted = [], []
    low, high = (0, 0) if isfloat else (ml_dtypes.iinfo(dtype).min, ml_dtypes.iinfo(dtype).max)
    for key in scales:
        nodes.append(node("QuantizeLinear", f"x s{key} z{key}", f"y{len(nodes)}", **attributes[key]))
        nodes.append(node("DequantizeLinear", f"y{len(nodes) - 1} s{key} z{key}", f"y{len(nodes)}", **attributes[key]))
        quotient = numbers / wide[key]
        if isfloat:
            bits_of = encoded(quotient, name, True)
            wanted += [bits_of, bits_of.view(dtype).astype(np.float32) * wide[key]]
        else:
            whole = np.clip(np.rint(quotient) + 1, low, high)
            wanted += [whole, (whole - 1) * wide[key]]
    for number, (result, other) in enumerate(
        zip(run(tmp_path, nodes, {"x": numbers}, {"x": FLOAT}, stored), wanted, strict=True)
    ):
        np.testing.assert_array_equal(result, other.astype(result.dtype), f"{name} {number}")


def test_precision_of_quantization(tmp_path):
    """The quotient is rounded to the type of the scale or what 'precision' says; scales may be powers of two."""
    x, whole = np.float32([2049.0, 1.0, -3000.7, 70000]), np.array([7, 1 << 24 | 1, -9, 3], np.int32)
    stored = {"h": packed("h", FLOAT16, np.float16([1.0]), "16"), "p": packed("p", 24, np.array([128]), "8"),
              "o": tensor([3.0], "o", "f4"), "i": tensor([2], "i", "i4")}  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x h", "y0", output_dtype=5), node("QuantizeLinear", "x h", "y1", output_dtype=5, precision=FLOAT),
        node("QuantizeLinear", "x p", "y2", output_dtype=5), node("QuantizeLinear", "w o", "y3", output_dtype=5),
        node("QuantizeLinear", "w i", "y4", output_dtype=5), node("DequantizeLinear", "q p", "y5", output_dtype=FLOAT16),
    ]  # fmt: skip
    inputs = {"x": x, "w": whole, "q": np.int8([-128, 3, 0, 127])}
    results = run(tmp_path, nodes, inputs, {"x": FLOAT, "w": 6, "q": 3}, stored)
    clip = lambda numbers: np.clip(np.rint(numbers), -32768, 32767)  # noqa: E731
    wanted = [
        clip(np.float16(np.minimum(x, 65504)).astype(np.float32)),
        clip(x),
        clip(x / 2),
        clip(whole.astype(np.float32) / np.float32(3)),
        clip(whole / 2),
        inputs["q"] * 2.0,
    ]
    for number, (result, other) in enumerate(zip(results, wanted, strict=True)):
        np.testing.assert_array_equal(result, other.astype(result.dtype), str(number))
