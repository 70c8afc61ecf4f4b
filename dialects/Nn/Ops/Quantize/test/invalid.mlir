// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @quantize(%x: tensor<64xf32>) {
  // expected-error@+1 {{needs an attribute format = #nn.block_format<…>}}
  %c, %s = nn.quantize %x : (tensor<64xf32>) -> (tensor<64xi4>, tensor<2xf32>)
  return
}

// -----

func.func @quantize(%x: tensor<64xf32>) {
  // expected-error@+1 {{has 1 results, the format implies 2, or one more for zero points}}
  %c = nn.quantize %x {format = #nn.block_format<i4, f32, 32, axis = 0>} : (tensor<64xf32>) -> (tensor<64xi4>)
  return
}

// -----

func.func @quantize(%x: tensor<64xf32>) {
  // expected-error@+1 {{'nn.quantize' op format has axis 1, the tensor has rank 1}}
  %c, %s = nn.quantize %x {format = #nn.block_format<i4, f32, 32, axis = 1>} : (tensor<64xf32>) -> (tensor<64xi4>, tensor<2xf32>)
  return
}

// -----

func.func @quantize(%x: tensor<64xf32>) {
  // expected-error@+1 {{'nn.quantize' op element of quantized values is 'i8', the format says 'i4'}}
  %c, %s = nn.quantize %x {format = #nn.block_format<i4, f32, 32, axis = 0>} : (tensor<64xf32>) -> (tensor<64xi8>, tensor<2xf32>)
  return
}

// -----

func.func @quantize(%x: tensor<64xf32>) {
  // expected-error@+1 {{'nn.quantize' op type of scales is 'tensor<3xf32>', the format implies 'tensor<2xf32>'}}
  %c, %s = nn.quantize %x {format = #nn.block_format<i4, f32, 32, axis = 0>} : (tensor<64xf32>) -> (tensor<64xi4>, tensor<3xf32>)
  return
}

// -----

func.func @dequantize(%c: tensor<64xi4>, %s: tensor<1xf32>, %z: tensor<1xi4>) {
  // expected-error@+1 {{'nn.dequantize' op has zero points, elements nf4 have none}}
  %0 = nn.dequantize %c, %s zero_points %z {format = #nn.block_format<nf4, f32, 64, axis = 0>} : (tensor<64xi4>, tensor<1xf32>, tensor<1xi4>) -> tensor<64xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<64xi4>, %s: tensor<1xf32>, %t: tensor<f32>) {
  // expected-error@+1 {{'nn.dequantize' op has a tensor scale, the format has none}}
  %0 = nn.dequantize %c, %s tensor_scale %t {format = #nn.block_format<nf4, f32, 64, axis = 0>} : (tensor<64xi4>, tensor<1xf32>, tensor<f32>) -> tensor<64xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<64xi4>, %s: tensor<4xi8>) {
  // expected-error@+1 {{'nn.dequantize' op has no tensor scale, the format needs one}}
  %0 = nn.dequantize %c, %s {format = #nn.block_format<e2m1, e4m3, 16, axis = 0>} : (tensor<64xi4>, tensor<4xi8>) -> tensor<64xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<64xi4>, %s: tensor<4xi8>, %t: tensor<4xf32>) {
  // expected-error@+1 {{'nn.dequantize' op type of tensor scale is 'tensor<4xf32>', the format implies 'tensor<1xf32>'}}
  %0 = nn.dequantize %c, %s tensor_scale %t {format = #nn.block_format<e2m1, e4m3, 16, axis = 0>} : (tensor<64xi4>, tensor<4xi8>, tensor<4xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<3x64xi4>, %s: tensor<3x4xi8>, %t: tensor<3xf32>) {
  // expected-error@+1 {{'nn.dequantize' op type of tensor scale is 'tensor<3xf32>', the format implies 'tensor<f32>'}}
  %0 = nn.dequantize %c, %s tensor_scale %t {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<3x64xi4>, tensor<3x4xi8>, tensor<3xf32>) -> tensor<3x64xf32>
  return
}

// -----

func.func @quantize(%x: tensor<3x64xf32>) {
  // expected-error@+1 {{'nn.quantize' op type of tensor scale is 'tensor<3x4xf32>', the format implies 'tensor<3x1xf32>'}}
  %c, %s, %t = nn.quantize %x {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<3x64xf32>) -> (tensor<3x64xi4>, tensor<3x4xi8>, tensor<3x4xf32>)
  return
}

// -----

func.func @dequantize(%c: tensor<64xi4>, %s: tensor<2xf32>, %z: tensor<1xi4>) {
  // expected-error@+1 {{'nn.dequantize' op type of zero points is 'tensor<1xi4>', the format implies 'tensor<2xi4>'}}
  %0 = nn.dequantize %c, %s zero_points %z {format = #nn.block_format<i4, f32, 32, axis = 0>} : (tensor<64xi4>, tensor<2xf32>, tensor<1xi4>) -> tensor<64xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<64xi4>, %s: tensor<4xi8>, %t: tensor<f16>) {
  // expected-error@+1 {{'nn.dequantize' op element of tensor scale is 'f16', the format says 'f32'}}
  %0 = nn.dequantize %c, %s tensor_scale %t {format = #nn.block_format<e2m1, e4m3, 16, axis = 0>} : (tensor<64xi4>, tensor<4xi8>, tensor<f16>) -> tensor<64xf32>
  return
}

// -----

func.func @dequantize_blocks(%b: tensor<4x35xi8>) {
  // expected-error@+1 {{'nn.dequantize' op blocks have rows of 35 bytes, no multiple of the 34 bytes of a block of q8_0}}
  %0 = nn.dequantize %b {format = #nn.ggml_type<q8_0>} : (tensor<4x35xi8>) -> tensor<4x32xf32>
  return
}

// -----

func.func @dequantize_blocks(%b: tensor<4x34xi8>) {
  // expected-error@+1 {{'nn.dequantize' op result is 'tensor<4x34xf32>', the format implies 'tensor<4x32xf32>'}}
  %0 = nn.dequantize %b {format = #nn.ggml_type<q8_0>} : (tensor<4x34xi8>) -> tensor<4x34xf32>
  return
}

// -----

func.func @dequantize_blocks(%b: tensor<4x40xi8>) {
  // expected-error@+1 {{ggml type 'q8_1' is not one that is decoded: f32, f16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq2_xxs, iq2_xs, iq3_xxs, iq1_s, iq4_nl, iq3_s, iq2_s, iq4_xs, iq1_m, bf16, tq1_0, tq2_0, mxfp4, nvfp4}}
  %0 = nn.dequantize %b {format = #nn.ggml_type<q8_1>} : (tensor<4x40xi8>) -> tensor<4x32xf32>
  return
}

// -----

func.func @dequantize_blocks(%b: tensor<4x34xi8>) {
  // expected-error@+1 {{'nn.dequantize' op result is 'tensor<4x32xf16>', the format implies 'tensor<4x32xf32>'}}
  %0 = nn.dequantize %b {format = #nn.ggml_type<q8_0>} : (tensor<4x34xi8>) -> tensor<4x32xf16>
  return
}

// -----

func.func @dequantize_blocks(%b: tensor<4x34xi16>) {
  // expected-error@+1 {{'nn.dequantize' op blocks are 'tensor<4x34xi16>', must be rows of i8}}
  %0 = nn.dequantize %b {format = #nn.ggml_type<q8_0>} : (tensor<4x34xi16>) -> tensor<4x32xf32>
  return
}

// -----

func.func @dequantize_blocks(%b: tensor<4x34xi8>, %s: tensor<4x1xf16>) {
  // expected-error@+1 {{'nn.dequantize' op has scales, blocks of q8_0 hold theirs}}
  %0 = nn.dequantize %b, %s {format = #nn.ggml_type<q8_0>} : (tensor<4x34xi8>, tensor<4x1xf16>) -> tensor<4x32xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<4x32xi4>) {
  // expected-error@+1 {{'nn.dequantize' op has no scales, the format #nn.block_format<i4, f16, 32, axis = 1> needs them}}
  %0 = nn.dequantize %c {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<4x32xi4>) -> tensor<4x32xf32>
  return
}

// -----

func.func @dequantize(%c: tensor<4x32xi4>) {
  // expected-error@+1 {{'nn.dequantize' op attribute 'format' failed to satisfy constraint: BlockFormatAttrInterface instance}}
  %0 = nn.dequantize %c {format = "i4"} : (tensor<4x32xi4>) -> tensor<4x32xf32>
  return
}
