// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
module {
  func.func @pieces(%arg0: tensor<4x6xf32>, %arg1: tensor<4x2xf32>) -> (tensor<4x7xf32>, tensor<4x1x2xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x3xf32>, tensor<4x12xf32>) {
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 2.000000e+00 : f32
    %c5 = arith.constant 5 : index
    %extracted_slice = tensor.extract_slice %arg0[0, 0] [4, 2] [1, 1] : tensor<4x6xf32> to tensor<4x2xf32>
    %extracted_slice_1 = tensor.extract_slice %arg0[0, 2] [4, 3] [1, 1] : tensor<4x6xf32> to tensor<4x3xf32>
    %extracted_slice_2 = tensor.extract_slice %arg0[0, 5] [4, 1] [1, 1] : tensor<4x6xf32> to tensor<4x1xf32>
    %concat = tensor.concat dim(1) %extracted_slice_1, %arg1, %extracted_slice : (tensor<4x3xf32>, tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x7xf32>
    %0 = tensor.empty() : tensor<4x1xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%extracted_slice_2 : tensor<4x1xf32>) outs(%0 : tensor<4x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %7 = arith.mulf %in, %cst_0 : f32
      linalg.yield %7 : f32
    } -> tensor<4x1xf32>
    %expanded = tensor.expand_shape %extracted_slice_2 [[0], [1, 2]] output_shape [4, 1, 1] : tensor<4x1xf32> into tensor<4x1x1xf32>
    %expanded_3 = tensor.expand_shape %1 [[0], [1, 2]] output_shape [4, 1, 1] : tensor<4x1xf32> into tensor<4x1x1xf32>
    %concat_4 = tensor.concat dim(2) %expanded, %expanded_3 : (tensor<4x1x1xf32>, tensor<4x1x1xf32>) -> tensor<4x1x2xf32>
    %2 = tensor.empty() : tensor<4x6xf32>
    %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<4x6xf32>) -> tensor<4x6xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x6xf32>) outs(%3 : tensor<4x6xf32>) {
    ^bb0(%in: f32, %out: f32):
      %7 = linalg.index 0 : index
      %8 = linalg.index 1 : index
      %9 = arith.subi %c5, %8 : index
      %extracted = tensor.extract %arg0[%7, %9] : tensor<4x6xf32>
      linalg.yield %extracted : f32
    } -> tensor<4x6xf32>
    %extracted_slice_5 = tensor.extract_slice %arg0[0, 4] [4, 2] [1, 1] : tensor<4x6xf32> to tensor<4x2xf32>
    %cast = tensor.cast %extracted_slice_5 : tensor<4x2xf32> to tensor<4x?xf32>
    %extracted_slice_6 = tensor.extract_slice %arg0[0, 0] [4, 4] [1, 1] : tensor<4x6xf32> to tensor<4x4xf32>
    %cast_7 = tensor.cast %extracted_slice_6 : tensor<4x4xf32> to tensor<4x?xf32>
    %concat_8 = tensor.concat dim(1) %cast, %cast_7 : (tensor<4x?xf32>, tensor<4x?xf32>) -> tensor<4x6xf32>
    %extracted_slice_9 = tensor.extract_slice %arg0[0, 1] [4, 3] [1, 2] : tensor<4x6xf32> to tensor<4x3xf32>
    %5 = tensor.empty() : tensor<4x2x6xf32>
    %6 = linalg.generic {indexing_maps = [#map1, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<4x6xf32>) outs(%5 : tensor<4x2x6xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<4x2x6xf32>
    %collapsed = tensor.collapse_shape %6 [[0], [1, 2]] : tensor<4x2x6xf32> into tensor<4x12xf32>
    return %concat, %concat_4, %4, %concat_8, %extracted_slice_9, %collapsed : tensor<4x7xf32>, tensor<4x1x2xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x3xf32>, tensor<4x12xf32>
  }
}
