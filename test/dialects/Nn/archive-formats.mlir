// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s

nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: @rows
func.func @rows() -> (tensor<64x64xf32>, tensor<20x64xf32>, tensor<20x64xf32>) {
  %q = nn.weight @weights["packed"] : tensor<64x8xi32>
  %s = nn.weight @weights["scale"] : tensor<64x2xf16>
  // CHECK: nn.dequantize %{{.*}}, %{{.*}} {format = #nn.archive_format<rows, u4, group = 32, zero = 8, kept = <i4, f16, 32, axis = 1>>} : (tensor<64x8xi32>, tensor<64x2xf16>) -> tensor<64x64xf32>
  %w = nn.dequantize %q, %s {format = #nn.archive_format<rows, u4, group = 32, zero = 8, kept = #nn.block_format<i4, f16, 32, axis = 1>>} : (tensor<64x8xi32>, tensor<64x2xf16>) -> tensor<64x64xf32>
  %e = nn.weight @weights["e2m1"] : tensor<20x32xi8>
  %f = nn.weight @weights["e4m3"] : tensor<20x4xf8E4M3FN>
  %g = nn.weight @weights["global"] : tensor<1xf32>
  // CHECK: nn.dequantize %{{.*}}, %{{.*}} tensor_scale %{{.*}} {format = #nn.archive_format<rows, e2m1, group = 16>}
  %n = nn.dequantize %e, %f tensor_scale %g {format = #nn.archive_format<rows, e2m1, group = 16>} : (tensor<20x32xi8>, tensor<20x4xf8E4M3FN>, tensor<1xf32>) -> tensor<20x64xf32>
  %v = nn.weight @weights["blocks"] : tensor<20x64xf8E4M3FN>
  %b = nn.weight @weights["scales of blocks"] : tensor<2x2xf32>
  // CHECK: #nn.archive_format<rows, e4m3, group = 32, rows = 16>
  %m = nn.dequantize %v, %b {format = #nn.archive_format<rows, e4m3, group = 32, rows = 16>} : (tensor<20x64xf8E4M3FN>, tensor<2x2xf32>) -> tensor<20x64xf32>
  return %w, %n, %m : tensor<64x64xf32>, tensor<20x64xf32>, tensor<20x64xf32>
}

// CHECK-LABEL: @words
func.func @words() -> (tensor<32x64xf32>, tensor<32x64xf32>) {
  %s = nn.weight @weights["scales"] : tensor<2x32xf16>
  %z = nn.weight @weights["qzeros"] : tensor<2x4xi32>
  %i = nn.weight @weights["g_idx"] : tensor<64xi32>
  %q = nn.weight @weights["gptq"] : tensor<8x32xi32>
  // CHECK: nn.dequantize %{{.*}}, %{{.*}} zero_points %{{.*}} group_indices %{{.*}} {format = #nn.archive_format<columns, u4, group = 32, zero = 1>}
  %w = nn.dequantize %q, %s zero_points %z group_indices %i {format = #nn.archive_format<columns, u4, group = 32, zero = 1>} : (tensor<8x32xi32>, tensor<2x32xf16>, tensor<2x4xi32>, tensor<64xi32>) -> tensor<32x64xf32>
  %a = nn.weight @weights["awq"] : tensor<64x4xi32>
  // CHECK: #nn.archive_format<interleaved, u4, group = 32, kept = <i5, f16, 32, axis = 1>>
  %v = nn.dequantize %a, %s zero_points %z {format = #nn.archive_format<interleaved, u4, group = 32, kept = #nn.block_format<i5, f16, 32, axis = 1>>} : (tensor<64x4xi32>, tensor<2x32xf16>, tensor<2x4xi32>) -> tensor<32x64xf32>
  return %w, %v : tensor<32x64xf32>, tensor<32x64xf32>
}
