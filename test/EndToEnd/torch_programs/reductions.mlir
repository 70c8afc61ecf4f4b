// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map2 = affine_map<(d0, d1, d2) -> (0, d1, 0)>
#map3 = affine_map<(d0, d1, d2) -> (d0)>
#map4 = affine_map<(d0) -> (d0)>
#map5 = affine_map<(d0, d1, d2) -> (d0, 0, d2)>
#map6 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map7 = affine_map<(d0, d1) -> (d0, d1)>
#map8 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map9 = affine_map<(d0, d1, d2) -> ()>
#map10 = affine_map<(d0, d1, d2) -> (0, d1, d2)>
module {
  func.func @reductions(%arg0: tensor<3x4x5xf32>) -> (tensor<1x4x1xf32>, tensor<3xf32>, tensor<3x4x1xf32>, tensor<3x4x1xi64>, tensor<3x5xf32>, tensor<4x5xf32>, tensor<3x4xf32>) {
    %c0_i64 = arith.constant 0 : i64
    %cst = arith.constant 0xFF800000 : f32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %cst_1 = arith.constant 0.000000e+00 : f64
    %cst_2 = arith.constant 1.000000e+00 : f32
    %cst_3 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_4 = arith.constant 0x7FF0000000000000 : f64
    %cst_5 = arith.constant 2.000000e+01 : f32
    %cst_6 = arith.constant 4.000000e+00 : f64
    %0 = tensor.empty() : tensor<3x4xi64>
    %1 = linalg.fill ins(%c0_i64 : i64) outs(%0 : tensor<3x4xi64>) -> tensor<3x4xi64>
    %2 = tensor.empty() : tensor<3x4xf32>
    %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<3x4xf32>) -> tensor<3x4xf32>
    %4:2 = linalg.generic {indexing_maps = [#map, #map1, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0 : tensor<3x4x5xf32>) outs(%3, %1 : tensor<3x4xf32>, tensor<3x4xi64>) {
    ^bb0(%in: f32, %out: f32, %out_9: i64):
      %45 = linalg.index 2 : index
      %46 = arith.index_cast %45 : index to i64
      %47 = arith.maximumf %in, %out : f32
      %48 = arith.cmpf ogt, %in, %out : f32
      %49 = arith.select %48, %46, %out_9 : i64
      linalg.yield %47, %49 : f32, i64
    } -> (tensor<3x4xf32>, tensor<3x4xi64>)
    %expanded = tensor.expand_shape %4#0 [[0], [1, 2]] output_shape [3, 4, 1] : tensor<3x4xf32> into tensor<3x4x1xf32>
    %expanded_7 = tensor.expand_shape %4#1 [[0], [1, 2]] output_shape [3, 4, 1] : tensor<3x4xi64> into tensor<3x4x1xi64>
    %5 = tensor.empty() : tensor<1x4x1xf32>
    %6 = linalg.fill ins(%cst_0 : f32) outs(%5 : tensor<1x4x1xf32>) -> tensor<1x4x1xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["reduction", "parallel", "reduction"]} ins(%arg0 : tensor<3x4x5xf32>) outs(%6 : tensor<1x4x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %45 = arith.addf %in, %out : f32
      linalg.yield %45 : f32
    } -> tensor<1x4x1xf32>
    %8 = tensor.empty() : tensor<3xf32>
    %9 = linalg.fill ins(%cst_0 : f32) outs(%8 : tensor<3xf32>) -> tensor<3xf32>
    %10 = linalg.generic {indexing_maps = [#map, #map3], iterator_types = ["parallel", "reduction", "reduction"]} ins(%arg0 : tensor<3x4x5xf32>) outs(%9 : tensor<3xf32>) {
    ^bb0(%in: f32, %out: f32):
      %45 = arith.addf %in, %out : f32
      linalg.yield %45 : f32
    } -> tensor<3xf32>
    %11 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel"]} ins(%10 : tensor<3xf32>) outs(%8 : tensor<3xf32>) {
    ^bb0(%in: f32, %out: f32):
      %45 = arith.divf %in, %cst_5 : f32
      linalg.yield %45 : f32
    } -> tensor<3xf32>
    %12 = tensor.empty() : tensor<3x4x5xf64>
    %13 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<3x4x5xf32>) outs(%12 : tensor<3x4x5xf64>) {
    ^bb0(%in: f32, %out: f64):
      %45 = arith.extf %in : f32 to f64
      linalg.yield %45 : f64
    } -> tensor<3x4x5xf64>
    %14 = tensor.empty() : tensor<3x1x5xf64>
    %15 = linalg.fill ins(%cst_1 : f64) outs(%14 : tensor<3x1x5xf64>) -> tensor<3x1x5xf64>
    %16 = linalg.generic {indexing_maps = [#map, #map5], iterator_types = ["parallel", "reduction", "parallel"]} ins(%13 : tensor<3x4x5xf64>) outs(%15 : tensor<3x1x5xf64>) {
    ^bb0(%in: f64, %out: f64):
      %45 = arith.addf %in, %out : f64
      linalg.yield %45 : f64
    } -> tensor<3x1x5xf64>
    %17 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%16 : tensor<3x1x5xf64>) outs(%14 : tensor<3x1x5xf64>) {
    ^bb0(%in: f64, %out: f64):
      %45 = arith.divf %in, %cst_6 : f64
      linalg.yield %45 : f64
    } -> tensor<3x1x5xf64>
    %18 = linalg.generic {indexing_maps = [#map, #map5, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%13, %17 : tensor<3x4x5xf64>, tensor<3x1x5xf64>) outs(%12 : tensor<3x4x5xf64>) {
    ^bb0(%in: f64, %in_9: f64, %out: f64):
      %45 = arith.subf %in, %in_9 : f64
      linalg.yield %45 : f64
    } -> tensor<3x4x5xf64>
    %19 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%18, %18 : tensor<3x4x5xf64>, tensor<3x4x5xf64>) outs(%12 : tensor<3x4x5xf64>) {
    ^bb0(%in: f64, %in_9: f64, %out: f64):
      %45 = arith.mulf %in, %in_9 : f64
      linalg.yield %45 : f64
    } -> tensor<3x4x5xf64>
    %20 = tensor.empty() : tensor<3x5xf64>
    %21 = linalg.fill ins(%cst_1 : f64) outs(%20 : tensor<3x5xf64>) -> tensor<3x5xf64>
    %22 = linalg.generic {indexing_maps = [#map, #map6], iterator_types = ["parallel", "reduction", "parallel"]} ins(%19 : tensor<3x4x5xf64>) outs(%21 : tensor<3x5xf64>) {
    ^bb0(%in: f64, %out: f64):
      %45 = arith.addf %in, %out : f64
      linalg.yield %45 : f64
    } -> tensor<3x5xf64>
    %23 = linalg.generic {indexing_maps = [#map7, #map7], iterator_types = ["parallel", "parallel"]} ins(%22 : tensor<3x5xf64>) outs(%20 : tensor<3x5xf64>) {
    ^bb0(%in: f64, %out: f64):
      %45 = arith.divf %in, %cst_6 : f64
      linalg.yield %45 : f64
    } -> tensor<3x5xf64>
    %24 = tensor.empty() : tensor<3x5xf32>
    %25 = linalg.generic {indexing_maps = [#map7, #map7], iterator_types = ["parallel", "parallel"]} ins(%23 : tensor<3x5xf64>) outs(%24 : tensor<3x5xf32>) {
    ^bb0(%in: f64, %out: f32):
      %45 = arith.truncf %in : f64 to f32
      linalg.yield %45 : f32
    } -> tensor<3x5xf32>
    %26 = tensor.empty() : tensor<4x5xi64>
    %27 = linalg.fill ins(%c0_i64 : i64) outs(%26 : tensor<4x5xi64>) -> tensor<4x5xi64>
    %28 = tensor.empty() : tensor<4x5xf32>
    %29 = linalg.fill ins(%cst : f32) outs(%28 : tensor<4x5xf32>) -> tensor<4x5xf32>
    %30:2 = linalg.generic {indexing_maps = [#map, #map8, #map8], iterator_types = ["reduction", "parallel", "parallel"]} ins(%arg0 : tensor<3x4x5xf32>) outs(%29, %27 : tensor<4x5xf32>, tensor<4x5xi64>) {
    ^bb0(%in: f32, %out: f32, %out_9: i64):
      %45 = linalg.index 0 : index
      %46 = arith.index_cast %45 : index to i64
      %47 = arith.maximumf %in, %out : f32
      %48 = arith.cmpf ogt, %in, %out : f32
      %49 = arith.select %48, %46, %out_9 : i64
      linalg.yield %47, %49 : f32, i64
    } -> (tensor<4x5xf32>, tensor<4x5xi64>)
    %expanded_8 = tensor.expand_shape %30#0 [[0, 1], [2]] output_shape [1, 4, 5] : tensor<4x5xf32> into tensor<1x4x5xf32>
    %31 = tensor.empty() : tensor<1x4x5xf32>
    %32 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_8 : tensor<1x4x5xf32>) outs(%31 : tensor<1x4x5xf32>) {
    ^bb0(%in: f32, %out: f32):
      %45 = math.absf %in : f32
      linalg.yield %45 : f32
    } -> tensor<1x4x5xf32>
    %33 = tensor.empty() : tensor<1x4x5xi1>
    %34 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%32 : tensor<1x4x5xf32>) outs(%33 : tensor<1x4x5xi1>) {
    ^bb0(%in: f32, %out: i1):
      %45 = arith.extf %in : f32 to f64
      %46 = arith.cmpf oeq, %45, %cst_4 : f64
      linalg.yield %46 : i1
    } -> tensor<1x4x5xi1>
    %35 = linalg.generic {indexing_maps = [#map, #map9, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%34, %cst_3, %expanded_8 : tensor<1x4x5xi1>, tensor<f32>, tensor<1x4x5xf32>) outs(%31 : tensor<1x4x5xf32>) {
    ^bb0(%in: i1, %in_9: f32, %in_10: f32, %out: f32):
      %45 = arith.select %in, %in_9, %in_10 : f32
      linalg.yield %45 : f32
    } -> tensor<1x4x5xf32>
    %collapsed = tensor.collapse_shape %35 [[0, 1], [2]] : tensor<1x4x5xf32> into tensor<4x5xf32>
    %36 = tensor.empty() : tensor<3x4x5xf32>
    %37 = linalg.generic {indexing_maps = [#map, #map10, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %35 : tensor<3x4x5xf32>, tensor<1x4x5xf32>) outs(%36 : tensor<3x4x5xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %45 = arith.subf %in, %in_9 : f32
      linalg.yield %45 : f32
    } -> tensor<3x4x5xf32>
    %38 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%37 : tensor<3x4x5xf32>) outs(%36 : tensor<3x4x5xf32>) {
    ^bb0(%in: f32, %out: f32):
      %45 = math.exp %in : f32
      linalg.yield %45 : f32
    } -> tensor<3x4x5xf32>
    %39 = linalg.fill ins(%cst_0 : f32) outs(%28 : tensor<4x5xf32>) -> tensor<4x5xf32>
    %40 = linalg.generic {indexing_maps = [#map, #map8], iterator_types = ["reduction", "parallel", "parallel"]} ins(%38 : tensor<3x4x5xf32>) outs(%39 : tensor<4x5xf32>) {
    ^bb0(%in: f32, %out: f32):
      %45 = arith.addf %in, %out : f32
      linalg.yield %45 : f32
    } -> tensor<4x5xf32>
    %41 = linalg.generic {indexing_maps = [#map7, #map7], iterator_types = ["parallel", "parallel"]} ins(%40 : tensor<4x5xf32>) outs(%28 : tensor<4x5xf32>) {
    ^bb0(%in: f32, %out: f32):
      %45 = math.log %in : f32
      linalg.yield %45 : f32
    } -> tensor<4x5xf32>
    %42 = linalg.generic {indexing_maps = [#map7, #map7, #map7], iterator_types = ["parallel", "parallel"]} ins(%41, %collapsed : tensor<4x5xf32>, tensor<4x5xf32>) outs(%28 : tensor<4x5xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %45 = arith.addf %in, %in_9 : f32
      linalg.yield %45 : f32
    } -> tensor<4x5xf32>
    %43 = linalg.fill ins(%cst_2 : f32) outs(%2 : tensor<3x4xf32>) -> tensor<3x4xf32>
    %44 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0 : tensor<3x4x5xf32>) outs(%43 : tensor<3x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %45 = arith.mulf %in, %out : f32
      linalg.yield %45 : f32
    } -> tensor<3x4xf32>
    return %7, %11, %expanded, %expanded_7, %25, %42, %44 : tensor<1x4x1xf32>, tensor<3xf32>, tensor<3x4x1xf32>, tensor<3x4x1xi64>, tensor<3x5xf32>, tensor<4x5xf32>, tensor<3x4xf32>
  }
}
