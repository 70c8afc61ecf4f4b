# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products between DequantizeLinear and QuantizeLinear, which kernels of bytes compute, against their definition.

Scales are powers of two, so that all numbers are exact in f32: results are equal bit for bit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import intarsia
import numpy as np
import pytest
from onnx_wire import TYPES, UINT8, graph, model, node, tensor, value

RANGES = {"u1": (0, 255), "i1": (-128, 127)}


def quantized(x: np.ndarray, scale: float, zero: int, dtype: str) -> np.ndarray:
    """Return what QuantizeLinear and DequantizeLinear make of numbers; NaN becomes the least one."""
    least, most = RANGES[dtype]
    whole = np.rint(x.astype(np.float64) / scale) + zero
    return (np.clip(np.where(np.isnan(whole), least, whole), least, most) - zero) * scale


def values(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return numbers of which some are beyond all ranges, some are ties, and one is NaN."""
    x = np.rint(rng.standard_normal(shape) * 200) / 16
    if x.size > 3:
        x.flat[:3] = np.nan, -1e4, 1e4
    return x.astype(np.float32)


class Quantized:
    """A file of one product of an input and a weight that are quantized, whose result is quantized, too."""

    def __init__(self, op: str, weight: np.ndarray, axis: int, *, dtype: str = "u1", zero: int = 3, zeros: int = 0,
                 columns: bool = True, bias: bool = False, **attributes: Any) -> None:  # fmt: skip
        rng = np.random.default_rng(weight.size)
        self.scale, self.zero, self.dtype, self.attributes = 0.125, zero, dtype, attributes
        self.op, self.axis = op, axis
        shape = [weight.shape[axis]] if columns else []
        scales = np.exp2(rng.integers(-9, -6, shape)).astype(np.float32)
        self.weight = weight.astype(np.int8)
        spread = scales.reshape([-1 if d == axis else 1 for d in range(weight.ndim)]) if columns else scales
        self.means = (self.weight.astype(np.float64) - zeros) * spread
        self.bias = rng.integers(-9, 9, weight.shape[axis]).astype(np.float32) if bias else None
        self.stored = {
            "s": tensor(np.float32(self.scale), "s", "f4"), "z": tensor(zero, "z", dtype),
            "w": tensor(self.weight, "w", "i1"), "t": tensor(scales, "t", "f4"),
            "zeros": tensor(np.full(shape, zeros), "zeros", "i1"),
            "p": tensor(np.float32(0.5), "p", "f4"), "o": tensor(-5, "o", "i1"),
        }  # fmt: skip
        if bias:
            self.stored["b"] = tensor(self.bias, "b", "f4")

    def write(self, path: Path, shape: list[Any]) -> Path:
        nodes = [
            node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"),
            node("DequantizeLinear", "w t zeros", "m", axis=self.axis),
            node(self.op, "d m b" if self.bias is not None else "d m", "r", **self.attributes),
            node("QuantizeLinear", "r p o", "y"),
        ]  # fmt: skip
        path.write_bytes(model(graph(nodes, [value("x", shape)], "y r", self.stored), 21))
        return path

    def input(self, x: np.ndarray) -> np.ndarray:
        return quantized(x, self.scale, self.zero, self.dtype)

    def check(self, results: Any, expected: np.ndarray) -> None:
        whole, real = results
        np.testing.assert_array_equal(real, expected.astype(np.float32))
        np.testing.assert_array_equal(whole, np.clip(np.rint(expected / 0.5) - 5, -128, 127).astype(np.int8))


def weights(*shape: int) -> np.ndarray:
    """Return integers of 8 bits, the least and the largest among them."""
    made = np.random.default_rng(sum(shape)).integers(-128, 128, shape)
    made.flat[0], made.flat[-1] = -128, 127
    return made


LINEARS = {
    "matmul": Quantized("MatMul", weights(64, 48), 1),
    "least-zero": Quantized("MatMul", weights(64, 48), 1, zero=0),
    "middle": Quantized("MatMul", weights(64, 33), 1, zero=128),
    "signed": Quantized("MatMul", weights(100, 16), 1, dtype="i1", zero=-128),
    "one-scale": Quantized("MatMul", weights(7, 5), 1, columns=False, dtype="i1", zero=0),
    "gemm": Quantized("Gemm", weights(40, 96), 0, transB=1, bias=True),
    "gemm-columns": Quantized("Gemm", weights(96, 40), 1, bias=True, dtype="i1", zero=9),
    # Scales of rows of the weight, and zero points of it, are no sums of bytes.
    "rows": Quantized("MatMul", weights(32, 32), 0),
    "zero-points": Quantized("MatMul", weights(32, 32), 1, zeros=7),
}


@pytest.mark.parametrize("name", LINEARS)
def test_matrices(tools: Any, tmp_path: Path, name: str) -> None:
    made = LINEARS[name]
    turned = made.attributes.get("transB")
    matrix = made.means.T if turned else made.means
    rank = 2 if made.op == "Gemm" else 3
    path = made.write(tmp_path / "m.onnx", [*"ab"[: rank - 1], matrix.shape[0]])
    module = intarsia.compile(path, output=tmp_path / "m.itx")
    for sizes in [(1, 1), (2, 3), (1, 19)]:
        x = values(np.random.default_rng(1), *sizes[-rank + 1 :], matrix.shape[0])
        made.check(module.main(x), made.input(x) @ matrix + (0 if made.bias is None else made.bias))
    tools.compile(path, "-o", tmp_path / "m.mlir", "--stop-after=import")
    assert ("nn.quantize" in (tmp_path / "m.mlir").read_text()) == (name not in ("rows", "zero-points"))


def convolved(x: np.ndarray, weight: np.ndarray, stride: int, pads: list[int], groups: int) -> np.ndarray:
    """Return the convolution of images [batch, channels, height, width], whose pads are 0."""
    top, left, bottom, right = pads
    x = np.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)])
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    parts = zip(np.split(windows, groups, 1), np.split(weight, groups, 0), strict=True)
    return np.concatenate([np.einsum("nchwkl,ockl->nohw", part, own) for part, own in parts], 1)


CONVS = {
    "1x1": Quantized("Conv", weights(24, 16, 1, 1), 0),
    "padded": Quantized("Conv", weights(24, 16, 3, 3), 0, bias=True, pads=[1, 0, 2, 1], zero=255),
    "strided": Quantized("Conv", weights(16, 36, 3, 2), 0, strides=[2, 2], columns=False),
    "signed": Quantized("Conv", weights(8, 4, 3, 3), 0, pads=[1, 1, 1, 1], dtype="i1", zero=0),
    # Kernels of bytes read channels by four; groups are of floats.
    "colours": Quantized("Conv", weights(8, 3, 5, 5), 0, pads=[2, 2, 2, 2], bias=True),
    "groups": Quantized("Conv", weights(8, 4, 3, 3), 0, pads=[1, 1, 1, 1], group=2),
}


@pytest.mark.parametrize("name", CONVS)
def test_convolutions(tmp_path: Path, name: str) -> None:
    made = CONVS[name]
    groups, stride = made.attributes.get("group", 1), made.attributes.get("strides", [1])[0]
    pads = made.attributes.get("pads", [0, 0, 0, 0])
    channels = made.weight.shape[1] * groups
    path = made.write(tmp_path / "m.onnx", ["n", channels, "h", 9])
    module = intarsia.compile(path, output=tmp_path / "m.itx")
    for batch, height in [(1, 8), (2, 5)]:
        x = values(np.random.default_rng(2), batch, channels, height, 9)
        expected = convolved(made.input(x), made.means, stride, pads, groups)
        if made.bias is not None:
            expected = expected + made.bias[:, None, None]
        made.check(module.main(x), expected)


@pytest.mark.parametrize("target", ["reference", "emulated:sm_90a", "emulated:gfx942"])
def test_devices(tmp_path: Path, target: str) -> None:
    """Devices without kernels of bytes compute with floats."""
    rng = np.random.default_rng(3)
    for made, x in [(LINEARS["matmul"], values(rng, 1, 5, 64)), (CONVS["padded"], values(rng, 1, 16, 6, 9))]:
        path = made.write(tmp_path / "m.onnx", list(x.shape))
        module = intarsia.compile(path, output=tmp_path / "m.itx", options=[f"--target={target}"])
        whole = made.input(x)
        expected = (whole @ made.means if made.op == "MatMul"
                    else convolved(whole, made.means, 1, made.attributes["pads"], 1) + made.bias[:, None, None])  # fmt: skip
        made.check(module.main(x), expected)


def test_what_else_reads(tmp_path: Path) -> None:
    """A residual connection, another scale and the integers themselves are read beside the product."""
    made = LINEARS["matmul"]
    square = tensor(weights(64, 64), "w", "i1")
    scales = tensor(np.full(64, 2.0**-8), "t", "f4")
    stored = {**made.stored, "w": square, "t": scales, "zeros": tensor(np.zeros(64), "zeros", "i1"),
              "s2": tensor(np.float32(0.25), "s2", "f4"), "z2": tensor(200, "z2", "u1")}  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "q s2 z2", "e"), node("DequantizeLinear", "w t zeros", "m", axis=1),
        node("MatMul", "d m", "r"), node("Add", "r d", "y"), node("MatMul", "e m", "f"),
    ]  # fmt: skip
    (tmp_path / "m.onnx").write_bytes(model(graph(nodes, [value("x", ["n", 64])], "y f q", stored), 21))
    module = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx")
    x = values(np.random.default_rng(4), 3, 64)
    d, matrix = made.input(x), weights(64, 64) * 2.0**-8
    whole = d / made.scale + made.zero
    y, f, q = module.main(x)
    np.testing.assert_array_equal(y, (d @ matrix + d).astype(np.float32))
    np.testing.assert_array_equal(f, ((whole - 200) * 0.25 @ matrix).astype(np.float32))
    np.testing.assert_array_equal(q, whole.astype(np.uint8))


@pytest.mark.parametrize(
    ("dtype", "depth", "is_quantized"), [("u1", 72, True), ("i1", 72, True), ("u1", 1000, True), ("u1", 3000, False)]
)
def test_sums_of_integers(tools: Any, tmp_path: Path, dtype: str, depth: int, is_quantized: bool) -> None:
    """MatMulInteger sums products of bytes where f32 holds all sums, with zero points that the call gives."""
    least, most = RANGES[dtype]
    rng = np.random.default_rng(depth)
    weight = np.full((depth, 20), 127) if depth >= 1000 else weights(depth, 20)
    made = node("MatMulInteger", "x w z", "y")
    inputs = [value("x", [2, "n", depth], TYPES[dtype]), value("z", [], TYPES[dtype])]
    (tmp_path / "m.onnx").write_bytes(model(graph([made], inputs, "y", {"w": tensor(weight, "w", "i1")})))
    module = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx")
    for rows, zero in [(1, least), (5, 3), (5, most)]:
        x = rng.integers(least, most + 1, (2, rows, depth)).astype(dtype)
        x[0, 0] = most if zero == least else least
        y = module.main(x, np.array(zero, dtype))
        np.testing.assert_array_equal(y, (x.astype(np.int64) - zero) @ weight)
    tools.compile(tmp_path / "m.onnx", "-o", tmp_path / "m.mlir", "--stop-after=import")
    assert ("nn.quantize" in (tmp_path / "m.mlir").read_text()) == is_quantized


@pytest.mark.parametrize("zero", [0, 77])
def test_convolutions_of_integers(tmp_path: Path, zero: int) -> None:
    """ConvInteger is surrounded by its zero point; QLinearConv rounds its sums once."""
    weight, x = weights(12, 8, 3, 3), np.random.default_rng(zero).integers(0, 256, (2, 8, 7, 6)).astype(np.uint8)
    nodes = [
        node("ConvInteger", "x w z", "y", pads=[1, 2, 0, 1], strides=[2, 1]),
        node("QLinearConv", "x s z w t tz p o b", "q", pads=[1, 1, 1, 1]),
    ]
    stored = {
        "w": tensor(weight, "w", "i1"), "z": tensor(zero, "z", "u1"), "s": tensor(np.float32(0.5), "s", "f4"),
        "t": tensor(np.exp2(-np.arange(12.0) / 4 - 6), "t", "f4"), "tz": tensor(np.zeros(12), "tz", "i1"),
        "p": tensor(np.float32(3), "p", "f4"), "o": tensor(100, "o", "u1"), "b": tensor(np.arange(12) * 99, "b", "i4"),
    }  # fmt: skip
    (tmp_path / "m.onnx").write_bytes(model(graph(nodes, [value("x", ["n", 8, "h", 6], UINT8)], "y q", stored)))
    y, q = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx").main(x)
    moved = x.astype(np.int64) - zero
    windows = convolved(moved, weight, 1, [1, 2, 0, 1], 1)[:, :, ::2]
    np.testing.assert_array_equal(y, windows)
    sums = convolved(moved, weight, 1, [1, 1, 1, 1], 1) + np.arange(12)[:, None, None] * 99
    factor = np.float32(0.5) * np.exp2(-np.arange(12.0) / 4 - 6).astype(np.float32) / np.float32(3)
    rounded = np.rint(sums.astype(np.float32) * factor[:, None, None]) + 100
    np.testing.assert_array_equal(q, np.clip(rounded, 0, 255).astype(np.uint8))


def test_zeros_stay_zeros(tmp_path: Path) -> None:
    """A row of zeros gives 0, whatever the scales are and however large sums of the weight."""
    weight = np.full((3000, 16), 127)
    stored = {
        "s": tensor(np.float32(0.1), "s", "f4"), "z": tensor(0, "z", "u1"), "w": tensor(weight, "w", "i1"),
        "t": tensor(np.full(16, 0.0123), "t", "f4"), "zeros": tensor(np.zeros(16), "zeros", "i1"),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "w t zeros", "m", axis=1), node("MatMul", "d m", "y"),
    ]  # fmt: skip
    (tmp_path / "m.onnx").write_bytes(model(graph(nodes, [value("x", ["n", 3000])], "y", stored), 21))
    x = np.zeros((3, 3000), np.float32)
    x[1] = np.random.default_rng(0).random(3000) * 25
    y = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx").main(x)
    assert not y[::2].any()
    expected = np.clip(np.rint(x[1] / np.float32(0.1)), 0, 255).sum() * 127 * 0.1 * 0.0123
    # Two sums of 2^25 and more are rounded to f32.
    np.testing.assert_allclose(y[1], expected, rtol=1e-6)


def test_wide_pads(tmp_path: Path) -> None:
    """Pads that are far wider than the images make no padded image."""
    weight = weights(4, 4, 1, 1)
    made = Quantized("Conv", weight, 0, pads=[1 << 14] * 4, strides=[1 << 14] * 2)
    module = intarsia.compile(made.write(tmp_path / "m.onnx", [1, 4, 1, 1]), output=tmp_path / "m.itx")
    x = values(np.random.default_rng(5), 1, 4, 1, 1)
    _, real = module.main(x)
    expected = np.zeros((1, 4, 3, 3), np.float32)
    expected[:, :, 1, 1] = np.einsum("oc,c->o", made.means[:, :, 0, 0], made.input(x)[0, :, 0, 0])
    np.testing.assert_array_equal(real, expected)


def test_depth_of_the_call(tmp_path: Path) -> None:
    """Two computed matrices, of which the call decides how many products a sum has."""
    nodes = [node("MatMulInteger", "x y z", "r")]
    inputs = [value("x", ["a", "k"], UINT8), value("y", ["k", "b"], TYPES["i1"])]
    (tmp_path / "m.onnx").write_bytes(model(graph(nodes, inputs, "r", {"z": tensor(200, "z", "u1")})))
    module = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx")
    for depth in (1, 70):
        x, y = weights(3, depth).astype(np.uint8), weights(depth, 5).astype(np.int8)
        np.testing.assert_array_equal(module.main(x, y), (x.astype(np.int64) - 200) @ y)


def test_constants_of_the_file(tmp_path: Path) -> None:
    """What Pad is filled with may be an integer of the file that is dequantized."""
    stored = {
        "p": tensor([0, 1, 0, 2], "p"), "c": tensor(131, "c", "u1"), "s": tensor(np.float32(0.5), "s", "f4"),
        "z": tensor(128, "z", "u1"),
    }  # fmt: skip
    nodes = [node("DequantizeLinear", "c s z", "v"), node("Pad", "x p v", "y")]
    (tmp_path / "m.onnx").write_bytes(model(graph(nodes, [value("x", ["n", 2])], "y", stored), 21))
    y = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx").main(np.ones((1, 2), np.float32))
    np.testing.assert_array_equal(y, [[1.5, 1, 1, 1.5, 1.5]])
