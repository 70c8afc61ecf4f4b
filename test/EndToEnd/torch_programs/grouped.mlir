// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
module {
  func.func @grouped(%arg0: tensor<1x4x7x8xf32>) -> tensor<1x3x5x4xf32> {
    %cst = arith.constant dense_resource<torch_tensor_3_torch.float32> : tensor<3xf32>
    %cst_0 = arith.constant dense_resource<torch_tensor_3_6_1_3_torch.float32> : tensor<3x6x1x3xf32>
    %cst_1 = arith.constant dense_resource<torch_tensor_6_2_3_3_torch.float32> : tensor<6x2x3x3xf32>
    %cst_2 = arith.constant dense_resource<torch_tensor_6_torch.float32> : tensor<6xf32>
    %0 = tensor.empty() : tensor<1x6x5x6xf32>
    %broadcasted = linalg.broadcast ins(%cst_2 : tensor<6xf32>) outs(%0 : tensor<1x6x5x6xf32>) dimensions = [0, 2, 3] 
    %expanded = tensor.expand_shape %arg0 [[0], [1, 2], [3], [4]] output_shape [1, 2, 2, 7, 8] : tensor<1x4x7x8xf32> into tensor<1x2x2x7x8xf32>
    %expanded_3 = tensor.expand_shape %cst_1 [[0, 1], [2], [3], [4]] output_shape [2, 3, 2, 3, 3] : tensor<6x2x3x3xf32> into tensor<2x3x2x3x3xf32>
    %expanded_4 = tensor.expand_shape %broadcasted [[0], [1, 2], [3], [4]] output_shape [1, 2, 3, 5, 6] : tensor<1x6x5x6xf32> into tensor<1x2x3x5x6xf32>
    %1 = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%expanded, %expanded_3 : tensor<1x2x2x7x8xf32>, tensor<2x3x2x3x3xf32>) outs(%expanded_4 : tensor<1x2x3x5x6xf32>) -> tensor<1x2x3x5x6xf32>
    %collapsed = tensor.collapse_shape %1 [[0], [1, 2], [3], [4]] : tensor<1x2x3x5x6xf32> into tensor<1x6x5x6xf32>
    %2 = tensor.empty() : tensor<1x3x5x4xf32>
    %broadcasted_5 = linalg.broadcast ins(%cst : tensor<3xf32>) outs(%2 : tensor<1x3x5x4xf32>) dimensions = [0, 2, 3] 
    %3 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%collapsed, %cst_0 : tensor<1x6x5x6xf32>, tensor<3x6x1x3xf32>) outs(%broadcasted_5 : tensor<1x3x5x4xf32>) -> tensor<1x3x5x4xf32>
    return %3 : tensor<1x3x5x4xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_3_torch.float32: "0x04000000A8270FBEA8B91E3CF43D5EBE",
      torch_tensor_3_6_1_3_torch.float32: "0x04000000BB1FAEBDC2B3803D9CC460BE943CEEBD310016BEC72CAB3D6679C2BD6E65CC3DBED2163E9A7C933D66B85B3D87F2943D7351CABB44919F3DF1A1653EC8D0EA3D65120DBECA2CAABDAF5901BE8BDB5C3E14A2E03D94FC693D3E644BBE3B5A63BE292F073E5AF4C4BDEC40F4BCDDCA983D3B0B1FBEB23F06BE64E4F83C101ACBBDA07F693C2807D0BD2DD04D3DB0E91E3E90B2443E074B5EBE8713CDBDFF6B01BE3A314A3E126E33BE06C8433D5926A03D241B453D9056713ED33807BE8AAE1D3E962892BD283855BEFF3A2F3EBC42CB3DDF3970BD96DA09BE",
      torch_tensor_6_2_3_3_torch.float32: "0x04000000DE5ED63D2EB1FD3DC3932E3ED6132B3D601F173D302023BE54914F3E3CB44B3E93AA35BE1A71EABBCC1578BD224BF4BD363D2FBDD2D2843DF247153EAABDA63D6B2C323E0294C3BD8D1781BD36713F3E0798B53DD3607EBD37CABA3CB64B693DD0C45BBEF60117BED18299BDE4CAD53C67755BBE27618ABDE6E566BE649BE13DB5BE36BE61EB23BE4F8BFE3C36C04CBE1866453C30C9463EE0FB9EBD84CB693EC3B1F3BD035846BD00DE533E40E6CF3D11E4283EFB5F3BBEF3B05D3D4455423ECFB8303CA307543D1411143EC39B53BE161576BD0833193E32715FBDFC20DE3D2E682D3E653756BEF0B144BE96437A3DE2FDA7BC35721EBD1F33293D199D36BE9053B73C52FC6DBEB9002FBE86BB3CBE000F2F3E5566F03BE826663E4946553E1A4CD73DD20D52BD3068C63D864F02BE415C3B3E1585423E9A5D56BE4BA5D33D0E86A63D4686333E8961993D27231BBE957853BEB2A43B3E476741BEC9951EBE0D72D83DBA8552BE5C6E18BED0AA743DADAF103EAB8B57BC51CDA3BA559F5DBE75CA47BEE7174DBE49E71A3D5B8F4C3EB43CACBD214DA53DC6389F3D4451F63D8DF4B93B9A5A36BC95A06A3E122B56BE",
      torch_tensor_6_torch.float32: "0x04000000BA92B53D029CB6BDD24BB33DBC2912BC16475EBE70AC23BD"
    }
  }
#-}
