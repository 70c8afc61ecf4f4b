# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops without a kernel of their own, which general loops compute on every device, against NumPy in double precision."""

from __future__ import annotations

import intarsia
import numpy as np
import pytest
from image_formulas import Axis, Resize, grid_sample, roi_align
from programs import build
from random_numbers import RNG, normal

DEVICES = ["cpu", "reference", "emulated:sm_90a", "emulated:gfx942"]
MOVED = {"shift": 0.5, "offset": -0.5}

#: Of images [?, 7, 5, 6]: each kind, up and down.
RESIZES = {
    "nearest": Resize("nearest", (Axis(1, 9, **MOVED), Axis(2, 4, **MOVED)), "half_down"),
    "linear": Resize("linear", (Axis(1, 11, **MOVED), Axis(2, 3, **MOVED))),
    "antialias": Resize("linear", (Axis(1, 3, **MOVED), Axis(2, 2, **MOVED)), antialias=True, exclude_outside=True),
    # The kernel reaches whole elements, which kernels that compute the same coordinate must agree on.
    "reach": Resize("cubic", (Axis(1, 5, **MOVED),), antialias=True, exclude_outside=True),
    "cubic": Resize("cubic", (Axis(2, 13, corners=True), Axis(3, 8, corners=True))),
    "outside": Resize("linear", (Axis(1, 6, 1.5, 0, -1),), outside=2),
}


def function(name: str, arguments: dict[str, str], op: str, *results: str) -> str:
    """Write a function of one op. Types of arguments have names of sizes in the place of dynamic ones."""

    def typed(given: str) -> str:
        return "tensor<" + "x".join("?" if part.isupper() else part for part in given.split("x")) + ">"

    def declared(argument: str, given: str) -> str:
        sizes = ", ".join(f'"{part if part.isupper() else ""}"' for part in given.split("x")[:-1])
        return f'%{argument}: {typed(given)} {{nn.name = "{argument}", nn.sizes = [{sizes}]}}'

    inputs = ", ".join(declared(*each) for each in arguments.items())
    outputs = ", ".join(f'{typed(each)} {{nn.name = "r{number}"}}' for number, each in enumerate(results))
    types = f"({', '.join(map(typed, arguments.values()))}) -> ({', '.join(map(typed, results))})"
    values = ", ".join(f"%r#{number}" for number in range(len(results)))
    return f"""func.func @{name}({inputs}) -> ({outputs}) {{
      %r:{len(results)} = {op} : {types}
      return {values} : {", ".join(map(typed, results))} }}
    """


def of_images() -> str:
    text = "".join(
        function(
            name, {"x": "Nx7x5x6xf32"}, each.text(), "x".join(map(str, ("N", *each.result((0, 7, 5, 6))[1:], "f32")))
        )
        for name, each in RESIZES.items()
    )
    like = Resize("linear", (Axis(1, 0, **MOVED), Axis(2, 0, **MOVED)))
    text += function("like", {"x": "NxHxWx6xf32", "like": "AxBxi8"}, like.text(like=True), "NxAxBx6xf32")
    pads = "low = array<i64: 0, 2, 1, 0>, high = array<i64: 0, 9, 3, 0>"
    for kind in ("reflect", "edge", "wrap"):
        text += function(kind, {"x": "NxHxWx6xf32"}, f"nn.pad <{kind}>, %x {{{pads}}}", "NxPxQx6xf32")
    pads = "low = array<i64: 0, -2, 1, 0>, high = array<i64: 0, 9, -1, 0>, value = 3.0 : f32"
    text += function("constant", {"x": "Nx7x5x6xf32"}, f"nn.pad <constant>, %x {{{pads}}}", "Nx14x5x6xf32")
    text += function(
        "sample",
        {"x": "Nx7x5x6xf32", "grid": "Nx4xRx2xf32"},
        "nn.grid_sample <cubic>, <reflection>, %x, %grid",
        "Nx4xRx6xf32",
    )
    regions = "{sizes = array<i64: 3, 2>, samples = 2, spatial_scale = 0.5 : f32, half_pixel}"
    arguments = {"x": "Nx7x5x6xf32", "boxes": "Rx4xf32", "images": "Rxi64"}
    return text + function("align", arguments, f"nn.roi_align %x, %boxes, %images {regions}", "Rx3x2x6xf32")


@pytest.mark.parametrize("device", DEVICES)
def test_images(tools, tmp_path, device: str) -> None:
    module = build(tools, tmp_path, of_images(), target=device)
    x = normal(2, 7, 5, 6)
    for name, resize in RESIZES.items():
        np.testing.assert_allclose(getattr(module, name)(x), resize.compute(x), 0, 4e-6, err_msg=name)
    like = Resize("linear", (Axis(1, 10, **MOVED), Axis(2, 4, **MOVED)))
    np.testing.assert_allclose(module.like(x, np.zeros((10, 4), np.int8)), like.compute(x), 0, 4e-6)
    for kind in ("reflect", "edge", "wrap"):
        expected = np.pad(x, ((0, 0), (2, 9), (1, 3), (0, 0)), kind)
        np.testing.assert_array_equal(getattr(module, kind)(x), expected, err_msg=kind)
    expected = np.pad(x[:, 2:, :4], ((0, 0), (0, 9), (1, 0), (0, 0)), constant_values=3)
    np.testing.assert_array_equal(module.constant(x), expected)
    grid = RNG.uniform(-1.5, 1.5, (2, 4, 3, 2)).astype(np.float32)
    np.testing.assert_allclose(module.sample(x, grid), grid_sample(x, grid, "cubic", "reflection", False), 0, 1e-5)
    # Also one that lies outside, one whose corners are exchanged, and two of which a corner is no number.
    boxes = [
        [1, 2, 9, 11],
        [-6, 0, 4, 30],
        [5, 5, 5, 5],
        [-9, -9, -7, -8],
        [8, 9, 2, 3],
        [np.nan, 0, 4, 4],
        [0, 0, 4, np.nan],
    ]
    boxes, images = np.array(boxes, np.float32), np.array([1, 0, 1, 0, 1, 0, 1])
    expected = roi_align(x, boxes, images, (3, 2), 2, 0.5, half_pixel=True, largest=False)
    np.testing.assert_allclose(module.align(x, boxes, images), expected, 0, 4e-6)
    with pytest.raises(intarsia.Error, match=r"index of|input .* is"):
        module.align(x, boxes, np.array([1, 2, 0, 0, 0, 0, 0]))


def of_indices() -> str:
    text = function("sort", {"x": "Ax37xBxf32"}, "nn.sort %x {axis = 1}", "Ax37xBxf32", "Ax37xBxi64")
    text += function("top", {"x": "Ax600xf16"}, "nn.top_k %x {axis = 1, k = 290}", "Ax290xf16", "Ax290xi64")
    text += function("least", {"x": "AxBxi32"}, "nn.top_k %x {axis = 0, k = 4, smallest}", "4xBxi32", "4xBxi64")
    for kind in ("set", "add", "mul", "min", "max"):
        arguments = {"x": "Ax9xf32", "indices": "AxMxi64", "updates": "AxMxf32"}
        text += function(
            f"scatter_{kind}", arguments, f"nn.scatter <{kind}>, %x, %indices, %updates {{axis = 1}}", "Ax9xf32"
        )
        arguments = {"x": "Ax9x5xf32", "i": "Mxi64", "j": "Mxi32", "updates": "Mx5xf32"}
        text += function(f"slices_{kind}", arguments, f"nn.scatter_nd <{kind}>, %x[%i, %j], %updates", "Ax9x5xf32")
    return text


def stable(x: np.ndarray, axis: int) -> np.ndarray:
    """Return the indices of elements in order, equal ones in that of their indices: NumPy's stable sort, NaN last."""
    ranks = np.unique(x, return_inverse=True, equal_nan=True)[1].reshape(x.shape)
    return np.argsort(ranks, axis, kind="stable")


@pytest.mark.parametrize("device", DEVICES)
def test_indices(tools, tmp_path, device: str) -> None:
    module = build(tools, tmp_path, of_indices(), target=device)
    x = np.round(normal(2, 37, 3) * 2)
    x[0, 5, 1] = x[1, 8, 0] = np.nan
    x[0, 7], x[1, 9], x[1, 3:5] = -0.0, np.inf, -np.inf
    values, places = module.sort(x)
    np.testing.assert_array_equal(places, stable(x, 1))
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1))
    x = np.round(normal(3, 600) * 20).astype(np.float16)
    values, places = module.top(x)
    np.testing.assert_array_equal(places, stable(-x.astype(float), 1)[:, :290])
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1))
    x = RNG.integers(-9, 9, (11, 3), np.int32)
    values, places = module.least(x)
    np.testing.assert_array_equal(places, stable(x, 0)[:4])
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, 0))
    with pytest.raises(intarsia.Error, match="must be at least 4"):
        module.least(x[:3])

    combine = {"set": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "min": min, "max": max}
    for kind, combined in combine.items():
        x, updates, indices = normal(4, 9), normal(4, 20), RNG.integers(0, 9, (4, 20))
        expected = x.astype(float)
        for i, j in np.ndindex(4, 20):
            expected[i, indices[i, j]] = combined(expected[i, indices[i, j]], float(updates[i, j]))
        np.testing.assert_allclose(
            getattr(module, f"scatter_{kind}")(x, indices, updates), expected, 0, 4e-6, err_msg=kind
        )
        x, updates, i, j = normal(4, 9, 5), normal(30, 5), RNG.integers(0, 4, 30), RNG.integers(0, 9, 30, np.int32)
        expected = x.astype(float)
        for at in range(30):
            for column in range(5):
                place = (i[at], j[at], column)
                expected[place] = combined(expected[place], float(updates[at, column]))
        np.testing.assert_allclose(getattr(module, f"slices_{kind}")(x, i, j, updates), expected, 0, 4e-6, err_msg=kind)
    with pytest.raises(intarsia.Error, match=r"index of|input .* is"):
        module.scatter_set(normal(1, 9), np.array([[9]]), normal(1, 1))
    with pytest.raises(intarsia.Error, match=r"index of|input .* is"):
        module.slices_add(normal(1, 9, 5), np.array([0]), np.array([-1], np.int32), normal(1, 5))
