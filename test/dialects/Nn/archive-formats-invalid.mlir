// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{archive format has elements i4, must be u4, u8, i8, e2m1, e4m3 or ternary}}
func.func private @f() attributes {a = #nn.archive_format<rows, i4, group = 32>}

// -----

// expected-error@+1 {{archive format orders columns, which is for integers without a sign, with scales of single rows}}
func.func private @f() attributes {a = #nn.archive_format<columns, e4m3, group = 0>}

// -----

// expected-error@+1 {{archive format orders interleaved, which is for u4}}
func.func private @f() attributes {a = #nn.archive_format<interleaved, u8, group = 0>}

// -----

// expected-error@+1 {{archive format has groups of -1 in 1 rows, must not be negative}}
func.func private @f() attributes {a = #nn.archive_format<rows, u4, group = -1>}

// -----

// expected-error@+1 {{archive format has a zero of 16, no integer of u4}}
func.func private @f() attributes {a = #nn.archive_format<rows, u4, group = 32, zero = 16>}

// -----

// expected-error@+1 {{archive format has groups of 48, which #nn.block_format<i4, f16, 32, axis = 1> does not keep}}
func.func private @f() attributes {a = #nn.archive_format<rows, u4, group = 48, kept = #nn.block_format<i4, f16, 32, axis = 1>>}

// -----

// expected-error@+1 {{archive format has elements e4m3, which #nn.block_format<i8, f32, 0, axis = 1> does not keep}}
func.func private @f() attributes {a = #nn.archive_format<rows, e4m3, group = 0, kept = #nn.block_format<i8, f32, 0, axis = 1>>}

// -----

nn.archive @weights {file = "model.safetensors"}
func.func @f() -> tensor<32x64xf32> {
  %q = nn.weight @weights["q"] : tensor<32x7xi32>
  %s = nn.weight @weights["s"] : tensor<32x2xf16>
  // expected-error@+1 {{'nn.dequantize' op type of quantized values is 'tensor<32x7xi32>', the format implies 'tensor<32x8xi32>'}}
  %w = nn.dequantize %q, %s {format = #nn.archive_format<rows, u4, group = 32, zero = 8>} : (tensor<32x7xi32>, tensor<32x2xf16>) -> tensor<32x64xf32>
  return %w : tensor<32x64xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}
func.func @f() -> tensor<32x60xf32> {
  %q = nn.weight @weights["q"] : tensor<32x8xi32>
  %s = nn.weight @weights["s"] : tensor<32x2xf16>
  // expected-error@+1 {{result has 60 values in a row of words, no multiple of the 8 of a word}}
  %w = nn.dequantize %q, %s {format = #nn.archive_format<rows, u4, group = 32, zero = 8>} : (tensor<32x8xi32>, tensor<32x2xf16>) -> tensor<32x60xf32>
  return %w : tensor<32x60xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}
func.func @f(%s: tensor<32x2xf16>) -> tensor<32x64xf32> {
  %q = nn.weight @weights["q"] : tensor<32x8xi32>
  // expected-error@+1 {{scales are no nn.weight}}
  %w = nn.dequantize %q, %s {format = #nn.archive_format<rows, u4, group = 32, zero = 8>} : (tensor<32x8xi32>, tensor<32x2xf16>) -> tensor<32x64xf32>
  return %w : tensor<32x64xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}
func.func @f() -> tensor<32x64xf32> {
  %q = nn.weight @weights["q"] : tensor<32x8xi32>
  %s = nn.weight @weights["s"] : tensor<32x3xf16>
  // expected-error@+1 {{scales have 96 elements, the format implies 64}}
  %w = nn.dequantize %q, %s {format = #nn.archive_format<rows, u4, group = 32, zero = 8>} : (tensor<32x8xi32>, tensor<32x3xf16>) -> tensor<32x64xf32>
  return %w : tensor<32x64xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}
func.func @f() -> tensor<32x64xf32> {
  %q = nn.weight @weights["q"] : tensor<32x32xi8>
  %s = nn.weight @weights["s"] : tensor<32x4xf8E4M3FN>
  // expected-error@+1 {{has no tensor scale, the format needs one}}
  %w = nn.dequantize %q, %s {format = #nn.archive_format<rows, e2m1, group = 16>} : (tensor<32x32xi8>, tensor<32x4xf8E4M3FN>) -> tensor<32x64xf32>
  return %w : tensor<32x64xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}
func.func @f() -> tensor<32x64xf32> {
  %q = nn.weight @weights["q"] : tensor<64x4xi32>
  %s = nn.weight @weights["s"] : tensor<2x32xf16>
  %z = nn.weight @weights["z"] : tensor<2x4xi32>
  // expected-error@+1 {{has values from -15 to 15, which #nn.block_format<i4, f16, 32, axis = 1> does not keep}}
  %w = nn.dequantize %q, %s zero_points %z {format = #nn.archive_format<interleaved, u4, group = 32, kept = #nn.block_format<i4, f16, 32, axis = 1>>} : (tensor<64x4xi32>, tensor<2x32xf16>, tensor<2x4xi32>) -> tensor<32x64xf32>
  return %w : tensor<32x64xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}
func.func @f() -> tensor<32x64xf32> {
  %q = nn.weight @weights["q"] : tensor<8x32xi32>
  %s = nn.weight @weights["s"] : tensor<2x32xf16>
  %i = nn.weight @weights["i"] : tensor<64xi32>
  // expected-error@+1 {{has group indices, which #nn.block_format<i4, f16, 32, axis = 1> does not keep}}
  %w = nn.dequantize %q, %s group_indices %i {format = #nn.archive_format<columns, u4, group = 32, zero = 8, kept = #nn.block_format<i4, f16, 32, axis = 1>>} : (tensor<8x32xi32>, tensor<2x32xf16>, tensor<64xi32>) -> tensor<32x64xf32>
  return %w : tensor<32x64xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}
func.func @f() -> tensor<4x64xf32> {
  %q = nn.weight @weights["q"] : tensor<4x64xi4>
  %s = nn.weight @weights["s"] : tensor<4x2xf16>
  %i = nn.weight @weights["i"] : tensor<64xi32>
  // expected-error@+1 {{has group indices, a block format has none}}
  %w = nn.dequantize %q, %s group_indices %i {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<4x64xi4>, tensor<4x2xf16>, tensor<64xi32>) -> tensor<4x64xf32>
  return %w : tensor<4x64xf32>
}

// -----

// expected-error@+1 {{archive format orders quarters and has elements ternary: ternary values lie in quarters or rows, have one scale (group = 0, rows = 0) and zero = 1}}
func.func private @f() attributes {a = #nn.archive_format<quarters, ternary, group = 32, zero = 1>}

// -----

// expected-error@+1 {{archive format has inverse scales, which are for ternary values}}
func.func private @f() attributes {a = #nn.archive_format<rows, i8, group = 32, inverse = true>}

// -----

nn.archive @weights {file = "model.onnx"}
func.func @f() -> tensor<32x96xf32> {
  %q = nn.weight @weights["q"] : tensor<32x12xi32>
  %s = nn.weight @weights["s"] : tensor<32x3xf32>
  %z = nn.weight @weights["z"] : tensor<32x1xi8>
  // expected-error@+1 {{type of zero points is 'tensor<32x1xi8>', the format implies 'tensor<32x2xi8>'}}
  %w = nn.dequantize %q, %s zero_points %z {format = #nn.archive_format<rows, u4, group = 32>} : (tensor<32x12xi32>, tensor<32x3xf32>, tensor<32x1xi8>) -> tensor<32x96xf32>
  return %w : tensor<32x96xf32>
}

// -----

nn.archive @weights {file = "model.onnx"}
func.func @f() -> tensor<32x64xf32> {
  %q = nn.weight @weights["q"] : tensor<32x16xi8>
  %s = nn.weight @weights["s"] : tensor<32x2xf32>
  // expected-error@+1 {{type of quantized values is 'tensor<32x16xi8>', the format implies 'tensor<32x8x2xi8>'}}
  %w = nn.dequantize %q, %s {format = #nn.archive_format<rows, u4, group = 32, zero = 2>} : (tensor<32x16xi8>, tensor<32x2xf32>) -> tensor<32x64xf32>
  return %w : tensor<32x64xf32>
}

// -----

nn.archive @weights {file = "model.onnx"}
func.func @f() -> tensor<32x64xf32> {
  %q = nn.weight @weights["q"] : tensor<32x8x2xi8>
  %s = nn.weight @weights["s"] : tensor<32x2xf32>
  %z = nn.weight @weights["z"] : tensor<4x2xi32>
  // expected-error@+1 {{zero points are 'tensor<4x2xi32>', those of 2 bits are bytes}}
  %w = nn.dequantize %q, %s zero_points %z {format = #nn.archive_format<rows, u4, group = 32>} : (tensor<32x8x2xi8>, tensor<32x2xf32>, tensor<4x2xi32>) -> tensor<32x64xf32>
  return %w : tensor<32x64xf32>
}

// -----

nn.archive @a {file = "model.safetensors"}
func.func @words_stay_what_they_are() -> tensor<16x16xf32> {
  %q = nn.weight @a["q"] : tensor<2x16xi32>
  %s = nn.weight @a["s"] : tensor<16x1xf32>
  %e = tensor.empty() : tensor<16x2xi32>
  %t = linalg.transpose ins(%q : tensor<2x16xi32>) outs(%e : tensor<16x2xi32>) permutation = [1, 0]
  // expected-error@+1 {{quantized values are no nn.weight}}
  %w = nn.dequantize %t, %s {format = #nn.archive_format<rows, u4, group = 0>} : (tensor<16x2xi32>, tensor<16x1xf32>) -> tensor<16x16xf32>
  return %w : tensor<16x16xf32>
}

// -----

nn.archive @a {file = "model.safetensors"}
func.func @scales_stay_what_they_are() -> tensor<8x32xf32> {
  %q = nn.weight @a["q"] : tensor<8x32xi8>
  %s = nn.weight @a["s"] : tensor<1x8xf32>
  %e = tensor.empty() : tensor<8x1xf32>
  %t = linalg.transpose ins(%s : tensor<1x8xf32>) outs(%e : tensor<8x1xf32>) permutation = [1, 0]
  // expected-error@+1 {{scales are no nn.weight}}
  %w = nn.dequantize %q, %t {format = #nn.archive_format<rows, i8, group = 0>} : (tensor<8x32xi8>, tensor<8x1xf32>) -> tensor<8x32xf32>
  return %w : tensor<8x32xf32>
}
