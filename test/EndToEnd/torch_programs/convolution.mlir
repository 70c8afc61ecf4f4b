// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
module {
  func.func @convolution(%arg0: tensor<2x3x11x9xf32>) -> tensor<2x4x3x2xf32> {
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 0xFF800000 : f32
    %cst_1 = arith.constant dense_resource<torch_tensor_4_3_3_3_torch.float32> : tensor<4x3x3x3xf32>
    %cst_2 = arith.constant dense_resource<torch_tensor_4_torch.float32> : tensor<4xf32>
    %padded = tensor.pad %arg0 low[0, 0, 1, 1] high[0, 0, 1, 1] {
    ^bb0(%arg1: index, %arg2: index, %arg3: index, %arg4: index):
      tensor.yield %cst : f32
    } : tensor<2x3x11x9xf32> to tensor<2x3x13x11xf32>
    %0 = tensor.empty() : tensor<2x4x6x5xf32>
    %broadcasted = linalg.broadcast ins(%cst_2 : tensor<4xf32>) outs(%0 : tensor<2x4x6x5xf32>) dimensions = [0, 2, 3] 
    %1 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%padded, %cst_1 : tensor<2x3x13x11xf32>, tensor<4x3x3x3xf32>) outs(%broadcasted : tensor<2x4x6x5xf32>) -> tensor<2x4x6x5xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1 : tensor<2x4x6x5xf32>) outs(%0 : tensor<2x4x6x5xf32>) {
    ^bb0(%in: f32, %out: f32):
      %7 = arith.cmpf ugt, %in, %cst : f32
      %8 = arith.select %7, %in, %cst : f32
      linalg.yield %8 : f32
    } -> tensor<2x4x6x5xf32>
    %3 = tensor.empty() : tensor<2x4x3x2xf32>
    %4 = linalg.fill ins(%cst_0 : f32) outs(%3 : tensor<2x4x3x2xf32>) -> tensor<2x4x3x2xf32>
    %5 = tensor.empty() : tensor<2x2xf32>
    %6 = linalg.pooling_nchw_max {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%2, %5 : tensor<2x4x6x5xf32>, tensor<2x2xf32>) outs(%4 : tensor<2x4x3x2xf32>) -> tensor<2x4x3x2xf32>
    return %6 : tensor<2x4x3x2xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_4_3_3_3_torch.float32: "0x040000003011133E8D6CDF3DBCEC123DB244ACBDAB6EADBD9D983ABD41778E3D0A75C0BD20A840BEF6240B3E20633C3DB034E7BD3BF701BE883931BC5B48FB3D5CA08F3C2AA929BEDF092ABE92615DBD47D9423ED569D4BCB3F4343E4CA7D43DFF3C3A3E6136DF3D9A26BC3C3779893D94B613BE7180E2BC17082B3EB238973D9B8B3ABE5C5186BD23FEF43B819F82BC21F6843DDE6EE7BC750E283E7199AD3D014F5E3D668D11BE3AD70E3DAF33FFBD0E75E4BDBB2582BAC91465BDB39A38BEA22307BE2667ABBC4BADAABC558734BE8FB539BEC375C73D3E053B3E4E49183E587E4FBD770744BECEBD9F3D959939BE8438EB3D30F638BEA96CE83D481342BE931EC6BDDA8F89BDC9D135BC2D033EBE8C43E43AE910DD3D84C129BE68D0333EC1FE0BBE8588E8BC1B7FE53D675011BE7FF69C3D73EE253D8AF244BE02C403BE3B831A3EFE74B7BCFCCACDBD2AAF3FBE1E6EE33BA4C9963B36024F3B7D13313E4A6D34BE791E0DBE81B12EBDC1EA173EA3532EBD2EBD283DB9F828BE0BDA0B3D93A820BE48E4943BC03D1A3E8CCE9D3DAFF606BD9E62BFBD83899E3CC7E695BD2D697E3D7DDEC5BDBCBD133E9C2343BEE7EC1B3E",
      torch_tensor_4_torch.float32: "0x040000008BF93B3DAA44A93DE3E9FA3D8D57AD3D"
    }
  }
#-}
