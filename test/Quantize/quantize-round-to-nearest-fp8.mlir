// RUN: intarsia-opt %s --quantize-round-to-nearest="format=fp8" | FileCheck %s
// RUN: intarsia-opt %s --quantize-round-to-nearest="format=fp8 parts=linears,lm_head=int8" | FileCheck %s --check-prefix=HEAD
// RUN: intarsia-opt %s --quantize-round-to-nearest="format=fp8 parts=linears,lm_head=int8 activations=fp8" | FileCheck %s --check-prefix=FLOATS

nn.archive @weights {file = "w.safetensors"}

// Weights get a scale for each row. Integers of 8 bits do not hold their values, so inputs stay as they are, but for
// those of the head if that has integers. Asked for, inputs get a scale for each row too; those of integers do not.
// CHECK-LABEL: func.func @step
// HEAD-LABEL: func.func @step
// FLOATS-LABEL: func.func @step
func.func @step(%x: tensor<?x64xf32>) -> (tensor<?x96xf32> {nn.name = "logits"}) {
  // CHECK: %[[Q:.*]], %[[S:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<64x64xf16>) -> (tensor<64x64xi8>, tensor<64x1xf32>)
  // CHECK: %[[W:.*]] = nn.dequantize %[[Q]], %[[S]]
  // CHECK-NOT: i8, f32
  // CHECK: nn.linear %{{.*}}, %[[W]]
  // HEAD-NOT: i8, f32
  // HEAD: nn.linear %arg0
  // FLOATS: %[[XQ:.*]], %[[XS:.*]] = nn.quantize %arg0 {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x1xf32>)
  // FLOATS: %[[X:.*]] = nn.dequantize %[[XQ]], %[[XS]]
  // FLOATS: %[[H:.*]] = nn.linear %[[X]]
  %a = nn.weight @weights["a"] : tensor<64x64xf16>
  %h = nn.linear %x, %a : (tensor<?x64xf32>, tensor<64x64xf16>) -> tensor<?x64xf32>
  // CHECK-NOT: i8, f32
  // HEAD: nn.quantize %{{.*}} {format = #nn.block_format<i8, f32, 32, axis = 1>}
  // FLOATS-NOT: nn.quantize %[[H]]
  // FLOATS: nn.linear %[[H]]
  %b = nn.weight @weights["b"] : tensor<96x64xf16>
  %l = nn.linear %h, %b : (tensor<?x64xf32>, tensor<96x64xf16>) -> tensor<?x96xf32>
  return %l : tensor<?x96xf32>
}
