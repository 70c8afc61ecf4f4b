// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0) -> (d0)>
#map2 = affine_map<(d0, d1) -> (d0, 0)>
#map3 = affine_map<(d0, d1) -> (d1)>
#map4 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map5 = affine_map<(d0, d1, d2) -> (d1, d2)>
module {
  func.func @rotary(%arg0: tensor<2x5x8xf32>, %arg1: tensor<5xi64>) -> tensor<2x5x8xf32> {
    %c2_i64 = arith.constant 2 : i64
    %cst = arith.constant 8.000000e+00 : f32
    %cst_0 = arith.constant 1.000000e+02 : f32
    %expanded = tensor.expand_shape %arg1 [[0, 1]] output_shape [5, 1] : tensor<5xi64> into tensor<5x1xi64>
    %0 = tensor.empty() : tensor<5x1xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%expanded : tensor<5x1xi64>) outs(%0 : tensor<5x1xf32>) {
    ^bb0(%in: i64, %out: f32):
      %20 = arith.sitofp %in : i64 to f32
      linalg.yield %20 : f32
    } -> tensor<5x1xf32>
    %2 = tensor.empty() : tensor<4xi64>
    %3 = linalg.generic {indexing_maps = [#map1], iterator_types = ["parallel"]} outs(%2 : tensor<4xi64>) {
    ^bb0(%out: i64):
      %20 = linalg.index 0 : index
      %21 = arith.index_cast %20 : index to i64
      %22 = arith.muli %21, %c2_i64 : i64
      linalg.yield %22 : i64
    } -> tensor<4xi64>
    %4 = tensor.empty() : tensor<4xf32>
    %5 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%3 : tensor<4xi64>) outs(%4 : tensor<4xf32>) {
    ^bb0(%in: i64, %out: f32):
      %20 = arith.sitofp %in : i64 to f32
      linalg.yield %20 : f32
    } -> tensor<4xf32>
    %6 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%5 : tensor<4xf32>) outs(%4 : tensor<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %20 = arith.divf %in, %cst : f32
      linalg.yield %20 : f32
    } -> tensor<4xf32>
    %7 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%6 : tensor<4xf32>) outs(%4 : tensor<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %20 = arith.negf %in : f32
      linalg.yield %20 : f32
    } -> tensor<4xf32>
    %8 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%7 : tensor<4xf32>) outs(%4 : tensor<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %20 = math.powf %cst_0, %in : f32
      linalg.yield %20 : f32
    } -> tensor<4xf32>
    %9 = tensor.empty() : tensor<5x4xf32>
    %10 = linalg.generic {indexing_maps = [#map2, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%1, %8 : tensor<5x1xf32>, tensor<4xf32>) outs(%9 : tensor<5x4xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %20 = arith.mulf %in, %in_3 : f32
      linalg.yield %20 : f32
    } -> tensor<5x4xf32>
    %concat = tensor.concat dim(1) %10, %10 : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x8xf32>
    %11 = tensor.empty() : tensor<5x8xf32>
    %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%concat : tensor<5x8xf32>) outs(%11 : tensor<5x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %20 = math.cos %in : f32
      linalg.yield %20 : f32
    } -> tensor<5x8xf32>
    %13 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%concat : tensor<5x8xf32>) outs(%11 : tensor<5x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %20 = math.sin %in : f32
      linalg.yield %20 : f32
    } -> tensor<5x8xf32>
    %14 = tensor.empty() : tensor<2x5x8xf32>
    %15 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %12 : tensor<2x5x8xf32>, tensor<5x8xf32>) outs(%14 : tensor<2x5x8xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %20 = arith.mulf %in, %in_3 : f32
      linalg.yield %20 : f32
    } -> tensor<2x5x8xf32>
    %extracted_slice = tensor.extract_slice %arg0[0, 0, 4] [2, 5, 4] [1, 1, 1] : tensor<2x5x8xf32> to tensor<2x5x4xf32>
    %16 = tensor.empty() : tensor<2x5x4xf32>
    %17 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice : tensor<2x5x4xf32>) outs(%16 : tensor<2x5x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %20 = arith.negf %in : f32
      linalg.yield %20 : f32
    } -> tensor<2x5x4xf32>
    %extracted_slice_1 = tensor.extract_slice %arg0[0, 0, 0] [2, 5, 4] [1, 1, 1] : tensor<2x5x8xf32> to tensor<2x5x4xf32>
    %concat_2 = tensor.concat dim(2) %17, %extracted_slice_1 : (tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x5x8xf32>
    %18 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel", "parallel"]} ins(%concat_2, %13 : tensor<2x5x8xf32>, tensor<5x8xf32>) outs(%14 : tensor<2x5x8xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %20 = arith.mulf %in, %in_3 : f32
      linalg.yield %20 : f32
    } -> tensor<2x5x8xf32>
    %19 = linalg.generic {indexing_maps = [#map4, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel"]} ins(%15, %18 : tensor<2x5x8xf32>, tensor<2x5x8xf32>) outs(%14 : tensor<2x5x8xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %20 = arith.addf %in, %in_3 : f32
      linalg.yield %20 : f32
    } -> tensor<2x5x8xf32>
    return %19 : tensor<2x5x8xf32>
  }
}
