// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch 2.13.0 and torch-mlir.
#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
module {
  func.func @cell(%arg0: tensor<3x6xf32>, %arg1: tensor<3x8xf32>, %arg2: tensor<3x8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>) {
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 1.000000e+00 : f32
    %cst_1 = arith.constant dense_resource<torch_tensor_32_torch.float32_1> : tensor<32xf32>
    %cst_2 = arith.constant dense_resource<torch_tensor_32_8_torch.float32> : tensor<32x8xf32>
    %cst_3 = arith.constant dense_resource<torch_tensor_32_torch.float32> : tensor<32xf32>
    %cst_4 = arith.constant dense_resource<torch_tensor_32_6_torch.float32> : tensor<32x6xf32>
    %0 = tensor.empty() : tensor<6x32xf32>
    %transposed = linalg.transpose ins(%cst_4 : tensor<32x6xf32>) outs(%0 : tensor<6x32xf32>) permutation = [1, 0] 
    %1 = tensor.empty() : tensor<3x32xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<3x32xf32>) -> tensor<3x32xf32>
    %3 = linalg.matmul ins(%arg0, %transposed : tensor<3x6xf32>, tensor<6x32xf32>) outs(%2 : tensor<3x32xf32>) -> tensor<3x32xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%3, %cst_3 : tensor<3x32xf32>, tensor<32xf32>) outs(%1 : tensor<3x32xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %19 = arith.addf %in, %in_9 : f32
      linalg.yield %19 : f32
    } -> tensor<3x32xf32>
    %5 = tensor.empty() : tensor<8x32xf32>
    %transposed_5 = linalg.transpose ins(%cst_2 : tensor<32x8xf32>) outs(%5 : tensor<8x32xf32>) permutation = [1, 0] 
    %6 = linalg.matmul ins(%arg1, %transposed_5 : tensor<3x8xf32>, tensor<8x32xf32>) outs(%2 : tensor<3x32xf32>) -> tensor<3x32xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%6, %cst_1 : tensor<3x32xf32>, tensor<32xf32>) outs(%1 : tensor<3x32xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %19 = arith.addf %in, %in_9 : f32
      linalg.yield %19 : f32
    } -> tensor<3x32xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%4, %7 : tensor<3x32xf32>, tensor<3x32xf32>) outs(%1 : tensor<3x32xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %19 = arith.addf %in, %in_9 : f32
      linalg.yield %19 : f32
    } -> tensor<3x32xf32>
    %extracted_slice = tensor.extract_slice %8[0, 0] [3, 8] [1, 1] : tensor<3x32xf32> to tensor<3x8xf32>
    %extracted_slice_6 = tensor.extract_slice %8[0, 8] [3, 8] [1, 1] : tensor<3x32xf32> to tensor<3x8xf32>
    %extracted_slice_7 = tensor.extract_slice %8[0, 16] [3, 8] [1, 1] : tensor<3x32xf32> to tensor<3x8xf32>
    %extracted_slice_8 = tensor.extract_slice %8[0, 24] [3, 8] [1, 1] : tensor<3x32xf32> to tensor<3x8xf32>
    %9 = tensor.empty() : tensor<3x8xf32>
    %10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%extracted_slice_6 : tensor<3x8xf32>) outs(%9 : tensor<3x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %19 = arith.negf %in : f32
      %20 = math.exp %19 : f32
      %21 = arith.addf %20, %cst_0 : f32
      %22 = arith.divf %cst_0, %21 : f32
      linalg.yield %22 : f32
    } -> tensor<3x8xf32>
    %11 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%10, %arg2 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%9 : tensor<3x8xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %19 = arith.mulf %in, %in_9 : f32
      linalg.yield %19 : f32
    } -> tensor<3x8xf32>
    %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%extracted_slice : tensor<3x8xf32>) outs(%9 : tensor<3x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %19 = arith.negf %in : f32
      %20 = math.exp %19 : f32
      %21 = arith.addf %20, %cst_0 : f32
      %22 = arith.divf %cst_0, %21 : f32
      linalg.yield %22 : f32
    } -> tensor<3x8xf32>
    %13 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%extracted_slice_7 : tensor<3x8xf32>) outs(%9 : tensor<3x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %19 = math.tanh %in : f32
      linalg.yield %19 : f32
    } -> tensor<3x8xf32>
    %14 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%12, %13 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%9 : tensor<3x8xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %19 = arith.mulf %in, %in_9 : f32
      linalg.yield %19 : f32
    } -> tensor<3x8xf32>
    %15 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%11, %14 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%9 : tensor<3x8xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %19 = arith.addf %in, %in_9 : f32
      linalg.yield %19 : f32
    } -> tensor<3x8xf32>
    %16 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%extracted_slice_8 : tensor<3x8xf32>) outs(%9 : tensor<3x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %19 = arith.negf %in : f32
      %20 = math.exp %19 : f32
      %21 = arith.addf %20, %cst_0 : f32
      %22 = arith.divf %cst_0, %21 : f32
      linalg.yield %22 : f32
    } -> tensor<3x8xf32>
    %17 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<3x8xf32>) outs(%9 : tensor<3x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %19 = math.tanh %in : f32
      linalg.yield %19 : f32
    } -> tensor<3x8xf32>
    %18 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%16, %17 : tensor<3x8xf32>, tensor<3x8xf32>) outs(%9 : tensor<3x8xf32>) {
    ^bb0(%in: f32, %in_9: f32, %out: f32):
      %19 = arith.mulf %in, %in_9 : f32
      linalg.yield %19 : f32
    } -> tensor<3x8xf32>
    return %18, %15 : tensor<3x8xf32>, tensor<3x8xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_32_torch.float32_1: "0x04000000A6440A3E266B33BE96F8193E23AA78BE98A1143C4C68223E495D803CC7D64B3E62D1A6BE3EC38C3E19ADA63E541F7B3E5A70113ED81C253ECBDFA5BDAF6CB73D82D4DBBB879469BDEEE81BBEC52A9E3EB8B758BE4CA81D3E3499A23E3F97433E8B539CBEC8FEE7BD3F9C093E89AF4B3EFB3A89BE132BDE3BF41E03BE792A86BD",
      torch_tensor_32_8_torch.float32: "0x04000000B50596BC7C23AD3C846C4FBEF80B2ABEA649C6BDA924D63C6769F4BDA2580F3EAB1F283E38A79E3D9882503EE54B52BEE033FEBDF238FCBDD837C53DA0A897BD715C9CBEECBBC83D9FC2483EA02083BE19F3623E1FA4123E1B23A23EA09D8BBE37976DBE043C3D3E8FE2483E476F1ABEA12A6BBE5B68453ED504823E8CF9DABDDA875FBD7440E8BD5E3D99BEFAD1483DB3108BBEC4E522BE5D7190BEC733B3BEA0E9A23E2C46283ED2522ABE74E858BEA8030D3DFF177F3E98FD31BE3F9198BEB1476C3E47289E3E549881BEC5199ABE25C979BEDAF69C3EE7BC8FBEEFC0AFBE2F90A4BD9A8B71BE2CF5DE3DAB22F9BD39AD34BE618F69BE8AA38CBE365B47BE8DF4D2BD05488D3E73ABC2BDCAABA3BEA81C83BD32A76A3D916C9F3E649D2EBE6AB4B13E5E47ADBE280CB43D07D451BE60B1FC3D599730BEB95004BEDADA28BAAB10A13E2B61643E7CA72F3D324A34BEA5F8A63E148DBB3DA0C40ABEBB2B7A3E623E083E9F71403EDB0F63BE28D67E3DCE107ABD617EF33C7773C4BC33E5123E42EF87BEB7768EBEF93194BE2A9399BEAA3D2CBE69DE8ABD0772803E9BEAAC3D2750BCBDC5643C3E1E797E3E8F22D73D540A9E3EA6AC9DBEA8962F3E46451CBD6021DDBC4D0FD53CAC34E93CEA8B49BE8BC490BE9C9066BE5D25593E7D11463E31D28EBDAF920A3E475B6DBD3AF805BEE571A13EF99AB4BCC489263CBBF3B33EA04F57BE2EB9A4BE2AB0013E24602FBEA198B8BDA54E023CD43E513D64E3263AC944933E6DA78FBE28F2893E6280ACBE9EBF88BE39809C3E1A96603ED45082BED3F945BE409DF33D723BB3BEB70F9D3E3690143E24DC96BD9909623ED736323D20E7B3BD0E0802BE7E6BE9BD374E91BD26FFBA3D230707BE0F6A95BC7598ABBE21538B3DA96E2BBE90C734BD602082BE1D83EEBC26F3323CCB1B32BD6297CFBDD4206FBE94D4A43E0096773D465DE33DB59083BE126AB43D5EE4993CD9C4853D54D1AC3E2A0921BE80B4633EC85790BE4EABFFBC7258AA3D29D9D0BDA79DD03DB3E29F3CFE4BC6BC34D8C5BD039BAC3EC77E7B3E97E0ABBEAFD5883E8546793EEDB11E3EB640463E892CA13E8FD0163D52A09F3DE26826BE31DFC83D6919B13E95B6A53DFB5F6DBE7658D13DCD23AE3E2EDD443D317B24BE0B3838BD5B3932BC7ECD22BDD7FBA4BC8734833ED76833BE76E8743E450CF33C8432173E951386BD57BEAD3C21E3E0BCDE2644BED9F8D43D1CDAA53E7FE48FBE5AEA843E4DDD4CBE9F74A0BE8700A5BDD4E604BEF949913E15F504BE4A5BAABEB66C7E3D5B1D46BE7089323EA7BCA23E23C82E3E004EB13E195A18BED85766BEED3CB83D105A623E8B8EF13D1A33D4BDDBD3873ED7D568BEB4D8163E29A75EBEEEB30EBEB57EB03DAB02BA3D5B10363E3BF9533D0A9E5DBEF6C0053E883E87BD7E5B633E7E5DD7BD",
      torch_tensor_32_torch.float32: "0x0400000027122ABD4C38A63E43188A3E199AA7BE81EE81BEFC4C35BE02B5E4BDE087BBBE77DB5EBEACE488BDF6109BBED4CC1FBE6F8FC53E6A9250BEA80095BEAA7EA4BEAB468ABEE4006E3EB0F16BBEC89BBFBEB093713E4E4476BD0DEA95BE374C843E1DBE81BE9636C6BEBECB28BE854F20BE7B0DD8BB37D07CBCFD657FBE05BF7CBE",
      torch_tensor_32_6_torch.float32: "0x04000000617C0C3EDE788EBEA322E9BAFEA2C2BE4D15013D3C96EDBD9E4351BE5A566BBE0535C73EFFF6F43D6A21093E1B130BBE0BE019BE0F8207BE72F6233EE5FB84BEC239683EBF1D21BE4B14FD3DDF7654BD7C4C433E1BCA873E13F8D7BD465FA7BEAF149E3D555A6ABEFE47123E9573F73DA1E2F6BD983A0A3EE3FBC73E3600EB3DADEABC3D242B61BE81F267BEE158AF3EF2B81CBE144833BEC094BB3E2DA08C3E72D3B23E6950833E0E4BCDBD1A55AFBE11F5353EE331ACBD5DE12E3EA27BB7BEEB7D803D2F7C87BECC5516BE5377BFBE33E2633E4F5A8FBD21310EBEFB1504BDFA6F9FBD8E89293EE504D43D789484BECACFD03E9E757ABEC68385BD8C5D2BBEA508BD3E0697C13DF742B4BE6A13AF3EC045B33ED4815D3EF23AFEBDDD8696BD6E4EAB3EE77FB7BE39E7683E6D928B3DF2A429BD16F702BD233F3B3DC3D5B7BE2D594DBE0324CF3E0D9891BE1F8B61BD96CF92BE33F1DBBC3CFAB1BEA096F43D194DA1BE8EE138BEB218183EA2AD85BE3FB304BEAE30DCBC76E5A6BE9F61A93EADC0BD3DC7AD903E67E5033DBFEB8FBD1308C7BEC80095BE477AFDBDB61B7A3ED808AABEDB688DBEFEE5413E087EAABC6F04023D46364D3ED168053EAE88BDBEE38E12BD916081BE5E21BBBE256B793E6B7CDA3DC0ABACBD3BEE95BEDD053DBEDF9CBFBDA4768B3D6605F13D8D7D5F3AE14826BEBFAA26BD24925FBEF1C806BE77D1813E15DE18BE929EBC3E5D5DA83EAAD9A8BE92818FBE7107B83E4758BB3EF60A3FBE1099CBBEDD438B3E61E0E53C64536FBE8282A5BEDA16843D72BE6ABEE894EEBC7C54C83E26FE0D3E0CB16B3E318C3CBEA0F3F53D740A3A3E21561B3E9FB2E9BDA755F7BD4F5C073E28DA90BE7D1464BE808367BD67DC6D3E4AFABDBDEBBB263E70C193BEB1D7B1BECD7513BD19761C3E61ACC5BE380EF43D4A99C33D276184BDBA19503E8DA486BE863DD03E118315BD5AFC3ABE2DD192BC2F59C4BEF691A93E5B18B13E4BF6C93EDC1BB1BEF587AA3E482384BE7DD4C3BE9E9B9C3E1C04EDBD95EE05BDE107013D77668FBE8E0F9A3EB435B93DDE0E273D4B17913E"
    }
  }
#-}
