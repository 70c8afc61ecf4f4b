// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s --legalize-reductions | FileCheck %s

// The dimension that is kept comes back by a reshape; a fill is repeated without it.
// CHECK-DAG: #[[$ALL:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[$ROW:.+]] = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: @kept
// CHECK: %[[FILL:.+]] = linalg.fill {{.*}} outs({{.*}} : tensor<?xf32>)
// CHECK: %[[SUM:.+]] = linalg.generic {indexing_maps = [#[[$ALL]], #[[$ROW]]]
// CHECK-SAME: outs(%[[FILL]] : tensor<?xf32>)
// CHECK: tensor.expand_shape %[[SUM]] {{\[\[}}0, 1]] {{.*}} : tensor<?xf32> into tensor<?x1xf32>
func.func @kept(%x: tensor<?x24xf32>) -> tensor<?x1xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x24xf32>
  %e = tensor.empty(%n) : tensor<?x1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x1xf32>) -> tensor<?x1xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, 0)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x24xf32>) outs(%f : tensor<?x1xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32 } -> tensor<?x1xf32>
  return %y : tensor<?x1xf32>
}

// A tensor that is accumulated into is reshaped; dimensions before and behind the kept one go to its neighbours.
// CHECK-LABEL: @middle
// CHECK-SAME: %[[FROM:[a-z0-9]+]]: tensor<1x3x1x7xf32>
// CHECK: %[[NARROW:.+]] = tensor.collapse_shape %[[FROM]] {{\[\[}}0, 1, 2], [3]] : tensor<1x3x1x7xf32> into tensor<3x7xf32>
// CHECK: %[[SUM:.+]] = linalg.generic
// CHECK-SAME: outs(%[[NARROW]] : tensor<3x7xf32>)
// CHECK: tensor.expand_shape %[[SUM]] {{\[\[}}0, 1, 2], [3]]
func.func @middle(%x: tensor<3x5x7xf32>, %from: tensor<1x3x1x7xf32>) -> tensor<1x3x1x7xf32> {
  %y = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (0, a, 0, c)>],
      iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%x : tensor<3x5x7xf32>) outs(%from : tensor<1x3x1x7xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32 } -> tensor<1x3x1x7xf32>
  return %y : tensor<1x3x1x7xf32>
}

// Other results stay as they are.
// CHECK-LABEL: @without
// CHECK-NOT: reshape
// CHECK-NOT: _shape
// CHECK: return
func.func @without(%x: tensor<3x5xf32>, %from: tensor<3xf32>) -> tensor<3xf32> {
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x5xf32>) outs(%from : tensor<3xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32 } -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// What is written to alone is made anew.
// CHECK-LABEL: @column
// CHECK: %[[EMPTY:.+]] = tensor.empty() : tensor<4xi64>
// CHECK: linalg.generic {{.+}} outs(%[[EMPTY]] : tensor<4xi64>)
// CHECK: tensor.expand_shape
func.func @column() -> tensor<4x1xi64> {
  %e = tensor.empty() : tensor<4x1xi64>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a, 0)>], iterator_types = ["parallel"]} outs(%e : tensor<4x1xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i64
    linalg.yield %n : i64 } -> tensor<4x1xi64>
  return %y : tensor<4x1xi64>
}

// A softmax as other compilers write it: what is computed with the kept dimension has none, and what reads it reads
// it at the row.
// CHECK-LABEL: @softmax
// CHECK: %[[LARGEST:.+]] = linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]
// CHECK: %[[SCALED:.+]] = linalg.generic {indexing_maps = [{{.*}}], iterator_types = ["parallel"]} ins(%[[LARGEST]] : tensor<4xf32>)
// CHECK: linalg.generic {indexing_maps = [#[[$ALL]], #[[$ROW]], #[[$ALL]]], iterator_types = ["parallel", "parallel"]} ins(%{{.*}}, %[[SCALED]] : tensor<4x24xf32>, tensor<4xf32>)
// CHECK-NOT: expand_shape
// CHECK: return
func.func @softmax(%x: tensor<4x24xf32>) -> tensor<4x24xf32> {
  %least = arith.constant 0xFF800000 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<4x1xf32>
  %f = linalg.fill ins(%least : f32) outs(%e : tensor<4x1xf32>) -> tensor<4x1xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, 0)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x24xf32>) outs(%f : tensor<4x1xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.maximumf %v, %o : f32
    linalg.yield %r : f32 } -> tensor<4x1xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4x1xf32>) outs(%e : tensor<4x1xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.mulf %v, %half : f32
    linalg.yield %r : f32 } -> tensor<4x1xf32>
  %g = tensor.empty() : tensor<4x24xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, 0)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<4x24xf32>, tensor<4x1xf32>) outs(%g : tensor<4x24xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.subf %v, %w : f32
    linalg.yield %r : f32 } -> tensor<4x24xf32>
  return %y : tensor<4x24xf32>
}
