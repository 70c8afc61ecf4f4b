// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<()[s0] -> (s0 * 2)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, 0)>
#map4 = affine_map<(d0, d1, d2, d3) -> ()>
module {
  func.func @attention_dynamic(%arg0: tensor<?x2x5x8xf32>, %arg1: tensor<?x2x5x8xf32>, %arg2: tensor<?x2x5x8xf32>) -> tensor<?x2x5x8xf32> {
    %c0_i64 = arith.constant 0 : i64
    %c1 = arith.constant 1 : index
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 0xFF800000 : f32
    %true = arith.constant true
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_2 = arith.constant 0xFFF0000000000000 : f64
    %cst_3 = arith.constant 0.59460355750136051 : f64
    %dim = tensor.dim %arg0, %c0 : tensor<?x2x5x8xf32>
    %0 = arith.index_cast %dim : index to i64
    %1 = tensor.empty(%dim) : tensor<?x2x5x8xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<?x2x5x8xf32>) outs(%1 : tensor<?x2x5x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %43 = arith.truncf %cst_3 : f64 to f32
      %44 = arith.mulf %in, %43 : f32
      linalg.yield %44 : f32
    } -> tensor<?x2x5x8xf32>
    %dim_4 = tensor.dim %arg1, %c0 : tensor<?x2x5x8xf32>
    %3 = tensor.empty(%dim_4) : tensor<?x2x8x5xf32>
    %transposed = linalg.transpose ins(%arg1 : tensor<?x2x5x8xf32>) outs(%3 : tensor<?x2x8x5xf32>) permutation = [0, 1, 3, 2] 
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%transposed : tensor<?x2x8x5xf32>) outs(%3 : tensor<?x2x8x5xf32>) {
    ^bb0(%in: f32, %out: f32):
      %43 = arith.truncf %cst_3 : f64 to f32
      %44 = arith.mulf %in, %43 : f32
      linalg.yield %44 : f32
    } -> tensor<?x2x8x5xf32>
    %5 = arith.cmpi sge, %0, %c0_i64 : i64
    cf.assert %5, "unimplemented: dynamic negative broadcast sizes"
    %6 = tensor.empty(%dim) : tensor<?x2x5x8xf32>
    %7 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%6 : tensor<?x2x5x8xf32>) {
    ^bb0(%out: f32):
      %43 = linalg.index 0 : index
      %44 = linalg.index 1 : index
      %45 = linalg.index 2 : index
      %46 = linalg.index 3 : index
      %47 = arith.cmpi eq, %dim, %c1 : index
      %48 = arith.select %47, %c0, %43 : index
      %extracted = tensor.extract %2[%48, %44, %45, %46] : tensor<?x2x5x8xf32>
      linalg.yield %extracted : f32
    } -> tensor<?x2x5x8xf32>
    %collapsed = tensor.collapse_shape %7 [[0, 1], [2], [3]] : tensor<?x2x5x8xf32> into tensor<?x5x8xf32>
    cf.assert %5, "unimplemented: dynamic negative broadcast sizes"
    %8 = tensor.empty(%dim) : tensor<?x2x8x5xf32>
    %9 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%8 : tensor<?x2x8x5xf32>) {
    ^bb0(%out: f32):
      %43 = linalg.index 0 : index
      %44 = linalg.index 1 : index
      %45 = linalg.index 2 : index
      %46 = linalg.index 3 : index
      %47 = arith.cmpi eq, %dim_4, %c1 : index
      %48 = arith.select %47, %c0, %43 : index
      %extracted = tensor.extract %4[%48, %44, %45, %46] : tensor<?x2x8x5xf32>
      linalg.yield %extracted : f32
    } -> tensor<?x2x8x5xf32>
    %collapsed_5 = tensor.collapse_shape %9 [[0, 1], [2], [3]] : tensor<?x2x8x5xf32> into tensor<?x8x5xf32>
    %10 = affine.apply #map1()[%dim]
    %11 = tensor.empty(%10) : tensor<?x5x5xf32>
    %12 = linalg.fill ins(%cst : f32) outs(%11 : tensor<?x5x5xf32>) -> tensor<?x5x5xf32>
    %13 = linalg.batch_matmul ins(%collapsed, %collapsed_5 : tensor<?x5x8xf32>, tensor<?x8x5xf32>) outs(%12 : tensor<?x5x5xf32>) -> tensor<?x5x5xf32>
    %14 = arith.divsi %10, %c2 : index
    %expanded = tensor.expand_shape %13 [[0, 1], [2], [3]] output_shape [%14, 2, 5, 5] : tensor<?x5x5xf32> into tensor<?x2x5x5xf32>
    %15 = tensor.empty(%14) : tensor<?x2x5xi64>
    %16 = linalg.fill ins(%c0_i64 : i64) outs(%15 : tensor<?x2x5xi64>) -> tensor<?x2x5xi64>
    %17 = tensor.empty(%14) : tensor<?x2x5xf32>
    %18 = linalg.fill ins(%cst_0 : f32) outs(%17 : tensor<?x2x5xf32>) -> tensor<?x2x5xf32>
    %19:2 = linalg.generic {indexing_maps = [#map, #map2, #map2], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%expanded : tensor<?x2x5x5xf32>) outs(%18, %16 : tensor<?x2x5xf32>, tensor<?x2x5xi64>) {
    ^bb0(%in: f32, %out: f32, %out_10: i64):
      %43 = linalg.index 3 : index
      %44 = arith.index_cast %43 : index to i64
      %45 = arith.maximumf %in, %out : f32
      %46 = arith.cmpf ogt, %in, %out : f32
      %47 = arith.select %46, %44, %out_10 : i64
      linalg.yield %45, %47 : f32, i64
    } -> (tensor<?x2x5xf32>, tensor<?x2x5xi64>)
    %expanded_6 = tensor.expand_shape %19#0 [[0], [1], [2, 3]] output_shape [%14, 2, 5, 1] : tensor<?x2x5xf32> into tensor<?x2x5x1xf32>
    %20 = tensor.empty(%14) : tensor<?x2x5x5xf32>
    %21 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded, %expanded_6 : tensor<?x2x5x5xf32>, tensor<?x2x5x1xf32>) outs(%20 : tensor<?x2x5x5xf32>) {
    ^bb0(%in: f32, %in_10: f32, %out: f32):
      %43 = arith.subf %in, %in_10 : f32
      linalg.yield %43 : f32
    } -> tensor<?x2x5x5xf32>
    %22 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%21 : tensor<?x2x5x5xf32>) outs(%20 : tensor<?x2x5x5xf32>) {
    ^bb0(%in: f32, %out: f32):
      %43 = math.exp %in : f32
      linalg.yield %43 : f32
    } -> tensor<?x2x5x5xf32>
    %23 = tensor.empty(%14) : tensor<?x2x5x1xf32>
    %24 = linalg.fill ins(%cst : f32) outs(%23 : tensor<?x2x5x1xf32>) -> tensor<?x2x5x1xf32>
    %25 = linalg.generic {indexing_maps = [#map, #map3], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%22 : tensor<?x2x5x5xf32>) outs(%24 : tensor<?x2x5x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %43 = arith.addf %in, %out : f32
      linalg.yield %43 : f32
    } -> tensor<?x2x5x1xf32>
    %26 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%22, %25 : tensor<?x2x5x5xf32>, tensor<?x2x5x1xf32>) outs(%20 : tensor<?x2x5x5xf32>) {
    ^bb0(%in: f32, %in_10: f32, %out: f32):
      %43 = arith.divf %in, %in_10 : f32
      linalg.yield %43 : f32
    } -> tensor<?x2x5x5xf32>
    %27 = tensor.empty(%14) : tensor<?x2x5x5xi1>
    %28 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<?x2x5x5xf32>) outs(%27 : tensor<?x2x5x5xi1>) {
    ^bb0(%in: f32, %out: i1):
      %43 = arith.extf %in : f32 to f64
      %44 = arith.cmpf oeq, %43, %cst_2 : f64
      linalg.yield %44 : i1
    } -> tensor<?x2x5x5xi1>
    %29 = tensor.empty(%14) : tensor<?x2x5x1xi1>
    %30 = linalg.fill ins(%true : i1) outs(%29 : tensor<?x2x5x1xi1>) -> tensor<?x2x5x1xi1>
    %31 = linalg.generic {indexing_maps = [#map, #map3], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%28 : tensor<?x2x5x5xi1>) outs(%30 : tensor<?x2x5x1xi1>) {
    ^bb0(%in: i1, %out: i1):
      %43 = arith.andi %in, %out : i1
      linalg.yield %43 : i1
    } -> tensor<?x2x5x1xi1>
    %32 = arith.index_cast %14 : index to i64
    %33 = arith.cmpi sge, %32, %c0_i64 : i64
    cf.assert %33, "negative values not allowed in new dimensions"
    %34 = tensor.empty(%14) : tensor<?x2x5x5xf32>
    %35 = linalg.generic {indexing_maps = [#map4, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%cst_1 : tensor<f32>) outs(%34 : tensor<?x2x5x5xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<?x2x5x5xf32>
    cf.assert %true, "mismatched size for broadcast"
    %36 = linalg.generic {indexing_maps = [#map3, #map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%31, %35, %26 : tensor<?x2x5x1xi1>, tensor<?x2x5x5xf32>, tensor<?x2x5x5xf32>) outs(%20 : tensor<?x2x5x5xf32>) {
    ^bb0(%in: i1, %in_10: f32, %in_11: f32, %out: f32):
      %43 = arith.select %in, %in_10, %in_11 : f32
      linalg.yield %43 : f32
    } -> tensor<?x2x5x5xf32>
    cf.assert %5, "unimplemented: dynamic negative broadcast sizes"
    %37 = tensor.empty(%dim) : tensor<?x2x5x5xf32>
    %38 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%37 : tensor<?x2x5x5xf32>) {
    ^bb0(%out: f32):
      %43 = linalg.index 0 : index
      %44 = linalg.index 1 : index
      %45 = linalg.index 2 : index
      %46 = linalg.index 3 : index
      %47 = arith.cmpi eq, %14, %c1 : index
      %48 = arith.select %47, %c0, %43 : index
      %extracted = tensor.extract %36[%48, %44, %45, %46] : tensor<?x2x5x5xf32>
      linalg.yield %extracted : f32
    } -> tensor<?x2x5x5xf32>
    %collapsed_7 = tensor.collapse_shape %38 [[0, 1], [2], [3]] : tensor<?x2x5x5xf32> into tensor<?x5x5xf32>
    cf.assert %5, "unimplemented: dynamic negative broadcast sizes"
    %39 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%6 : tensor<?x2x5x8xf32>) {
    ^bb0(%out: f32):
      %43 = linalg.index 0 : index
      %44 = linalg.index 1 : index
      %45 = linalg.index 2 : index
      %46 = linalg.index 3 : index
      %dim_10 = tensor.dim %arg2, %c0 : tensor<?x2x5x8xf32>
      %47 = arith.cmpi eq, %dim_10, %c1 : index
      %48 = arith.select %47, %c0, %43 : index
      %extracted = tensor.extract %arg2[%48, %44, %45, %46] : tensor<?x2x5x8xf32>
      linalg.yield %extracted : f32
    } -> tensor<?x2x5x8xf32>
    %collapsed_8 = tensor.collapse_shape %39 [[0, 1], [2], [3]] : tensor<?x2x5x8xf32> into tensor<?x5x8xf32>
    %40 = tensor.empty(%10) : tensor<?x5x8xf32>
    %41 = linalg.fill ins(%cst : f32) outs(%40 : tensor<?x5x8xf32>) -> tensor<?x5x8xf32>
    %42 = linalg.batch_matmul ins(%collapsed_7, %collapsed_8 : tensor<?x5x5xf32>, tensor<?x5x8xf32>) outs(%41 : tensor<?x5x8xf32>) -> tensor<?x5x8xf32>
    %expanded_9 = tensor.expand_shape %42 [[0, 1], [2], [3]] output_shape [%14, 2, 5, 8] : tensor<?x5x8xf32> into tensor<?x2x5x8xf32>
    return %expanded_9 : tensor<?x2x5x8xf32>
  }
}
