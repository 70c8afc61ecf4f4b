// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @integers(%arg0: tensor<4x6xi32>, %arg1: tensor<4x6xi32>) -> (tensor<4x6xi32>, tensor<4x6xi32>, tensor<4x6xi32>, tensor<4x6xi32>, tensor<4x6xi32>, tensor<4x6xi32>) {
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %c3_i32 = arith.constant 3 : i32
    %c2_i32 = arith.constant 2 : i32
    %c-3_i32 = arith.constant -3 : i32
    %0 = tensor.empty() : tensor<4x6xi32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg1 : tensor<4x6xi32>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i32, %out: i32):
      %17 = math.absi %in : i32
      linalg.yield %17 : i32
    } -> tensor<4x6xi32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<4x6xi32>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i32, %out: i32):
      %17 = arith.addi %in, %c1_i32 : i32
      linalg.yield %17 : i32
    } -> tensor<4x6xi32>
    %3 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg1 : tensor<4x6xi32>, tensor<4x6xi32>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i32, %in_0: i32, %out: i32):
      %17 = arith.muli %in, %in_0 : i32
      linalg.yield %17 : i32
    } -> tensor<4x6xi32>
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x6xi32>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i32, %out: i32):
      %17 = arith.andi %in, %c3_i32 : i32
      linalg.yield %17 : i32
    } -> tensor<4x6xi32>
    %5 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%3, %4 : tensor<4x6xi32>, tensor<4x6xi32>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i32, %in_0: i32, %out: i32):
      %17 = arith.subi %in, %in_0 : i32
      linalg.yield %17 : i32
    } -> tensor<4x6xi32>
    %6 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %2 : tensor<4x6xi32>, tensor<4x6xi32>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i32, %in_0: i32, %out: i32):
      %17 = arith.sitofp %in : i32 to f64
      %18 = arith.sitofp %in_0 : i32 to f64
      %19 = arith.divf %17, %18 : f64
      %20 = math.floor %19 : f64
      %21 = arith.fptosi %20 : f64 to i32
      linalg.yield %21 : i32
    } -> tensor<4x6xi32>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<4x6xi32>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i32, %out: i32):
      %17 = arith.sitofp %in : i32 to f32
      %18 = arith.negf %17 : f32
      %19 = arith.fptosi %18 : f32 to i32
      linalg.yield %19 : i32
    } -> tensor<4x6xi32>
    %8 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %7 : tensor<4x6xi32>, tensor<4x6xi32>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i32, %in_0: i32, %out: i32):
      %17 = arith.divsi %in, %in_0 : i32
      linalg.yield %17 : i32
    } -> tensor<4x6xi32>
    %9 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %2 : tensor<4x6xi32>, tensor<4x6xi32>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i32, %in_0: i32, %out: i32):
      %17 = arith.remsi %in, %in_0 : i32
      %18 = arith.cmpi ne, %17, %c0_i32 : i32
      %19 = arith.cmpi slt, %in_0, %c0_i32 : i32
      %20 = arith.cmpi slt, %17, %c0_i32 : i32
      %21 = arith.xori %19, %20 : i1
      %22 = arith.andi %18, %21 : i1
      %23 = arith.addi %17, %in_0 : i32
      %24 = arith.select %22, %23, %17 : i32
      linalg.yield %24 : i32
    } -> tensor<4x6xi32>
    %10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x6xi32>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i32, %out: i32):
      %17 = arith.shli %in, %c2_i32 : i32
      linalg.yield %17 : i32
    } -> tensor<4x6xi32>
    %11 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%10, %arg1 : tensor<4x6xi32>, tensor<4x6xi32>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i32, %in_0: i32, %out: i32):
      %17 = arith.xori %in, %in_0 : i32
      linalg.yield %17 : i32
    } -> tensor<4x6xi32>
    %12 = tensor.empty() : tensor<4x6xi1>
    %13 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg1 : tensor<4x6xi32>, tensor<4x6xi32>) outs(%12 : tensor<4x6xi1>) {
    ^bb0(%in: i32, %in_0: i32, %out: i1):
      %17 = arith.cmpi sgt, %in, %in_0 : i32
      linalg.yield %17 : i1
    } -> tensor<4x6xi1>
    %14 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%13 : tensor<4x6xi1>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i1, %out: i32):
      %17 = arith.extui %in : i1 to i32
      linalg.yield %17 : i32
    } -> tensor<4x6xi32>
    %15 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x6xi32>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i32, %out: i32):
      %17 = arith.maxsi %in, %c-3_i32 : i32
      %18 = arith.minsi %17, %c3_i32 : i32
      linalg.yield %18 : i32
    } -> tensor<4x6xi32>
    %16 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%14, %15 : tensor<4x6xi32>, tensor<4x6xi32>) outs(%0 : tensor<4x6xi32>) {
    ^bb0(%in: i32, %in_0: i32, %out: i32):
      %17 = arith.addi %in, %in_0 : i32
      linalg.yield %17 : i32
    } -> tensor<4x6xi32>
    return %5, %6, %8, %9, %11, %16 : tensor<4x6xi32>, tensor<4x6xi32>, tensor<4x6xi32>, tensor<4x6xi32>, tensor<4x6xi32>, tensor<4x6xi32>
  }
}
