# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes that a call computes: rows that pass a test are packed, and what follows has as many, against NumPy."""

from __future__ import annotations

import intarsia
import numpy as np
import pytest
from programs import build
from random_numbers import normal

DEVICES = ["cpu", "reference", "emulated:sm_90a", "emulated:gfx942"]

#: Rows of x whose mask is true, their mean, and how many they are. The order of the rows is an inclusive prefix sum, by
#: comparison with all rows before; each packed row is the sum over the rows that have its number.
COMPRESS = """
func.func @compress(%x: tensor<?x8xf32> {nn.name = "x", nn.sizes = ["n", ""]},
                    %mask: tensor<?xi1> {nn.name = "mask", nn.sizes = ["n"]})
    -> (tensor<?x8xf32> {nn.name = "kept"}, tensor<8xf32> {nn.name = "mean"}, tensor<i64> {nn.name = "count"}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %zero = arith.constant 0 : i64
  %fzero = arith.constant 0.0 : f32
  %one = tensor.empty() : tensor<i64>
  %none = linalg.fill ins(%zero : i64) outs(%one : tensor<i64>) -> tensor<i64>
  %count = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>],
                           iterator_types = ["reduction"]} ins(%mask : tensor<?xi1>) outs(%none : tensor<i64>) {
  ^bb0(%m: i1, %a: i64):
    %w = arith.extui %m : i1 to i64
    %s = arith.addi %a, %w : i64
    linalg.yield %s : i64
  } -> tensor<i64>
  %e = tensor.empty(%n) : tensor<?xi64>
  %f = linalg.fill ins(%zero : i64) outs(%e : tensor<?xi64>) -> tensor<?xi64>
  %order = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>],
                           iterator_types = ["parallel", "reduction"]}
      ins(%mask : tensor<?xi1>) outs(%f : tensor<?xi64>) {
  ^bb0(%m: i1, %a: i64):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %before = arith.cmpi ult, %j, %i : index
    %both = arith.andi %before, %m : i1
    %w = arith.extui %both : i1 to i64
    %s = arith.addi %a, %w : i64
    linalg.yield %s : i64
  } -> tensor<?xi64>
  %pe = tensor.empty(%n) : tensor<?x8xf32>
  %pf = linalg.fill ins(%fzero : f32) outs(%pe : tensor<?x8xf32>) -> tensor<?x8xf32>
  %packed = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d2)>,
                                             affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>],
                            iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %mask, %order : tensor<?x8xf32>, tensor<?xi1>, tensor<?xi64>) outs(%pf : tensor<?x8xf32>) {
  ^bb0(%v: f32, %m: i1, %o: i64, %a: f32):
    %i = linalg.index 0 : index
    %k = arith.index_cast %i : index to i64
    %is = arith.cmpi eq, %k, %o : i64
    %both = arith.andi %is, %m : i1
    %t = arith.select %both, %v, %fzero : f32
    %s = arith.addf %a, %t : f32
    linalg.yield %s : f32
  } -> tensor<?x8xf32>
  %number = tensor.extract %count[] : tensor<i64>
  %size = arith.index_cast %number : i64 to index
  %rows = tensor.extract_slice %packed[0, 0] [%size, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %doubled = arith.addf %rows, %rows : tensor<?x8xf32>
  %me = tensor.empty() : tensor<8xf32>
  %mf = linalg.fill ins(%fzero : f32) outs(%me : tensor<8xf32>) -> tensor<8xf32>
  %sum = linalg.reduce ins(%doubled : tensor<?x8xf32>) outs(%mf : tensor<8xf32>) dimensions = [0]
    (%a: f32, %b: f32) { %s = arith.addf %a, %b : f32
                         linalg.yield %s : f32 }
  %mean = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>,
                                           affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%sum, %count : tensor<8xf32>, tensor<i64>) outs(%me : tensor<8xf32>) {
  ^bb0(%v: f32, %k: i64, %a: f32):
    %kf = arith.sitofp %k : i64 to f32
    %r = arith.divf %v, %kf : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %doubled, %mean, %count : tensor<?x8xf32>, tensor<8xf32>, tensor<i64>
}

// A size that a caller gives, one more, and the product of two.
func.func @given(%x: tensor<12xf32>, %given: i64, %l: tensor<i32>)
    -> (tensor<?xf32> {nn.name = "first"}, tensor<?x?xf32> {nn.name = "ones"}) {
  %one = arith.constant 1 : index
  %k = arith.index_cast %given : i64 to index
  %m = arith.addi %k, %one : index
  %first = tensor.extract_slice %x[0] [%m] [1] : tensor<12xf32> to tensor<?xf32>
  %y = arith.mulf %first, %first : tensor<?xf32>
  %i = tensor.extract %l[] : tensor<i32>
  %j = arith.index_cast %i : i32 to index
  %e = tensor.empty(%m, %j) : tensor<?x?xf32>
  %v = arith.constant 1.0 : f32
  %ones = linalg.fill ins(%v : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %y, %ones : tensor<?xf32>, tensor<?x?xf32>
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_counts(tools, tmp_path, device):
    module = build(tools, tmp_path, COMPRESS, None, device)
    assert module.functions == ("compress", "given")
    assert [value.name for value in module.signature("compress").inputs] == ["x", "mask"]
    assert [value.name for value in module.signature("compress").outputs] == ["kept", "mean", "count"]
    x = normal(13, 8)
    masks = [np.arange(13) % 3 == 1, np.zeros(13, bool), np.ones(13, bool), np.arange(13) == 12]
    for mask in masks:
        kept, mean, count = module.compress(x, mask)
        expected = 2 * x[mask]
        assert count == len(expected)
        assert kept.shape == expected.shape
        np.testing.assert_allclose(kept, expected, 0, 1e-6)
        if count:
            np.testing.assert_allclose(mean, expected.mean(0), 0, 1e-6)
        else:
            assert np.isnan(mean).all()
    pending = module.compress.start(x, masks[0])
    np.testing.assert_allclose(pending.result().kept, 2 * x[masks[0]], 0, 1e-6)

    y = normal(12)
    for k, rows in ((3, 5), (0, 1), (11, 0)):
        first, ones = module.given(y, np.array(k), np.array(rows, np.int32))
        np.testing.assert_allclose(first, y[: k + 1] ** 2, 0, 1e-6)
        np.testing.assert_array_equal(ones, np.ones((k + 1, rows), np.float32))
    # Above what the tensor has, below zero, and more than memory or 64 bits hold.
    with pytest.raises(
        intarsia.InvalidArgumentError, match=r"size 12 \('count.'\), which is more than 11|is 13.* at most 12"
    ):
        module.given(y, np.array(12), np.array(1, np.int32))
    with pytest.raises(intarsia.InvalidArgumentError, match=r"size -3 \('count.'\), which is negative"):
        module.given(y, np.array(3), np.array(-3, np.int32))
    with pytest.raises(intarsia.InvalidArgumentError, match=r"size -9 \('count.'\), which is negative"):
        module.given(y, np.array(-9), np.array(1, np.int32))


def test_too_large(tools, tmp_path):
    text = """
func.func @main(%k: tensor<i64>) -> tensor<?x?xf32> {
  %i = tensor.extract %k[] : tensor<i64>
  %j = arith.index_cast %i : i64 to index
  %e = tensor.empty(%j, %j) : tensor<?x?xf32>
  %v = arith.constant 1.0 : f32
  %ones = linalg.fill ins(%v : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %ones : tensor<?x?xf32>
}
"""
    module = build(tools, tmp_path, text)
    np.testing.assert_array_equal(module.main(np.array(3)), np.ones((3, 3), np.float32))
    for size in (1 << 20, 1 << 40, 1 << 62):
        with pytest.raises(intarsia.Error, match=r"larger than memory|no memory|64 bits"):
            module.main(np.array(size))
    inside = """
func.func @main(%k: tensor<i64>, %c: tensor<i1>, %a: tensor<?xf32>) -> tensor<?xf32> {
  %i = tensor.extract %k[] : tensor<i64>
  %j = arith.index_cast %i : i64 to index
  %go = tensor.extract %c[] : tensor<i1>
  %v = arith.constant 1.0 : f32
  %r = scf.if %go -> tensor<?xf32> {
    %s = tensor.splat %v[%j] : tensor<?xf32>
    scf.yield %s : tensor<?xf32>
  } else {
    scf.yield %a : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}
"""
    (tmp_path / "m.mlir").write_text(inside)
    result = tools.run("intarsia-compile", tmp_path / "m.mlir", "-o", tmp_path / "n.itx", check=False)
    assert result.returncode == 1
    assert "inside of control flow: such sizes are compiled where" in result.stderr
