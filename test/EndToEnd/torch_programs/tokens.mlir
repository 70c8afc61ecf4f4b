// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1, d2) -> (d0, d1)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d0)>
#map4 = affine_map<(d0, d1) -> (d0, d1)>
#map5 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map6 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map7 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map8 = affine_map<(d0, d1) -> (d0, 0)>
#map9 = affine_map<(d0, d1) -> (d1)>
module {
  func.func @tokens(%arg0: tensor<3x9xi64>, %arg1: tensor<3x9xi64>) -> (tensor<3x5xf32>, tensor<3xi64>) {
    %c0_i64 = arith.constant 0 : i64
    %c9 = arith.constant 9 : index
    %c30 = arith.constant 30 : index
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 0xFF800000 : f32
    %cst_1 = arith.constant dense_resource<torch_tensor_5_torch.float32> : tensor<5xf32>
    %cst_2 = arith.constant dense_resource<torch_tensor_5_12_torch.float32> : tensor<5x12xf32>
    %cst_3 = arith.constant dense_resource<torch_tensor_9_12_torch.float32> : tensor<9x12xf32>
    %cst_4 = arith.constant dense_resource<torch_tensor_30_12_torch.float32> : tensor<30x12xf32>
    %cst_5 = arith.constant 1.000000e+00 : f32
    %0 = tensor.empty() : tensor<3x9x12xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<3x9xi64>) outs(%0 : tensor<3x9x12xf32>) {
    ^bb0(%in: i64, %out: f32):
      %28 = arith.index_cast %in : i64 to index
      %29 = linalg.index 2 : index
      %30 = arith.cmpi slt, %28, %c30 : index
      cf.assert %30, "index must be smaller than dim size"
      %31 = arith.cmpi sge, %in, %c0_i64 : i64
      cf.assert %31, "index must be larger or equal to 0"
      %extracted = tensor.extract %cst_4[%28, %29] : tensor<30x12xf32>
      linalg.yield %extracted : f32
    } -> tensor<3x9x12xf32>
    %2 = tensor.empty() : tensor<9xi64>
    %3 = linalg.generic {indexing_maps = [#map2], iterator_types = ["parallel"]} outs(%2 : tensor<9xi64>) {
    ^bb0(%out: i64):
      %28 = linalg.index 0 : index
      %29 = arith.index_cast %28 : index to i64
      linalg.yield %29 : i64
    } -> tensor<9xi64>
    %4 = tensor.empty() : tensor<9x12xf32>
    %5 = linalg.generic {indexing_maps = [#map3, #map4], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<9xi64>) outs(%4 : tensor<9x12xf32>) {
    ^bb0(%in: i64, %out: f32):
      %28 = arith.index_cast %in : i64 to index
      %29 = linalg.index 1 : index
      %30 = arith.cmpi slt, %28, %c9 : index
      cf.assert %30, "index must be smaller than dim size"
      %31 = arith.cmpi sge, %in, %c0_i64 : i64
      cf.assert %31, "index must be larger or equal to 0"
      %extracted = tensor.extract %cst_3[%28, %29] : tensor<9x12xf32>
      linalg.yield %extracted : f32
    } -> tensor<9x12xf32>
    %6 = linalg.generic {indexing_maps = [#map1, #map5, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1, %5 : tensor<3x9x12xf32>, tensor<9x12xf32>) outs(%0 : tensor<3x9x12xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %28 = arith.addf %in, %in_6 : f32
      linalg.yield %28 : f32
    } -> tensor<3x9x12xf32>
    %expanded = tensor.expand_shape %arg1 [[0], [1, 2]] output_shape [3, 9, 1] : tensor<3x9xi64> into tensor<3x9x1xi64>
    %7 = tensor.empty() : tensor<3x9x1xf32>
    %8 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded : tensor<3x9x1xi64>) outs(%7 : tensor<3x9x1xf32>) {
    ^bb0(%in: i64, %out: f32):
      %28 = arith.sitofp %in : i64 to f32
      linalg.yield %28 : f32
    } -> tensor<3x9x1xf32>
    %9 = linalg.generic {indexing_maps = [#map1, #map6, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6, %8 : tensor<3x9x12xf32>, tensor<3x9x1xf32>) outs(%0 : tensor<3x9x12xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %28 = arith.mulf %in, %in_6 : f32
      linalg.yield %28 : f32
    } -> tensor<3x9x12xf32>
    %10 = tensor.empty() : tensor<3x12xf32>
    %11 = linalg.fill ins(%cst : f32) outs(%10 : tensor<3x12xf32>) -> tensor<3x12xf32>
    %12 = linalg.generic {indexing_maps = [#map1, #map7], iterator_types = ["parallel", "reduction", "parallel"]} ins(%9 : tensor<3x9x12xf32>) outs(%11 : tensor<3x12xf32>) {
    ^bb0(%in: f32, %out: f32):
      %28 = arith.addf %in, %out : f32
      linalg.yield %28 : f32
    } -> tensor<3x12xf32>
    %13 = tensor.empty() : tensor<3x1xf32>
    %14 = linalg.fill ins(%cst : f32) outs(%13 : tensor<3x1xf32>) -> tensor<3x1xf32>
    %15 = linalg.generic {indexing_maps = [#map1, #map7], iterator_types = ["parallel", "reduction", "parallel"]} ins(%8 : tensor<3x9x1xf32>) outs(%14 : tensor<3x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %28 = arith.addf %in, %out : f32
      linalg.yield %28 : f32
    } -> tensor<3x1xf32>
    %16 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<3x1xf32>) outs(%13 : tensor<3x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %28 = arith.cmpf ult, %in, %cst_5 : f32
      %29 = arith.select %28, %cst_5, %in : f32
      linalg.yield %29 : f32
    } -> tensor<3x1xf32>
    %17 = linalg.generic {indexing_maps = [#map4, #map8, #map4], iterator_types = ["parallel", "parallel"]} ins(%12, %16 : tensor<3x12xf32>, tensor<3x1xf32>) outs(%10 : tensor<3x12xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %28 = arith.divf %in, %in_6 : f32
      linalg.yield %28 : f32
    } -> tensor<3x12xf32>
    %18 = tensor.empty() : tensor<12x5xf32>
    %transposed = linalg.transpose ins(%cst_2 : tensor<5x12xf32>) outs(%18 : tensor<12x5xf32>) permutation = [1, 0] 
    %19 = tensor.empty() : tensor<3x5xf32>
    %20 = linalg.fill ins(%cst : f32) outs(%19 : tensor<3x5xf32>) -> tensor<3x5xf32>
    %21 = linalg.matmul ins(%17, %transposed : tensor<3x12xf32>, tensor<12x5xf32>) outs(%20 : tensor<3x5xf32>) -> tensor<3x5xf32>
    %22 = linalg.generic {indexing_maps = [#map4, #map9, #map4], iterator_types = ["parallel", "parallel"]} ins(%21, %cst_1 : tensor<3x5xf32>, tensor<5xf32>) outs(%19 : tensor<3x5xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %28 = arith.addf %in, %in_6 : f32
      linalg.yield %28 : f32
    } -> tensor<3x5xf32>
    %23 = tensor.empty() : tensor<3xi64>
    %24 = linalg.fill ins(%c0_i64 : i64) outs(%23 : tensor<3xi64>) -> tensor<3xi64>
    %25 = tensor.empty() : tensor<3xf32>
    %26 = linalg.fill ins(%cst_0 : f32) outs(%25 : tensor<3xf32>) -> tensor<3xf32>
    %27:2 = linalg.generic {indexing_maps = [#map4, #map3, #map3], iterator_types = ["parallel", "reduction"]} ins(%22 : tensor<3x5xf32>) outs(%26, %24 : tensor<3xf32>, tensor<3xi64>) {
    ^bb0(%in: f32, %out: f32, %out_6: i64):
      %28 = linalg.index 1 : index
      %29 = arith.index_cast %28 : index to i64
      %30 = arith.maximumf %in, %out : f32
      %31 = arith.cmpf ogt, %in, %out : f32
      %32 = arith.select %31, %29, %out_6 : i64
      linalg.yield %30, %32 : f32, i64
    } -> (tensor<3xf32>, tensor<3xi64>)
    return %22, %27#1 : tensor<3x5xf32>, tensor<3xi64>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_5_torch.float32: "0x040000003A699E3C9CB6D03DAC4E8CBEBC0C893EB63ACA3C",
      torch_tensor_5_12_torch.float32: "0x04000000427C8DBECF914A3EB9102B3EF7616ABEEEDC893E7EF28B3E4146FCBD93D2683EBE2A263EC1B675BED46A32BEDE8C0EBD8BD6853E3627A13C0741E9BD57B355BE74AF93BE63E1EBBDD0A6763E5C6D8DBE1FEC7FBCFE025D3E06CF8BBC08C82DBE807EB93DDA56E03D106A68BE30803A3E7DE4B33DA249913E394A93BEF4955CBEF87F2A3DD0148FBEAF048CBE178D7C3DBC74913EEF86523EC454053D5269BC3DE72A88BE6B2712BEFE50343D6EB4D5BD5C4C433EDB555C3E4740F33DD37E8D3E797AE53CB230583E36DEE93CE82B92BE7574AC3DEBA9AB3D55AF543E5FBFC73DDD2D98BB352CB8BDFA219DBDE36D243E",
      torch_tensor_9_12_torch.float32: "0x04000000B26FA73F9997083FB32F89BFF43008C00061CF3FB0CF71BFF4FFFA3EEA7B523F852673BFEF0E11405BDB613FF3A6C03F7FD239BF161D3ABF2C15BD3F9EC5BABE0C83BE3C07F50FC003AC303FB9D725BFE986FB3E92E3523FEC9C2D3F39E219BF5B8854BD61C5373F09D20E4099E1A03F25CD773F3BE2A13F2096603F25C7AFBFA31413BEA6261CBFDF28493A57F630BF14E970BF2D37473E9753B13F9AA54EBE4F7CB3BE118690BFECDEC0BE4AF9A33FCF64693F22F0953F5744523FDADD483F92FCAD3FF0BA37401A37913F0E32FB3FA9CBC53D9E760340222CB6BE4274973E240D1DC025077EBF8973C43FF5D6D8BFD0B6D7BF889D2ABF7B4B043F795B07BF52078A3FCE7F15C0494ECCBD44312ABFA9C496BFF22D0EBE762FEDBE26F0B2BF1F0776BF2BF92BBF5A235CBF083203BF8DC0ADBF17C75FBF10C19ABF829A26BFC98372BF656A4B3FD5C1D5BF202268BF8E2C9DBF3E3D00BF015AC93D4DFB5A3F8925E93E92FB8BBEC32B913F51E2EA3E5EDF4BBFC1D1873F9AF20DBF812CA6BF6C5CA33FBC6746BA1EF83C3E04DC133FDFB42BBE4076A73E52DBAEBEFAC267BE07D74BBD38B05B3F7172B33E7EDB1C3E",
      torch_tensor_30_12_torch.float32: "0x040000008918313FBA178ABF1139753E1F85423EE574BABFCAFDB63D47ECA0BE3F0DF53F1B611D4056D24A3EF1FF2EBF1092B43F551C943EDD76023F1199F6BF9C178E3B0AFEFFBF98984D3FAC321C405331AABEC8CD0C3F5603B6BFCFA16CBE2A25AE3EDFF8563ECF7C873FC785CA3FD3C1A8BF38B9273FE4D9023EA1DDEFBF94825EBFE14398BEE1FA9FBF76EBA03F8F8DC2BF8505B6BE8919D5BDBEA5873EAA63E03FF1CFE3BDCA7FBB3F2B68993FA3194BC0B5728F3F8714BDBF68056A3CA878A53F8C410BC0DC7D0440C97369BF5FE60E4016C27BBE19B3513D2BAECC3F74C22E3F78878BBFA5075F3E6DC0993FED6F92BF8B74CEBFE6B795BE8E5C87BF4C6A2BBF3D339CBF60542DBFA3AF97BF19E7B0BF05501BBCA46AE0BFC1CFF6BF0D025E3FE8917E3FD932DE3FFBAEB23F1427B1BD8CB4E63E73E6C03E82415BBF3A41D9BE84B6E1BEC8AEAB3EBBB6CBBEDA111D40F288AF3DAE9E9FBF1249CDBF0228803F72337CBFA2EE81BF7DD8FBBE7632EC3E723DC23E2F690A4032A120BF861BEC3E607AEA3F0D6D79BF588758BF5F7A72BEA08F033FCDA43FBF353CDE3FC92E943ED899EE3FFCC9AC3F9FA1363FC0348D3FC79F623FE92986C09F1945BECA0D10BF25507EBF525CB23E0BAD8D3ECD2E0ABE82180DBFE007843FCA31BDBEA0D19ABEBBD417BE1EC5843E87AF0CBF1359A4BF60CE9FBF8901273FDBD7BBBEC3D816BF24C270BF5C2D79BE4C3C0F3EB2D68F3F1756A43FC97915BCBCD5FC3E2EB2B53FECB4903E6230FD3DD7AB9FBF8590A93EC68D19BD6443F0BEA3FF233E0C74D6BF8EB9BABEF668BDBFC728893F72983E3FD1E80CBFAC1EA1BE96EA92BFCF1631C05196133F50B5BD3DBAE8803F9877AFBD36CEA7BCF9BB75BF02297DBEE3D8AC3F6E768D3EF5C5563F330495BF877EFC3E6E4AB7BF8BEA313FBD37ADBE1FF5813FDA75813F945A7C3F62BF683EFF8E8C3FD7AAB43FB9D1A5BF6DD00FC0272ECB3D3BA1043FD19F923FBE028DBEBC0F193B7C9A1E3FBA29DD3DE8D8B43F8DE4B2BFBFB5463E1925BF3FE59048BFE35C533EB0EF8B3FA0163C3E2B081CBF970FACBF5289043FEDA341C0A08568BF6E2EC93E47E6A9BFB28F2F3D2E8E3CBEB96BB13F81D5513F24B95F3F1DC40BBF06E3243E524C0EBF6E0C023E8D23C73D2AB42CBFBFCA7A3F4809623E0B5EE9BE37B8803FA020083E663F4F3FCE89A0BEBD0881BF42E6BEBF24C52C3FFBDBD8BFB7F09FBF94F477BD2EF54DBFE3642BBCD3ABE23C89BD05403E7429BF7CAEB43FC506D03F2DAC22BFF371943E9C7073BE12EF503ECF1DF4BEBC7C1C3F42AD10BFB5070DBFD4795EBFA490D43F4E5D36BF21A6743FE1C95A3F0B2236BFABA4A0BEE6188A3C1FA0D03FB6397A3F5AC4503FA18C09BF19BC743FD14E77BDA24CAEBF830741BFA4435EBFEBFABD3F36DC443F6391DD3EF2F7CB3FFA17A5BF38246FBFC70D2ABF42B32CBFA8C21CBFA26FA9BF473A4AC0D76DF23FB110733EED75B83FF3F3833F95C8C4BF6B7DD9BFC4760D401616EC3EF575803F669AB43EF1F9273D5867693F521A9CBE46A7E63E66ADFE3F75CC8B3F4F64303FB5965B3F54C907C03BAECDBDDD38F93F95C2973E708E333F382F85BF1377873E78AFA43E5E38C03EB75875BE8BB6CA3ECDF235BF3139893E0C2233C0BAC9E93FEC07F63E6CF7503F79E8B13F3D4E343F0E478B3F7FD0AE3E73F382BFC2A0B63D8931093EEDDE49BFCFD72F3F472A633FE5249D3F1E2377BF005629BFEDA89EBF98C84EBF40AB343E348190BE6890DA3FF0C3E2BE8A6A02BE32E5A93F3F73AF3E011A8CBF25A398BE373CA23EB40067BE36FD4C3D761BF53EBF0705BE5C87973E3521983F803466BF75DB6ABECBF9EABE9651A93FF6831F3E38968C3FAC2AFC3EAE9C0B3F6105D0BE14CB33BE9C5997BEEFED04BF2E1FDEBD95AC4ABE45D8723F390D6BBFAC5C7FBE758C3EBFAD1213BFD8723EBDBA9ECF3C77962CBF2E09C7BFB8C65D3FB73C2FBEB8ECFB3F2D6609BFFA09043DA8646C3E065289BE"
    }
  }
#-}
