# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes and inputs that the types leave open."""

from __future__ import annotations

import numpy as np
import pytest
from programs import build, normal


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 13])
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
    first, second = module.main(x, normal(n))
    assert (first == 2 * x[: (n - 3) // 2 + 2]).all()
    assert (second == 2 * x[at : at + 1]).all()


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
