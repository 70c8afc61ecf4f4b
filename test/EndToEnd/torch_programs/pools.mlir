// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, 0, 0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0) -> ()>
#map4 = affine_map<(d0, d1) -> (d0, 0)>
#map5 = affine_map<(d0, d1) -> (d1)>
#map6 = affine_map<(d0, d1) -> (d0, d1)>
#map7 = affine_map<(d0, d1) -> ()>
#map8 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, 0, 0, 0, 0, 0)>
#map9 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, 0, 0, 0, 0)>
#map10 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d2, d3, 0, 0)>
#map11 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d4, d5)>
#map12 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4, d5)>
#map13 = affine_map<(d0, d1, d2, d3, d4, d5) -> ()>
#map14 = affine_map<(d0, d1, d2, d3) -> (d3)>
module {
  func.func @pools(%arg0: tensor<2x3x12x8xf32>) -> (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>, tensor<2x3x5x3xf32>, tensor<2x3x1x1xf32>, tensor<2x3x4x3xf32>) {
    %c8_i64 = arith.constant 8 : i64
    %c12_i64 = arith.constant 12 : i64
    %c0_i64 = arith.constant 0 : i64
    %c1_i64 = arith.constant 1 : i64
    %c2_i64 = arith.constant 2 : i64
    %c3_i64 = arith.constant 3 : i64
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 0xFF800000 : f32
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_2 = arith.constant 9.000000e+00 : f32
    %cst_3 = arith.constant 4.000000e+00 : f32
    %cst_4 = arith.constant 9.600000e+01 : f32
    %cst_5 = arith.constant dense<7> : tensor<i64>
    %cst_6 = arith.constant dense<3> : tensor<i64>
    %cst_7 = arith.constant dense<4> : tensor<i64>
    %padded = tensor.pad %arg0 low[0, 0, 1, 1] high[0, 0, 1, 1] {
    ^bb0(%arg1: index, %arg2: index, %arg3: index, %arg4: index):
      tensor.yield %cst : f32
    } : tensor<2x3x12x8xf32> to tensor<2x3x14x10xf32>
    %0 = tensor.empty() : tensor<2x3x6x4xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
    %2 = tensor.empty() : tensor<3x3xf32>
    %3 = linalg.pooling_nchw_sum {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%padded, %2 : tensor<2x3x14x10xf32>, tensor<3x3xf32>) outs(%1 : tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%3 : tensor<2x3x6x4xf32>) outs(%0 : tensor<2x3x6x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %55 = arith.divf %in, %cst_2 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x6x4xf32>
    %5 = tensor.empty() : tensor<2x2xf32>
    %6 = linalg.pooling_nchw_sum {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%arg0, %5 : tensor<2x3x12x8xf32>, tensor<2x2xf32>) outs(%1 : tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<2x3x6x4xf32>) outs(%0 : tensor<2x3x6x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %55 = arith.divf %in, %cst_3 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x6x4xf32>
    %padded_8 = tensor.pad %arg0 low[0, 0, 1, 1] high[0, 0, 1, 1] {
    ^bb0(%arg1: index, %arg2: index, %arg3: index, %arg4: index):
      tensor.yield %cst_0 : f32
    } : tensor<2x3x12x8xf32> to tensor<2x3x14x10xf32>
    %8 = tensor.empty() : tensor<2x3x5x3xf32>
    %9 = linalg.fill ins(%cst_0 : f32) outs(%8 : tensor<2x3x5x3xf32>) -> tensor<2x3x5x3xf32>
    %10 = linalg.pooling_nchw_max {dilations = dense<2> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%padded_8, %2 : tensor<2x3x14x10xf32>, tensor<3x3xf32>) outs(%9 : tensor<2x3x5x3xf32>) -> tensor<2x3x5x3xf32>
    %11 = tensor.empty() : tensor<2x3x1x1xf32>
    %12 = linalg.fill ins(%cst : f32) outs(%11 : tensor<2x3x1x1xf32>) -> tensor<2x3x1x1xf32>
    %13 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x3x12x8xf32>) outs(%12 : tensor<2x3x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %55 = arith.addf %in, %out : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x1x1xf32>
    %14 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%13 : tensor<2x3x1x1xf32>) outs(%11 : tensor<2x3x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %55 = arith.divf %in, %cst_4 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x1x1xf32>
    %15 = tensor.empty() : tensor<4xi64>
    %16 = linalg.generic {indexing_maps = [#map2], iterator_types = ["parallel"]} outs(%15 : tensor<4xi64>) {
    ^bb0(%out: i64):
      %55 = linalg.index 0 : index
      %56 = arith.index_cast %55 : index to i64
      linalg.yield %56 : i64
    } -> tensor<4xi64>
    %17 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%16 : tensor<4xi64>) outs(%15 : tensor<4xi64>) {
    ^bb0(%in: i64, %out: i64):
      %55 = arith.muli %in, %c12_i64 : i64
      linalg.yield %55 : i64
    } -> tensor<4xi64>
    %18 = linalg.generic {indexing_maps = [#map2, #map3, #map2], iterator_types = ["parallel"]} ins(%17, %cst_7 : tensor<4xi64>, tensor<i64>) outs(%15 : tensor<4xi64>) {
    ^bb0(%in: i64, %in_42: i64, %out: i64):
      %55 = arith.divsi %in, %in_42 : i64
      linalg.yield %55 : i64
    } -> tensor<4xi64>
    %19 = tensor.empty() : tensor<3xi64>
    %20 = linalg.generic {indexing_maps = [#map2], iterator_types = ["parallel"]} outs(%19 : tensor<3xi64>) {
    ^bb0(%out: i64):
      %55 = linalg.index 0 : index
      %56 = arith.index_cast %55 : index to i64
      linalg.yield %56 : i64
    } -> tensor<3xi64>
    %expanded = tensor.expand_shape %18 [[0, 1]] output_shape [4, 1] : tensor<4xi64> into tensor<4x1xi64>
    %21 = tensor.empty() : tensor<4x3xi64>
    %22 = linalg.generic {indexing_maps = [#map4, #map5, #map6], iterator_types = ["parallel", "parallel"]} ins(%expanded, %20 : tensor<4x1xi64>, tensor<3xi64>) outs(%21 : tensor<4x3xi64>) {
    ^bb0(%in: i64, %in_42: i64, %out: i64):
      %55 = arith.addi %in, %in_42 : i64
      linalg.yield %55 : i64
    } -> tensor<4x3xi64>
    %23 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%20 : tensor<3xi64>) outs(%19 : tensor<3xi64>) {
    ^bb0(%in: i64, %out: i64):
      %55 = arith.muli %in, %c8_i64 : i64
      linalg.yield %55 : i64
    } -> tensor<3xi64>
    %24 = linalg.generic {indexing_maps = [#map2, #map3, #map2], iterator_types = ["parallel"]} ins(%23, %cst_6 : tensor<3xi64>, tensor<i64>) outs(%19 : tensor<3xi64>) {
    ^bb0(%in: i64, %in_42: i64, %out: i64):
      %55 = arith.divsi %in, %in_42 : i64
      linalg.yield %55 : i64
    } -> tensor<3xi64>
    %expanded_9 = tensor.expand_shape %24 [[0, 1]] output_shape [3, 1] : tensor<3xi64> into tensor<3x1xi64>
    %25 = tensor.empty() : tensor<3x4xi64>
    %26 = linalg.generic {indexing_maps = [#map4, #map5, #map6], iterator_types = ["parallel", "parallel"]} ins(%expanded_9, %16 : tensor<3x1xi64>, tensor<4xi64>) outs(%25 : tensor<3x4xi64>) {
    ^bb0(%in: i64, %in_42: i64, %out: i64):
      %55 = arith.addi %in, %in_42 : i64
      linalg.yield %55 : i64
    } -> tensor<3x4xi64>
    %27 = linalg.generic {indexing_maps = [#map6, #map7, #map6], iterator_types = ["parallel", "parallel"]} ins(%26, %cst_5 : tensor<3x4xi64>, tensor<i64>) outs(%25 : tensor<3x4xi64>) {
    ^bb0(%in: i64, %in_42: i64, %out: i64):
      %55 = arith.minsi %in, %in_42 : i64
      linalg.yield %55 : i64
    } -> tensor<3x4xi64>
    %28 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%20 : tensor<3xi64>) outs(%19 : tensor<3xi64>) {
    ^bb0(%in: i64, %out: i64):
      %55 = arith.addi %in, %c1_i64 : i64
      linalg.yield %55 : i64
    } -> tensor<3xi64>
    %29 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%28 : tensor<3xi64>) outs(%19 : tensor<3xi64>) {
    ^bb0(%in: i64, %out: i64):
      %55 = arith.muli %in, %c8_i64 : i64
      linalg.yield %55 : i64
    } -> tensor<3xi64>
    %30 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%29 : tensor<3xi64>) outs(%19 : tensor<3xi64>) {
    ^bb0(%in: i64, %out: i64):
      %55 = arith.addi %in, %c3_i64 : i64
      linalg.yield %55 : i64
    } -> tensor<3xi64>
    %31 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%30 : tensor<3xi64>) outs(%19 : tensor<3xi64>) {
    ^bb0(%in: i64, %out: i64):
      %55 = arith.subi %in, %c1_i64 : i64
      linalg.yield %55 : i64
    } -> tensor<3xi64>
    %32 = linalg.generic {indexing_maps = [#map2, #map3, #map2], iterator_types = ["parallel"]} ins(%31, %cst_6 : tensor<3xi64>, tensor<i64>) outs(%19 : tensor<3xi64>) {
    ^bb0(%in: i64, %in_42: i64, %out: i64):
      %55 = arith.divsi %in, %in_42 : i64
      linalg.yield %55 : i64
    } -> tensor<3xi64>
    %33 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = ["parallel"]} ins(%32, %24 : tensor<3xi64>, tensor<3xi64>) outs(%19 : tensor<3xi64>) {
    ^bb0(%in: i64, %in_42: i64, %out: i64):
      %55 = arith.subi %in, %in_42 : i64
      linalg.yield %55 : i64
    } -> tensor<3xi64>
    %expanded_10 = tensor.expand_shape %22 [[0], [1, 2, 3]] output_shape [4, 3, 1, 1] : tensor<4x3xi64> into tensor<4x3x1x1xi64>
    %expanded_11 = tensor.expand_shape %20 [[0, 1, 2, 3, 4]] output_shape [3, 1, 1, 1, 1] : tensor<3xi64> into tensor<3x1x1x1x1xi64>
    %34 = tensor.empty() : tensor<2xi64>
    %35 = linalg.generic {indexing_maps = [#map2], iterator_types = ["parallel"]} outs(%34 : tensor<2xi64>) {
    ^bb0(%out: i64):
      %55 = linalg.index 0 : index
      %56 = arith.index_cast %55 : index to i64
      linalg.yield %56 : i64
    } -> tensor<2xi64>
    %expanded_12 = tensor.expand_shape %35 [[0, 1, 2, 3, 4, 5]] output_shape [2, 1, 1, 1, 1, 1] : tensor<2xi64> into tensor<2x1x1x1x1x1xi64>
    %36 = tensor.empty() : tensor<2x3x4x3x3x4xf32>
    %37 = linalg.generic {indexing_maps = [#map8, #map9, #map10, #map11, #map12], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%expanded_12, %expanded_11, %expanded_10, %27 : tensor<2x1x1x1x1x1xi64>, tensor<3x1x1x1x1xi64>, tensor<4x3x1x1xi64>, tensor<3x4xi64>) outs(%36 : tensor<2x3x4x3x3x4xf32>) {
    ^bb0(%in: i64, %in_42: i64, %in_43: i64, %in_44: i64, %out: f32):
      %55 = arith.cmpi slt, %in, %c0_i64 : i64
      %56 = arith.addi %in, %c2_i64 : i64
      %57 = arith.select %55, %56, %in : i64
      %58 = arith.index_cast %57 : i64 to index
      %59 = arith.cmpi slt, %in_42, %c0_i64 : i64
      %60 = arith.addi %in_42, %c3_i64 : i64
      %61 = arith.select %59, %60, %in_42 : i64
      %62 = arith.index_cast %61 : i64 to index
      %63 = arith.cmpi slt, %in_43, %c0_i64 : i64
      %64 = arith.addi %in_43, %c12_i64 : i64
      %65 = arith.select %63, %64, %in_43 : i64
      %66 = arith.index_cast %65 : i64 to index
      %67 = arith.cmpi slt, %in_44, %c0_i64 : i64
      %68 = arith.addi %in_44, %c8_i64 : i64
      %69 = arith.select %67, %68, %in_44 : i64
      %70 = arith.index_cast %69 : i64 to index
      %extracted = tensor.extract %arg0[%58, %62, %66, %70] : tensor<2x3x12x8xf32>
      linalg.yield %extracted : f32
    } -> tensor<2x3x4x3x3x4xf32>
    %expanded_13 = tensor.expand_shape %33 [[0, 1]] output_shape [3, 1] : tensor<3xi64> into tensor<3x1xi64>
    %38 = tensor.empty() : tensor<3x4xi1>
    %39 = linalg.generic {indexing_maps = [#map5, #map4, #map6], iterator_types = ["parallel", "parallel"]} ins(%16, %expanded_13 : tensor<4xi64>, tensor<3x1xi64>) outs(%38 : tensor<3x4xi1>) {
    ^bb0(%in: i64, %in_42: i64, %out: i1):
      %55 = arith.cmpi sge, %in, %in_42 : i64
      linalg.yield %55 : i1
    } -> tensor<3x4xi1>
    %40 = linalg.generic {indexing_maps = [#map11, #map13, #map12, #map12], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%39, %cst_1, %37 : tensor<3x4xi1>, tensor<f32>, tensor<2x3x4x3x3x4xf32>) outs(%36 : tensor<2x3x4x3x3x4xf32>) {
    ^bb0(%in: i1, %in_42: f32, %in_43: f32, %out: f32):
      %55 = arith.select %in, %in_42, %in_43 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x4x3x3x4xf32>
    %extracted_slice = tensor.extract_slice %40[0, 0, 0, 0, 0, 0] [2, 3, 4, 1, 3, 4] [1, 1, 1, 1, 1, 1] : tensor<2x3x4x3x3x4xf32> to tensor<2x3x4x1x3x4xf32>
    %collapsed = tensor.collapse_shape %extracted_slice [[0], [1], [2, 3], [4], [5]] : tensor<2x3x4x1x3x4xf32> into tensor<2x3x4x3x4xf32>
    %extracted_slice_14 = tensor.extract_slice %collapsed[0, 0, 0, 0, 0] [2, 3, 4, 3, 1] [1, 1, 1, 1, 1] : tensor<2x3x4x3x4xf32> to tensor<2x3x4x3x1xf32>
    %collapsed_15 = tensor.collapse_shape %extracted_slice_14 [[0], [1], [2], [3, 4]] : tensor<2x3x4x3x1xf32> into tensor<2x3x4x3xf32>
    %extracted_slice_16 = tensor.extract_slice %collapsed[0, 0, 0, 0, 1] [2, 3, 4, 3, 1] [1, 1, 1, 1, 1] : tensor<2x3x4x3x4xf32> to tensor<2x3x4x3x1xf32>
    %collapsed_17 = tensor.collapse_shape %extracted_slice_16 [[0], [1], [2], [3, 4]] : tensor<2x3x4x3x1xf32> into tensor<2x3x4x3xf32>
    %41 = tensor.empty() : tensor<2x3x4x3xf32>
    %42 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%collapsed_15, %collapsed_17 : tensor<2x3x4x3xf32>, tensor<2x3x4x3xf32>) outs(%41 : tensor<2x3x4x3xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %55 = arith.addf %in, %in_42 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x4x3xf32>
    %extracted_slice_18 = tensor.extract_slice %collapsed[0, 0, 0, 0, 2] [2, 3, 4, 3, 1] [1, 1, 1, 1, 1] : tensor<2x3x4x3x4xf32> to tensor<2x3x4x3x1xf32>
    %collapsed_19 = tensor.collapse_shape %extracted_slice_18 [[0], [1], [2], [3, 4]] : tensor<2x3x4x3x1xf32> into tensor<2x3x4x3xf32>
    %43 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%42, %collapsed_19 : tensor<2x3x4x3xf32>, tensor<2x3x4x3xf32>) outs(%41 : tensor<2x3x4x3xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %55 = arith.addf %in, %in_42 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x4x3xf32>
    %extracted_slice_20 = tensor.extract_slice %collapsed[0, 0, 0, 0, 3] [2, 3, 4, 3, 1] [1, 1, 1, 1, 1] : tensor<2x3x4x3x4xf32> to tensor<2x3x4x3x1xf32>
    %collapsed_21 = tensor.collapse_shape %extracted_slice_20 [[0], [1], [2], [3, 4]] : tensor<2x3x4x3x1xf32> into tensor<2x3x4x3xf32>
    %44 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%43, %collapsed_21 : tensor<2x3x4x3xf32>, tensor<2x3x4x3xf32>) outs(%41 : tensor<2x3x4x3xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %55 = arith.addf %in, %in_42 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x4x3xf32>
    %extracted_slice_22 = tensor.extract_slice %40[0, 0, 0, 1, 0, 0] [2, 3, 4, 1, 3, 4] [1, 1, 1, 1, 1, 1] : tensor<2x3x4x3x3x4xf32> to tensor<2x3x4x1x3x4xf32>
    %collapsed_23 = tensor.collapse_shape %extracted_slice_22 [[0], [1], [2, 3], [4], [5]] : tensor<2x3x4x1x3x4xf32> into tensor<2x3x4x3x4xf32>
    %extracted_slice_24 = tensor.extract_slice %collapsed_23[0, 0, 0, 0, 0] [2, 3, 4, 3, 1] [1, 1, 1, 1, 1] : tensor<2x3x4x3x4xf32> to tensor<2x3x4x3x1xf32>
    %collapsed_25 = tensor.collapse_shape %extracted_slice_24 [[0], [1], [2], [3, 4]] : tensor<2x3x4x3x1xf32> into tensor<2x3x4x3xf32>
    %45 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%44, %collapsed_25 : tensor<2x3x4x3xf32>, tensor<2x3x4x3xf32>) outs(%41 : tensor<2x3x4x3xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %55 = arith.addf %in, %in_42 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x4x3xf32>
    %extracted_slice_26 = tensor.extract_slice %collapsed_23[0, 0, 0, 0, 1] [2, 3, 4, 3, 1] [1, 1, 1, 1, 1] : tensor<2x3x4x3x4xf32> to tensor<2x3x4x3x1xf32>
    %collapsed_27 = tensor.collapse_shape %extracted_slice_26 [[0], [1], [2], [3, 4]] : tensor<2x3x4x3x1xf32> into tensor<2x3x4x3xf32>
    %46 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%45, %collapsed_27 : tensor<2x3x4x3xf32>, tensor<2x3x4x3xf32>) outs(%41 : tensor<2x3x4x3xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %55 = arith.addf %in, %in_42 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x4x3xf32>
    %extracted_slice_28 = tensor.extract_slice %collapsed_23[0, 0, 0, 0, 2] [2, 3, 4, 3, 1] [1, 1, 1, 1, 1] : tensor<2x3x4x3x4xf32> to tensor<2x3x4x3x1xf32>
    %collapsed_29 = tensor.collapse_shape %extracted_slice_28 [[0], [1], [2], [3, 4]] : tensor<2x3x4x3x1xf32> into tensor<2x3x4x3xf32>
    %47 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%46, %collapsed_29 : tensor<2x3x4x3xf32>, tensor<2x3x4x3xf32>) outs(%41 : tensor<2x3x4x3xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %55 = arith.addf %in, %in_42 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x4x3xf32>
    %extracted_slice_30 = tensor.extract_slice %collapsed_23[0, 0, 0, 0, 3] [2, 3, 4, 3, 1] [1, 1, 1, 1, 1] : tensor<2x3x4x3x4xf32> to tensor<2x3x4x3x1xf32>
    %collapsed_31 = tensor.collapse_shape %extracted_slice_30 [[0], [1], [2], [3, 4]] : tensor<2x3x4x3x1xf32> into tensor<2x3x4x3xf32>
    %48 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%47, %collapsed_31 : tensor<2x3x4x3xf32>, tensor<2x3x4x3xf32>) outs(%41 : tensor<2x3x4x3xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %55 = arith.addf %in, %in_42 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x4x3xf32>
    %extracted_slice_32 = tensor.extract_slice %40[0, 0, 0, 2, 0, 0] [2, 3, 4, 1, 3, 4] [1, 1, 1, 1, 1, 1] : tensor<2x3x4x3x3x4xf32> to tensor<2x3x4x1x3x4xf32>
    %collapsed_33 = tensor.collapse_shape %extracted_slice_32 [[0], [1], [2, 3], [4], [5]] : tensor<2x3x4x1x3x4xf32> into tensor<2x3x4x3x4xf32>
    %extracted_slice_34 = tensor.extract_slice %collapsed_33[0, 0, 0, 0, 0] [2, 3, 4, 3, 1] [1, 1, 1, 1, 1] : tensor<2x3x4x3x4xf32> to tensor<2x3x4x3x1xf32>
    %collapsed_35 = tensor.collapse_shape %extracted_slice_34 [[0], [1], [2], [3, 4]] : tensor<2x3x4x3x1xf32> into tensor<2x3x4x3xf32>
    %49 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%48, %collapsed_35 : tensor<2x3x4x3xf32>, tensor<2x3x4x3xf32>) outs(%41 : tensor<2x3x4x3xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %55 = arith.addf %in, %in_42 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x4x3xf32>
    %extracted_slice_36 = tensor.extract_slice %collapsed_33[0, 0, 0, 0, 1] [2, 3, 4, 3, 1] [1, 1, 1, 1, 1] : tensor<2x3x4x3x4xf32> to tensor<2x3x4x3x1xf32>
    %collapsed_37 = tensor.collapse_shape %extracted_slice_36 [[0], [1], [2], [3, 4]] : tensor<2x3x4x3x1xf32> into tensor<2x3x4x3xf32>
    %50 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%49, %collapsed_37 : tensor<2x3x4x3xf32>, tensor<2x3x4x3xf32>) outs(%41 : tensor<2x3x4x3xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %55 = arith.addf %in, %in_42 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x4x3xf32>
    %extracted_slice_38 = tensor.extract_slice %collapsed_33[0, 0, 0, 0, 2] [2, 3, 4, 3, 1] [1, 1, 1, 1, 1] : tensor<2x3x4x3x4xf32> to tensor<2x3x4x3x1xf32>
    %collapsed_39 = tensor.collapse_shape %extracted_slice_38 [[0], [1], [2], [3, 4]] : tensor<2x3x4x3x1xf32> into tensor<2x3x4x3xf32>
    %51 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%50, %collapsed_39 : tensor<2x3x4x3xf32>, tensor<2x3x4x3xf32>) outs(%41 : tensor<2x3x4x3xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %55 = arith.addf %in, %in_42 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x4x3xf32>
    %extracted_slice_40 = tensor.extract_slice %collapsed_33[0, 0, 0, 0, 3] [2, 3, 4, 3, 1] [1, 1, 1, 1, 1] : tensor<2x3x4x3x4xf32> to tensor<2x3x4x3x1xf32>
    %collapsed_41 = tensor.collapse_shape %extracted_slice_40 [[0], [1], [2], [3, 4]] : tensor<2x3x4x3x1xf32> into tensor<2x3x4x3xf32>
    %52 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%51, %collapsed_41 : tensor<2x3x4x3xf32>, tensor<2x3x4x3xf32>) outs(%41 : tensor<2x3x4x3xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %55 = arith.addf %in, %in_42 : f32
      linalg.yield %55 : f32
    } -> tensor<2x3x4x3xf32>
    %53 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%33 : tensor<3xi64>) outs(%19 : tensor<3xi64>) {
    ^bb0(%in: i64, %out: i64):
      %55 = arith.muli %in, %c3_i64 : i64
      linalg.yield %55 : i64
    } -> tensor<3xi64>
    %54 = linalg.generic {indexing_maps = [#map, #map14, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%52, %53 : tensor<2x3x4x3xf32>, tensor<3xi64>) outs(%41 : tensor<2x3x4x3xf32>) {
    ^bb0(%in: f32, %in_42: i64, %out: f32):
      %55 = arith.sitofp %in_42 : i64 to f32
      %56 = arith.divf %in, %55 : f32
      linalg.yield %56 : f32
    } -> tensor<2x3x4x3xf32>
    return %4, %7, %10, %14, %54 : tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>, tensor<2x3x5x3xf32>, tensor<2x3x1x1xf32>, tensor<2x3x4x3xf32>
  }
}
