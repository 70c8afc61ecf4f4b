# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Objects of the reference device: kernels of several kinds against NumPy.

The formulas of ops are tested beside them (dialects/Nn/Ops); here are what stands around them: buffers and sizes of a launch,
and results in the memory of inputs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from random_numbers import normal
from reference_object import BF16, ReferenceObject, close, kernel


@pytest.fixture
def compiled(tools, tmp_path: Path):
    return lambda program: ReferenceObject(tools, program, tmp_path)


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
