// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
module {
  func.func @ordered(%arg0: tensor<4x7xf32>) -> (tensor<4x3xf32>, tensor<4x3xi64>, tensor<4x7xf32>, tensor<4xi64>) {
    %c0_i64 = arith.constant 0 : i64
    %cst = arith.constant 0x7F800000 : f32
    %0 = tensor.empty() : tensor<4x7xi64>
    %1 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel"]} outs(%0 : tensor<4x7xi64>) {
    ^bb0(%out: i64):
      %9 = linalg.index 1 : index
      %10 = arith.index_cast %9 : index to i64
      linalg.yield %10 : i64
    } -> tensor<4x7xi64>
    %2:2 = tm_tensor.sort dimension(1) outs(%arg0, %1 : tensor<4x7xf32>, tensor<4x7xi64>) {
    ^bb0(%arg1: f32, %arg2: f32, %arg3: i64, %arg4: i64):
      %9 = arith.cmpf oge, %arg1, %arg2 : f32
      tm_tensor.yield %9 : i1
    } -> tensor<4x7xf32>, tensor<4x7xi64>
    %extracted_slice = tensor.extract_slice %2#0[0, 0] [4, 3] [1, 1] : tensor<4x7xf32> to tensor<4x3xf32>
    %extracted_slice_0 = tensor.extract_slice %2#1[0, 0] [4, 3] [1, 1] : tensor<4x7xi64> to tensor<4x3xi64>
    %3:2 = tm_tensor.sort dimension(1) outs(%arg0, %1 : tensor<4x7xf32>, tensor<4x7xi64>) {
    ^bb0(%arg1: f32, %arg2: f32, %arg3: i64, %arg4: i64):
      %9 = arith.cmpf oge, %arg1, %arg2 : f32
      tm_tensor.yield %9 : i1
    } -> tensor<4x7xf32>, tensor<4x7xi64>
    %4 = tensor.empty() : tensor<4xi64>
    %5 = linalg.fill ins(%c0_i64 : i64) outs(%4 : tensor<4xi64>) -> tensor<4xi64>
    %6 = tensor.empty() : tensor<4xf32>
    %7 = linalg.fill ins(%cst : f32) outs(%6 : tensor<4xf32>) -> tensor<4xf32>
    %8:2 = linalg.generic {indexing_maps = [#map, #map1, #map1], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<4x7xf32>) outs(%7, %5 : tensor<4xf32>, tensor<4xi64>) {
    ^bb0(%in: f32, %out: f32, %out_1: i64):
      %9 = linalg.index 1 : index
      %10 = arith.index_cast %9 : index to i64
      %11 = arith.minimumf %in, %out : f32
      %12 = arith.cmpf olt, %in, %out : f32
      %13 = arith.select %12, %10, %out_1 : i64
      linalg.yield %11, %13 : f32, i64
    } -> (tensor<4xf32>, tensor<4xi64>)
    return %extracted_slice, %extracted_slice_0, %3#0, %8#1 : tensor<4x3xf32>, tensor<4x3xi64>, tensor<4x7xf32>, tensor<4xi64>
  }
}
