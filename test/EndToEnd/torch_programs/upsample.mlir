// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0) -> (d0)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2, d3) -> (0, 0, 0, 0)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d1, 0, 0)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d2, 0)>
#map6 = affine_map<(d0, d1, d2, d3) -> (d3)>
module {
  func.func @upsample(%arg0: tensor<1x2x4x5xf32>) -> (tensor<1x2x8x10xf32>, tensor<1x2x7x9xf32>) {
    %c2_i64 = arith.constant 2 : i64
    %c3_i64 = arith.constant 3 : i64
    %c4_i64 = arith.constant 4 : i64
    %c1_i64 = arith.constant 1 : i64
    %c0_i64 = arith.constant 0 : i64
    %cst = arith.constant 1.000000e+00 : f32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %c5_i64 = arith.constant 5 : i64
    %cst_1 = arith.constant 0.55555555555555558 : f64
    %cst_2 = arith.constant 0.5714285714285714 : f64
    %cst_3 = arith.constant 2.000000e+00 : f32
    %cst_4 = arith.constant 5.000000e-01 : f32
    %c0 = arith.constant 0 : index
    %cst_5 = arith.constant 3.000000e+00 : f32
    %cst_6 = arith.constant 4.000000e+00 : f32
    %0 = tensor.empty() : tensor<1x2x8x10xf32>
    %1 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%0 : tensor<1x2x8x10xf32>) {
    ^bb0(%out: f32):
      %48 = linalg.index 1 : index
      %49 = linalg.index 2 : index
      %50 = linalg.index 3 : index
      %51 = arith.index_cast %49 : index to i64
      %52 = arith.sitofp %51 : i64 to f32
      %53 = arith.divf %52, %cst_3 : f32
      %54 = math.floor %53 : f32
      %55 = arith.maximumf %54, %cst_0 : f32
      %56 = arith.minimumf %55, %cst_5 : f32
      %57 = arith.fptosi %56 : f32 to i64
      %58 = arith.index_cast %57 : i64 to index
      %59 = arith.index_cast %50 : index to i64
      %60 = arith.sitofp %59 : i64 to f32
      %61 = arith.divf %60, %cst_3 : f32
      %62 = math.floor %61 : f32
      %63 = arith.maximumf %62, %cst_0 : f32
      %64 = arith.minimumf %63, %cst_6 : f32
      %65 = arith.fptosi %64 : f32 to i64
      %66 = arith.index_cast %65 : i64 to index
      %extracted = tensor.extract %arg0[%c0, %48, %58, %66] : tensor<1x2x4x5xf32>
      linalg.yield %extracted : f32
    } -> tensor<1x2x8x10xf32>
    %2 = tensor.empty() : tensor<7xi64>
    %3 = linalg.generic {indexing_maps = [#map1], iterator_types = ["parallel"]} outs(%2 : tensor<7xi64>) {
    ^bb0(%out: i64):
      %48 = linalg.index 0 : index
      %49 = arith.index_cast %48 : index to i64
      linalg.yield %49 : i64
    } -> tensor<7xi64>
    %4 = tensor.empty() : tensor<7xf32>
    %5 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%3 : tensor<7xi64>) outs(%4 : tensor<7xf32>) {
    ^bb0(%in: i64, %out: f32):
      %48 = arith.sitofp %in : i64 to f32
      linalg.yield %48 : f32
    } -> tensor<7xf32>
    %6 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%5 : tensor<7xf32>) outs(%4 : tensor<7xf32>) {
    ^bb0(%in: f32, %out: f32):
      %48 = arith.addf %in, %cst_4 : f32
      linalg.yield %48 : f32
    } -> tensor<7xf32>
    %7 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%6 : tensor<7xf32>) outs(%4 : tensor<7xf32>) {
    ^bb0(%in: f32, %out: f32):
      %48 = arith.truncf %cst_2 : f64 to f32
      %49 = arith.mulf %in, %48 : f32
      linalg.yield %49 : f32
    } -> tensor<7xf32>
    %8 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%7 : tensor<7xf32>) outs(%4 : tensor<7xf32>) {
    ^bb0(%in: f32, %out: f32):
      %48 = arith.subf %in, %cst_4 : f32
      linalg.yield %48 : f32
    } -> tensor<7xf32>
    %9 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%8 : tensor<7xf32>) outs(%4 : tensor<7xf32>) {
    ^bb0(%in: f32, %out: f32):
      %48 = arith.cmpf ult, %in, %cst_0 : f32
      %49 = arith.select %48, %cst_0, %in : f32
      linalg.yield %49 : f32
    } -> tensor<7xf32>
    %expanded = tensor.expand_shape %9 [[0, 1]] output_shape [7, 1] : tensor<7xf32> into tensor<7x1xf32>
    %10 = tensor.empty() : tensor<7x1xi64>
    %11 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%expanded : tensor<7x1xf32>) outs(%10 : tensor<7x1xi64>) {
    ^bb0(%in: f32, %out: i64):
      %48 = arith.fptosi %in : f32 to i64
      linalg.yield %48 : i64
    } -> tensor<7x1xi64>
    %12 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<7x1xi64>) outs(%10 : tensor<7x1xi64>) {
    ^bb0(%in: i64, %out: i64):
      %48 = arith.addi %in, %c1_i64 : i64
      linalg.yield %48 : i64
    } -> tensor<7x1xi64>
    %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%12 : tensor<7x1xi64>) outs(%10 : tensor<7x1xi64>) {
    ^bb0(%in: i64, %out: i64):
      %48 = arith.minsi %in, %c3_i64 : i64
      linalg.yield %48 : i64
    } -> tensor<7x1xi64>
    %14 = tensor.empty() : tensor<9xi64>
    %15 = linalg.generic {indexing_maps = [#map1], iterator_types = ["parallel"]} outs(%14 : tensor<9xi64>) {
    ^bb0(%out: i64):
      %48 = linalg.index 0 : index
      %49 = arith.index_cast %48 : index to i64
      linalg.yield %49 : i64
    } -> tensor<9xi64>
    %16 = tensor.empty() : tensor<9xf32>
    %17 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%15 : tensor<9xi64>) outs(%16 : tensor<9xf32>) {
    ^bb0(%in: i64, %out: f32):
      %48 = arith.sitofp %in : i64 to f32
      linalg.yield %48 : f32
    } -> tensor<9xf32>
    %18 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%17 : tensor<9xf32>) outs(%16 : tensor<9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %48 = arith.addf %in, %cst_4 : f32
      linalg.yield %48 : f32
    } -> tensor<9xf32>
    %19 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%18 : tensor<9xf32>) outs(%16 : tensor<9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %48 = arith.truncf %cst_1 : f64 to f32
      %49 = arith.mulf %in, %48 : f32
      linalg.yield %49 : f32
    } -> tensor<9xf32>
    %20 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%19 : tensor<9xf32>) outs(%16 : tensor<9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %48 = arith.subf %in, %cst_4 : f32
      linalg.yield %48 : f32
    } -> tensor<9xf32>
    %21 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%20 : tensor<9xf32>) outs(%16 : tensor<9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %48 = arith.cmpf ult, %in, %cst_0 : f32
      %49 = arith.select %48, %cst_0, %in : f32
      linalg.yield %49 : f32
    } -> tensor<9xf32>
    %22 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%21 : tensor<9xf32>) outs(%14 : tensor<9xi64>) {
    ^bb0(%in: f32, %out: i64):
      %48 = arith.fptosi %in : f32 to i64
      linalg.yield %48 : i64
    } -> tensor<9xi64>
    %23 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%22 : tensor<9xi64>) outs(%14 : tensor<9xi64>) {
    ^bb0(%in: i64, %out: i64):
      %48 = arith.addi %in, %c1_i64 : i64
      linalg.yield %48 : i64
    } -> tensor<9xi64>
    %24 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%23 : tensor<9xi64>) outs(%14 : tensor<9xi64>) {
    ^bb0(%in: i64, %out: i64):
      %48 = arith.minsi %in, %c4_i64 : i64
      linalg.yield %48 : i64
    } -> tensor<9xi64>
    %25 = tensor.empty() : tensor<2xi64>
    %26 = linalg.generic {indexing_maps = [#map1], iterator_types = ["parallel"]} outs(%25 : tensor<2xi64>) {
    ^bb0(%out: i64):
      %48 = linalg.index 0 : index
      %49 = arith.index_cast %48 : index to i64
      linalg.yield %49 : i64
    } -> tensor<2xi64>
    %expanded_7 = tensor.expand_shape %26 [[0, 1, 2]] output_shape [2, 1, 1] : tensor<2xi64> into tensor<2x1x1xi64>
    %27 = tensor.empty() : tensor<1xi64>
    %28 = linalg.generic {indexing_maps = [#map1], iterator_types = ["parallel"]} outs(%27 : tensor<1xi64>) {
    ^bb0(%out: i64):
      linalg.yield %c0_i64 : i64
    } -> tensor<1xi64>
    %expanded_8 = tensor.expand_shape %28 [[0, 1, 2, 3]] output_shape [1, 1, 1, 1] : tensor<1xi64> into tensor<1x1x1x1xi64>
    %29 = tensor.empty() : tensor<1x2x7x9xf32>
    %30 = linalg.generic {indexing_maps = [#map3, #map4, #map5, #map6, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_8, %expanded_7, %11, %22 : tensor<1x1x1x1xi64>, tensor<2x1x1xi64>, tensor<7x1xi64>, tensor<9xi64>) outs(%29 : tensor<1x2x7x9xf32>) {
    ^bb0(%in: i64, %in_9: i64, %in_10: i64, %in_11: i64, %out: f32):
      %48 = arith.cmpi slt, %in, %c0_i64 : i64
      %49 = arith.addi %in, %c1_i64 : i64
      %50 = arith.select %48, %49, %in : i64
      %51 = arith.index_cast %50 : i64 to index
      %52 = arith.cmpi slt, %in_9, %c0_i64 : i64
      %53 = arith.addi %in_9, %c2_i64 : i64
      %54 = arith.select %52, %53, %in_9 : i64
      %55 = arith.index_cast %54 : i64 to index
      %56 = arith.cmpi slt, %in_10, %c0_i64 : i64
      %57 = arith.addi %in_10, %c4_i64 : i64
      %58 = arith.select %56, %57, %in_10 : i64
      %59 = arith.index_cast %58 : i64 to index
      %60 = arith.cmpi slt, %in_11, %c0_i64 : i64
      %61 = arith.addi %in_11, %c5_i64 : i64
      %62 = arith.select %60, %61, %in_11 : i64
      %63 = arith.index_cast %62 : i64 to index
      %extracted = tensor.extract %arg0[%51, %55, %59, %63] : tensor<1x2x4x5xf32>
      linalg.yield %extracted : f32
    } -> tensor<1x2x7x9xf32>
    %31 = linalg.generic {indexing_maps = [#map3, #map4, #map5, #map6, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_8, %expanded_7, %11, %24 : tensor<1x1x1x1xi64>, tensor<2x1x1xi64>, tensor<7x1xi64>, tensor<9xi64>) outs(%29 : tensor<1x2x7x9xf32>) {
    ^bb0(%in: i64, %in_9: i64, %in_10: i64, %in_11: i64, %out: f32):
      %48 = arith.cmpi slt, %in, %c0_i64 : i64
      %49 = arith.addi %in, %c1_i64 : i64
      %50 = arith.select %48, %49, %in : i64
      %51 = arith.index_cast %50 : i64 to index
      %52 = arith.cmpi slt, %in_9, %c0_i64 : i64
      %53 = arith.addi %in_9, %c2_i64 : i64
      %54 = arith.select %52, %53, %in_9 : i64
      %55 = arith.index_cast %54 : i64 to index
      %56 = arith.cmpi slt, %in_10, %c0_i64 : i64
      %57 = arith.addi %in_10, %c4_i64 : i64
      %58 = arith.select %56, %57, %in_10 : i64
      %59 = arith.index_cast %58 : i64 to index
      %60 = arith.cmpi slt, %in_11, %c0_i64 : i64
      %61 = arith.addi %in_11, %c5_i64 : i64
      %62 = arith.select %60, %61, %in_11 : i64
      %63 = arith.index_cast %62 : i64 to index
      %extracted = tensor.extract %arg0[%51, %55, %59, %63] : tensor<1x2x4x5xf32>
      linalg.yield %extracted : f32
    } -> tensor<1x2x7x9xf32>
    %32 = linalg.generic {indexing_maps = [#map3, #map4, #map5, #map6, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_8, %expanded_7, %13, %22 : tensor<1x1x1x1xi64>, tensor<2x1x1xi64>, tensor<7x1xi64>, tensor<9xi64>) outs(%29 : tensor<1x2x7x9xf32>) {
    ^bb0(%in: i64, %in_9: i64, %in_10: i64, %in_11: i64, %out: f32):
      %48 = arith.cmpi slt, %in, %c0_i64 : i64
      %49 = arith.addi %in, %c1_i64 : i64
      %50 = arith.select %48, %49, %in : i64
      %51 = arith.index_cast %50 : i64 to index
      %52 = arith.cmpi slt, %in_9, %c0_i64 : i64
      %53 = arith.addi %in_9, %c2_i64 : i64
      %54 = arith.select %52, %53, %in_9 : i64
      %55 = arith.index_cast %54 : i64 to index
      %56 = arith.cmpi slt, %in_10, %c0_i64 : i64
      %57 = arith.addi %in_10, %c4_i64 : i64
      %58 = arith.select %56, %57, %in_10 : i64
      %59 = arith.index_cast %58 : i64 to index
      %60 = arith.cmpi slt, %in_11, %c0_i64 : i64
      %61 = arith.addi %in_11, %c5_i64 : i64
      %62 = arith.select %60, %61, %in_11 : i64
      %63 = arith.index_cast %62 : i64 to index
      %extracted = tensor.extract %arg0[%51, %55, %59, %63] : tensor<1x2x4x5xf32>
      linalg.yield %extracted : f32
    } -> tensor<1x2x7x9xf32>
    %33 = linalg.generic {indexing_maps = [#map3, #map4, #map5, #map6, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_8, %expanded_7, %13, %24 : tensor<1x1x1x1xi64>, tensor<2x1x1xi64>, tensor<7x1xi64>, tensor<9xi64>) outs(%29 : tensor<1x2x7x9xf32>) {
    ^bb0(%in: i64, %in_9: i64, %in_10: i64, %in_11: i64, %out: f32):
      %48 = arith.cmpi slt, %in, %c0_i64 : i64
      %49 = arith.addi %in, %c1_i64 : i64
      %50 = arith.select %48, %49, %in : i64
      %51 = arith.index_cast %50 : i64 to index
      %52 = arith.cmpi slt, %in_9, %c0_i64 : i64
      %53 = arith.addi %in_9, %c2_i64 : i64
      %54 = arith.select %52, %53, %in_9 : i64
      %55 = arith.index_cast %54 : i64 to index
      %56 = arith.cmpi slt, %in_10, %c0_i64 : i64
      %57 = arith.addi %in_10, %c4_i64 : i64
      %58 = arith.select %56, %57, %in_10 : i64
      %59 = arith.index_cast %58 : i64 to index
      %60 = arith.cmpi slt, %in_11, %c0_i64 : i64
      %61 = arith.addi %in_11, %c5_i64 : i64
      %62 = arith.select %60, %61, %in_11 : i64
      %63 = arith.index_cast %62 : i64 to index
      %extracted = tensor.extract %arg0[%51, %55, %59, %63] : tensor<1x2x4x5xf32>
      linalg.yield %extracted : f32
    } -> tensor<1x2x7x9xf32>
    %34 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel"]} ins(%21, %22 : tensor<9xf32>, tensor<9xi64>) outs(%16 : tensor<9xf32>) {
    ^bb0(%in: f32, %in_9: i64, %out: f32):
      %48 = arith.sitofp %in_9 : i64 to f32
      %49 = arith.subf %in, %48 : f32
      linalg.yield %49 : f32
    } -> tensor<9xf32>
    %35 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%34 : tensor<9xf32>) outs(%16 : tensor<9xf32>) {
    ^bb0(%in: f32, %out: f32):
      %48 = arith.cmpf ult, %in, %cst_0 : f32
      %49 = arith.select %48, %cst_0, %in : f32
      %50 = arith.cmpf ugt, %49, %cst : f32
      %51 = arith.select %50, %cst, %49 : f32
      linalg.yield %51 : f32
    } -> tensor<9xf32>
    %36 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%31, %30 : tensor<1x2x7x9xf32>, tensor<1x2x7x9xf32>) outs(%29 : tensor<1x2x7x9xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %48 = arith.subf %in, %in_9 : f32
      linalg.yield %48 : f32
    } -> tensor<1x2x7x9xf32>
    %37 = linalg.generic {indexing_maps = [#map, #map6, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%36, %35 : tensor<1x2x7x9xf32>, tensor<9xf32>) outs(%29 : tensor<1x2x7x9xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %48 = arith.mulf %in, %in_9 : f32
      linalg.yield %48 : f32
    } -> tensor<1x2x7x9xf32>
    %38 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%30, %37 : tensor<1x2x7x9xf32>, tensor<1x2x7x9xf32>) outs(%29 : tensor<1x2x7x9xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %48 = arith.addf %in, %in_9 : f32
      linalg.yield %48 : f32
    } -> tensor<1x2x7x9xf32>
    %39 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%33, %32 : tensor<1x2x7x9xf32>, tensor<1x2x7x9xf32>) outs(%29 : tensor<1x2x7x9xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %48 = arith.subf %in, %in_9 : f32
      linalg.yield %48 : f32
    } -> tensor<1x2x7x9xf32>
    %40 = linalg.generic {indexing_maps = [#map, #map6, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%39, %35 : tensor<1x2x7x9xf32>, tensor<9xf32>) outs(%29 : tensor<1x2x7x9xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %48 = arith.mulf %in, %in_9 : f32
      linalg.yield %48 : f32
    } -> tensor<1x2x7x9xf32>
    %41 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%32, %40 : tensor<1x2x7x9xf32>, tensor<1x2x7x9xf32>) outs(%29 : tensor<1x2x7x9xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %48 = arith.addf %in, %in_9 : f32
      linalg.yield %48 : f32
    } -> tensor<1x2x7x9xf32>
    %42 = tensor.empty() : tensor<7x1xf32>
    %43 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%expanded, %11 : tensor<7x1xf32>, tensor<7x1xi64>) outs(%42 : tensor<7x1xf32>) {
    ^bb0(%in: f32, %in_9: i64, %out: f32):
      %48 = arith.sitofp %in_9 : i64 to f32
      %49 = arith.subf %in, %48 : f32
      linalg.yield %49 : f32
    } -> tensor<7x1xf32>
    %44 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%43 : tensor<7x1xf32>) outs(%42 : tensor<7x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %48 = arith.cmpf ult, %in, %cst_0 : f32
      %49 = arith.select %48, %cst_0, %in : f32
      %50 = arith.cmpf ugt, %49, %cst : f32
      %51 = arith.select %50, %cst, %49 : f32
      linalg.yield %51 : f32
    } -> tensor<7x1xf32>
    %45 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%41, %38 : tensor<1x2x7x9xf32>, tensor<1x2x7x9xf32>) outs(%29 : tensor<1x2x7x9xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %48 = arith.subf %in, %in_9 : f32
      linalg.yield %48 : f32
    } -> tensor<1x2x7x9xf32>
    %46 = linalg.generic {indexing_maps = [#map, #map5, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%45, %44 : tensor<1x2x7x9xf32>, tensor<7x1xf32>) outs(%29 : tensor<1x2x7x9xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %48 = arith.mulf %in, %in_9 : f32
      linalg.yield %48 : f32
    } -> tensor<1x2x7x9xf32>
    %47 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%38, %46 : tensor<1x2x7x9xf32>, tensor<1x2x7x9xf32>) outs(%29 : tensor<1x2x7x9xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %48 = arith.addf %in, %in_9 : f32
      linalg.yield %48 : f32
    } -> tensor<1x2x7x9xf32>
    return %1, %47 : tensor<1x2x8x10xf32>, tensor<1x2x7x9xf32>
  }
}
