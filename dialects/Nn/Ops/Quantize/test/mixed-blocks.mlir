// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// Blocks of 8 and of 4 bits, in the order of channels; either may be without the other. Nothing of it is folded.
// CHECK-LABEL: func.func @mixed
func.func @mixed(%x: tensor<?x300xf32>, %p: tensor<300xi32>) -> (tensor<?x300xf32>, tensor<?x300xf32>, tensor<?x300xi8>) {
  // CHECK: %[[Q:.*]], %[[S:.*]] = nn.quantize %arg0 channels %arg1 {format = #nn.block_format<i8, f32, 128, axis = 1>, wide_blocks = 1 : i64} : (tensor<?x300xf32>, tensor<300xi32>) -> (tensor<?x300xi8>, tensor<?x3xf32>)
  %q, %s = nn.quantize %x channels %p {format = #nn.block_format<i8, f32, 128, axis = 1>, wide_blocks = 1} : (tensor<?x300xf32>, tensor<300xi32>) -> (tensor<?x300xi8>, tensor<?x3xf32>)
  %0 = nn.dequantize %q, %s {format = #nn.block_format<i8, f32, 128, axis = 1>} : (tensor<?x300xi8>, tensor<?x3xf32>) -> tensor<?x300xf32>
  // CHECK: nn.quantize %arg0 channels %arg1 {format = #nn.block_format<i4, f16, 32, axis = 1>} :
  %q1, %s1 = nn.quantize %x channels %p {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<?x300xf32>, tensor<300xi32>) -> (tensor<?x300xi4>, tensor<?x10xf16>)
  %1 = nn.dequantize %q1, %s1 {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<?x300xi4>, tensor<?x10xf16>) -> tensor<?x300xf32>
  // CHECK: nn.quantize %arg0 {format = #nn.block_format<i8, f32, 128, axis = 1>, wide_blocks = 3 : i64} : (tensor<?x300xf32>) ->
  %q2, %s2 = nn.quantize %x {format = #nn.block_format<i8, f32, 128, axis = 1>, wide_blocks = 3} : (tensor<?x300xf32>) -> (tensor<?x300xi8>, tensor<?x3xf32>)
  return %0, %1, %q2 : tensor<?x300xf32>, tensor<?x300xf32>, tensor<?x300xi8>
}
