// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> ()>
#map2 = affine_map<(d0, d1) -> (d0)>
#map3 = affine_map<(d0) -> (d0)>
#map4 = affine_map<(d0, d1) -> (0, d1)>
#map5 = affine_map<(d0, d1) -> (d0, 0)>
module {
  func.func @masks(%arg0: tensor<5x6xf32>, %arg1: tensor<5x6xf32>) -> (tensor<5x6xf32>, tensor<5x6xf32>, tensor<5xi1>, tensor<5x6xf32>, tensor<5x6xi1>) {
    %c1_i64 = arith.constant 1 : i64
    %false = arith.constant false
    %cst = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = arith.constant dense<5.000000e-01> : tensor<f32>
    %cst_1 = arith.constant 0.000000e+00 : f32
    %cst_2 = arith.constant 1.000000e+00 : f32
    %0 = tensor.empty() : tensor<5x6xi1>
    %1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg1 : tensor<5x6xf32>, tensor<5x6xf32>) outs(%0 : tensor<5x6xi1>) {
    ^bb0(%in: f32, %in_4: f32, %out: i1):
      %23 = arith.cmpf ogt, %in, %in_4 : f32
      linalg.yield %23 : i1
    } -> tensor<5x6xi1>
    %2 = tensor.empty() : tensor<5x6xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg1 : tensor<5x6xf32>) outs(%2 : tensor<5x6xf32>) {
    ^bb0(%in: f32, %out: f32):
      %23 = arith.negf %in : f32
      linalg.yield %23 : f32
    } -> tensor<5x6xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%1, %arg0, %3 : tensor<5x6xi1>, tensor<5x6xf32>, tensor<5x6xf32>) outs(%2 : tensor<5x6xf32>) {
    ^bb0(%in: i1, %in_4: f32, %in_5: f32, %out: f32):
      %23 = arith.select %in, %in_4, %in_5 : f32
      linalg.yield %23 : f32
    } -> tensor<5x6xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<5x6xf32>) outs(%0 : tensor<5x6xi1>) {
    ^bb0(%in: f32, %out: i1):
      %23 = arith.cmpf olt, %in, %cst_1 : f32
      linalg.yield %23 : i1
    } -> tensor<5x6xi1>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg1 : tensor<5x6xf32>) outs(%0 : tensor<5x6xi1>) {
    ^bb0(%in: f32, %out: i1):
      %23 = arith.cmpf ogt, %in, %cst_2 : f32
      linalg.yield %23 : i1
    } -> tensor<5x6xi1>
    %7 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%5, %6 : tensor<5x6xi1>, tensor<5x6xi1>) outs(%0 : tensor<5x6xi1>) {
    ^bb0(%in: i1, %in_4: i1, %out: i1):
      %23 = arith.ori %in, %in_4 : i1
      linalg.yield %23 : i1
    } -> tensor<5x6xi1>
    %8 = linalg.generic {indexing_maps = [#map, #map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%7, %cst_0, %arg0 : tensor<5x6xi1>, tensor<f32>, tensor<5x6xf32>) outs(%2 : tensor<5x6xf32>) {
    ^bb0(%in: i1, %in_4: f32, %in_5: f32, %out: f32):
      %23 = arith.select %in, %in_4, %in_5 : f32
      linalg.yield %23 : f32
    } -> tensor<5x6xf32>
    %9 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<5x6xf32>) outs(%0 : tensor<5x6xi1>) {
    ^bb0(%in: f32, %out: i1):
      %23 = arith.cmpf oge, %in, %cst_1 : f32
      linalg.yield %23 : i1
    } -> tensor<5x6xi1>
    %10 = tensor.empty() : tensor<5xi1>
    %11 = linalg.fill ins(%false : i1) outs(%10 : tensor<5xi1>) -> tensor<5xi1>
    %12 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "reduction"]} ins(%9 : tensor<5x6xi1>) outs(%11 : tensor<5xi1>) {
    ^bb0(%in: i1, %out: i1):
      %23 = arith.ori %in, %out : i1
      linalg.yield %23 : i1
    } -> tensor<5xi1>
    %13 = tensor.empty() : tensor<6xi64>
    %14 = linalg.generic {indexing_maps = [#map3], iterator_types = ["parallel"]} outs(%13 : tensor<6xi64>) {
    ^bb0(%out: i64):
      %23 = linalg.index 0 : index
      %24 = arith.index_cast %23 : index to i64
      linalg.yield %24 : i64
    } -> tensor<6xi64>
    %expanded = tensor.expand_shape %14 [[0, 1]] output_shape [1, 6] : tensor<6xi64> into tensor<1x6xi64>
    %15 = tensor.empty() : tensor<5xi64>
    %16 = linalg.generic {indexing_maps = [#map3], iterator_types = ["parallel"]} outs(%15 : tensor<5xi64>) {
    ^bb0(%out: i64):
      %23 = linalg.index 0 : index
      %24 = arith.index_cast %23 : index to i64
      linalg.yield %24 : i64
    } -> tensor<5xi64>
    %expanded_3 = tensor.expand_shape %16 [[0, 1]] output_shape [5, 1] : tensor<5xi64> into tensor<5x1xi64>
    %17 = tensor.empty() : tensor<5x6xi64>
    %18 = linalg.generic {indexing_maps = [#map4, #map5, #map], iterator_types = ["parallel", "parallel"]} ins(%expanded, %expanded_3 : tensor<1x6xi64>, tensor<5x1xi64>) outs(%17 : tensor<5x6xi64>) {
    ^bb0(%in: i64, %in_4: i64, %out: i64):
      %23 = arith.subi %in, %in_4 : i64
      linalg.yield %23 : i64
    } -> tensor<5x6xi64>
    %19 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%18 : tensor<5x6xi64>) outs(%0 : tensor<5x6xi1>) {
    ^bb0(%in: i64, %out: i1):
      %23 = arith.cmpi sle, %in, %c1_i64 : i64
      linalg.yield %23 : i1
    } -> tensor<5x6xi1>
    %20 = linalg.generic {indexing_maps = [#map, #map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%19, %arg0, %cst : tensor<5x6xi1>, tensor<5x6xf32>, tensor<f32>) outs(%2 : tensor<5x6xf32>) {
    ^bb0(%in: i1, %in_4: f32, %in_5: f32, %out: f32):
      %23 = arith.select %in, %in_4, %in_5 : f32
      linalg.yield %23 : f32
    } -> tensor<5x6xf32>
    %21 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg0 : tensor<5x6xf32>, tensor<5x6xf32>) outs(%0 : tensor<5x6xi1>) {
    ^bb0(%in: f32, %in_4: f32, %out: i1):
      %23 = arith.cmpf une, %in, %in_4 : f32
      linalg.yield %23 : i1
    } -> tensor<5x6xi1>
    %22 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%21 : tensor<5x6xi1>) outs(%0 : tensor<5x6xi1>) {
    ^bb0(%in: i1, %out: i1):
      %23 = arith.cmpi eq, %in, %false : i1
      linalg.yield %23 : i1
    } -> tensor<5x6xi1>
    return %4, %8, %12, %20, %22 : tensor<5x6xf32>, tensor<5x6xf32>, tensor<5xi1>, tensor<5x6xf32>, tensor<5x6xi1>
  }
}
