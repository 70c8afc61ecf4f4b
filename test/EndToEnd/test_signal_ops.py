# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fourier transforms of signals and of their windows, against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from compositions import built
from programs import build
from random_numbers import normal

DEVICES = ["cpu", "reference", "emulated:sm_90a", "emulated:gfx942"]
TOLERANCE = 2e-6  # of the largest element: some roundings to f32, that of matrices included


def parts(values: np.ndarray) -> np.ndarray:
    return np.stack([values.real, values.imag], -1)


def numbers(x: np.ndarray) -> np.ndarray:
    return x[..., 0] + 1j * x[..., 1].astype(float)


def check(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, 0, TOLERANCE * np.abs(expected).max())


def function(name: str, attributes: str, read: str, written: str) -> str:
    given, result = f"tensor<?x{read}xf32>", f"tensor<?x{written}xf32>"
    return f"""
      func.func @{name}(%x: {given} {{nn.name = "x", nn.sizes = ["rows", "", ""]}}) -> {result} {{
        %y = nn.fft %x {{axis = 1{attributes}}} : ({given}) -> {result}
        return %y : {result}
      }}"""


#: One matrix, two factors, a prime as a matrix, three factors of which one is a prime as a convolution.
NUMBERS = (16, 90, 97, 2 * 131)


@pytest.mark.parametrize("device", DEVICES)
def test_transforms(tools, tmp_path, device: str) -> None:
    text = ""
    for n in NUMBERS:
        half = n // 2 + 1
        text += function(f"forward{n}", "", f"{n}x2", f"{n}x2")
        text += function(f"back{n}", ", inverse", f"{n}x2", f"{n}x2")
        text += function(f"real{n}", ", onesided", f"{n}x1", f"{half}x2")
        text += function(f"real_back{n}", f", inverse, onesided, length = {n}", f"{half}x2", f"{n}x1")
    module = build(tools, tmp_path, text, target=device)
    for n in NUMBERS:
        x = normal(3, n, 2)
        check(getattr(module, f"forward{n}")(x), parts(np.fft.fft(numbers(x))))
        check(getattr(module, f"back{n}")(x), parts(np.fft.ifft(numbers(x))))
        check(getattr(module, f"real{n}")(x[..., :1]), parts(np.fft.rfft(x[..., 0].astype(float))))
        spectrum = np.ascontiguousarray(x[:, : n // 2 + 1])
        check(getattr(module, f"real_back{n}")(spectrum)[..., 0], np.fft.irfft(numbers(spectrum), n))


AXES = """
func.func @first(%x: tensor<12x?x2xf32> {nn.name = "x", nn.sizes = ["", "n", ""]}) -> tensor<12x?x2xf32> {
  %y = nn.fft %x {axis = 0} : (tensor<12x?x2xf32>) -> tensor<12x?x2xf32>
  return %y : tensor<12x?x2xf32>
}
func.func @dynamic(%x: tensor<?x1xf32> {nn.name = "x", nn.sizes = ["n", ""]}) -> tensor<?x2xf32> {
  %y = nn.fft %x {axis = 0} : (tensor<?x1xf32>) -> tensor<?x2xf32>
  return %y : tensor<?x2xf32>
}
func.func @narrow(%x: tensor<3x80x1xf16> {nn.name = "x"}) -> tensor<3x41x2xf16> {
  %y = nn.fft %x {axis = 1, onesided} : (tensor<3x80x1xf16>) -> tensor<3x41x2xf16>
  return %y : tensor<3x41x2xf16>
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_axes(tools, tmp_path, device: str) -> None:
    module = build(tools, tmp_path, AXES, target=device)
    x = normal(12, 5, 2)
    check(module.first(x), parts(np.fft.fft(numbers(x), axis=0)))
    x = normal(19, 1)
    check(module.dynamic(x), parts(np.fft.fft(x[..., 0].astype(float))))
    x = normal(3, 80, 1).astype(np.float16)
    expected = parts(np.fft.rfft(x[..., 0].astype(float)))
    np.testing.assert_allclose(module.narrow(x).astype(float), expected, 1e-3, 1e-3)


def test_large_prime(tools, tmp_path) -> None:
    """Bluestein's convolution has 262,144 elements."""
    n = 100_003
    text = function("forward", "", f"{n}x2", f"{n}x2")
    x = normal(1, n, 2)
    check(build(tools, tmp_path, text).forward(x), parts(np.fft.fft(numbers(x))))


WINDOWS = """
func.func @windows(%x: tensor<?x?x1xf32> {nn.name = "x", nn.sizes = ["n", "length", ""]}, %w: tensor<30xf32> {nn.name = "w"})
    -> tensor<?x?x16x2xf32> {
  %y = "build.stft"(%x, %w) {size = 30, step = 8, onesided} : (tensor<?x?x1xf32>, tensor<30xf32>) -> tensor<?x?x16x2xf32>
  return %y : tensor<?x?x16x2xf32>
}
func.func @signal(%x: tensor<?x?x16x2xf32> {nn.name = "x", nn.sizes = ["n", "windows", "", ""]},
                  %w: tensor<30xf32> {nn.name = "w"}) -> tensor<?x?x1xf32> {
  %y = "build.istft"(%x, %w) {size = 30, step = 8, onesided} : (tensor<?x?x16x2xf32>, tensor<30xf32>) -> tensor<?x?x1xf32>
  return %y : tensor<?x?x1xf32>
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_windows(tools, tmp_path, device: str) -> None:
    module = built(tools, tmp_path, WINDOWS, device)
    x, window = normal(2, 75, 1), np.hanning(30).astype(np.float32)
    transforms = module.windows(x, window)
    framed = np.stack([x[:, 8 * i : 8 * i + 30, 0] * window.astype(float) for i in range(6)], 1)
    check(transforms, parts(np.fft.rfft(framed)))
    # Windows overlap, so that their sum is the signal again; at its ends they are 0.
    np.testing.assert_allclose(module.signal(transforms, window)[:, 4:66], x[:, 4:66], 0, 1e-4)
