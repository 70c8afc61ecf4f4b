# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes and indices that the types leave open: a call that an op could not bear is refused, with both sides named."""

from __future__ import annotations

import intarsia
import numpy as np
import pytest
from programs import build, close
from random_numbers import normal


def refused(module, *inputs: np.ndarray) -> str:
    with pytest.raises(intarsia.InvalidArgumentError) as info:
        module.main(*inputs)
    return str(info.value)


def test_operands_without_names(tools, tmp_path):
    module = build(
        tools,
        tmp_path,
        """func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
          %r = arith.addf %a, %b : tensor<?xf32>
          return %r : tensor<?xf32> }""",
    )
    a = normal(5)
    close(module.main(a, a), 2.0 * a, 0)
    message = refused(module, normal(1_000_000), normal(3))
    assert message.endswith("arg0.0 is 1000000 in input 'arg0', but 3 in input 'arg1': both must be the same")


def test_weight_with_static_features(tools, tmp_path):
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<?x?xf32>, %w: tensor<4x8xf32>) -> tensor<?x4xf32> {
          %r = nn.linear %x, %w : (tensor<?x?xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
          return %r : tensor<?x4xf32> }""",
    )
    x, w = normal(3, 8), normal(4, 8)
    close(module.main(x, w), x @ w.T, 1e-5)
    assert "input 'arg0' is [2, 5]: dimension 1 must be 8" in refused(module, normal(2, 5), w)


def test_products_and_results(tools, tmp_path):
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<2x?xf32> {nn.name = "x", nn.sizes = ["", "k"]},
                           %y: tensor<?x4xf32> {nn.name = "y", nn.sizes = ["m", ""]},
                           %z: tensor<?xf32> {nn.name = "z", nn.sizes = ["n"]})
            -> (tensor<2x4xf32>, tensor<?xf32> {nn.sizes = ["m"]}) {
          %r = nn.matmul %x, %y : (tensor<2x?xf32>, tensor<?x4xf32>) -> tensor<2x4xf32>
          %s = nn.relu %z : tensor<?xf32>
          return %r, %s : tensor<2x4xf32>, tensor<?xf32> }""",
    )
    x, y = normal(2, 7), normal(7, 4)
    close(module.main(x, y, normal(7))[0], x @ y, 1e-5)
    assert "k is 7 in input 'x', but 6 in input 'y'" in refused(module, x, normal(6, 4), normal(7))
    assert "k is 7 in input 'x', but 6 in input 'z'" in refused(module, x, y, normal(6))


def test_slices(tools, tmp_path):
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<4x8xf32>, %y: tensor<?x8xf32> {nn.name = "y", nn.sizes = ["m", ""]},
                           %n: tensor<?xf32> {nn.name = "n", nn.sizes = ["n"]}) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
          %c0 = arith.constant 0 : index
          %c2 = arith.constant 2 : index
          %n0 = tensor.dim %n, %c0 : tensor<?xf32>
          %twice = arith.muli %n0, %c2 : index
          %r = tensor.extract_slice %x[0, 0] [%n0, 8] [1, 1] : tensor<4x8xf32> to tensor<?x8xf32>
          %s = tensor.extract_slice %y[1, 0] [%twice, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
          return %r, %s : tensor<?x8xf32>, tensor<?x8xf32> }""",
    )
    x, y = normal(4, 8), normal(9, 8)
    first, second = module.main(x, y, normal(4))
    assert (first == x).all()
    assert (second == y[1:]).all()
    assert "n is 1000000, the model's maximum is 4 (dimension 0 of input 'n')" in refused(
        module, x, y, normal(1_000_000)
    )
    message = refused(module, x, normal(8, 8), normal(4))
    assert "n * 2 + 1 is 9, must be at most m, which is 8: 'tensor.extract_slice'" in message
    assert "(n is dimension 0 of input 'n', m is dimension 0 of input 'y')" in message


def test_reshapes_and_joins(tools, tmp_path):
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<?x?xf32> {nn.name = "x", nn.sizes = ["a", "b"]},
                           %y: tensor<?xf32> {nn.name = "y", nn.sizes = ["c"]},
                           %z: tensor<?x?xf32> {nn.name = "z", nn.sizes = ["d", "e"]}) -> (tensor<?xf32>, tensor<?x?xf32>) {
          %f = tensor.collapse_shape %x [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
          %r = arith.addf %f, %y : tensor<?xf32>
          %j = tensor.concat dim(0) %x, %z : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
          return %r, %j : tensor<?xf32>, tensor<?x?xf32> }""",
    )
    x, y, z = normal(3, 5), normal(15), normal(2, 5)
    flat, concatenated = module.main(x, y, z)
    close(flat, x.ravel() + y, 0)
    assert (concatenated == np.concatenate([x, z])).all()
    assert "a * b is 15, must be c, which is 14: 'arith.addf'" in refused(module, x, normal(14), z)
    assert "b is 5 in input 'x', but 6 in input 'z'" in refused(module, x, y, normal(2, 6))


def test_loops(tools, tmp_path):
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<?x?xf32> {nn.name = "x"}, %y: tensor<?xf32> {nn.name = "y"},
                           %t: tensor<?xf32> {nn.name = "t"}) -> tensor<?x?xf32> {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %a = tensor.dim %x, %c0 : tensor<?x?xf32>
          %b = tensor.dim %x, %c1 : tensor<?x?xf32>
          %e = tensor.empty(%a, %b) : tensor<?x?xf32>
          %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
                               iterator_types = ["parallel", "parallel"]}
              ins(%x, %y : tensor<?x?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
          ^bb0(%u: f32, %v: f32, %o: f32):
            %j = linalg.index 1 : index
            %w = tensor.extract %t[%j] : tensor<?xf32>
            %s = arith.addf %u, %v : f32
            %p = arith.mulf %s, %w : f32
            linalg.yield %p : f32
          } -> tensor<?x?xf32>
          return %r : tensor<?x?xf32> }""",
    )
    x, y, t = normal(3, 5), normal(3), normal(6)
    close(module.main(x, y, t), (x + y[:, None]) * t[:5], 1e-6)
    assert "arg0.0 is 3 in input 'x', but 4 in input 'y'" in refused(module, x, normal(4), t)
    assert "arg0.1 is 5, must be at most arg2.0, which is 4: 'tensor.extract'" in refused(module, x, y, normal(4))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 30])
def test_divisions_round_down(tools, tmp_path, n):
    """Host code computes the size, the kernel the offset: `(n - 3) floordiv 2`, which is negative for small n."""
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<16x4xf32>, %n: tensor<?xf32> {nn.sizes = ["n"]}) -> (tensor<?x4xf32>, tensor<1x4xf32>) {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c2 = arith.constant 2 : index
          %c3 = arith.constant 3 : index
          %n0 = tensor.dim %n, %c0 : tensor<?xf32>
          %less = arith.subi %n0, %c3 : index
          %half = arith.floordivsi %less, %c2 : index
          %ceil = arith.ceildivsi %less, %c2 : index
          %size = arith.addi %half, %c2 : index
          %sum = arith.addi %half, %ceil : index
          %at = arith.addi %sum, %c2 : index
          %s = tensor.extract_slice %x[0, 0] [%size, 4] [1, 1] : tensor<16x4xf32> to tensor<?x4xf32>
          %t = tensor.extract_slice %x[%at, 0] [1, 4] [1, 1] : tensor<16x4xf32> to tensor<1x4xf32>
          %u = arith.addf %s, %s : tensor<?x4xf32>
          %v = arith.addf %t, %t : tensor<1x4xf32>
          return %u, %v : tensor<?x4xf32>, tensor<1x4xf32> }""",
    )
    x = normal(16, 4)
    at = (n - 3) // 2 - (3 - n) // 2 + 2
    if at >= 16:
        assert "must be at most 16" in refused(module, x, normal(n))
        return
    first, second = module.main(x, normal(n))
    assert (first == 2 * x[: (n - 3) // 2 + 2]).all()
    assert (second == 2 * x[at : at + 1]).all()


FOUR_VECTORS = """func.func @main(%w: tensor<?xf32> {nn.sizes = ["a"]}, %x: tensor<?xf32> {nn.sizes = ["b"]},
                    %y: tensor<?xf32> {nn.sizes = ["c"]}, %z: tensor<?xf32> {nn.sizes = ["d"]}) -> RESULT {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %a = tensor.dim %w, %c0 : tensor<?xf32>
  %b = tensor.dim %x, %c0 : tensor<?xf32>
  %c = tensor.dim %y, %c0 : tensor<?xf32>
  %d = tensor.dim %z, %c0 : tensor<?xf32>
  BODY
}
"""
PRODUCT = """%e = tensor.empty(%a, %b, %c, %d) : tensor<?x?x?x?xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k, l) -> (i)>, affine_map<(i, j, k, l) -> (j)>,
                                        affine_map<(i, j, k, l) -> (k)>, affine_map<(i, j, k, l) -> (l)>,
                                        affine_map<(i, j, k, l) -> (i, j, k, l)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%w, %x, %y, %z : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?x?x?x?xf32>) {
    ^bb0(%i: f32, %j: f32, %k: f32, %l: f32, %o: f32):
      %u = arith.mulf %i, %j : f32
      %v = arith.mulf %k, %l : f32
      %t = arith.mulf %u, %v : f32
      linalg.yield %t : f32
    } -> tensor<?x?x?x?xf32>
  %f = tensor.collapse_shape %p [[0, 1, 2, 3]] : tensor<?x?x?x?xf32> into tensor<?xf32>
  """
# The matrix [a * b, c * d], which one kernel stores and another reads.
MATRIX = """%w1 = tensor.expand_shape %w [[0, 1]] output_shape [%a, 1] : tensor<?xf32> into tensor<?x1xf32>
  %x1 = tensor.expand_shape %x [[0, 1]] output_shape [1, %b] : tensor<?xf32> into tensor<1x?xf32>
  %y1 = tensor.expand_shape %y [[0, 1]] output_shape [%c, 1] : tensor<?xf32> into tensor<?x1xf32>
  %z1 = tensor.expand_shape %z [[0, 1]] output_shape [1, %d] : tensor<?xf32> into tensor<1x?xf32>
  %wx = nn.matmul %w1, %x1 : (tensor<?x1xf32>, tensor<1x?xf32>) -> tensor<?x?xf32>
  %yz = nn.matmul %y1, %z1 : (tensor<?x1xf32>, tensor<1x?xf32>) -> tensor<?x?xf32>
  %left = tensor.collapse_shape %wx [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
  %right = tensor.collapse_shape %yz [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
  %ab = arith.muli %a, %b : index
  %cd = arith.muli %c, %d : index
  %left1 = tensor.expand_shape %left [[0, 1]] output_shape [%ab, 1] : tensor<?xf32> into tensor<?x1xf32>
  %right1 = tensor.expand_shape %right [[0, 1]] output_shape [1, %cd] : tensor<?xf32> into tensor<1x?xf32>
  %m = nn.matmul %left1, %right1 : (tensor<?x1xf32>, tensor<1x?xf32>) -> tensor<?x?xf32>
  %f = tensor.collapse_shape %m [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
  """
SUM = """%h = tensor.empty() : tensor<f32>
  %g = linalg.fill ins(%zero : f32) outs(%h : tensor<f32>) -> tensor<f32>
  %r = linalg.reduce ins(%f : tensor<?xf32>) outs(%g : tensor<f32>) dimensions = [0] (%in: f32, %sum: f32) {
    %t1 = arith.addf %in, %sum : f32
    linalg.yield %t1 : f32
  }
  return %r : tensor<f32>"""
WEIGHTED = """%q = nn.softmax %f : tensor<?xf32>
  %f1 = arith.mulf %q, %f : tensor<?xf32>
  """


@pytest.mark.parametrize(
    ("result", "body", "expected", "message"),
    [
        (
            "tensor<?xf32>",
            PRODUCT + "return %f : tensor<?xf32>",
            lambda product: product,
            "function 'main': a size of output 'result0' [a * b * c * d] cannot be computed with 64 bits: "
            "a is 65536, b is 65536, c is 65536, d is 65536",
        ),
        (
            "tensor<f32>",
            MATRIX + SUM,
            lambda product: product.sum(),
            "function 'main': a size of 'matmul' cannot be computed with 64 bits: a is 65536, b",
        ),
        (
            "tensor<f32>",
            PRODUCT + WEIGHTED + SUM.replace("%f ", "%f1 "),
            lambda product: (np.exp(product) / np.exp(product).sum() * product).sum(),
            "cannot be computed with 64 bits: a is 65536, b is 65536, c is 65536, d is 65536",
        ),
    ],
    ids=["output", "buffer", "scratch of a kernel"],
)
def test_more_than_64_bits_hold(tools, tmp_path, result, body, expected, message):
    """The product of four sizes is 2^64, which 64 bits hold as 0."""
    text = FOUR_VECTORS.replace("RESULT", result).replace("BODY", body)
    module = build(tools, tmp_path, text)
    vectors = [normal(n) for n in (2, 3, 4, 5)]
    product = np.einsum("a,b,c,d->abcd", *(vector.astype(np.float64) for vector in vectors)).ravel()
    close(np.asarray(module.main(*vectors)), np.asarray(expected(product)), 1e-4)
    long = np.ones(65536, np.float32)
    assert message in refused(module, long, long, long, long)
    close(np.asarray(module.main(*vectors)), np.asarray(expected(product)), 1e-4)


def test_checks_compare_numbers_that_fit(tools, tmp_path):
    module = build(
        tools,
        tmp_path,
        FOUR_VECTORS.replace("RESULT", "tensor<?xf32>").replace(
            "BODY",
            """%ab = arith.muli %a, %b : index
  %abc = arith.muli %ab, %c : index
  %abcc = arith.muli %abc, %c : index
  %r = tensor.extract_slice %z[0] [%abcc] [1] : tensor<?xf32> to tensor<?xf32>
  %s = nn.relu %r : tensor<?xf32>
  return %s : tensor<?xf32>""",
        ),
    )
    one, two, five = normal(1), normal(2), normal(5)
    close(module.main(one, one, two, five), np.maximum(five[:4], 0), 0)
    assert "a * b * c * c is 8, must be at most d, which is 5" in refused(module, two, one, two, five)
    long = np.ones(65536, np.float32)
    message = refused(module, long, long, long, five)
    assert "function 'main': 'a * b * c * c' cannot be computed with 64 bits: a is 65536, b is 65536" in message
    assert "'tensor.extract_slice' needs it" in message


def test_indices_of_a_table(tools, tmp_path):
    module = build(
        tools,
        tmp_path,
        """func.func @main(%t: tensor<9x4xf32>, %i: tensor<?xi64> {nn.name = "ids", nn.sizes = ["n"]}) -> tensor<?x4xf32> {
          %r = nn.embedding %t, %i : (tensor<9x4xf32>, tensor<?xi64>) -> tensor<?x4xf32>
          return %r : tensor<?x4xf32> }""",
    )
    t, i = normal(9, 4), np.array([0, 8, 3], np.int64)
    assert (module.main(t, i) == t[i]).all()
    assert "input 'ids' is 9 at [1]: values must be in [0, 9)" in refused(module, t, np.array([0, 9, -1], np.int64))


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v2"])
def test_computed_indices(tools, tmp_path, target):
    """Rows of an embedding must be in its table, and bodies must not index outside."""
    module = build(
        tools,
        tmp_path,
        """func.func @main(%t: tensor<9x37xf32>, %i: tensor<?xi64> {nn.sizes = ["n"]}) -> tensor<?x37xf32> {
          %j = arith.addi %i, %i : tensor<?xi64>
          %r = nn.embedding %t, %j : (tensor<9x37xf32>, tensor<?xi64>) -> tensor<?x37xf32>
          return %r : tensor<?x37xf32> }
        func.func @elements(%t: tensor<9x37xf32>, %i: tensor<?xi64> {nn.sizes = ["n"]}) -> tensor<?xf32> {
          %c0 = arith.constant 0 : index
          %n = tensor.dim %i, %c0 : tensor<?xi64>
          %e = tensor.empty(%n) : tensor<?xf32>
          %s = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
              ins(%i : tensor<?xi64>) outs(%e : tensor<?xf32>) {
          ^bb0(%v: i64, %o: f32):
            %twice = arith.addi %v, %v : i64
            %row = arith.index_cast %v : i64 to index
            %column = arith.index_cast %twice : i64 to index
            %x = tensor.extract %t[%row, %column] : tensor<9x37xf32>
            linalg.yield %x : f32
          } -> tensor<?xf32>
          return %s : tensor<?xf32> }""",
        target=target,
    )
    t = normal(9, 37)
    i = np.array([0, 4, 1], np.int64)
    assert (module.main(t, i) == t[2 * i]).all()
    for outside in (5, -1, 2**40, -(2**62)):
        with pytest.raises(intarsia.InvalidArgumentError, match=rf"'nn.embedding' in dimension 0 is {2 * outside},"):
            module.main(t, np.array([0, outside, 4], np.int64))
    good = np.array([0, 4, 8], np.int64)
    assert (module.elements(t, good) == t[good, 2 * good]).all()
    with pytest.raises(intarsia.InvalidArgumentError, match=r"is 2199023255552 at \[1\]: values must be in \[0, 9\)"):
        module.elements(t, np.array([0, 2**41], np.int64))


def test_defaults_and_names(tools, tmp_path):
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<4xi64> {nn.name = "arg1"}, %y: tensor<4xi64> {nn.default = -1 : i64},
                           %m: tensor<4xi1> {nn.name = "m", nn.default = true}) -> tensor<4xi64> {
          %s = arith.addi %x, %y : tensor<4xi64>
          %r = arith.select %m, %s, %x : tensor<4xi1>, tensor<4xi64>
          return %r : tensor<4xi64> }""",
    )
    assert [value.name for value in module.signature("main").inputs] == ["arg1", "arg1_", "m"]
    assert module.main(np.arange(4)).tolist() == [-1, 0, 1, 2]
