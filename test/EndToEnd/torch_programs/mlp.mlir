// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
#map2 = affine_map<(d0, d1) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d0, 0)>
module {
  func.func @mlp(%arg0: tensor<4x7xf32>) -> tensor<4x5xf32> {
    %cst = arith.constant 0.000000e+00 : f32
    %c0_i64 = arith.constant 0 : i64
    %cst_0 = arith.constant 0xFF800000 : f32
    %cst_1 = arith.constant dense_resource<torch_tensor_5_torch.float32> : tensor<5xf32>
    %cst_2 = arith.constant dense_resource<torch_tensor_5_16_torch.float32> : tensor<5x16xf32>
    %cst_3 = arith.constant dense_resource<torch_tensor_16_torch.float32> : tensor<16xf32>
    %cst_4 = arith.constant dense_resource<torch_tensor_16_7_torch.float32> : tensor<16x7xf32>
    %0 = tensor.empty() : tensor<7x16xf32>
    %transposed = linalg.transpose ins(%cst_4 : tensor<16x7xf32>) outs(%0 : tensor<7x16xf32>) permutation = [1, 0] 
    %1 = tensor.empty() : tensor<4x16xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<4x16xf32>) -> tensor<4x16xf32>
    %3 = linalg.matmul ins(%arg0, %transposed : tensor<4x7xf32>, tensor<7x16xf32>) outs(%2 : tensor<4x16xf32>) -> tensor<4x16xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%3, %cst_3 : tensor<4x16xf32>, tensor<16xf32>) outs(%1 : tensor<4x16xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %22 = arith.addf %in, %in_6 : f32
      linalg.yield %22 : f32
    } -> tensor<4x16xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%4 : tensor<4x16xf32>) outs(%1 : tensor<4x16xf32>) {
    ^bb0(%in: f32, %out: f32):
      %22 = arith.cmpf ugt, %in, %cst : f32
      %23 = arith.select %22, %in, %cst : f32
      linalg.yield %23 : f32
    } -> tensor<4x16xf32>
    %6 = tensor.empty() : tensor<16x5xf32>
    %transposed_5 = linalg.transpose ins(%cst_2 : tensor<5x16xf32>) outs(%6 : tensor<16x5xf32>) permutation = [1, 0] 
    %7 = tensor.empty() : tensor<4x5xf32>
    %8 = linalg.fill ins(%cst : f32) outs(%7 : tensor<4x5xf32>) -> tensor<4x5xf32>
    %9 = linalg.matmul ins(%5, %transposed_5 : tensor<4x16xf32>, tensor<16x5xf32>) outs(%8 : tensor<4x5xf32>) -> tensor<4x5xf32>
    %10 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%9, %cst_1 : tensor<4x5xf32>, tensor<5xf32>) outs(%7 : tensor<4x5xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %22 = arith.addf %in, %in_6 : f32
      linalg.yield %22 : f32
    } -> tensor<4x5xf32>
    %11 = tensor.empty() : tensor<4xi64>
    %12 = linalg.fill ins(%c0_i64 : i64) outs(%11 : tensor<4xi64>) -> tensor<4xi64>
    %13 = tensor.empty() : tensor<4xf32>
    %14 = linalg.fill ins(%cst_0 : f32) outs(%13 : tensor<4xf32>) -> tensor<4xf32>
    %15:2 = linalg.generic {indexing_maps = [#map, #map2, #map2], iterator_types = ["parallel", "reduction"]} ins(%10 : tensor<4x5xf32>) outs(%14, %12 : tensor<4xf32>, tensor<4xi64>) {
    ^bb0(%in: f32, %out: f32, %out_6: i64):
      %22 = linalg.index 1 : index
      %23 = arith.index_cast %22 : index to i64
      %24 = arith.maximumf %in, %out : f32
      %25 = arith.cmpf ogt, %in, %out : f32
      %26 = arith.select %25, %23, %out_6 : i64
      linalg.yield %24, %26 : f32, i64
    } -> (tensor<4xf32>, tensor<4xi64>)
    %expanded = tensor.expand_shape %15#0 [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<4x1xf32>
    %16 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%10, %expanded : tensor<4x5xf32>, tensor<4x1xf32>) outs(%7 : tensor<4x5xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %22 = arith.subf %in, %in_6 : f32
      linalg.yield %22 : f32
    } -> tensor<4x5xf32>
    %17 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%16 : tensor<4x5xf32>) outs(%7 : tensor<4x5xf32>) {
    ^bb0(%in: f32, %out: f32):
      %22 = math.exp %in : f32
      linalg.yield %22 : f32
    } -> tensor<4x5xf32>
    %18 = tensor.empty() : tensor<4x1xf32>
    %19 = linalg.fill ins(%cst : f32) outs(%18 : tensor<4x1xf32>) -> tensor<4x1xf32>
    %20 = linalg.generic {indexing_maps = [#map, #map3], iterator_types = ["parallel", "reduction"]} ins(%17 : tensor<4x5xf32>) outs(%19 : tensor<4x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %22 = arith.addf %in, %out : f32
      linalg.yield %22 : f32
    } -> tensor<4x1xf32>
    %21 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%17, %20 : tensor<4x5xf32>, tensor<4x1xf32>) outs(%7 : tensor<4x5xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %22 = arith.divf %in, %in_6 : f32
      linalg.yield %22 : f32
    } -> tensor<4x5xf32>
    return %21 : tensor<4x5xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_5_torch.float32: "0x0400000038C66EBD80F8ACBCB8D5413EB0AF33BDC8E698BD",
      torch_tensor_5_16_torch.float32: "0x04000000703966BDE2981FBEAC8BABBD807EE03D6AEB1A3E805F7BBC5256073EB68E343E2855A6BD784846BE1E7852BE400255BD548427BE905D3EBE5AEC21BEEC5341BE880F3ABD86E3643E76AB3B3EFCB8DBBD487C7ABDC81391BD544C1DBE6A317CBEFEA268BED8C427BD1CF433BE1069F2BDC0A7E0BB003391BD422C4E3E90C99F3D20A43E3ED005773D286421BD8CAF91BD64A5013ED862543E960804BE88C592BD241F28BEE04F663D68FC263D1AE54FBE6C9A0C3EC45EEFBD16500EBEFA4C46BE083DB4BDFEBD66BE8E21563EF0FAF7BDC03A213C263E243E92C625BE123F1BBE249E98BD2C1159BEF4EE33BE7003433D420455BEE051763DE027A7BD1034A63D4057C13B74A525BE020E00BE46FF73BECE075F3E369F2DBE30FFA83C58104F3EAC19F13D9A87153EC8B5183EB8910D3D688EBCBDF82580BDB068E13C106005BD",
      torch_tensor_16_torch.float32: "0x04000000DE14803E7F4239BE6C40803EBC13AFBD89E797BE86529F3B41E1183E6348BE3EAF7F913E5F0E203EAC9D823E0C2CD4BD7B28673E0ECA963E5D0E653E3EFCB2BE",
      torch_tensor_16_7_torch.float32: "0x04000000435F9A3E47A98B3E7E5F9FBE42928D3941EDA1BE8B3277BD4618753E3E972CBEE8E0B93E013EB53E8879A0BEB7AC8DBD1889C4BD401864BDCB42233E8DFD983EC63822BE36EAA3BE993DD1BCF548B4BC18ADB83EFF4F0E3DE2F4083D85DD8B3DC82B933C0C4ACEBDD5FC97BEAE26B63D10CE80BE1C56BA3E3FFAA7BD3679603E8E9825BE0369AA3E19AA543D4F2A30BEEA27833E011FD3BD011C5C3E90A2E3BDB1BB08BE87A0ACBEF09FB73E1C127A3BD6AD89BE7D0508BCC8509D3E7CF28EBEC238B7BE741EA0BE4A5A633E09EB863E135BB1BDC8BE913E3A2DBEBCA2F275BE00CA783E4FC8B43E449940BE2F9406BE19FA71BEE7DA60BD647EAE3D694438BE6B93B4BC31A7E3BD3400EB3D08B525BCE088B53EC39F81BEF103AF3E0728D23DEC58B8BED5C93A3EF2C5923DC5DF7D3E68552DBE6FA6583E08D09FBE8CBDBA3E32A54BBEA9294C3E532303BD007B153E3E13743D63B7A2BEDF25BE3EB4ED463EC931363EB94DB3BE686D313E33439A3E57384E3E504C38BE8A60B5BE581ECC3A29D38C3E05966EBD09E254BDC687CFBD65EA9EBCC6053EBEE7314DBEA5EB8C3E9A43A03EB152AA3ED58529BE249EC63D98CBEEBB097FB63E0D427ABED160ABBD"
    }
  }
#-}
