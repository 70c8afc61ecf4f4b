# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The problems of bench/gpu/static.py as Triton kernels, in the form that its tutorials teach for each of them.

Sizes that are multiples of 16 are said to be so when they are compiled. Matrices of weights are `[N, K]`, as linear
layers have them.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def linear(
    x, w, y, rows, columns, depth, tile_rows: tl.constexpr, tile_columns: tl.constexpr, tile_depth: tl.constexpr,
    precision: tl.constexpr,
):  # fmt: skip
    """`y[m, n] = sum_k x[m, k] w[n, k]`, sums in f32."""
    m = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    n = tl.program_id(1) * tile_columns + tl.arange(0, tile_columns)
    k = tl.arange(0, tile_depth)
    left = x + (m % rows)[:, None] * depth + k[None, :]
    right = w + (n % columns)[None, :] * depth + k[:, None]
    sums = tl.zeros((tile_rows, tile_columns), tl.float32)
    for _ in range(0, depth, tile_depth):
        sums = tl.dot(tl.load(left), tl.load(right), sums, input_precision=precision)
        left += tile_depth
        right += tile_depth
    inside = (m[:, None] < rows) & (n[None, :] < columns)
    tl.store(y + m[:, None] * columns + n[None, :], sums.to(y.dtype.element_ty), mask=inside)


@triton.jit
def convolution(
    x, w, y, rows, height: tl.constexpr, width: tl.constexpr, channels: tl.constexpr, columns: tl.constexpr,
    tile_rows: tl.constexpr, tile_columns: tl.constexpr, tile_depth: tl.constexpr,
):  # fmt: skip
    """3x3 windows of images `[batch, height, width, channels]` with zeros around them, as a product of matrices.

    `rows` are the positions of all images; weights are `[columns, 3, 3, channels]`.
    """
    m = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    n = tl.program_id(1) * tile_columns + tl.arange(0, tile_columns)
    k = tl.arange(0, tile_depth)
    image, row, column = m // (height * width), m // width % height, m % width
    sums = tl.zeros((tile_rows, tile_columns), tl.float32)
    steps: tl.constexpr = channels // tile_depth
    for step in range(0, 9 * steps):
        tap, first = step // steps, step % steps * tile_depth
        r, c = row + tap // 3 - 1, column + tap % 3 - 1
        inside = (r >= 0) & (r < height) & (c >= 0) & (c < width) & (m < rows)
        left = x + (((image * height + r) * width + c) * channels + first)[:, None] + k[None, :]
        right = w + (n % columns)[None, :] * (9 * channels) + tap * channels + first + k[:, None]
        sums = tl.dot(tl.load(left, mask=inside[:, None], other=0.0), tl.load(right), sums)
    inside = (m[:, None] < rows) & (n[None, :] < columns)
    tl.store(y + m[:, None] * columns + n[None, :], sums.to(y.dtype.element_ty), mask=inside)


@triton.jit
def linear_w4a16(
    x, w, scales, y, rows, columns, depth, tile_rows: tl.constexpr, tile_columns: tl.constexpr,
    tile_depth: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    """The same with weights of 4 bits, two in a byte along k, of value `(q - 8) * scales[n, k / group]`."""
    m = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    n = tl.program_id(1) * tile_columns + tl.arange(0, tile_columns)
    k = tl.arange(0, tile_depth)
    left = x + (m % rows)[:, None] * depth + k[None, :]
    right = w + (n % columns)[None, :] * (depth // 2) + (k // 2)[:, None]
    shift = (k % 2 * 4)[:, None]
    sums = tl.zeros((tile_rows, tile_columns), tl.float32)
    for at in range(0, depth, tile_depth):
        packed = tl.load(right)
        scale = tl.load(scales + (n % columns) * (depth // group) + at // group)
        weight = (((packed >> shift) & 15) - 8).to(tl.float16) * scale[None, :]
        sums = tl.dot(tl.load(left), weight, sums)
        left += tile_depth
        right += tile_depth // 2
    inside = (m[:, None] < rows) & (n[None, :] < columns)
    tl.store(y + m[:, None] * columns + n[None, :], sums.to(y.dtype.element_ty), mask=inside)


@triton.jit
def attention(
    q, k, v, y, tokens, heads, scale, tile_queries: tl.constexpr, tile_keys: tl.constexpr, features: tl.constexpr
):
    """Causal attention of one head and a tile of queries over `[tokens, heads, features]`, with a running softmax."""
    first = tl.program_id(0) * tile_queries
    i, d = first + tl.arange(0, tile_queries), tl.arange(0, features)
    begin, stride = tl.program_id(1) * features, heads * features
    query = tl.load(q + begin + i[:, None] * stride + d[None, :], mask=i[:, None] < tokens)
    largest = tl.full((tile_queries,), float("-inf"), tl.float32)
    total = tl.zeros((tile_queries,), tl.float32)
    sums = tl.zeros((tile_queries, features), tl.float32)
    # exp(x) is exp2(x / log(2)).
    factor = scale * 1.44269504
    for at in range(0, first + tile_queries, tile_keys):
        j = at + tl.arange(0, tile_keys)
        key = tl.load(k + begin + j[None, :] * stride + d[:, None], mask=j[None, :] < tokens)
        scores = tl.where(j[None, :] <= i[:, None], tl.dot(query, key) * factor, float("-inf"))
        new = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - new[:, None])
        shrink = tl.exp2(largest - new)
        total = total * shrink + tl.sum(weights, 1)
        value = tl.load(v + begin + j[:, None] * stride + d[None, :], mask=j[:, None] < tokens)
        sums = tl.dot(weights.to(value.dtype), value, sums * shrink[:, None])
        largest = new
    tl.store(y + begin + i[:, None] * stride + d[None, :], (sums / total[:, None]).to(y.dtype.element_ty),
             mask=i[:, None] < tokens)  # fmt: skip


@triton.jit
def rms_norm(x, g, y, n, epsilon, tile: tl.constexpr):
    """A row of `x / sqrt(mean(x^2) + epsilon) * g`, in two passes over tiles of it."""
    row, i = tl.program_id(0) * n, tl.arange(0, tile)
    squares = tl.zeros((tile,), tl.float32)
    for at in range(0, n, tile):
        a = tl.load(x + row + at + i, mask=at + i < n, other=0.0).to(tl.float32)
        squares += a * a
    factor = tl.rsqrt(tl.sum(squares) / n + epsilon)
    for at in range(0, n, tile):
        inside = at + i < n
        a = tl.load(x + row + at + i, mask=inside).to(tl.float32)
        b = tl.load(g + at + i, mask=inside).to(tl.float32)
        tl.store(y + row + at + i, (a * factor * b).to(y.dtype.element_ty), mask=inside)


@triton.jit
def softmax(x, y, n, tile: tl.constexpr):
    """A row's softmax, in three passes over tiles of it."""
    row, i = tl.program_id(0) * n, tl.arange(0, tile)
    largest = tl.full((tile,), float("-inf"), tl.float32)
    for at in range(0, n, tile):
        largest = tl.maximum(largest, tl.load(x + row + at + i, mask=at + i < n, other=float("-inf")))
    peak = tl.max(largest)
    total = tl.zeros((tile,), tl.float32)
    for at in range(0, n, tile):
        total += tl.exp(tl.load(x + row + at + i, mask=at + i < n, other=float("-inf")) - peak)
    factor = 1 / tl.sum(total)
    for at in range(0, n, tile):
        inside = at + i < n
        tl.store(y + row + at + i, tl.exp(tl.load(x + row + at + i, mask=inside) - peak) * factor, mask=inside)
