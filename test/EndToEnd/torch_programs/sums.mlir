// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @sums(%arg0: tensor<4x7xf32>) -> (tensor<4x7xf32>, tensor<4x7xf32>, tensor<4x7xi64>) {
    %c0_i64 = arith.constant 0 : i64
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<4x7xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4x7xf32>) -> tensor<4x7xf32>
    %2 = tensor.empty() : tensor<4xf32>
    %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<4xf32>) -> tensor<4xf32>
    %4:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%arg0 : tensor<4x7xf32>) outs(%1, %3 : tensor<4x7xf32>, tensor<4xf32>) {
    ^bb0(%arg1: f32, %arg2: f32):
      %16 = arith.addf %arg1, %arg2 : f32
      tm_tensor.yield %16 : f32
    } -> tensor<4x7xf32>, tensor<4xf32>
    %5 = tensor.empty() : tensor<7xf32>
    %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<7xf32>) -> tensor<7xf32>
    %7:2 = tm_tensor.scan dimension(0) inclusive(true) ins(%arg0 : tensor<4x7xf32>) outs(%1, %6 : tensor<4x7xf32>, tensor<7xf32>) {
    ^bb0(%arg1: f32, %arg2: f32):
      %16 = arith.addf %arg1, %arg2 : f32
      tm_tensor.yield %16 : f32
    } -> tensor<4x7xf32>, tensor<7xf32>
    %8 = tensor.empty() : tensor<4x7xi32>
    %9 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x7xf32>) outs(%8 : tensor<4x7xi32>) {
    ^bb0(%in: f32, %out: i32):
      %16 = arith.fptosi %in : f32 to i32
      linalg.yield %16 : i32
    } -> tensor<4x7xi32>
    %10 = tensor.empty() : tensor<4x7xi64>
    %11 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%9 : tensor<4x7xi32>) outs(%10 : tensor<4x7xi64>) {
    ^bb0(%in: i32, %out: i64):
      %16 = arith.extsi %in : i32 to i64
      linalg.yield %16 : i64
    } -> tensor<4x7xi64>
    %12 = linalg.fill ins(%c0_i64 : i64) outs(%10 : tensor<4x7xi64>) -> tensor<4x7xi64>
    %13 = tensor.empty() : tensor<4xi64>
    %14 = linalg.fill ins(%c0_i64 : i64) outs(%13 : tensor<4xi64>) -> tensor<4xi64>
    %15:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%11 : tensor<4x7xi64>) outs(%12, %14 : tensor<4x7xi64>, tensor<4xi64>) {
    ^bb0(%arg1: i64, %arg2: i64):
      %16 = arith.addi %arg1, %arg2 : i64
      tm_tensor.yield %16 : i64
    } -> tensor<4x7xi64>, tensor<4xi64>
    return %4#0, %7#0, %15#0 : tensor<4x7xf32>, tensor<4x7xf32>, tensor<4x7xi64>
  }
}
