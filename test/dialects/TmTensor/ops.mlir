// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: @ops
func.func @ops(%x: tensor<4x7xf32>, %i: tensor<4x7xi64>, %last: tensor<4xf32>, %at: tensor<3x1xi64>, %u: tensor<3x7xf32>)
    -> (tensor<4x7xf32>, tensor<4x7xi64>, tensor<4x7xf32>) {
  // CHECK: tm_tensor.scan dimension(1) inclusive(true) ins(%{{.+}} : tensor<4x7xf32>) outs(%{{.+}}, %{{.+}} : tensor<4x7xf32>, tensor<4xf32>) {
  %s:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<4x7xf32>) outs(%x, %last : tensor<4x7xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    // CHECK: tm_tensor.yield %{{.+}} : f32
    tm_tensor.yield %c : f32
  // CHECK: } -> tensor<4x7xf32>, tensor<4xf32>
  } -> tensor<4x7xf32>, tensor<4xf32>
  // CHECK: tm_tensor.sort dimension(1) outs(%{{.+}}, %{{.+}} : tensor<4x7xf32>, tensor<4x7xi64>) {
  %y:2 = tm_tensor.sort dimension(1) outs(%s#0, %i : tensor<4x7xf32>, tensor<4x7xi64>) {
  ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
    %e = arith.cmpf oge, %a, %b : f32
    tm_tensor.yield %e : i1
  } -> tensor<4x7xf32>, tensor<4x7xi64>
  // CHECK: tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%{{.+}}, %{{.+}} : tensor<3x7xf32>, tensor<3x1xi64>) outs(%{{.+}} : tensor<4x7xf32>) {
  %z = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%u, %at : tensor<3x7xf32>, tensor<3x1xi64>) outs(%x : tensor<4x7xf32>) {
  ^bb0(%a: f32, %b: f32):
    tm_tensor.yield %a : f32
  } -> tensor<4x7xf32>
  return %y#0, %y#1, %z : tensor<4x7xf32>, tensor<4x7xi64>, tensor<4x7xf32>
}
