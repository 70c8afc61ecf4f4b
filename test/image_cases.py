# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random uses of the ops that read images between or around their elements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from image_formulas import Axis, Resize, grid_sample, roi_align
from op_cases import TYPES, UNITS, Case, array, chance, is_float, pick, some_float, some_number, some_size, some_values
from random_numbers import RNG
from windows import Pool

LETTERS = "HWD"


def pool() -> Case:
    while True:
        spatial = int(RNG.integers(1, 4))

        def some(*choices: int, count: int = spatial) -> tuple[int, ...]:
            return tuple(pick(*choices) for _ in range(count))

        kind = pick("max", "average", "lp")
        size, window = some(*range(1, (30, 12, 6)[spatial - 1])), some(1, 2, 3, 4)
        dilations, strides = some(1, 1, 2), some(1, 2, 3)
        low, high, beyond = some(0, 0, 1, 2), some(0, 0, 1, 2), some(0, 0, 1)
        flag = {"max": "with_indices", "average": "count_include_pad"}.get(kind, "")
        each = Pool(kind, size, window, strides, dilations, low, high, beyond, flag if chance() else "", pick(1, 2, 3))
        extents = [(w - 1) * d + 1 for w, d in zip(window, dilations, strict=True)]
        if any(max(pads) >= extent for *pads, extent in zip(low, high, extents, strict=True)):
            continue
        reads = [
            any(0 <= o * strides[d] + k * dilations[d] - low[d] < size[d] for k in range(window[d]))
            for d in range(spatial)
            for o in range(each.result[d])
        ]
        # The largest element of none is no part of the description.
        if min(each.result) > 0 and all(reads):
            break
    if kind != "lp":
        each = replace(each, p=2)
    dtype = some_float()
    x = some_values((some_size(3), *size, some_size(40)), dtype, coarse=kind == "max")
    y, places = each.compute(x)
    letters = LETTERS[:spatial]
    results = [(y.astype(dtype), "N" + letters.lower() + "C")]
    if each.flags == "with_indices":
        results.append((places, "N" + letters.lower() + "C"))
    tolerance = 0 if kind == "max" else UNITS[dtype] * 8
    return Case(f"nn.pool <{kind}>, %x {each.attributes()}", {"x": (x, f"N{letters}C")}, results, tolerance)


def resize() -> Case:
    rank = int(RNG.integers(1, 5))
    shape = tuple(some_size(14, 1) for _ in range(rank))
    axes = sorted(int(a) for a in RNG.permutation(rank)[: int(RNG.integers(1, min(rank, 2) + 1))])
    kind = pick("nearest", "linear", "cubic")
    form = pick("scales", "corners", "sizes", "sizes")
    antialias = kind != "nearest" and chance(0.4)
    drawn = []
    for axis in axes:
        size = some_size(18)
        if form == "corners":
            drawn.append(Axis(axis, size, corners=True))
            continue
        shift, offset = pick((0, 0), (0.5, -0.5), (0.5, 0), (1.5, -1))
        scale = round(float(RNG.uniform(0.2, 3)), 3) if form == "scales" else None
        drawn.append(Axis(axis, size, scale, shift, offset))
    # Weights that are all outside have no sum to be divided by: coordinates stay near.
    near = all(((c := a.coordinates(shape[a.axis])) >= -0.9).all() and (c <= shape[a.axis] - 0.1).all() for a in drawn)
    exclude = kind != "nearest" and near and chance()
    each = Resize(
        kind, tuple(drawn), pick("floor", "ceil", "half_down", "half_up"), pick(-0.75, -0.5), exclude, antialias,
        round(float(RNG.uniform(-2, 2)), 2) if kind != "nearest" and chance(0.3) else None,
    )  # fmt: skip
    dtype = some_float() if kind != "nearest" else np.dtype(pick(np.float32, np.float16, np.int8, np.int64))
    x = some_values(shape, dtype)
    like = chance(0.3) and all(a.size for a in drawn) and not antialias
    letters = "".join("." if antialias and d in axes else "ABCE"[d] for d in range(rank))
    operands = {"x": (x, letters)}
    written = list(letters)
    for number, axis in enumerate(drawn):
        written[axis.axis] = "." if not like else "uv"[number]
    if like:
        operands["like"] = (np.zeros([a.size for a in drawn], np.int8), "UV"[: len(drawn)])
    tolerance = 0 if kind == "nearest" else UNITS[dtype] * 2 + 1e-5
    return Case(each.text(like), operands, [(each.compute(x).astype(dtype), "".join(written))], tolerance)


def pad() -> Case:
    kind = pick("constant", "reflect", "edge", "wrap")
    rank, dtype = int(RNG.integers(1, 5)), some_number()
    shape = tuple(some_size(12, 0 if kind == "constant" else 1) for _ in range(rank))
    least = -2 if kind == "constant" else 0
    amounts = [[int(RNG.integers(least, 9)) if chance(0.6) else 0 for _ in range(2)] for _ in range(rank)]
    amounts = [a if n + sum(a) >= 0 else [0, 0] for a, n in zip(amounts, shape, strict=True)]
    amounts = [[max(a[0], -n), max(a[1], -n)] for a, n in zip(amounts, shape, strict=True)]
    x = some_values(shape, dtype)
    attributes = f"{array('low', [a[0] for a in amounts])}, {array('high', [a[1] for a in amounts])}"
    if kind == "constant":
        value = pick(0, 3, -7)
        if value:
            attributes += f", value = {float(value) if is_float(dtype) else value} : {TYPES[dtype]}"
        y = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(amounts, shape, strict=True))]
        y = np.pad(y, [[max(a, 0), max(b, 0)] for a, b in amounts], constant_values=value)
    else:
        y = np.pad(x, amounts, kind)
    letters = "ABCE"[:rank]
    if chance(0.3):  # several dimensions with amounts are no dynamic ones, of which one size may be too small
        letters = "".join("." if any(a < 0 for a in each) else one for one, each in zip(letters, amounts, strict=True))
    return Case(f"nn.pad <{kind}>, %x {{{attributes}}}", {"x": (x, letters)}, [(y, letters.lower())])


def sample() -> Case:
    spatial = int(RNG.integers(1, 4))
    kind, outside, corners = pick("nearest", "linear", "cubic"), pick("zeros", "border", "reflection"), chance()
    dtype = some_float()
    batch = some_size(3)
    x = some_values((batch, *(some_size((30, 9, 5)[spatial - 1], 1) for _ in range(spatial)), some_size(9)), dtype)
    grid = RNG.uniform(-1.6, 1.6, (batch, *(some_size((12, 6, 3)[spatial - 1]) for _ in range(spatial)), spatial))
    grid = grid.astype(np.float32)
    if chance(0.2) and grid.size:
        grid.ravel()[0] = pick(-1, 1, 0, 1e6, -1e6)
    y = grid_sample(x, grid, kind, outside, corners)
    flags = " {corners}" if corners else ""
    letters = LETTERS[:spatial]
    operands = {"x": (x, f"N{letters}C"), "grid": (grid, "N" + "PQR"[:spatial] + ".")}
    tolerance = UNITS[dtype] * 2 + 1e-5 * (spatial if kind == "cubic" else 1)
    result = (y.astype(dtype), "N" + "PQR"[:spatial] + "C")
    return Case(f"nn.grid_sample <{kind}>, <{outside}>, %x, %grid{flags}", operands, [result], tolerance)


def align() -> Case:
    dtype = some_float()
    batch, regions = some_size(3, 1), some_size(5)
    x = some_values((batch, some_size(9, 1), some_size(9, 1), some_size(6)), dtype)
    low = RNG.uniform(-5, 12, (regions, 2))
    boxes = np.concatenate([low, low + RNG.uniform(-4, 12, (regions, 2))], 1).astype(np.float32)
    if chance(0.3) and regions:
        boxes[0, int(RNG.integers(4))] = pick(np.nan, np.inf, -np.inf, 1e30)
    images = RNG.integers(0, batch, regions).astype(pick(np.int32, np.int64))
    sizes, samples = (some_size(4, 1), some_size(4, 1)), some_size(3, 1)
    scale, half, largest = pick(1.0, 0.5, 0.25), chance(), chance()
    with np.errstate(all="ignore"):
        y = roi_align(x, boxes, images, sizes, samples, scale, half, largest)
    flags = (", half_pixel" if half else "") + (", largest" if largest else "")
    attributes = f"{array('sizes', sizes)}, samples = {samples}, spatial_scale = {scale} : f32{flags}"
    operands = {"x": (x, "NHWC"), "boxes": (boxes, "R."), "images": (images, "R")}
    result = (y.astype(dtype), "R..C")
    return Case(f"nn.roi_align %x, %boxes, %images {{{attributes}}}", operands, [result], UNITS[dtype] * 2 + 1e-5)


def norm() -> Case:
    """Group, instance, batch and local response norms, with channels along any axis but the first."""
    rank = int(RNG.integers(2, 5))
    axis, dtype = int(RNG.integers(1, rank)), np.dtype(np.float32)
    groups = pick(1, 2, 3)
    shape = [some_size(6, 1) for _ in range(rank)]
    shape[axis] = channels = groups * some_size(9, 1)
    kind = pick("image_norm", "batch_norm", "response_norm")
    x = some_values(tuple(shape), dtype) + np.float32(0.5)
    scale, bias, mean, variance = (some_values((channels,), dtype) for _ in range(4))
    variance = np.abs(variance)
    first = np.moveaxis(x.astype(float), axis, 1)
    wide = (1, channels, *[1] * (rank - 2))
    operands = {"x": (x, "".join("." if d == axis else "ABCE"[d] for d in range(rank)))}
    letters = operands["x"][1]
    vectors = {"s": (scale, "."), "b": (bias, ".")}
    if kind == "image_norm":
        groups = pick(groups, channels)
        parts = first.reshape(len(x), groups, -1)
        centred = parts - parts.mean(-1, keepdims=True)
        y = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 0.01)).reshape(first.shape)
        y = y * scale.reshape(wide) + bias.reshape(wide)
        operands |= vectors
        op = f'"build.image_norm"(%x, %s, %b) {{groups = {groups}, epsilon = 0.01, axis = {axis}}}'
    elif kind == "batch_norm":
        y = (first - mean.reshape(wide)) * (scale / np.sqrt(variance.astype(float) + 0.01)).reshape(wide)
        y = y + bias.reshape(wide)
        operands |= vectors | {"m": (mean, "."), "v": (variance, ".")}
        op = f'"build.batch_norm"(%x, %s, %b, %m, %v) {{epsilon = 0.01, axis = {axis}}}'
    else:
        size, alpha, beta = some_size(5, 1), 0.5, pick(0.5, 0.75, 1.0)
        padded = np.pad(first**2, ((0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (rank - 2)))
        sums = sum(padded[:, i : i + channels] for i in range(size))
        y = first / (1.5 + alpha / size * sums) ** beta
        op = f'"build.response_norm"(%x) {{axis = {axis}, size = {size}, alpha = {alpha}, beta = {beta}, bias = 1.5}}'
    y = np.moveaxis(y, 1, axis).astype(dtype)
    return Case(op, operands, [(np.ascontiguousarray(y), letters)], 2e-5)
