// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d1, 0, 0)>
#map3 = affine_map<(d0, d1, d2, d3) -> ()>
module {
  func.func @depthwise(%arg0: tensor<2x4x8x8xf32>) -> tensor<2x6x8x8xf32> {
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 1.000000e+00 : f32
    %cst_1 = arith.constant dense<6.000000e+00> : tensor<f32>
    %cst_2 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_3 = arith.constant dense_resource<torch_tensor_6_torch.float32> : tensor<6xf32>
    %cst_4 = arith.constant dense_resource<torch_tensor_6_4_1_1_torch.float32> : tensor<6x4x1x1xf32>
    %cst_5 = arith.constant dense_resource<torch_tensor_4_torch.float32_3> : tensor<4xf32>
    %cst_6 = arith.constant dense_resource<torch_tensor_4_torch.float32_2> : tensor<4xf32>
    %cst_7 = arith.constant 1.000000e-05 : f64
    %cst_8 = arith.constant dense_resource<torch_tensor_4_torch.float32_1> : tensor<4xf32>
    %cst_9 = arith.constant dense_resource<torch_tensor_4_torch.float32> : tensor<4xf32>
    %cst_10 = arith.constant dense_resource<torch_tensor_4_1_3_3_torch.float32> : tensor<4x1x3x3xf32>
    %padded = tensor.pad %arg0 low[0, 0, 2, 2] high[0, 0, 2, 2] {
    ^bb0(%arg1: index, %arg2: index, %arg3: index, %arg4: index):
      tensor.yield %cst : f32
    } : tensor<2x4x8x8xf32> to tensor<2x4x12x12xf32>
    %0 = tensor.empty() : tensor<2x4x8x8xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
    %collapsed = tensor.collapse_shape %cst_10 [[0, 1], [2], [3]] : tensor<4x1x3x3xf32> into tensor<4x3x3xf32>
    %2 = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<2> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%padded, %collapsed : tensor<2x4x12x12xf32>, tensor<4x3x3xf32>) outs(%1 : tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
    %3 = tensor.empty() : tensor<4xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%cst_8 : tensor<4xf32>) outs(%3 : tensor<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %15 = arith.truncf %cst_7 : f64 to f32
      %16 = arith.addf %in, %15 : f32
      linalg.yield %16 : f32
    } -> tensor<4xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%4 : tensor<4xf32>) outs(%3 : tensor<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %15 = math.sqrt %in : f32
      linalg.yield %15 : f32
    } -> tensor<4xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%5 : tensor<4xf32>) outs(%3 : tensor<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %15 = arith.cmpf one, %in, %cst : f32
      cf.assert %15, "unimplemented: tensor with zero element"
      %16 = arith.divf %cst_0, %in : f32
      linalg.yield %16 : f32
    } -> tensor<4xf32>
    %expanded = tensor.expand_shape %cst_9 [[0, 1, 2]] output_shape [4, 1, 1] : tensor<4xf32> into tensor<4x1x1xf32>
    %expanded_11 = tensor.expand_shape %6 [[0, 1, 2]] output_shape [4, 1, 1] : tensor<4xf32> into tensor<4x1x1xf32>
    %7 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%2, %expanded : tensor<2x4x8x8xf32>, tensor<4x1x1xf32>) outs(%0 : tensor<2x4x8x8xf32>) {
    ^bb0(%in: f32, %in_14: f32, %out: f32):
      %15 = arith.subf %in, %in_14 : f32
      linalg.yield %15 : f32
    } -> tensor<2x4x8x8xf32>
    %8 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%7, %expanded_11 : tensor<2x4x8x8xf32>, tensor<4x1x1xf32>) outs(%0 : tensor<2x4x8x8xf32>) {
    ^bb0(%in: f32, %in_14: f32, %out: f32):
      %15 = arith.mulf %in, %in_14 : f32
      linalg.yield %15 : f32
    } -> tensor<2x4x8x8xf32>
    %expanded_12 = tensor.expand_shape %cst_6 [[0, 1, 2]] output_shape [4, 1, 1] : tensor<4xf32> into tensor<4x1x1xf32>
    %9 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%8, %expanded_12 : tensor<2x4x8x8xf32>, tensor<4x1x1xf32>) outs(%0 : tensor<2x4x8x8xf32>) {
    ^bb0(%in: f32, %in_14: f32, %out: f32):
      %15 = arith.mulf %in, %in_14 : f32
      linalg.yield %15 : f32
    } -> tensor<2x4x8x8xf32>
    %expanded_13 = tensor.expand_shape %cst_5 [[0, 1, 2]] output_shape [4, 1, 1] : tensor<4xf32> into tensor<4x1x1xf32>
    %10 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%9, %expanded_13 : tensor<2x4x8x8xf32>, tensor<4x1x1xf32>) outs(%0 : tensor<2x4x8x8xf32>) {
    ^bb0(%in: f32, %in_14: f32, %out: f32):
      %15 = arith.addf %in, %in_14 : f32
      linalg.yield %15 : f32
    } -> tensor<2x4x8x8xf32>
    %11 = linalg.generic {indexing_maps = [#map1, #map3, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%10, %cst_2 : tensor<2x4x8x8xf32>, tensor<f32>) outs(%0 : tensor<2x4x8x8xf32>) {
    ^bb0(%in: f32, %in_14: f32, %out: f32):
      %15 = arith.cmpf ogt, %in, %in_14 : f32
      %16 = arith.select %15, %in, %in_14 : f32
      linalg.yield %16 : f32
    } -> tensor<2x4x8x8xf32>
    %12 = linalg.generic {indexing_maps = [#map3, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%cst_1, %11 : tensor<f32>, tensor<2x4x8x8xf32>) outs(%0 : tensor<2x4x8x8xf32>) {
    ^bb0(%in: f32, %in_14: f32, %out: f32):
      %15 = arith.cmpf olt, %in, %in_14 : f32
      %16 = arith.select %15, %in, %in_14 : f32
      linalg.yield %16 : f32
    } -> tensor<2x4x8x8xf32>
    %13 = tensor.empty() : tensor<2x6x8x8xf32>
    %broadcasted = linalg.broadcast ins(%cst_3 : tensor<6xf32>) outs(%13 : tensor<2x6x8x8xf32>) dimensions = [0, 2, 3] 
    %14 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%12, %cst_4 : tensor<2x4x8x8xf32>, tensor<6x4x1x1xf32>) outs(%broadcasted : tensor<2x6x8x8xf32>) -> tensor<2x6x8x8xf32>
    return %14 : tensor<2x6x8x8xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_6_torch.float32: "0x04000000BCF4FB3E98767EBE809D44BEF8E0E83EA6E698BECC27853E",
      torch_tensor_6_4_1_1_torch.float32: "0x04000000702329BDC0F3CABE203C49BEA664EB3E22FEADBE50A7DD3DD8A8C7BDD865E5BE129BBF3E026ED4BEFC512BBED0DF8F3DDA138DBE04E33C3E3ECFBB3E0E41CA3EEEABB93E00610B3C404554BD6E6DB9BEF04967BD46A9FE3E74033F3ED0DD84BE",
      torch_tensor_4_torch.float32_3: "0x0400000000000000000000000000000000000000",
      torch_tensor_4_torch.float32_2: "0x040000000000803F0000803F0000803F0000803F",
      torch_tensor_4_torch.float32_1: "0x040000007AC1EA3FC9DB8A3FFD519E3F0EE5F53F",
      torch_tensor_4_torch.float32: "0x040000002E348C3F91261C3F54CA4CBF8D3674BF",
      torch_tensor_4_1_3_3_torch.float32: "0x0400000016C649BEA223A93ED671773C807C693EEB2824BE38777FBE9ACC973EAB0C203CB7878B3E90AD89BEAB1058BC837897BE0B6D3E3DC8E56CBE20461CBE3B4B06BE3FEFA43E8B93ACBD4895683E60BF05BE2667CABD2897513EF492853E93DA06BEDB01983E085722BE06D4A13E468FDFBD28B81B3E563F3A3CD8306BBE6BB0F63C966C5C3E564977BE733C2DBE600FA43E"
    }
  }
#-}
