// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --canonicalize | FileCheck %s

// Factors of features, with and without an order of them, and scales of 1. Nothing of it is folded.
// CHECK-LABEL: func.func @factors
func.func @factors(%x: tensor<?x300xf32>, %p: tensor<300xi32>, %f: tensor<300xf32>) -> (tensor<?x300xf32>, tensor<?x300xi4>, tensor<1x2xi8>) {
  // CHECK: %[[Q:.*]], %[[S:.*]] = nn.quantize %arg0 factors %arg2 {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale} : (tensor<?x300xf32>, tensor<300xf32>) -> (tensor<?x300xi8>, tensor<?x1xf32>)
  %q, %s = nn.quantize %x factors %f {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale} : (tensor<?x300xf32>, tensor<300xf32>) -> (tensor<?x300xi8>, tensor<?x1xf32>)
  // CHECK: nn.quantize %arg0 channels %arg1 factors %arg2 {format = #nn.block_format<i4, f16, 32, axis = 1>} :
  %q1, %s1 = nn.quantize %x channels %p factors %f {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<?x300xf32>, tensor<300xi32>, tensor<300xf32>) -> (tensor<?x300xi4>, tensor<?x10xf16>)
  // CHECK: nn.quantize %{{.*}} {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale} :
  %c = arith.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %q2, %s2 = nn.quantize %c {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale} : (tensor<1x2xf32>) -> (tensor<1x2xi8>, tensor<1x1xf32>)
  // CHECK: nn.dequantize %[[Q]], %[[S]] {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale} : (tensor<?x300xi8>, tensor<?x1xf32>) -> tensor<?x300xf32>
  %d = nn.dequantize %q, %s {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale} : (tensor<?x300xi8>, tensor<?x1xf32>) -> tensor<?x300xf32>
  return %d, %q1, %q2 : tensor<?x300xf32>, tensor<?x300xi4>, tensor<1x2xi8>
}
