// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s --legalize-maps | FileCheck %s

// CHECK-LABEL: @reversed
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>, %[[Z:.+]]: tensor<4xf32>
// CHECK: linalg.generic {{.+}} ins(%[[Z]] : tensor<4xf32>)
// CHECK: ^bb0(%[[OTHER:.+]]: f32, %{{.+}}: f32):
// CHECK: %[[LOOP:.+]] = linalg.index 0
// CHECK: %[[NEGATED:.+]] = arith.muli %[[LOOP]]
// CHECK: %[[AT:.+]] = arith.addi %[[NEGATED]]
// CHECK: %[[V:.+]] = tensor.extract %[[X]][%[[AT]]]
// CHECK: arith.addf %[[V]], %[[OTHER]]
func.func @reversed(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (-a + 3)>, affine_map<(a) -> (a)>, affine_map<(a) -> (a)>],
      iterator_types = ["parallel"]} ins(%x, %z : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.addf %v, %w : f32
    linalg.yield %r : f32 } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK-LABEL: @strides
// CHECK-NOT: tensor.extract
func.func @strides(%x: tensor<9xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a * 2 + 1)>, affine_map<(a) -> (a)>],
      iterator_types = ["parallel"]} ins(%x : tensor<9xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32 } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
