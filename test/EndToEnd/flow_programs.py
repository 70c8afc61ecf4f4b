# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs with integers of type index, branches, blocks, and tensors without elements."""

from __future__ import annotations

import numpy as np
from mlir_programs import Program, normal

FLOW_PROGRAMS = {
    # Elements, scalars and results of type index.
    "indices": Program(
        "%x: tensor<4xf32>, %i: tensor<3xindex>, %k: index", "(tensor<3xf32>, tensor<2xf32>, tensor<3xindex>, index)",
        """  %t = arith.constant dense<[1, 0, 1]> : tensor<3xindex>
  %s = arith.addi %i, %t : tensor<3xindex>
  %e = tensor.empty() : tensor<3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%s : tensor<3xindex>) outs(%e : tensor<3xf32>) {
  ^bb0(%v: index, %o: f32):
    %r = tensor.extract %x[%v] : tensor<4xf32>
    linalg.yield %r : f32 } -> tensor<3xf32>
  %z = tensor.extract_slice %x[%k] [2] [1] : tensor<4xf32> to tensor<2xf32>
  %n = arith.addi %k, %c1 : index
  return %y, %z, %s, %n : tensor<3xf32>, tensor<2xf32>, tensor<3xindex>, index""",
        [normal(4), np.array([2, 1, 0]), np.array(2)],
        lambda x, i, k: (x[np.add(i, (1, 0, 1))], x[2:], np.add(i, (1, 0, 1)), k + 1),
    ),
    # The memory that a branch writes is made outside of it.
    "empty_outside_of_a_branch": Program(
        "%x: tensor<4xf32>, %p: tensor<i1>", "tensor<4xf32>",
        """  %e = tensor.empty() : tensor<4xf32>
  %c = tensor.extract %p[] : tensor<i1>
  %y = scf.if %c -> tensor<4xf32> {
    %z = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
        ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%v: f32, %o: f32):
      %w = arith.addf %v, %v : f32
      linalg.yield %w : f32 } -> tensor<4xf32>
    scf.yield %z : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %y : tensor<4xf32>""",
        [normal(4), np.array(True)], lambda x, p: x + x,
    ),
    "region_of_blocks": Program(
        "%x: tensor<4xf32>, %n: tensor<i64>", "tensor<4xf32>",
        """  %k = tensor.extract %n[] : tensor<i64>
  %c = arith.cmpi sgt, %k, %none : i64
  %y = scf.execute_region -> tensor<4xf32> {
    cf.cond_br %c, ^positive, ^other
  ^positive:
    scf.yield %x : tensor<4xf32>
  ^other:
    %m = arith.negf %x : tensor<4xf32>
    scf.yield %m : tensor<4xf32>
  }
  return %y : tensor<4xf32>""",
        [normal(4), np.array(-3)], lambda x, n: -x,
    ),
    # Nothing is read of a tensor without elements, where nothing is computed.
    "no_elements": Program(
        "%x: tensor<0xf32>, %k: tensor<0xi64>, %t: tensor<0x9xf32>",
        "(tensor<0xf32>, tensor<0xi64>, tensor<0xf32>, tensor<9xf32>, tensor<0xf32>)",
        """  %s:2 = tm_tensor.sort dimension(0) outs(%x, %k : tensor<0xf32>, tensor<0xi64>) {
  ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
    %r = arith.cmpf ole, %a, %b : f32
    tm_tensor.yield %r : i1
  } -> tensor<0xf32>, tensor<0xi64>
  %e = tensor.empty() : tensor<0xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%k : tensor<0xi64>) outs(%e : tensor<0xf32>) {
  ^bb0(%v: i64, %o: f32):
    %i = arith.index_cast %v : i64 to index
    %r = tensor.extract %x[%i] : tensor<0xf32>
    linalg.yield %r : f32 } -> tensor<0xf32>
  %e9 = tensor.empty() : tensor<9xf32>
  %f9 = linalg.fill ins(%zero : f32) outs(%e9 : tensor<9xf32>) -> tensor<9xf32>
  %columns = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a)>],
      iterator_types = ["parallel", "reduction"]} ins(%t : tensor<0x9xf32>) outs(%f9 : tensor<9xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32 } -> tensor<9xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e : tensor<0xf32>) -> tensor<0xf32>
  %rows = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>],
      iterator_types = ["parallel", "reduction"]} ins(%t : tensor<0x9xf32>) outs(%f0 : tensor<0xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32 } -> tensor<0xf32>
  return %s#0, %s#1, %g, %columns, %rows : tensor<0xf32>, tensor<0xi64>, tensor<0xf32>, tensor<9xf32>, tensor<0xf32>""",
        [np.zeros(0, np.float32), np.zeros(0, np.int64), np.zeros((0, 9), np.float32)],
        lambda x, k, t: (x, k, x, np.zeros(9, np.float32), x),
    ),
}  # fmt: skip
