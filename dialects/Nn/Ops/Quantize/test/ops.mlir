// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<64x128xf32>) {
  // CHECK: %[[C:.*]], %[[S:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<64x4xf16>)
  %c, %s = nn.quantize %x {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<64x4xf16>)
  // CHECK: nn.dequantize %[[C]], %[[S]] {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x128xi4>, tensor<64x4xf16>) -> tensor<64x128xf32>
  %0 = nn.dequantize %c, %s {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x128xi4>, tensor<64x4xf16>) -> tensor<64x128xf32>
  // CHECK: %[[U0:.*]], %[[U1:.*]], %[[U2:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<u4, f32, 64, axis = 0>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<1x128xf32>, tensor<1x128xi4>)
  %u:3 = nn.quantize %x {format = #nn.block_format<u4, f32, 64, axis = 0>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<1x128xf32>, tensor<1x128xi4>)
  // CHECK: nn.dequantize %[[U0]], %[[U1]] zero_points %[[U2]]
  %1 = nn.dequantize %u#0, %u#1 zero_points %u#2 {format = #nn.block_format<u4, f32, 64, axis = 0>} : (tensor<64x128xi4>, tensor<1x128xf32>, tensor<1x128xi4>) -> tensor<64x128xf32>
  // CHECK: %[[N0:.*]], %[[N1:.*]], %[[N2:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<64x8xi8>, tensor<f32>)
  %n:3 = nn.quantize %x {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<64x8xi8>, tensor<f32>)
  // CHECK: nn.dequantize %[[N0]], %[[N1]] tensor_scale %[[N2]]
  %2 = nn.dequantize %n#0, %n#1 tensor_scale %n#2 {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x128xi4>, tensor<64x8xi8>, tensor<f32>) -> tensor<64x128xf32>
  // CHECK: %[[R0:.*]], %[[R1:.*]], %[[R2:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<64x8xi8>, tensor<64x1xf32>)
  %r:3 = nn.quantize %x {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<64x8xi8>, tensor<64x1xf32>)
  // CHECK: nn.dequantize %[[R0]], %[[R1]] tensor_scale %[[R2]]
  %4 = nn.dequantize %r#0, %r#1 tensor_scale %r#2 {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x128xi4>, tensor<64x8xi8>, tensor<64x1xf32>) -> tensor<64x128xf32>
  // CHECK: %[[F:.*]], %[[G:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi8>, tensor<64x1xf32>)
  %f, %g = nn.quantize %x {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi8>, tensor<64x1xf32>)
  // CHECK: nn.dequantize %[[F]], %[[G]] {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<64x128xi8>, tensor<64x1xf32>) -> tensor<64x128xf32>
  %3 = nn.dequantize %f, %g {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<64x128xi8>, tensor<64x1xf32>) -> tensor<64x128xf32>
  return
}

nn.archive @gguf {file = "model.gguf"}
// CHECK-LABEL: func.func @ggml_blocks
func.func @ggml_blocks(%x: tensor<3x?x36xi8>) {
  // CHECK: %[[B:.*]] = nn.weight @gguf["blk.0.attn_q.weight"] : tensor<2048x1152xi8>
  %b = nn.weight @gguf["blk.0.attn_q.weight"] : tensor<2048x1152xi8>
  // CHECK: nn.dequantize %[[B]] {format = #nn.ggml_type<q4_k>} : (tensor<2048x1152xi8>) -> tensor<2048x2048xf32>
  %w = nn.dequantize %b {format = #nn.ggml_type<q4_k>} : (tensor<2048x1152xi8>) -> tensor<2048x2048xf32>
  // CHECK: %[[V:.*]] = nn.weight @gguf["values"] : tensor<4x64xi4>
  %v = nn.weight @gguf["values"] : tensor<4x64xi4>
  // CHECK: %[[S:.*]] = nn.weight @gguf["scales"] : tensor<4x2xi8>
  %s = nn.weight @gguf["scales"] : tensor<4x2xi8>
  // CHECK: nn.dequantize %[[V]], %[[S]] {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<4x64xi4>, tensor<4x2xi8>) -> tensor<4x64xbf16>
  %m = nn.dequantize %v, %s {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<4x64xi4>, tensor<4x2xi8>) -> tensor<4x64xbf16>
  // CHECK: nn.dequantize %{{.*}} {format = #nn.ggml_type<nvfp4>} : (tensor<3x?x36xi8>) -> tensor<3x?x64xf32>
  %e = nn.dequantize %x {format = #nn.ggml_type<nvfp4>} : (tensor<3x?x36xi8>) -> tensor<3x?x64xf32>
  return
}
