// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0) -> (d0, 0)>
#map1 = affine_map<(d0) -> (d0)>
#map2 = affine_map<(d0, d1) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @scattered(%arg0: tensor<4x6xf32>, %arg1: tensor<4x3xi64>, %arg2: tensor<4x3xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
    %cst = arith.constant 0.000000e+00 : f32
    %c0_i64 = arith.constant 0 : i64
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %0 = tensor.empty() : tensor<12x1xi64>
    %1 = linalg.fill ins(%c0_i64 : i64) outs(%0 : tensor<12x1xi64>) -> tensor<12x1xi64>
    %2 = tensor.empty() : tensor<12xf32>
    %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<12xf32>) -> tensor<12xf32>
    %4:3 = linalg.generic {indexing_maps = [#map, #map, #map1], iterator_types = ["parallel"]} outs(%1, %1, %3 : tensor<12x1xi64>, tensor<12x1xi64>, tensor<12xf32>) {
    ^bb0(%out: i64, %out_2: i64, %out_3: f32):
      %11 = linalg.index 0 : index
      %12 = arith.remsi %11, %c3 : index
      %13 = arith.divsi %11, %c3 : index
      %14 = arith.remsi %13, %c4 : index
      %extracted = tensor.extract %arg1[%14, %12] : tensor<4x3xi64>
      %extracted_4 = tensor.extract %arg2[%14, %12] : tensor<4x3xf32>
      %15 = arith.index_cast %14 : index to i64
      linalg.yield %15, %extracted, %extracted_4 : i64, i64, f32
    } -> (tensor<12x1xi64>, tensor<12x1xi64>, tensor<12xf32>)
    %5 = tensor.empty() : tensor<12x2xi64>
    %6 = linalg.fill ins(%c0_i64 : i64) outs(%5 : tensor<12x2xi64>) -> tensor<12x2xi64>
    %inserted_slice = tensor.insert_slice %4#0 into %6[0, 0] [12, 1] [1, 1] : tensor<12x1xi64> into tensor<12x2xi64>
    %inserted_slice_0 = tensor.insert_slice %4#1 into %inserted_slice[0, 1] [12, 1] [1, 1] : tensor<12x1xi64> into tensor<12x2xi64>
    %7 = tm_tensor.scatter {dimension_map = array<i64: 0, 1>} unique_indices(false) ins(%4#2, %inserted_slice_0 : tensor<12xf32>, tensor<12x2xi64>) outs(%arg0 : tensor<4x6xf32>) {
    ^bb0(%arg3: f32, %arg4: f32):
      tm_tensor.yield %arg3 : f32
    } -> tensor<4x6xf32>
    %extracted_slice = tensor.extract_slice %arg1[0, 0] [4, 1] [1, 1] : tensor<4x3xi64> to tensor<4x1xi64>
    %extracted_slice_1 = tensor.extract_slice %arg2[0, 0] [4, 1] [1, 1] : tensor<4x3xf32> to tensor<4x1xf32>
    %8 = tensor.empty() : tensor<4x6xf32>
    %collapsed = tensor.collapse_shape %extracted_slice_1 [[0, 1]] : tensor<4x1xf32> into tensor<4xf32>
    %9 = linalg.generic {indexing_maps = [#map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%collapsed : tensor<4xf32>) outs(%8 : tensor<4x6xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<4x6xf32>
    %expanded = tensor.expand_shape %9 [[0], [1, 2]] output_shape [4, 1, 6] : tensor<4x6xf32> into tensor<4x1x6xf32>
    %10 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(true) ins(%expanded, %extracted_slice : tensor<4x1x6xf32>, tensor<4x1xi64>) outs(%arg0 : tensor<4x6xf32>) {
    ^bb0(%arg3: f32, %arg4: f32):
      tm_tensor.yield %arg3 : f32
    } -> tensor<4x6xf32>
    return %7, %10 : tensor<4x6xf32>, tensor<4x6xf32>
  }
}
