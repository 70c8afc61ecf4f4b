# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ops of ONNX do where it is easily done wrong: ties, ends, orders and rare attributes."""

from __future__ import annotations

from typing import Any

import intarsia
import numpy as np
import pytest
from onnx_wire import BOOL, DOUBLE, INT8, INT64, UINT8, UINT64, graph, model, node, packed, tensor, value


def run(tmp_path, made: bytes, inputs: list[bytes], stored: Any, outputs: str, *arrays: np.ndarray) -> Any:
    """Return the results of one node."""
    (tmp_path / "m.onnx").write_bytes(model(graph([made], inputs, outputs, stored), 28))
    return intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx").main(*arrays)


@pytest.mark.parametrize(("kind", "dtype"), [(UINT8, np.uint8), (UINT64, np.uint64)])
def test_largest_without_a_sign(tmp_path, kind, dtype):
    """TopK of numbers without a sign takes those whose first bit is set as the largest."""
    x = np.array([[3, 255, 128, 0, 127, 255], [1, 2, 3, 130, 5, 6]], dtype)
    made = node("TopK", "x k", "v i", largest=0)
    low, places = run(tmp_path, made, [value("x", [2, 6], kind)], {"k": tensor([4], "k")}, "v i", x)
    expected = np.argsort(x, axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(low, np.take_along_axis(x, expected, 1))
    np.testing.assert_array_equal(places, expected)


@pytest.mark.parametrize("order", [0, 1])
def test_places_of_maxima(tmp_path, order):
    """Indices of MaxPool count rows or, with a storage order of 1, columns, behind those of the channels before."""
    x = np.random.default_rng(0).permutation(2 * 3 * 4 * 6).reshape(2, 3, 4, 6).astype(np.float32)
    made = node("MaxPool", "x", "y i", kernel_shape=[2, 3], strides=[2, 3], storage_order=order)
    y, places = run(tmp_path, made, [value("x", ["n", 3, "h", "w"])], None, "y i", x)
    images = x.transpose(0, 1, 3, 2) if order else x
    np.testing.assert_array_equal(images.reshape(-1)[places], y)


def test_norm_of_the_batch(tmp_path):
    """BatchNormalization in training normalises by the batch, and moves the mean and the variance towards it."""
    x = np.random.default_rng(0).standard_normal((4, 3, 5)).astype(np.float32) * 3 + 1
    vectors = np.random.default_rng(1).random((4, 3)).astype(np.float32) + 0.5
    stored = {name: tensor(vector, name, "f4") for name, vector in zip("sbmv", vectors, strict=True)}
    made = node("BatchNormalization", "x s b m v", "y p q", training_mode=1, momentum=0.75, epsilon=0.01)
    y, mean, variance = run(tmp_path, made, [value("x", ["n", 3, 5])], stored, "y p q", x)
    current, square = x.mean((0, 2)), x.var((0, 2))
    normed = (x - current[:, None]) / np.sqrt(square[:, None] + 0.01) * vectors[0][:, None] + vectors[1][:, None]
    np.testing.assert_allclose(y, normed, rtol=0, atol=1e-5)
    np.testing.assert_allclose(mean, vectors[2] * 0.75 + current * 0.25, rtol=1e-5)
    np.testing.assert_allclose(variance, vectors[3] * 0.75 + square * 0.25, rtol=1e-5)


def test_wanted_size_beyond_a_convolution(tmp_path):
    """A ConvTranspose whose wanted size is beyond its windows has nothing but the bias there, at the end."""
    x = np.arange(3, dtype=np.float32).reshape(1, 1, 3) + 1
    made = node("ConvTranspose", "x w b", strides=[3], output_shape=[10])
    stored = {"w": tensor([[[1, 10, 100]]], "w", "f4"), "b": tensor([0.5], "b", "f4")}
    y = run(tmp_path, made, [value("x", [1, 1, 3])], stored, "y", x)
    np.testing.assert_array_equal(y[0, 0], np.array([1, 10, 100, 2, 20, 200, 3, 30, 300, 0]) + 0.5)


def test_ties_of_nearest(tmp_path):
    """A position in the middle of two elements reads the one that 'nearest_mode' says, whatever a factor is rounded to."""
    x = np.arange(12, dtype=np.float32).reshape(1, 2, 6)
    for rounding, toward in {"round_prefer_floor": np.ceil, "round_prefer_ceil": np.floor}.items():
        made = node("Resize", "x - - s", nearest_mode=rounding)
        y = run(tmp_path, made, [value("x", [1, 2, 6])], {"s": tensor([1, 7, 15], "s")}, "y", x)
        half = 0.5 if toward is np.floor else -0.5
        places = [toward((np.arange(new) + 0.5) / (new / old) - 0.5 + half) for old, new in [(2, 7), (6, 15)]]
        rows, columns = (np.clip(place, 0, last).astype(int) for place, last in zip(places, [1, 5], strict=True))
        np.testing.assert_array_equal(y[0], x[0][rows][:, columns], rounding)


def test_remainders_of_doubles(tmp_path):
    """Mod of f64 has the sign of the divisor, of infinity too, and a quotient that is rounded up leaves no negative rest."""
    x = np.array([-3.0, 3.0, -7.5, 1.0, 5.0, np.inf, 6.0, -6.0, 1e15 + 0.25])
    z = np.array([np.inf, np.inf, 2.0, 0.1, 0.0, 2.0, -4.0, -4.0, 3.0])
    y = run(tmp_path, node("Mod", "x z"), [value("x", [9], DOUBLE), value("z", [9], DOUBLE)], None, "y", x, z)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, np.mod(x, z))


def test_scattered_without_a_sign(tmp_path):
    """Scatters take the larger number of those without a sign, and set bools."""
    x, z = np.array([3, 200, 127, 0], np.uint8), np.array([255, 100], np.uint8)
    inputs = [value("x", [4], UINT8), value("z", [2], UINT8)]
    made = node("ScatterElements", "x i z", reduction="max")
    y = run(tmp_path, made, inputs, {"i": tensor([2, 1], "i")}, "y", x, z)
    np.testing.assert_array_equal(y, [3, 200, 255, 0])
    inputs = [value("x", [3], BOOL), value("z", [1], BOOL)]
    made = node("ScatterND", "x i z")
    y = run(tmp_path, made, inputs, {"i": tensor([[1]], "i")}, "y", np.array([True, False, False]), np.array([True]))
    np.testing.assert_array_equal(y, [True, True, False])


def test_activations_of_integers(tmp_path):
    """Shrink moves integers by a number that need not be whole; PRelu leaves those without a sign."""
    x = np.array([-5, -1, 0, 2, 100], np.int8)
    y = run(tmp_path, node("Shrink", "x", lambd=1.5, bias=0.5), [value("x", [5], INT8)], None, "y", x)
    np.testing.assert_array_equal(y, [-4, 0, 0, 1, 99])
    x = np.array([1, 255], np.uint8)
    y = run(tmp_path, node("PRelu", "x s"), [value("x", [2], UINT8)], {"s": tensor([7], "s", "u1")}, "y", x)
    np.testing.assert_array_equal(y, x)


def test_norms_of_all_positions(tmp_path):
    """GlobalLpPool takes any power."""
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    for power in (1, 2, 3):
        y = run(tmp_path, node("GlobalLpPool", "x", p=power), [value("x", ["n", 3, "h", 5])], None, "y", x)
        expected = (np.abs(x) ** power).sum((2, 3), keepdims=True) ** (1 / power)
        np.testing.assert_allclose(y, expected, rtol=1e-5)


def test_layers_of_doubles(tmp_path):
    """Convolutions, pools and norms of f64 are computed in f32."""
    x = np.random.default_rng(0).standard_normal((1, 2, 4))
    inputs, weight = [value("x", [1, 2, 4], DOUBLE)], np.arange(4.0).reshape(2, 2, 1)
    stored = {"w": packed("w", DOUBLE, weight, "64")}
    y = run(tmp_path, node("Conv", "x w"), inputs, stored, "y", x)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y[0], weight[:, :, 0] @ x[0], rtol=1e-5, atol=1e-6)
    y, places = run(tmp_path, node("MaxPool", "x", "y i", kernel_shape=[4]), inputs, None, "y i", x)
    np.testing.assert_array_equal(y[..., 0], x.max(-1).astype(np.float32))
    np.testing.assert_array_equal(places[0, :, 0], x[0].argmax(-1) + np.array([0, 4]))
    stored = {name: packed(name, DOUBLE, np.array(numbers), "64") for name, numbers in
              {"s": [1.0, 2.0], "b": [0.0, 1.0], "m": [0.0, 0.0], "v": [1.0, 1.0]}.items()}  # fmt: skip
    made = node("BatchNormalization", "x s b m v", "y p q", training_mode=1, momentum=0.0)
    y, mean, variance = run(tmp_path, made, inputs, stored, "y p q", x)
    np.testing.assert_allclose(mean, x.mean((0, 2)), rtol=1e-5, atol=1e-6)
    assert mean.dtype == variance.dtype == np.float64


def test_numbers_of_64_bits(tmp_path):
    """Integers and floats of 64 bits are moved and compared as they are."""
    large = (1 << 53) + 1
    x = np.array([large, -large])
    made = node("Pad", "x p v")
    stored = {"p": tensor([1, 0], "p"), "v": tensor(large, "v")}
    y = run(tmp_path, made, [value("x", [2], INT64)], stored, "y", x)
    np.testing.assert_array_equal(y, [large, large, -large])
    x = np.array([[1.0, 1 + 1e-12, 1.0], [3.0, 2.0, 3 + 1e-12]])
    y = run(tmp_path, node("Hardmax", "x"), [value("x", [2, 3], DOUBLE)], None, "y", x)
    np.testing.assert_array_equal(y, [[0, 1, 0], [0, 0, 1]])
    made = node("Resize", "x - s", mode="nearest")
    y = run(tmp_path, made, [value("x", [2, 3], DOUBLE)], {"s": tensor([1.0, 2.0], "s", "f4")}, "y", x)
    np.testing.assert_array_equal(y, x.repeat(2, 1))


def test_sizes_of_few_bits(tmp_path):
    """A size of the call wraps as an integer of 8 bits."""
    nodes = [node("Shape", "x", "s"), node("Cast", "s", "c", to=INT8), node("Cast", "c", to=INT64)]
    (tmp_path / "m.onnx").write_bytes(model(graph(nodes, [value("x", ["n"])])))
    main = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx").main
    np.testing.assert_array_equal(main(np.zeros(200, np.float32)), [-56])


def test_names_of_sizes(tmp_path):
    """A size without a name is none that has the name which it would get."""
    (tmp_path / "m.onnx").write_bytes(
        model(graph([node("Concat", "x z", axis=0)], [value("x", [-1]), value("z", ["x.0"])]))
    )
    main = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx").main
    np.testing.assert_array_equal(main(np.ones(2, np.float32), np.zeros(3, np.float32)), [1, 1, 0, 0, 0])


def test_neighbours_of_channels_of_the_call(tmp_path):
    """LRN of channels whose number is a size of the call."""
    x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    made = node("LRN", "x", size=3, alpha=0.5, beta=0.75, bias=2.0)
    y = run(tmp_path, made, [value("x", ["n", "c", "w"])], None, "y", x)
    padded = np.pad(x**2, [(0, 0), (1, 1), (0, 0)])
    sums = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    np.testing.assert_allclose(y, x / (2 + 0.5 / 3 * sums) ** 0.75, rtol=1e-5)


@pytest.mark.parametrize("channels", [6, "c"])
def test_scales_of_groups(tmp_path, channels):
    """GroupNormalization before version 21 has a scale and a bias for each group."""
    x = np.random.default_rng(0).standard_normal((2, 6, 5)).astype(np.float32)
    stored = {"s": tensor([2.0, -1.0, 0.5], "s", "f4"), "b": tensor([1.0, 2.0, 3.0], "b", "f4")}
    made = node("GroupNormalization", "x s b", num_groups=3, epsilon=0.01)
    (tmp_path / "m.onnx").write_bytes(model(graph([made], [value("x", ["n", channels, 5])], "y", stored), 18))
    y = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx").main(x)
    groups = x.reshape(2, 3, 10)
    normed = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 0.01)
    expected = normed * np.array([2.0, -1.0, 0.5])[:, None] + np.array([1.0, 2.0, 3.0])[:, None]
    np.testing.assert_allclose(y, expected.reshape(2, 6, 5), rtol=0, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_outside_of_a_crop(tmp_path, mode):
    """The last position of a crop that ends with the image is inside of it, and those behind it have the given number."""
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    made = node("Resize", "x r - s", mode=mode, coordinate_transformation_mode="tf_crop_and_resize",
                extrapolation_value=-10.0)  # fmt: skip
    for end, result in [(1.0, 22), (1.25, 16)]:
        stored = {"r": tensor([0.0, 0.0, 1.0, end], "r", "f4"), "s": tensor([1, result], "s")}
        y = run(tmp_path, made, [value("x", [1, 4])], stored, "y", x)
        places = np.arange(result) * (3 * end) / (result - 1)
        inside = np.ceil(places - 0.5) if mode == "nearest" else places
        np.testing.assert_allclose(y[0], np.where(places > 3 + 1e-6, -10, inside), rtol=1e-5, atol=1e-6)
