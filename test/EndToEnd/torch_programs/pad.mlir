// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0) -> ()>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, 0, 0, 0)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d1, 0, 0)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d2, 0)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d3)>
#map6 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
module {
  func.func @pad(%arg0: tensor<2x3x5x6xf32>) -> (tensor<2x3x8x9xf32>, tensor<2x3x8x9xf32>, tensor<2x3x8x9xf32>) {
    %c5_i64 = arith.constant 5 : i64
    %c8_i64 = arith.constant 8 : i64
    %c-1_i64 = arith.constant -1 : i64
    %c4_i64 = arith.constant 4 : i64
    %c6_i64 = arith.constant 6 : i64
    %c-2_i64 = arith.constant -2 : i64
    %c2_i64 = arith.constant 2 : i64
    %c3_i64 = arith.constant 3 : i64
    %c0_i64 = arith.constant 0 : i64
    %cst = arith.constant 5.000000e-01 : f32
    %cst_0 = arith.constant dense<5> : tensor<i64>
    %cst_1 = arith.constant dense<4> : tensor<i64>
    %padded = tensor.pad %arg0 low[0, 0, 3, 1] high[0, 0, 0, 2] {
    ^bb0(%arg1: index, %arg2: index, %arg3: index, %arg4: index):
      tensor.yield %cst : f32
    } : tensor<2x3x5x6xf32> to tensor<2x3x8x9xf32>
    %0 = tensor.empty() : tensor<8xi64>
    %1 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%0 : tensor<8xi64>) {
    ^bb0(%out: i64):
      %29 = linalg.index 0 : index
      %30 = arith.index_cast %29 : index to i64
      %31 = arith.addi %30, %c-2_i64 : i64
      linalg.yield %31 : i64
    } -> tensor<8xi64>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%1 : tensor<8xi64>) outs(%0 : tensor<8xi64>) {
    ^bb0(%in: i64, %out: i64):
      %29 = math.absi %in : i64
      linalg.yield %29 : i64
    } -> tensor<8xi64>
    %3 = linalg.generic {indexing_maps = [#map1, #map, #map], iterator_types = ["parallel"]} ins(%cst_1, %2 : tensor<i64>, tensor<8xi64>) outs(%0 : tensor<8xi64>) {
    ^bb0(%in: i64, %in_6: i64, %out: i64):
      %29 = arith.subi %in, %in_6 : i64
      linalg.yield %29 : i64
    } -> tensor<8xi64>
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%3 : tensor<8xi64>) outs(%0 : tensor<8xi64>) {
    ^bb0(%in: i64, %out: i64):
      %29 = math.absi %in : i64
      linalg.yield %29 : i64
    } -> tensor<8xi64>
    %5 = linalg.generic {indexing_maps = [#map1, #map, #map], iterator_types = ["parallel"]} ins(%cst_1, %4 : tensor<i64>, tensor<8xi64>) outs(%0 : tensor<8xi64>) {
    ^bb0(%in: i64, %in_6: i64, %out: i64):
      %29 = arith.subi %in, %in_6 : i64
      linalg.yield %29 : i64
    } -> tensor<8xi64>
    %6 = tensor.empty() : tensor<6xi64>
    %7 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%6 : tensor<6xi64>) {
    ^bb0(%out: i64):
      %29 = linalg.index 0 : index
      %30 = arith.index_cast %29 : index to i64
      linalg.yield %30 : i64
    } -> tensor<6xi64>
    %expanded = tensor.expand_shape %5 [[0, 1]] output_shape [8, 1] : tensor<8xi64> into tensor<8x1xi64>
    %8 = tensor.empty() : tensor<3xi64>
    %9 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%8 : tensor<3xi64>) {
    ^bb0(%out: i64):
      %29 = linalg.index 0 : index
      %30 = arith.index_cast %29 : index to i64
      linalg.yield %30 : i64
    } -> tensor<3xi64>
    %expanded_2 = tensor.expand_shape %9 [[0, 1, 2]] output_shape [3, 1, 1] : tensor<3xi64> into tensor<3x1x1xi64>
    %10 = tensor.empty() : tensor<2xi64>
    %11 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%10 : tensor<2xi64>) {
    ^bb0(%out: i64):
      %29 = linalg.index 0 : index
      %30 = arith.index_cast %29 : index to i64
      linalg.yield %30 : i64
    } -> tensor<2xi64>
    %expanded_3 = tensor.expand_shape %11 [[0, 1, 2, 3]] output_shape [2, 1, 1, 1] : tensor<2xi64> into tensor<2x1x1x1xi64>
    %12 = tensor.empty() : tensor<2x3x8x6xf32>
    %13 = linalg.generic {indexing_maps = [#map2, #map3, #map4, #map5, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_3, %expanded_2, %expanded, %7 : tensor<2x1x1x1xi64>, tensor<3x1x1xi64>, tensor<8x1xi64>, tensor<6xi64>) outs(%12 : tensor<2x3x8x6xf32>) {
    ^bb0(%in: i64, %in_6: i64, %in_7: i64, %in_8: i64, %out: f32):
      %29 = arith.cmpi slt, %in, %c0_i64 : i64
      %30 = arith.addi %in, %c2_i64 : i64
      %31 = arith.select %29, %30, %in : i64
      %32 = arith.index_cast %31 : i64 to index
      %33 = arith.cmpi slt, %in_6, %c0_i64 : i64
      %34 = arith.addi %in_6, %c3_i64 : i64
      %35 = arith.select %33, %34, %in_6 : i64
      %36 = arith.index_cast %35 : i64 to index
      %37 = arith.cmpi slt, %in_7, %c0_i64 : i64
      %38 = arith.addi %in_7, %c5_i64 : i64
      %39 = arith.select %37, %38, %in_7 : i64
      %40 = arith.index_cast %39 : i64 to index
      %41 = arith.cmpi slt, %in_8, %c0_i64 : i64
      %42 = arith.addi %in_8, %c6_i64 : i64
      %43 = arith.select %41, %42, %in_8 : i64
      %44 = arith.index_cast %43 : i64 to index
      %extracted = tensor.extract %arg0[%32, %36, %40, %44] : tensor<2x3x5x6xf32>
      linalg.yield %extracted : f32
    } -> tensor<2x3x8x6xf32>
    %14 = tensor.empty() : tensor<9xi64>
    %15 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%14 : tensor<9xi64>) {
    ^bb0(%out: i64):
      %29 = linalg.index 0 : index
      %30 = arith.index_cast %29 : index to i64
      %31 = arith.addi %30, %c-1_i64 : i64
      linalg.yield %31 : i64
    } -> tensor<9xi64>
    %16 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%15 : tensor<9xi64>) outs(%14 : tensor<9xi64>) {
    ^bb0(%in: i64, %out: i64):
      %29 = math.absi %in : i64
      linalg.yield %29 : i64
    } -> tensor<9xi64>
    %17 = linalg.generic {indexing_maps = [#map1, #map, #map], iterator_types = ["parallel"]} ins(%cst_0, %16 : tensor<i64>, tensor<9xi64>) outs(%14 : tensor<9xi64>) {
    ^bb0(%in: i64, %in_6: i64, %out: i64):
      %29 = arith.subi %in, %in_6 : i64
      linalg.yield %29 : i64
    } -> tensor<9xi64>
    %18 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%17 : tensor<9xi64>) outs(%14 : tensor<9xi64>) {
    ^bb0(%in: i64, %out: i64):
      %29 = math.absi %in : i64
      linalg.yield %29 : i64
    } -> tensor<9xi64>
    %19 = linalg.generic {indexing_maps = [#map1, #map, #map], iterator_types = ["parallel"]} ins(%cst_0, %18 : tensor<i64>, tensor<9xi64>) outs(%14 : tensor<9xi64>) {
    ^bb0(%in: i64, %in_6: i64, %out: i64):
      %29 = arith.subi %in, %in_6 : i64
      linalg.yield %29 : i64
    } -> tensor<9xi64>
    %20 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%0 : tensor<8xi64>) {
    ^bb0(%out: i64):
      %29 = linalg.index 0 : index
      %30 = arith.index_cast %29 : index to i64
      linalg.yield %30 : i64
    } -> tensor<8xi64>
    %expanded_4 = tensor.expand_shape %20 [[0, 1]] output_shape [8, 1] : tensor<8xi64> into tensor<8x1xi64>
    %21 = tensor.empty() : tensor<2x3x8x9xf32>
    %22 = linalg.generic {indexing_maps = [#map2, #map3, #map4, #map5, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_3, %expanded_2, %expanded_4, %19 : tensor<2x1x1x1xi64>, tensor<3x1x1xi64>, tensor<8x1xi64>, tensor<9xi64>) outs(%21 : tensor<2x3x8x9xf32>) {
    ^bb0(%in: i64, %in_6: i64, %in_7: i64, %in_8: i64, %out: f32):
      %29 = arith.cmpi slt, %in, %c0_i64 : i64
      %30 = arith.addi %in, %c2_i64 : i64
      %31 = arith.select %29, %30, %in : i64
      %32 = arith.index_cast %31 : i64 to index
      %33 = arith.cmpi slt, %in_6, %c0_i64 : i64
      %34 = arith.addi %in_6, %c3_i64 : i64
      %35 = arith.select %33, %34, %in_6 : i64
      %36 = arith.index_cast %35 : i64 to index
      %37 = arith.cmpi slt, %in_7, %c0_i64 : i64
      %38 = arith.addi %in_7, %c8_i64 : i64
      %39 = arith.select %37, %38, %in_7 : i64
      %40 = arith.index_cast %39 : i64 to index
      %41 = arith.cmpi slt, %in_8, %c0_i64 : i64
      %42 = arith.addi %in_8, %c6_i64 : i64
      %43 = arith.select %41, %42, %in_8 : i64
      %44 = arith.index_cast %43 : i64 to index
      %extracted = tensor.extract %13[%32, %36, %40, %44] : tensor<2x3x8x6xf32>
      linalg.yield %extracted : f32
    } -> tensor<2x3x8x9xf32>
    %23 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%0 : tensor<8xi64>) {
    ^bb0(%out: i64):
      %29 = linalg.index 0 : index
      %30 = arith.index_cast %29 : index to i64
      %31 = arith.addi %30, %c-1_i64 : i64
      linalg.yield %31 : i64
    } -> tensor<8xi64>
    %24 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%23 : tensor<8xi64>) outs(%0 : tensor<8xi64>) {
    ^bb0(%in: i64, %out: i64):
      %29 = arith.maxsi %in, %c0_i64 : i64
      %30 = arith.minsi %29, %c4_i64 : i64
      linalg.yield %30 : i64
    } -> tensor<8xi64>
    %expanded_5 = tensor.expand_shape %24 [[0, 1]] output_shape [8, 1] : tensor<8xi64> into tensor<8x1xi64>
    %25 = linalg.generic {indexing_maps = [#map2, #map3, #map4, #map5, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_3, %expanded_2, %expanded_5, %7 : tensor<2x1x1x1xi64>, tensor<3x1x1xi64>, tensor<8x1xi64>, tensor<6xi64>) outs(%12 : tensor<2x3x8x6xf32>) {
    ^bb0(%in: i64, %in_6: i64, %in_7: i64, %in_8: i64, %out: f32):
      %29 = arith.cmpi slt, %in, %c0_i64 : i64
      %30 = arith.addi %in, %c2_i64 : i64
      %31 = arith.select %29, %30, %in : i64
      %32 = arith.index_cast %31 : i64 to index
      %33 = arith.cmpi slt, %in_6, %c0_i64 : i64
      %34 = arith.addi %in_6, %c3_i64 : i64
      %35 = arith.select %33, %34, %in_6 : i64
      %36 = arith.index_cast %35 : i64 to index
      %37 = arith.cmpi slt, %in_7, %c0_i64 : i64
      %38 = arith.addi %in_7, %c5_i64 : i64
      %39 = arith.select %37, %38, %in_7 : i64
      %40 = arith.index_cast %39 : i64 to index
      %41 = arith.cmpi slt, %in_8, %c0_i64 : i64
      %42 = arith.addi %in_8, %c6_i64 : i64
      %43 = arith.select %41, %42, %in_8 : i64
      %44 = arith.index_cast %43 : i64 to index
      %extracted = tensor.extract %arg0[%32, %36, %40, %44] : tensor<2x3x5x6xf32>
      linalg.yield %extracted : f32
    } -> tensor<2x3x8x6xf32>
    %26 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%14 : tensor<9xi64>) {
    ^bb0(%out: i64):
      %29 = linalg.index 0 : index
      %30 = arith.index_cast %29 : index to i64
      %31 = arith.addi %30, %c-2_i64 : i64
      linalg.yield %31 : i64
    } -> tensor<9xi64>
    %27 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%26 : tensor<9xi64>) outs(%14 : tensor<9xi64>) {
    ^bb0(%in: i64, %out: i64):
      %29 = arith.maxsi %in, %c0_i64 : i64
      %30 = arith.minsi %29, %c5_i64 : i64
      linalg.yield %30 : i64
    } -> tensor<9xi64>
    %28 = linalg.generic {indexing_maps = [#map2, #map3, #map4, #map5, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_3, %expanded_2, %expanded_4, %27 : tensor<2x1x1x1xi64>, tensor<3x1x1xi64>, tensor<8x1xi64>, tensor<9xi64>) outs(%21 : tensor<2x3x8x9xf32>) {
    ^bb0(%in: i64, %in_6: i64, %in_7: i64, %in_8: i64, %out: f32):
      %29 = arith.cmpi slt, %in, %c0_i64 : i64
      %30 = arith.addi %in, %c2_i64 : i64
      %31 = arith.select %29, %30, %in : i64
      %32 = arith.index_cast %31 : i64 to index
      %33 = arith.cmpi slt, %in_6, %c0_i64 : i64
      %34 = arith.addi %in_6, %c3_i64 : i64
      %35 = arith.select %33, %34, %in_6 : i64
      %36 = arith.index_cast %35 : i64 to index
      %37 = arith.cmpi slt, %in_7, %c0_i64 : i64
      %38 = arith.addi %in_7, %c8_i64 : i64
      %39 = arith.select %37, %38, %in_7 : i64
      %40 = arith.index_cast %39 : i64 to index
      %41 = arith.cmpi slt, %in_8, %c0_i64 : i64
      %42 = arith.addi %in_8, %c6_i64 : i64
      %43 = arith.select %41, %42, %in_8 : i64
      %44 = arith.index_cast %43 : i64 to index
      %extracted = tensor.extract %25[%32, %36, %40, %44] : tensor<2x3x8x6xf32>
      linalg.yield %extracted : f32
    } -> tensor<2x3x8x9xf32>
    return %padded, %22, %28 : tensor<2x3x8x9xf32>, tensor<2x3x8x9xf32>, tensor<2x3x8x9xf32>
  }
}
