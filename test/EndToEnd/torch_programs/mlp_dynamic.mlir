// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
#map2 = affine_map<(d0, d1) -> (d0, 0)>
module {
  func.func @mlp_dynamic(%arg0: tensor<?x7xf32>) -> tensor<?x5xf32> {
    %c0 = arith.constant 0 : index
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 1.000000e+00 : f32
    %cst_1 = arith.constant 5.000000e-01 : f32
    %cst_2 = arith.constant 0.000000e+00 : f64
    %cst_3 = arith.constant dense_resource<torch_tensor_5_torch.float32> : tensor<5xf32>
    %cst_4 = arith.constant dense_resource<torch_tensor_5_16_torch.float32> : tensor<5x16xf32>
    %cst_5 = arith.constant dense_resource<torch_tensor_16_torch.float32_2> : tensor<16xf32>
    %cst_6 = arith.constant dense_resource<torch_tensor_16_torch.float32_1> : tensor<16xf32>
    %cst_7 = arith.constant 1.000000e-05 : f64
    %cst_8 = arith.constant dense_resource<torch_tensor_16_torch.float32> : tensor<16xf32>
    %cst_9 = arith.constant dense_resource<torch_tensor_16_7_torch.float32> : tensor<16x7xf32>
    %cst_10 = arith.constant 1.41421354 : f32
    %cst_11 = arith.constant 1.600000e+01 : f64
    %cst_12 = arith.constant 1.600000e+01 : f32
    %0 = tensor.empty() : tensor<7x16xf32>
    %transposed = linalg.transpose ins(%cst_9 : tensor<16x7xf32>) outs(%0 : tensor<7x16xf32>) permutation = [1, 0] 
    %dim = tensor.dim %arg0, %c0 : tensor<?x7xf32>
    %1 = tensor.empty(%dim) : tensor<?x16xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<?x16xf32>) -> tensor<?x16xf32>
    %3 = linalg.matmul ins(%arg0, %transposed : tensor<?x7xf32>, tensor<7x16xf32>) outs(%2 : tensor<?x16xf32>) -> tensor<?x16xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%3, %cst_8 : tensor<?x16xf32>, tensor<16xf32>) outs(%1 : tensor<?x16xf32>) {
    ^bb0(%in: f32, %in_14: f32, %out: f32):
      %32 = arith.addf %in, %in_14 : f32
      linalg.yield %32 : f32
    } -> tensor<?x16xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%4 : tensor<?x16xf32>) outs(%1 : tensor<?x16xf32>) {
    ^bb0(%in: f32, %out: f32):
      %32 = arith.divf %in, %cst_10 : f32
      %33 = math.erf %32 : f32
      %34 = arith.addf %33, %cst_0 : f32
      %35 = arith.mulf %34, %cst_1 : f32
      %36 = arith.mulf %in, %35 : f32
      linalg.yield %36 : f32
    } -> tensor<?x16xf32>
    %6 = tensor.empty(%dim) : tensor<?x16xf64>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<?x16xf32>) outs(%6 : tensor<?x16xf64>) {
    ^bb0(%in: f32, %out: f64):
      %32 = arith.extf %in : f32 to f64
      linalg.yield %32 : f64
    } -> tensor<?x16xf64>
    %8 = tensor.empty(%dim) : tensor<?x1xf64>
    %9 = linalg.fill ins(%cst_2 : f64) outs(%8 : tensor<?x1xf64>) -> tensor<?x1xf64>
    %10 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<?x16xf64>) outs(%9 : tensor<?x1xf64>) {
    ^bb0(%in: f64, %out: f64):
      %32 = arith.addf %in, %out : f64
      linalg.yield %32 : f64
    } -> tensor<?x1xf64>
    %11 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<?x1xf64>) outs(%8 : tensor<?x1xf64>) {
    ^bb0(%in: f64, %out: f64):
      %32 = arith.divf %in, %cst_11 : f64
      linalg.yield %32 : f64
    } -> tensor<?x1xf64>
    %12 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<?x16xf64>, tensor<?x1xf64>) outs(%6 : tensor<?x16xf64>) {
    ^bb0(%in: f64, %in_14: f64, %out: f64):
      %32 = arith.subf %in, %in_14 : f64
      linalg.yield %32 : f64
    } -> tensor<?x16xf64>
    %13 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%12, %12 : tensor<?x16xf64>, tensor<?x16xf64>) outs(%6 : tensor<?x16xf64>) {
    ^bb0(%in: f64, %in_14: f64, %out: f64):
      %32 = arith.mulf %in, %in_14 : f64
      linalg.yield %32 : f64
    } -> tensor<?x16xf64>
    %14 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "reduction"]} ins(%13 : tensor<?x16xf64>) outs(%9 : tensor<?x1xf64>) {
    ^bb0(%in: f64, %out: f64):
      %32 = arith.addf %in, %out : f64
      linalg.yield %32 : f64
    } -> tensor<?x1xf64>
    %15 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%14 : tensor<?x1xf64>) outs(%8 : tensor<?x1xf64>) {
    ^bb0(%in: f64, %out: f64):
      %32 = arith.divf %in, %cst_11 : f64
      linalg.yield %32 : f64
    } -> tensor<?x1xf64>
    %16 = tensor.empty(%dim) : tensor<?x1xf32>
    %17 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<?x1xf64>) outs(%16 : tensor<?x1xf32>) {
    ^bb0(%in: f64, %out: f32):
      %32 = arith.truncf %in : f64 to f32
      linalg.yield %32 : f32
    } -> tensor<?x1xf32>
    %18 = linalg.fill ins(%cst : f32) outs(%16 : tensor<?x1xf32>) -> tensor<?x1xf32>
    %19 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "reduction"]} ins(%5 : tensor<?x16xf32>) outs(%18 : tensor<?x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %32 = arith.addf %in, %out : f32
      linalg.yield %32 : f32
    } -> tensor<?x1xf32>
    %20 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%19 : tensor<?x1xf32>) outs(%16 : tensor<?x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %32 = arith.divf %in, %cst_12 : f32
      linalg.yield %32 : f32
    } -> tensor<?x1xf32>
    %21 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%17 : tensor<?x1xf32>) outs(%16 : tensor<?x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %32 = arith.truncf %cst_7 : f64 to f32
      %33 = arith.addf %in, %32 : f32
      linalg.yield %33 : f32
    } -> tensor<?x1xf32>
    %22 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%21 : tensor<?x1xf32>) outs(%16 : tensor<?x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %32 = math.rsqrt %in : f32
      linalg.yield %32 : f32
    } -> tensor<?x1xf32>
    %23 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%5, %20 : tensor<?x16xf32>, tensor<?x1xf32>) outs(%1 : tensor<?x16xf32>) {
    ^bb0(%in: f32, %in_14: f32, %out: f32):
      %32 = arith.subf %in, %in_14 : f32
      linalg.yield %32 : f32
    } -> tensor<?x16xf32>
    %24 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%23, %22 : tensor<?x16xf32>, tensor<?x1xf32>) outs(%1 : tensor<?x16xf32>) {
    ^bb0(%in: f32, %in_14: f32, %out: f32):
      %32 = arith.mulf %in, %in_14 : f32
      linalg.yield %32 : f32
    } -> tensor<?x16xf32>
    %25 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%24, %cst_6 : tensor<?x16xf32>, tensor<16xf32>) outs(%1 : tensor<?x16xf32>) {
    ^bb0(%in: f32, %in_14: f32, %out: f32):
      %32 = arith.mulf %in, %in_14 : f32
      linalg.yield %32 : f32
    } -> tensor<?x16xf32>
    %26 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%25, %cst_5 : tensor<?x16xf32>, tensor<16xf32>) outs(%1 : tensor<?x16xf32>) {
    ^bb0(%in: f32, %in_14: f32, %out: f32):
      %32 = arith.addf %in, %in_14 : f32
      linalg.yield %32 : f32
    } -> tensor<?x16xf32>
    %27 = tensor.empty() : tensor<16x5xf32>
    %transposed_13 = linalg.transpose ins(%cst_4 : tensor<5x16xf32>) outs(%27 : tensor<16x5xf32>) permutation = [1, 0] 
    %28 = tensor.empty(%dim) : tensor<?x5xf32>
    %29 = linalg.fill ins(%cst : f32) outs(%28 : tensor<?x5xf32>) -> tensor<?x5xf32>
    %30 = linalg.matmul ins(%26, %transposed_13 : tensor<?x16xf32>, tensor<16x5xf32>) outs(%29 : tensor<?x5xf32>) -> tensor<?x5xf32>
    %31 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%30, %cst_3 : tensor<?x5xf32>, tensor<5xf32>) outs(%28 : tensor<?x5xf32>) {
    ^bb0(%in: f32, %in_14: f32, %out: f32):
      %32 = arith.addf %in, %in_14 : f32
      linalg.yield %32 : f32
    } -> tensor<?x5xf32>
    return %31 : tensor<?x5xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_5_torch.float32: "0x040000006448E43D983258BEA8B468BD6091CCBD0A59543E",
      torch_tensor_5_16_torch.float32: "0x040000007A9E1CBEA0456C3E9084233DA04B023C20B7303C28EB463D6266343E6015A6BD302399BC8A2877BEC4369E3D14AB143E68C626BD3AED7DBE60B9103CC6F5163E048695BDC04475BE805661BED482FDBD20A3AABC3AD0673E08787E3ECEB05FBE627376BE600DD6BD588FA73DD06B0B3D10C0B73C0E40323E2E9855BE809BFA3CA01710BC1C3FFBBD38A0BC3D0C267C3ED815E3BD46646A3E18540C3DE87BEBBDE0B23B3C22131DBE8055D83D2021493E9A8C5C3EB41495BDC85A4D3D2E000B3E90DE113D68A0193EE87B833D1093623EA06D6E3C88EE30BE10302D3E38A8713D2C5633BE742C49BEF6E9373E28AA8BBDFEC156BE42542C3E60C1B03D4C0B413EE420553E90E3FE3CD0ACCE3DB0900DBE4AAE3F3E60354A3D0480323E20AF41BDE0B2393DDC3B75BE00AFEDBC1C4DDA3D26FB4EBE52115CBE06DA5C3EB8E10EBE",
      torch_tensor_16_torch.float32_2: "0x0400000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
      torch_tensor_16_torch.float32_1: "0x040000000000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F",
      torch_tensor_16_torch.float32: "0x0400000004F2C03E7E2E8FBE5D8690BE8EF4283D2A39A0BE01B66CBE1AC1B4BDD329DE3CF1CD493E8FB1093E06E55FBE213E933E80B387BE57E5C03CFDAC2EBEBCE69F3D",
      torch_tensor_16_7_torch.float32: "0x0400000045ED5EBEAF02DBBC637C71BECBB5F93D690BBA3E1FE4873ED47E03BED69AC53DF13E213EC48F8BBE1B3C153EA5D8AC3E6469AE3E6EE40C3ED6A048BC397B883DFCF383BD45FDBB3D27AFE23CB4318B3E03155D3D14BEBF3E4CCA713D41E79C3D4D24B73E5BE2813E5F5B48BE9B7AAA3EF8A14D3EAC5483BD19CF91BE7BE67F3EAA1C363EE1ADBB3EB186B7BE9A3C9F3D00CB15BDA5D4ACBEC801943E41F6B03EF9E1B3BEE74F1A3E1B4E9EBDDD7D663ED16481BEB44113BE118D7B3E7CBF253EA86298BCFC36DABD370D3DBD050BE33DA71889BECF91903C4C24C03CA523C03EEA754B3EDD3FA3BD916E4A3D4564903E5E69C4BA5CEC91BE6D991E3EDB7CA03DB32DE03D9482B5BEBF1259BE4EDA0EBECAB4753E92AAD5BD33EC17BE5A7437BE128B99BE558057BECE2A373E51B5673D0B4CC13E823E553E81B84E3D03C77C3E56589ABDE639AF3EF9B886BDFC37B1BE54737FBE059FA73EED8816BE0945863E85EC8C3DFB5F63BECB818CBE0FF8113E1C663D3E4BBC253EE6DA473ED631733DE3A0F6BC484B813E6C00ADBEDA3BBFBEFD77983E8A99B23EDFA8BEBEEBAA91BD6368B6BEEBFBA2BE082BA3BEA0B858BE983A9DBE9CF5BABEAD9AB93E0124703E"
    }
  }
#-}
