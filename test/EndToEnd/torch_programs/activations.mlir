// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> ()>
#map2 = affine_map<(d0, d1) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d0, 0)>
module {
  func.func @activations(%arg0: tensor<4x9xf32>) -> (tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>) {
    %c0_i64 = arith.constant 0 : i64
    %c3_i64 = arith.constant 3 : i64
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 1.000000e+00 : f32
    %cst_1 = arith.constant 5.000000e-01 : f32
    %cst_2 = arith.constant 0xFF800000 : f32
    %cst_3 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_4 = arith.constant 1.000000e-01 : f64
    %cst_5 = arith.constant 0.79788456080000003 : f64
    %cst_6 = arith.constant 4.471500e-02 : f64
    %cst_7 = arith.constant 1.41421354 : f32
    %cst_8 = arith.constant 2.000000e+01 : f32
    %cst_9 = arith.constant 3.000000e+00 : f32
    %cst_10 = arith.constant 6.000000e+00 : f32
    %cst_11 = arith.constant 1.500000e+00 : f32
    %0 = tensor.empty() : tensor<4x9xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.divf %in, %cst_7 : f32
      %51 = math.erf %50 : f32
      %52 = arith.addf %51, %cst_0 : f32
      %53 = arith.mulf %52, %cst_1 : f32
      %54 = arith.mulf %in, %53 : f32
      linalg.yield %54 : f32
    } -> tensor<4x9xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.mulf %in, %cst_1 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = math.fpowi %in, %c3_i64 : f32, i64
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.truncf %cst_6 : f64 to f32
      %51 = arith.mulf %in, %50 : f32
      linalg.yield %51 : f32
    } -> tensor<4x9xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %4 : tensor<4x9xf32>, tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %in_12: f32, %out: f32):
      %50 = arith.addf %in, %in_12 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.truncf %cst_5 : f64 to f32
      %51 = arith.mulf %in, %50 : f32
      linalg.yield %51 : f32
    } -> tensor<4x9xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = math.tanh %in : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.addf %in, %cst_0 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %9 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%2, %8 : tensor<4x9xf32>, tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %in_12: f32, %out: f32):
      %50 = arith.mulf %in, %in_12 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.negf %in : f32
      %51 = math.exp %50 : f32
      %52 = arith.addf %51, %cst_0 : f32
      %53 = arith.divf %cst_0, %52 : f32
      linalg.yield %53 : f32
    } -> tensor<4x9xf32>
    %11 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %10 : tensor<4x9xf32>, tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %in_12: f32, %out: f32):
      %50 = arith.mulf %in, %in_12 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = math.erf %in : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %13 = linalg.generic {indexing_maps = [#map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%cst_3, %arg0 : tensor<f32>, tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %in_12: f32, %out: f32):
      %50 = arith.cmpf ogt, %in, %in_12 : f32
      %51 = arith.select %50, %in, %in_12 : f32
      linalg.yield %51 : f32
    } -> tensor<4x9xf32>
    %14 = linalg.generic {indexing_maps = [#map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%cst_3, %arg0 : tensor<f32>, tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %in_12: f32, %out: f32):
      %50 = arith.cmpf olt, %in, %in_12 : f32
      %51 = arith.select %50, %in, %in_12 : f32
      linalg.yield %51 : f32
    } -> tensor<4x9xf32>
    %15 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%14 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.truncf %cst_4 : f64 to f32
      %51 = arith.mulf %in, %50 : f32
      linalg.yield %51 : f32
    } -> tensor<4x9xf32>
    %16 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%13, %15 : tensor<4x9xf32>, tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %in_12: f32, %out: f32):
      %50 = arith.addf %in, %in_12 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %17 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%14 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = math.exp %in : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %18 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%17 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.subf %in, %cst_0 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %19 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%13, %18 : tensor<4x9xf32>, tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %in_12: f32, %out: f32):
      %50 = arith.addf %in, %in_12 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %20 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = math.exp %in : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %21 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%20 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = math.log1p %in : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %22 = tensor.empty() : tensor<4x9xi1>
    %23 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x9xf32>) outs(%22 : tensor<4x9xi1>) {
    ^bb0(%in: f32, %out: i1):
      %50 = arith.cmpf ogt, %in, %cst_8 : f32
      linalg.yield %50 : i1
    } -> tensor<4x9xi1>
    %24 = linalg.generic {indexing_maps = [#map, #map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%23, %arg0, %21 : tensor<4x9xi1>, tensor<4x9xf32>, tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: i1, %in_12: f32, %in_13: f32, %out: f32):
      %50 = arith.select %in, %in_12, %in_13 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %25 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.addf %in, %cst_9 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %26 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%25 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.cmpf ult, %in, %cst : f32
      %51 = arith.select %50, %cst, %in : f32
      linalg.yield %51 : f32
    } -> tensor<4x9xf32>
    %27 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%26 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.cmpf ugt, %in, %cst_10 : f32
      %51 = arith.select %50, %cst_10, %in : f32
      linalg.yield %51 : f32
    } -> tensor<4x9xf32>
    %28 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %27 : tensor<4x9xf32>, tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %in_12: f32, %out: f32):
      %50 = arith.mulf %in, %in_12 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %29 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%28 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.divf %in, %cst_10 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %30 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%27 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.divf %in, %cst_10 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %31 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%24 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = math.tanh %in : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %32 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %31 : tensor<4x9xf32>, tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %in_12: f32, %out: f32):
      %50 = arith.mulf %in, %in_12 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %33 = tensor.empty() : tensor<4xi64>
    %34 = linalg.fill ins(%c0_i64 : i64) outs(%33 : tensor<4xi64>) -> tensor<4xi64>
    %35 = tensor.empty() : tensor<4xf32>
    %36 = linalg.fill ins(%cst_2 : f32) outs(%35 : tensor<4xf32>) -> tensor<4xf32>
    %37:2 = linalg.generic {indexing_maps = [#map, #map2, #map2], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<4x9xf32>) outs(%36, %34 : tensor<4xf32>, tensor<4xi64>) {
    ^bb0(%in: f32, %out: f32, %out_12: i64):
      %50 = linalg.index 1 : index
      %51 = arith.index_cast %50 : index to i64
      %52 = arith.maximumf %in, %out : f32
      %53 = arith.cmpf ogt, %in, %out : f32
      %54 = arith.select %53, %51, %out_12 : i64
      linalg.yield %52, %54 : f32, i64
    } -> (tensor<4xf32>, tensor<4xi64>)
    %expanded = tensor.expand_shape %37#0 [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<4x1xf32>
    %38 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %expanded : tensor<4x9xf32>, tensor<4x1xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %in_12: f32, %out: f32):
      %50 = arith.subf %in, %in_12 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %39 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%38 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = math.exp %in : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %40 = tensor.empty() : tensor<4x1xf32>
    %41 = linalg.fill ins(%cst : f32) outs(%40 : tensor<4x1xf32>) -> tensor<4x1xf32>
    %42 = linalg.generic {indexing_maps = [#map, #map3], iterator_types = ["parallel", "reduction"]} ins(%39 : tensor<4x9xf32>) outs(%41 : tensor<4x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.addf %in, %out : f32
      linalg.yield %50 : f32
    } -> tensor<4x1xf32>
    %43 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%42 : tensor<4x1xf32>) outs(%40 : tensor<4x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = math.log %in : f32
      linalg.yield %50 : f32
    } -> tensor<4x1xf32>
    %44 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%38, %43 : tensor<4x9xf32>, tensor<4x1xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %in_12: f32, %out: f32):
      %50 = arith.subf %in, %in_12 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %45 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg0 : tensor<4x9xf32>, tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %in_12: f32, %out: f32):
      %50 = arith.mulf %in, %in_12 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %46 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%45 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.addf %in, %cst_0 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %47 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%46 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = math.rsqrt %in : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %48 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = math.absf %in : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    %49 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%48 : tensor<4x9xf32>) outs(%0 : tensor<4x9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = math.powf %in, %cst_11 : f32
      linalg.yield %50 : f32
    } -> tensor<4x9xf32>
    return %1, %9, %11, %12, %16, %19, %24, %29, %30, %32, %44, %47, %49 : tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>, tensor<4x9xf32>
  }
}
