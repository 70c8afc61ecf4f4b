// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
module {
  func.func @einsums(%arg0: tensor<2x3x4xf32>, %arg1: tensor<2x4x5xf32>, %arg2: tensor<6x4xf32>) -> (tensor<2x3x5xf32>, tensor<3x6x2xf32>, tensor<2xf32>) {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<2x3x5xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
    %2 = linalg.batch_matmul ins(%arg0, %arg1 : tensor<2x3x4xf32>, tensor<2x4x5xf32>) outs(%1 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
    %expanded = tensor.expand_shape %2 [[0], [1], [2, 3]] output_shape [2, 3, 1, 5] : tensor<2x3x5xf32> into tensor<2x3x1x5xf32>
    %3 = tensor.empty() : tensor<2x3x5x1xf32>
    %transposed = linalg.transpose ins(%expanded : tensor<2x3x1x5xf32>) outs(%3 : tensor<2x3x5x1xf32>) permutation = [0, 1, 3, 2] 
    %collapsed = tensor.collapse_shape %transposed [[0], [1], [2, 3]] : tensor<2x3x5x1xf32> into tensor<2x3x5xf32>
    %expanded_0 = tensor.expand_shape %arg0 [[0], [1], [2, 3]] output_shape [2, 3, 4, 1] : tensor<2x3x4xf32> into tensor<2x3x4x1xf32>
    %expanded_1 = tensor.expand_shape %arg2 [[0], [1, 2, 3]] output_shape [6, 4, 1, 1] : tensor<6x4xf32> into tensor<6x4x1x1xf32>
    %4 = tensor.empty() : tensor<3x2x4x1xf32>
    %transposed_2 = linalg.transpose ins(%expanded_0 : tensor<2x3x4x1xf32>) outs(%4 : tensor<3x2x4x1xf32>) permutation = [1, 0, 2, 3] 
    %collapsed_3 = tensor.collapse_shape %transposed_2 [[0, 1], [2, 3]] : tensor<3x2x4x1xf32> into tensor<6x4xf32>
    %expanded_4 = tensor.expand_shape %collapsed_3 [[0, 1], [2]] output_shape [1, 6, 4] : tensor<6x4xf32> into tensor<1x6x4xf32>
    %5 = tensor.empty() : tensor<4x6x1x1xf32>
    %transposed_5 = linalg.transpose ins(%expanded_1 : tensor<6x4x1x1xf32>) outs(%5 : tensor<4x6x1x1xf32>) permutation = [1, 0, 2, 3] 
    %collapsed_6 = tensor.collapse_shape %transposed_5 [[0], [1, 2, 3]] : tensor<4x6x1x1xf32> into tensor<4x6xf32>
    %expanded_7 = tensor.expand_shape %collapsed_6 [[0, 1], [2]] output_shape [1, 4, 6] : tensor<4x6xf32> into tensor<1x4x6xf32>
    %6 = tensor.empty() : tensor<1x6x6xf32>
    %7 = linalg.fill ins(%cst : f32) outs(%6 : tensor<1x6x6xf32>) -> tensor<1x6x6xf32>
    %8 = linalg.batch_matmul ins(%expanded_4, %expanded_7 : tensor<1x6x4xf32>, tensor<1x4x6xf32>) outs(%7 : tensor<1x6x6xf32>) -> tensor<1x6x6xf32>
    %collapsed_8 = tensor.collapse_shape %8 [[0, 1], [2]] : tensor<1x6x6xf32> into tensor<6x6xf32>
    %expanded_9 = tensor.expand_shape %collapsed_8 [[0, 1], [2, 3]] output_shape [3, 2, 1, 6] : tensor<6x6xf32> into tensor<3x2x1x6xf32>
    %9 = tensor.empty() : tensor<3x6x2x1xf32>
    %transposed_10 = linalg.transpose ins(%expanded_9 : tensor<3x2x1x6xf32>) outs(%9 : tensor<3x6x2x1xf32>) permutation = [0, 3, 1, 2] 
    %collapsed_11 = tensor.collapse_shape %transposed_10 [[0], [1], [2, 3]] : tensor<3x6x2x1xf32> into tensor<3x6x2xf32>
    %collapsed_12 = tensor.collapse_shape %arg0 [[0], [1, 2]] : tensor<2x3x4xf32> into tensor<2x12xf32>
    %expanded_13 = tensor.expand_shape %collapsed_12 [[0], [1, 2]] output_shape [2, 1, 12] : tensor<2x12xf32> into tensor<2x1x12xf32>
    %expanded_14 = tensor.expand_shape %collapsed_12 [[0], [1, 2]] output_shape [2, 12, 1] : tensor<2x12xf32> into tensor<2x12x1xf32>
    %10 = tensor.empty() : tensor<2x1x1xf32>
    %11 = linalg.fill ins(%cst : f32) outs(%10 : tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
    %12 = linalg.batch_matmul ins(%expanded_13, %expanded_14 : tensor<2x1x12xf32>, tensor<2x12x1xf32>) outs(%11 : tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
    %collapsed_15 = tensor.collapse_shape %12 [[0, 1, 2]] : tensor<2x1x1xf32> into tensor<2xf32>
    return %collapsed, %collapsed_11, %collapsed_15 : tensor<2x3x5xf32>, tensor<3x6x2xf32>, tensor<2xf32>
  }
}
