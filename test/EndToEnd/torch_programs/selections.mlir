// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
module {
  func.func @selections(%arg0: tensor<5x6xf32>, %arg1: tensor<5x3xi64>, %arg2: tensor<4xi64>) -> (tensor<5x3xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>) {
    %cst = arith.constant 0.000000e+00 : f32
    %c6 = arith.constant 6 : index
    %c0_i64 = arith.constant 0 : i64
    %c5_i64 = arith.constant 5 : i64
    %c6_i64 = arith.constant 6 : i64
    %0 = tensor.empty() : tensor<5x3xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<5x3xf32>) -> tensor<5x3xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg1 : tensor<5x3xi64>) outs(%1 : tensor<5x3xf32>) {
    ^bb0(%in: i64, %out: f32):
      %8 = linalg.index 0 : index
      %9 = arith.index_cast %in : i64 to index
      %10 = arith.cmpi slt, %9, %c6 : index
      cf.assert %10, "index must be smaller than dim size"
      %11 = arith.cmpi sge, %in, %c0_i64 : i64
      cf.assert %11, "index must be larger or equal to 0"
      %extracted = tensor.extract %arg0[%8, %9] : tensor<5x6xf32>
      linalg.yield %extracted : f32
    } -> tensor<5x3xf32>
    %3 = tensor.empty() : tensor<4x6xf32>
    %4 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg2 : tensor<4xi64>) outs(%3 : tensor<4x6xf32>) {
    ^bb0(%in: i64, %out: f32):
      %8 = arith.index_cast %in : i64 to index
      %9 = linalg.index 1 : index
      %extracted = tensor.extract %arg0[%8, %9] : tensor<5x6xf32>
      linalg.yield %extracted : f32
    } -> tensor<4x6xf32>
    %5 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg2 : tensor<4xi64>) outs(%3 : tensor<4x6xf32>) {
    ^bb0(%in: i64, %out: f32):
      %8 = arith.cmpi slt, %in, %c0_i64 : i64
      %9 = arith.addi %in, %c5_i64 : i64
      %10 = arith.select %8, %9, %in : i64
      %11 = arith.index_cast %10 : i64 to index
      %12 = linalg.index 1 : index
      %extracted = tensor.extract %arg0[%11, %12] : tensor<5x6xf32>
      linalg.yield %extracted : f32
    } -> tensor<4x6xf32>
    %6 = tensor.empty() : tensor<4xf32>
    %7 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = ["parallel"]} ins(%arg2, %arg2 : tensor<4xi64>, tensor<4xi64>) outs(%6 : tensor<4xf32>) {
    ^bb0(%in: i64, %in_0: i64, %out: f32):
      %8 = arith.cmpi slt, %in, %c0_i64 : i64
      %9 = arith.addi %in, %c5_i64 : i64
      %10 = arith.select %8, %9, %in : i64
      %11 = arith.index_cast %10 : i64 to index
      %12 = arith.cmpi slt, %in_0, %c0_i64 : i64
      %13 = arith.addi %in_0, %c6_i64 : i64
      %14 = arith.select %12, %13, %in_0 : i64
      %15 = arith.index_cast %14 : i64 to index
      %extracted = tensor.extract %arg0[%11, %15] : tensor<5x6xf32>
      linalg.yield %extracted : f32
    } -> tensor<4xf32>
    return %2, %4, %5, %7 : tensor<5x3xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>
  }
}
