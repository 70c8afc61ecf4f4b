// RUN: intarsia-opt %s -split-input-file -verify-diagnostics

func.func @length(%x: tensor<4x128xf32>, %f: tensor<127xf32>) {
  // expected-error@+1 {{'nn.quantize' op factors has 127 entries, input has 128}}
  %q, %s = nn.quantize %x factors %f {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<4x128xf32>, tensor<127xf32>) -> (tensor<4x128xi8>, tensor<4x1xf32>)
  return
}

// -----

func.func @type(%x: tensor<4x128xf32>, %f: tensor<128xf16>) {
  // expected-error@+1 {{'nn.quantize' op type of factors is 'tensor<128xf16>', must be f32 of rank 1}}
  %q, %s = nn.quantize %x factors %f {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<4x128xf32>, tensor<128xf16>) -> (tensor<4x128xi8>, tensor<4x1xf32>)
  return
}

// -----

func.func @not_finite(%x: tensor<4x2xf32>) {
  %f = arith.constant dense<[1.0, 0x7F800000]> : tensor<2xf32>
  // expected-error@+1 {{'nn.quantize' op factor of feature 1 is not finite}}
  %q, %s = nn.quantize %x factors %f {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<4x2xf32>, tensor<2xf32>) -> (tensor<4x2xi8>, tensor<4x1xf32>)
  return
}

// -----

func.func @element(%x: tensor<4x128xf32>) {
  // expected-error@+1 {{'nn.quantize' op has unit scales, which are of i8 with one scale in f32 for all features, without zero points and without blocks of 8 and of 4 bits; the format is #nn.block_format<i4, f32, 0, axis = 1>}}
  %q, %s = nn.quantize %x {format = #nn.block_format<i4, f32, 0, axis = 1>, unit_scale} : (tensor<4x128xf32>) -> (tensor<4x128xi4>, tensor<4x1xf32>)
  return
}

// -----

func.func @blocks(%x: tensor<4x256xf32>) {
  // expected-error@+1 {{has unit scales}}
  %q, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 128, axis = 1>, unit_scale, wide_blocks = 1} : (tensor<4x256xf32>) -> (tensor<4x256xi8>, tensor<4x2xf32>)
  return
}

// -----

func.func @dequantized(%q: tensor<4x128xi4>, %s: tensor<4x1xf32>) {
  // expected-error@+1 {{'nn.dequantize' op has unit scales, which are of i8 with scales in f32 and without zero points}}
  %x = nn.dequantize %q, %s {format = #nn.block_format<i4, f32, 0, axis = 1>, unit_scale} : (tensor<4x128xi4>, tensor<4x1xf32>) -> tensor<4x128xf32>
  return
}
