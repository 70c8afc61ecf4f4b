// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
module {
  func.func @convolution_1d(%arg0: tensor<2x3x12xf32>) -> tensor<2x2x26xf32> {
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant dense_resource<torch_tensor_2_torch.float32> : tensor<2xf32>
    %cst_1 = arith.constant dense_resource<torch_tensor_4_2_4_torch.float32> : tensor<4x2x4xf32>
    %cst_2 = arith.constant dense_resource<torch_tensor_4_3_5_torch.float32> : tensor<4x3x5xf32>
    %cst_3 = arith.constant dense_resource<torch_tensor_4_torch.float32> : tensor<4xf32>
    %c3 = arith.constant 3 : index
    %padded = tensor.pad %arg0 low[0, 0, 2] high[0, 0, 2] {
    ^bb0(%arg1: index, %arg2: index, %arg3: index):
      tensor.yield %cst : f32
    } : tensor<2x3x12xf32> to tensor<2x3x16xf32>
    %0 = tensor.empty() : tensor<2x4x12xf32>
    %broadcasted = linalg.broadcast ins(%cst_3 : tensor<4xf32>) outs(%0 : tensor<2x4x12xf32>) dimensions = [0, 2] 
    %1 = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%padded, %cst_2 : tensor<2x3x16xf32>, tensor<4x3x5xf32>) outs(%broadcasted : tensor<2x4x12xf32>) -> tensor<2x4x12xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1 : tensor<2x4x12xf32>) outs(%0 : tensor<2x4x12xf32>) {
    ^bb0(%in: f32, %out: f32):
      %10 = math.tanh %in : f32
      linalg.yield %10 : f32
    } -> tensor<2x4x12xf32>
    %3 = tensor.empty() : tensor<2x4x4xf32>
    %4 = linalg.fill ins(%cst : f32) outs(%3 : tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    %5 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel", "parallel"]} outs(%4 : tensor<2x4x4xf32>) {
    ^bb0(%out: f32):
      %10 = linalg.index 0 : index
      %11 = linalg.index 1 : index
      %12 = linalg.index 2 : index
      %13 = arith.subi %c3, %12 : index
      %extracted = tensor.extract %cst_1[%11, %10, %13] : tensor<4x2x4xf32>
      linalg.yield %extracted : f32
    } -> tensor<2x4x4xf32>
    %6 = tensor.empty() : tensor<2x4x29xf32>
    %7 = linalg.fill ins(%cst : f32) outs(%6 : tensor<2x4x29xf32>) -> tensor<2x4x29xf32>
    %inserted_slice = tensor.insert_slice %2 into %7[0, 0, 3] [2, 4, 12] [1, 1, 2] : tensor<2x4x12xf32> into tensor<2x4x29xf32>
    %8 = tensor.empty() : tensor<2x2x26xf32>
    %broadcasted_4 = linalg.broadcast ins(%cst_0 : tensor<2xf32>) outs(%8 : tensor<2x2x26xf32>) dimensions = [0, 2] 
    %9 = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%inserted_slice, %5 : tensor<2x4x29xf32>, tensor<2x4x4xf32>) outs(%broadcasted_4 : tensor<2x2x26xf32>) -> tensor<2x2x26xf32>
    return %9 : tensor<2x2x26xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_2_torch.float32: "0x04000000B4D79B3EF5977DBE",
      torch_tensor_4_2_4_torch.float32: "0x040000008ACF93BEF5A39D3E44DA6BBEBBB8A4BD3715C1BD09B055BD8A9E5EBE91FA253E124BA73CC521643EB39B693E0CE2A33E28D6083E224E18BD607E633D137A1E3CBF6E81BE7DA588BE6D06ACBE4AA78CBB5B8DA73E307B8F3EEB9A8FBE1DFD433D70F3063EFA4D273EB51D01BBEC7F92BEBD5DAFBEC17D20BE1110A8BE5A7C4C3C",
      torch_tensor_4_3_5_torch.float32: "0x040000000828CA3D9B31A13BB0DC693EDD8DCC3DF257913DD49BF7BD71943B3D7CC13F3D09458EBD0F74C4BD9A3A043EEBA9C63D4D9D4A3E2B3B98BD2A8659BE1097423EF0D72E3DDC4A0E3DE5E8AD3D9E16273D552DE7BD6F0BAF3D2ED7173E03D5023EC9908A3C3EBA463E332635BCF5268FBDE67D983DDFBEE23DD08D3CBE7178553D98A0953DBB7E503E77F9B43C3490D7BC378AA13D2ED60D3E0B03C23DDE506FBEB89D7C3DECE2EE3C4EA439BE1BD12EBEAC9A4EBE409A67BEF3EB823EC37E65BED2B22DBE788157BEB9C2783E60922BBE4B2C0B3E687FD43D020D22BE6DA7333E11A3BCBCA206033E61E940BEE714F33D",
      torch_tensor_4_torch.float32: "0x040000009A6F3F3DEAE90FBDC6FFDE3C2F732E3E"
    }
  }
#-}
