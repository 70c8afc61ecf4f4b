# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that sort, go along an axis in order, write at positions from data, and compare with NaN."""

from __future__ import annotations

import numpy as np
from mlir_programs import ROWS, TIES, WITH_NAN, Program, normal


def add_rows(x: np.ndarray, rows: np.ndarray, updates: np.ndarray) -> np.ndarray:
    result = x.copy()
    np.add.at(result, rows, updates)
    return result


ORDERED_PROGRAMS = {
    "sorted": Program(
        "%x: tensor<6x33xf32>", "(tensor<6x33xf32>, tensor<6x33xi64>)",
        """  %e = tensor.empty() : tensor<6x33xi64>
  %i = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<6x33xi64>) {
  ^bb0(%o: i64):
    %k = linalg.index 1 : index
    %n = arith.index_cast %k : index to i64
    linalg.yield %n : i64 } -> tensor<6x33xi64>
  %y:2 = tm_tensor.sort dimension(1) outs(%x, %i : tensor<6x33xf32>, tensor<6x33xi64>) {
  ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
    %r = arith.cmpf ole, %a, %b : f32
    tm_tensor.yield %r : i1
  } -> tensor<6x33xf32>, tensor<6x33xi64>
  return %y#0, %y#1 : tensor<6x33xf32>, tensor<6x33xi64>""",
        [WITH_NAN], lambda x: (np.sort(x, 1), np.argsort(x, 1, kind="stable")),
    ),
    "sorted_down": Program(
        "%x: tensor<33xi32>", "tensor<33xi32>",
        """  %y = tm_tensor.sort dimension(0) outs(%x : tensor<33xi32>) {
  ^bb0(%a: i32, %b: i32):
    %r = arith.cmpi ult, %b, %a : i32
    tm_tensor.yield %r : i1
  } -> tensor<33xi32>
  return %y : tensor<33xi32>""",
        [TIES[0].astype(np.int32)], lambda x: np.sort(x.view(np.uint32))[::-1].view(np.int32),
    ),
    "running_largest": Program(
        "%x: tensor<6x33xf32>", "(tensor<6x33xf32>, tensor<6xf32>)",
        """  %e = tensor.empty() : tensor<6x33xf32>
  %l = tensor.empty() : tensor<6xf32>
  %y:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<6x33xf32>) outs(%e, %l : tensor<6x33xf32>, tensor<6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.maximumf %a, %b : f32
    tm_tensor.yield %r : f32
  } -> tensor<6x33xf32>, tensor<6xf32>
  return %y#0, %y#1 : tensor<6x33xf32>, tensor<6xf32>""",
        [WITH_NAN], lambda x: (np.maximum.accumulate(x, 1), x.max(1)),
    ),
    # Rows that are added to twice, and none.
    "added_rows": Program(
        "%x: tensor<4x6xf32>, %u: tensor<3x6xf32>, %i: tensor<3x1xi64>", "tensor<4x6xf32>",
        """  %y = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false)
      ins(%u, %i : tensor<3x6xf32>, tensor<3x1xi64>) outs(%x : tensor<4x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %b, %a : f32
    tm_tensor.yield %r : f32
  } -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>""",
        [ROWS, normal(3, 6), np.array([[2], [0], [2]])], lambda x, u, i: add_rows(x, i[:, 0], u), 1e-6,
    ),
    # Maps that no kernel reads along.
    **{
        name: Program(
            f"%x: tensor<{size}xf32>", "tensor<8xf32>",
            f"""  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {{indexing_maps = [affine_map<(a) -> ({index})>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}}
      ins(%x : tensor<{size}xf32>) outs(%e : tensor<8xf32>) {{
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32 }} -> tensor<8xf32>
  return %y : tensor<8xf32>""",
            [normal(size)], function,
        )
        for name, size, index, function in (
            ("reversed", 8, "-a + 7", lambda x: x[::-1]),
            ("doubled", 4, "a floordiv 2", lambda x: x.repeat(2)),
            ("repeated", 3, "a mod 3", lambda x: np.resize(x, 8)),
        )
    },
    # maximumf and minimumf keep NaN, as NumPy does.
    **{
        name: Program(
            "%x: tensor<6x33xf32>", "tensor<6xf32>",
            f"""  %s = arith.constant {start} : f32
  %e = tensor.empty() : tensor<6xf32>
  %f = linalg.fill ins(%s : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %y = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>],
      iterator_types = ["parallel", "reduction"]}} ins(%x : tensor<6x33xf32>) outs(%f : tensor<6xf32>) {{
  ^bb0(%v: f32, %o: f32):
    %r = arith.{op} %v, %o : f32
    linalg.yield %r : f32 }} -> tensor<6xf32>
  return %y : tensor<6xf32>""",
            [WITH_NAN], function,
        )
        for name, op, start, function in (
            ("largest_with_nan", "maximumf", "0xFF800000", lambda x: x.max(1)),
            ("smallest_with_nan", "minimumf", "0x7F800000", lambda x: x.min(1)),
        )
    },
    # The first NaN is the largest one, as NumPy's argmax has it.
    "where_with_nan": Program(
        "%x: tensor<6x33xf32>", "tensor<6xi64>",
        """  %e = tensor.empty() : tensor<6xf32>
  %f = linalg.fill ins(%least : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %d = tensor.empty() : tensor<6xi64>
  %g = linalg.fill ins(%none : i64) outs(%d : tensor<6xi64>) -> tensor<6xi64>
  %y:2 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x33xf32>) outs(%f, %g : tensor<6xf32>, tensor<6xi64>) {
  ^bb0(%v: f32, %o: f32, %i: i64):
    %k = linalg.index 1 : index
    %here = arith.index_cast %k : index to i64
    %above = arith.cmpf ogt, %v, %o : f32
    %nan = arith.cmpf uno, %v, %v : f32
    %number = arith.cmpf ord, %o, %o : f32
    %first = arith.andi %nan, %number : i1
    %is = arith.ori %above, %first : i1
    %m = arith.select %is, %v, %o : f32
    %j = arith.select %is, %here, %i : i64
    linalg.yield %m, %j : f32, i64 } -> (tensor<6xf32>, tensor<6xi64>)
  return %y#1 : tensor<6xi64>""",
        [WITH_NAN], lambda x: x.argmax(1),
    ),
    # Blocks, and a loop of them.
}  # fmt: skip
