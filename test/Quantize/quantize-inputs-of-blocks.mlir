// RUN: intarsia-opt %s --quantize-inputs-of-blocks | FileCheck %s
// RUN: intarsia-opt %s --intarsia-quantize="format=none activations=16" | FileCheck %s --check-prefix=WIDE

nn.archive @weights {file = "model.gguf"}

// WIDE-NOT: nn.quantize

// Two products of one input round it once. One with a type that no kernel reads, or with what is no weight, reads it as
// it is.
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
  %q4 = nn.dequantize_blocks %q4b {format = #nn.ggml_type<q4_0>} : (tensor<8x36xi8>) -> tensor<8x64xf32>
  %mxb = nn.weight @weights["mx"] : tensor<8x34xi8>
  %mx = nn.dequantize_blocks %mxb {format = #nn.ggml_type<mxfp4>} : (tensor<8x34xi8>) -> tensor<8x64xf32>
  %q5b = nn.weight @weights["q5"] : tensor<8x44xi8>
  %q5 = nn.dequantize_blocks %q5b {format = #nn.ggml_type<q5_0>} : (tensor<8x44xi8>) -> tensor<8x64xf32>
  %cb = nn.dequantize_blocks %b {format = #nn.ggml_type<mxfp4>} : (tensor<8x34xi8>) -> tensor<8x64xf32>
  %0 = nn.linear %x, %q4 : (tensor<?x64xf32>, tensor<8x64xf32>) -> tensor<?x8xf32>
  %1 = nn.linear %x, %mx : (tensor<?x64xf32>, tensor<8x64xf32>) -> tensor<?x8xf32>
  %2 = nn.linear %x, %q5 : (tensor<?x64xf32>, tensor<8x64xf32>) -> tensor<?x8xf32>
  %3 = nn.linear %x, %cb : (tensor<?x64xf32>, tensor<8x64xf32>) -> tensor<?x8xf32>
  return %0, %1, %2, %3 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

// Blocks of the input are as long as those of the weight: one rounding for all types of 256.
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
  %q4 = nn.dequantize_blocks %q4b {format = #nn.ggml_type<q4_k>} : (tensor<8x144xi8>) -> tensor<8x256xf32>
  %q6b = nn.weight @weights["q6_k"] : tensor<8x210xi8>
  %q6 = nn.dequantize_blocks %q6b {format = #nn.ggml_type<q6_k>} : (tensor<8x210xi8>) -> tensor<8x256xf32>
  %q1b = nn.weight @weights["q4_1"] : tensor<8x160xi8>
  %q1 = nn.dequantize_blocks %q1b {format = #nn.ggml_type<q4_1>} : (tensor<8x160xi8>) -> tensor<8x256xf32>
  %0 = nn.linear %x, %q4 : (tensor<?x256xf32>, tensor<8x256xf32>) -> tensor<?x8xf32>
  %1 = nn.linear %x, %q6 : (tensor<?x256xf32>, tensor<8x256xf32>) -> tensor<?x8xf32>
  %2 = nn.linear %x, %q1 : (tensor<?x256xf32>, tensor<8x256xf32>) -> tensor<?x8xf32>
  return %0, %1, %2 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}
