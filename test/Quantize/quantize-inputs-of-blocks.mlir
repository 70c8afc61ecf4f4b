// RUN: intarsia-opt %s --quantize-inputs-of-blocks | FileCheck %s
// RUN: intarsia-opt %s --intarsia-quantize="format=none activations=16" | FileCheck %s --check-prefix=WIDE

nn.archive @weights {file = "model.gguf"}

// WIDE-NOT: nn.quantize

// Two linears with one input quantize it once. A linear of blocks that no kernel reads, or of a matrix that is not a
// weight, reads the input as it is.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<?x64xf32>
func.func @main(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["n", ""]}, %b: tensor<8x34xi8> {nn.name = "b"})
    -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  // CHECK: %[[C:.*]], %[[S:.*]] = nn.quantize %[[X]] {format = #nn.block_format<i8, f32, 32, axis = 1>}
  // CHECK: %[[R:.*]] = nn.dequantize %[[C]], %[[S]]
  // CHECK-NOT: nn.quantize
  // CHECK: nn.linear %[[R]], %{{.*}}
  // CHECK: nn.linear %[[R]], %{{.*}}
  // CHECK: nn.linear %[[X]], %{{.*}}
  // CHECK: nn.linear %[[X]], %{{.*}}
  %q4b = nn.weight @weights["q4"] : tensor<8x36xi8>
  %q4 = nn.dequantize %q4b {format = #nn.ggml_type<q4_0>} : (tensor<8x36xi8>) -> tensor<8x64xf32>
  %mxb = nn.weight @weights["mx"] : tensor<8x34xi8>
  %mx = nn.dequantize %mxb {format = #nn.ggml_type<mxfp4>} : (tensor<8x34xi8>) -> tensor<8x64xf32>
  %q5b = nn.weight @weights["q5"] : tensor<8x44xi8>
  %q5 = nn.dequantize %q5b {format = #nn.ggml_type<q5_0>} : (tensor<8x44xi8>) -> tensor<8x64xf32>
  %cb = nn.dequantize %b {format = #nn.ggml_type<mxfp4>} : (tensor<8x34xi8>) -> tensor<8x64xf32>
  %0 = nn.linear %x, %q4 : (tensor<?x64xf32>, tensor<8x64xf32>) -> tensor<?x8xf32>
  %1 = nn.linear %x, %mx : (tensor<?x64xf32>, tensor<8x64xf32>) -> tensor<?x8xf32>
  %2 = nn.linear %x, %q5 : (tensor<?x64xf32>, tensor<8x64xf32>) -> tensor<?x8xf32>
  %3 = nn.linear %x, %cb : (tensor<?x64xf32>, tensor<8x64xf32>) -> tensor<?x8xf32>
  return %0, %1, %2, %3 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

// Blocks of the input are as long as those of the weight: one quantization for all types of 256.
// CHECK-LABEL: func.func @blocks_of_256
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<?x256xf32>
func.func @blocks_of_256(%x: tensor<?x256xf32> {nn.name = "x", nn.sizes = ["n", ""]}) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  // CHECK: nn.quantize %[[X]] {format = #nn.block_format<i8, f32, 32, axis = 1>}
  // CHECK: %[[SHORT:.*]] = nn.dequantize
  // CHECK: nn.quantize %[[X]] {format = #nn.block_format<i8, f32, 256, axis = 1>}
  // CHECK: %[[LONG:.*]] = nn.dequantize
  // CHECK: nn.linear %[[LONG]], %{{.*}}
  // CHECK: nn.linear %[[LONG]], %{{.*}}
  // CHECK: nn.linear %[[SHORT]], %{{.*}}
  %q4b = nn.weight @weights["q4_k"] : tensor<8x144xi8>
  %q4 = nn.dequantize %q4b {format = #nn.ggml_type<q4_k>} : (tensor<8x144xi8>) -> tensor<8x256xf32>
  %q6b = nn.weight @weights["q6_k"] : tensor<8x210xi8>
  %q6 = nn.dequantize %q6b {format = #nn.ggml_type<q6_k>} : (tensor<8x210xi8>) -> tensor<8x256xf32>
  %q1b = nn.weight @weights["q4_1"] : tensor<8x160xi8>
  %q1 = nn.dequantize %q1b {format = #nn.ggml_type<q4_1>} : (tensor<8x160xi8>) -> tensor<8x256xf32>
  %0 = nn.linear %x, %q4 : (tensor<?x256xf32>, tensor<8x256xf32>) -> tensor<?x8xf32>
  %1 = nn.linear %x, %q6 : (tensor<?x256xf32>, tensor<8x256xf32>) -> tensor<?x8xf32>
  %2 = nn.linear %x, %q1 : (tensor<?x256xf32>, tensor<8x256xf32>) -> tensor<?x8xf32>
  return %0, %1, %2 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

// Experts that are stored in MXFP4, moved by rows, have both activations quantized; those in blocks of two types have
// one.
// CHECK-LABEL: func.func @experts
func.func @experts(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["n", ""]}, %i: tensor<?x1xi32>, %w: tensor<?x1xf32>) -> tensor<?x64xf32> {
  // CHECK: %[[C:.*]], %[[S:.*]] = nn.quantize %arg0
  // CHECK: %[[R:.*]] = nn.dequantize %[[C]], %[[S]]
  // CHECK: nn.experts %[[R]], %{{.*}} {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>}
  // CHECK: nn.experts %arg0, %{{.*}} {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>}
  %rows_v = nn.weight @weights["b"] : tensor<2x64x64xi4>
  %rows_s = nn.weight @weights["s"] : tensor<2x64x2xi8>
  %rows = nn.dequantize %rows_v, %rows_s {format = #nn.block_format<e2m1, e8m0, 32, axis = 2>} : (tensor<2x64x64xi4>, tensor<2x64x2xi8>) -> tensor<2x64x64xbf16>
  %apart = tensor.expand_shape %rows [[0], [1, 2], [3]] output_shape [2, 32, 2, 64] : tensor<2x64x64xbf16> into tensor<2x32x2x64xbf16>
  %e = tensor.empty() : tensor<2x2x32x64xbf16>
  %gu = linalg.transpose ins(%apart : tensor<2x32x2x64xbf16>) outs(%e : tensor<2x2x32x64xbf16>) permutation = [0, 2, 1, 3]
  %d_v = nn.weight @weights["db"] : tensor<2x64x32xi4>
  %d_s = nn.weight @weights["ds"] : tensor<2x64x1xi8>
  %d = nn.dequantize %d_v, %d_s {format = #nn.block_format<e2m1, e8m0, 32, axis = 2>} : (tensor<2x64x32xi4>, tensor<2x64x1xi8>) -> tensor<2x64x32xbf16>
  %y = nn.experts %x, %i, %w, %gu, %d {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>, tensor<2x2x32x64xbf16>, tensor<2x64x32xbf16>) -> tensor<?x64xf32>
  %gb = nn.weight @weights["g"] : tensor<2x32x36xi8>
  %g = nn.dequantize %gb {format = #nn.ggml_type<q4_0>} : (tensor<2x32x36xi8>) -> tensor<2x32x64xf32>
  %ub = nn.weight @weights["u"] : tensor<2x32x68xi8>
  %u = nn.dequantize %ub {format = #nn.ggml_type<q8_0>} : (tensor<2x32x68xi8>) -> tensor<2x32x64xf32>
  %concatenated = tensor.concat dim(0) %g, %u : (tensor<2x32x64xf32>, tensor<2x32x64xf32>) -> tensor<4x32x64xf32>
  %parts = tensor.expand_shape %concatenated [[0, 1], [2], [3]] output_shape [2, 2, 32, 64] : tensor<4x32x64xf32> into tensor<2x2x32x64xf32>
  %f = tensor.empty() : tensor<2x2x32x64xf32>
  %mixed = linalg.transpose ins(%parts : tensor<2x2x32x64xf32>) outs(%f : tensor<2x2x32x64xf32>) permutation = [1, 0, 2, 3]
  %z = nn.experts %x, %i, %w, %mixed, %d {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x1xi32>, tensor<?x1xf32>, tensor<2x2x32x64xf32>, tensor<2x64x32xbf16>) -> tensor<?x64xf32>
  %sum = arith.addf %y, %z : tensor<?x64xf32>
  return %sum : tensor<?x64xf32>
}
