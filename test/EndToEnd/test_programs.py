# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small programs whose parts the passes and kernels must fit together, or that only some processors could compute."""

from __future__ import annotations

import numpy as np
import pytest
from programs import build, close, matmul_error
from random_numbers import normal

VARIANTS = ["cpu", "cpu:x86-64-v3", "cpu:x86-64-v2"]


@pytest.mark.parametrize(
    ("shape", "reshape"),
    [
        (
            (2, 3, 4),
            "tensor.expand_shape %t [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>",
        ),
        ((24,), "tensor.collapse_shape %t [[0, 1]] : tensor<6x4xf32> into tensor<24xf32>"),
        ((3, 8), "tensor.expand_shape %f [[0, 1]] output_shape [3, 8] : tensor<24xf32> into tensor<3x8xf32>"),
    ],
)
def test_transposed_weight_under_another_shape(tools, tmp_path, shape, reshape):
    weight = normal(4, 6)
    kind = f"tensor<{'x'.join(map(str, shape))}xf32>"
    module = build(
        tools,
        tmp_path,
        f"""func.func @main(%x: {kind} {{nn.name = "x"}}) -> ({kind} {{nn.name = "y"}}) {{
          %w = nn.weight @weights["w"] : tensor<4x6xf32>
          %e = tensor.empty() : tensor<6x4xf32>
          %t = linalg.transpose ins(%w : tensor<4x6xf32>) outs(%e : tensor<6x4xf32>) permutation = [1, 0]
          %f = tensor.collapse_shape %t [[0, 1]] : tensor<6x4xf32> into tensor<24xf32>
          %r = {reshape}
          %y = arith.addf %x, %r : {kind}
          return %y : {kind} }}""",
        {"w": weight},
    )
    x = normal(*shape)
    close(module.main(x), x + weight.T.reshape(shape), 0.0)


def test_weight_of_rank_three_transposed(tools, tmp_path):
    """Packing transposes stored matrices; any other transposition is computed."""
    weight = normal(2, 3, 4)
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<4x2x3xf32> {nn.name = "x"}) -> (tensor<4x2x3xf32> {nn.name = "y"}) {
          %w = nn.weight @weights["w"] : tensor<2x3x4xf32>
          %e = tensor.empty() : tensor<4x2x3xf32>
          %t = linalg.transpose ins(%w : tensor<2x3x4xf32>) outs(%e : tensor<4x2x3xf32>) permutation = [2, 0, 1]
          %y = arith.addf %x, %t : tensor<4x2x3xf32>
          return %y : tensor<4x2x3xf32> }""",
        {"w": weight},
    )
    x = normal(4, 2, 3)
    close(module.main(x), x + weight.transpose(2, 0, 1), 0.0)


def test_linear_without_input_features(tools, tmp_path):
    """An empty sum is zero, and the bias is what is left."""
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<4x0xf32> {nn.name = "x"}, %w: tensor<8x0xf32> {nn.name = "w"},
                           %b: tensor<8xf32> {nn.name = "b"}) -> (tensor<4x8xf32> {nn.name = "y"}) {
          %y = nn.linear %x, %w, %b : (tensor<4x0xf32>, tensor<8x0xf32>, tensor<8xf32>) -> tensor<4x8xf32>
          return %y : tensor<4x8xf32> }""",
    )
    bias = normal(8)
    actual = module.main(np.empty((4, 0), np.float32), np.empty((8, 0), np.float32), bias)
    close(actual, np.tile(bias.astype(np.float64), (4, 1)), 0.0)


@pytest.mark.parametrize("operands", ["%o, %h", "%h, %o"])
def test_rows_of_two_collapsed_tensors(tools, tmp_path, operands):
    """The residual's rows are the product of two sizes outside of the kernel, the matmul's inside."""
    weight = normal(16, 8)
    module = build(
        tools,
        tmp_path,
        f"""func.func @main(%x: tensor<?x?x8xf32> {{nn.name = "x", nn.sizes = ["b", "s", ""]}},
                           %y: tensor<?x?x16xf32> {{nn.name = "y", nn.sizes = ["b", "s", ""]}})
          -> (tensor<?x16xf32> {{nn.name = "z"}}) {{
          %w = nn.weight @weights["w"] : tensor<16x8xf32>
          %c = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x?x8xf32> into tensor<?x8xf32>
          %h = nn.linear %c, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
          %o = tensor.collapse_shape %y [[0, 1], [2]] : tensor<?x?x16xf32> into tensor<?x16xf32>
          %z = arith.addf {operands} : tensor<?x16xf32>
          return %z : tensor<?x16xf32> }}""",
        {"w": weight},
    )
    for batch, sequence in ((1, 1), (2, 5), (3, 11)):
        x, y = normal(batch, sequence, 8), normal(batch, sequence, 16)
        expected = (x.astype(np.float64) @ weight.T.astype(np.float64) + y).reshape(-1, 16)
        close(module.main(x, y), expected, matmul_error(x, weight.T))


def test_filled_results(tools, tmp_path):
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<?xf32> {nn.name = "x", nn.sizes = ["n"]})
          -> (tensor<?xf32> {nn.name = "a", nn.sizes = ["n"]}, tensor<2x3xi64> {nn.name = "b"}) {
          %c0 = arith.constant 0 : index
          %one = arith.constant 1.5 : f32
          %seven = arith.constant 7 : i64
          %n = tensor.dim %x, %c0 : tensor<?xf32>
          %e = tensor.empty(%n) : tensor<?xf32>
          %f = linalg.fill ins(%one : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
          %s = tensor.splat %seven : tensor<6xi64>
          %v = tensor.expand_shape %s [[0, 1]] output_shape [2, 3] : tensor<6xi64> into tensor<2x3xi64>
          return %f, %v : tensor<?xf32>, tensor<2x3xi64> }""",
    )
    for count in (1, 37):
        ones, sevens = module.main(normal(count))
        close(ones, np.full(count, 1.5), 0.0)
        assert np.array_equal(sevens, np.full((2, 3), 7))


def test_gather_of_a_matmul_that_is_read_elsewhere(tools, tmp_path):
    weight = normal(8, 8)
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<4x8xf32> {nn.name = "x"}, %i: tensor<4xi64> {nn.name = "i"})
          -> (tensor<4x8xf32> {nn.name = "y"}) {
          %w = nn.weight @weights["w"] : tensor<8x8xf32>
          %h = nn.linear %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
          %e = tensor.empty() : tensor<4x8xf32>
          %g = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>],
                               iterator_types = ["parallel", "parallel"]}
            ins(%i : tensor<4xi64>) outs(%e : tensor<4x8xf32>) {
            ^bb0(%row: i64, %out: f32):
              %r = arith.index_cast %row : i64 to index
              %c = linalg.index 1 : index
              %v = tensor.extract %h[%r, %c] : tensor<4x8xf32>
              linalg.yield %v : f32 } -> tensor<4x8xf32>
          %y = arith.addf %h, %g : tensor<4x8xf32>
          return %y : tensor<4x8xf32> }""",
        {"w": weight},
    )
    x, rows = normal(4, 8), np.array([2, 2, 0, 3])
    result = x.astype(np.float64) @ weight.T.astype(np.float64)
    close(module.main(x, rows), result + result[rows], 2 * matmul_error(x, weight.T))


@pytest.mark.parametrize("target", VARIANTS)
def test_rounding_of_bf16_to_integers(tools, tmp_path, target):
    import ml_dtypes

    values = np.concatenate([np.arange(-8, 8, 0.5), normal(37) * 100]).astype(ml_dtypes.bfloat16)
    narrow, wide = f"tensor<{values.size}xbf16>", f"tensor<{values.size}xf32>"
    module = build(
        tools,
        tmp_path,
        f"""func.func @main() -> ({wide} {{nn.name = "floor"}}, {wide} {{nn.name = "rounded"}}) {{
          %w = nn.weight @weights["w"] : {narrow}
          %f = math.floor %w : {narrow}
          %r = math.roundeven %w : {narrow}
          %a = arith.extf %f : {narrow} to {wide}
          %b = arith.extf %r : {narrow} to {wide}
          return %a, %b : {wide}, {wide} }}""",
        {"w": values},
        target,
    )
    floor, rounded = module.main()
    assert np.array_equal(floor, np.floor(values.astype(np.float32)))
    assert np.array_equal(rounded, np.rint(values.astype(np.float32)))


def test_sines_on_any_processor(tools, tmp_path):
    """Large arguments are reduced without the rounding instructions of SSE4.1."""
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<?xf32> {nn.name = "x", nn.sizes = ["n"]})
          -> (tensor<?xf32> {nn.name = "y", nn.sizes = ["n"]}) {
          %y = math.sin %x : tensor<?xf32>
          return %y : tensor<?xf32> }""",
        target="cpu:x86-64",
    )
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.standard_normal(100, np.float32) * np.float32(s) for s in (3, 1e7, 1e30)])
    close(module.main(x), np.sin(x.astype(np.float64)), 2.0**-22)
