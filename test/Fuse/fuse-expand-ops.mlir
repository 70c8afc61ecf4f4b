// RUN: intarsia-opt %s --target-declare-devices=targets=cpu --fuse-expand-ops | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: intarsia-opt %s --target-declare-devices=targets=cuda:sm_90a --fuse-expand-ops | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: intarsia-opt %s --target-declare-devices=targets=reference --fuse-expand-ops | FileCheck %s --check-prefixes=CHECK,REFERENCE

// What a device has no kernel for becomes loops that add up in f32; the reference has every op, and GPUs have no
// groups.
// CHECK-LABEL: func.func @main
// CPU: nn.conv
// CPU: nn.conv
// CPU-NOT: nn.pool
// CPU: linalg.generic
// CPU: arith.addf %{{.*}}, %{{.*}} : f32
// GPU: nn.conv
// GPU-NOT: nn.conv
// GPU-NOT: nn.pool
// GPU: linalg.generic
// GPU: arith.mulf %{{.*}}, %{{.*}} : f32
// REFERENCE: nn.conv
// REFERENCE: nn.conv
// REFERENCE: nn.pool
// REFERENCE-NOT: linalg.generic
func.func @main(%x: tensor<2x9x9x16xf32>, %w: tensor<32x144xf32>, %v: tensor<32x9xf32>) -> tensor<2x1x1x32xf32> {
  %0 = nn.conv %x, %w {window = array<i64: 3, 3>} : (tensor<2x9x9x16xf32>, tensor<32x144xf32>) -> tensor<2x7x7x32xf32>
  %c = nn.conv %0, %v {window = array<i64: 3, 3>, groups = 32} : (tensor<2x7x7x32xf32>, tensor<32x9xf32>) -> tensor<2x5x5x32xf32>
  %1 = nn.pool <average>, %c {window = array<i64: 5, 5>} : (tensor<2x5x5x32xf32>) -> tensor<2x1x1x32xf32>
  return %1 : tensor<2x1x1x32xf32>
}

// A sum of nothing is 0: kernels of GPUs would read the last element that an operand has.
// CHECK-LABEL: func.func @nothing
// CPU: nn.matmul
// GPU-NOT: nn.matmul
// GPU: linalg.generic
// REFERENCE: nn.matmul
func.func @nothing(%x: tensor<3x0xf32>, %y: tensor<0x7xf32>) -> tensor<3x7xf32> {
  %0 = nn.matmul %x, %y : (tensor<3x0xf32>, tensor<0x7xf32>) -> tensor<3x7xf32>
  return %0 : tensor<3x7xf32>
}

// Without integers as its weight a convolution is one of floats, behind loops that dequantize its input.
// CHECK-LABEL: func.func @dequantized
// CPU-NOT: nn.dequantize
// CPU: linalg.generic
// CPU: %[[C:.+]] = nn.conv
// CPU-NOT: linalg.generic
// CPU: return %[[C]]
// GPU-NOT: nn.dequantize
// GPU: linalg.generic
// GPU: %[[C:.+]] = nn.conv
// GPU-NOT: linalg.generic
// GPU: return %[[C]]
// REFERENCE: nn.dequantize
func.func @dequantized(%q: tensor<2x9x9x16xi8>, %s: tensor<2x9x9x1xf32>, %w: tensor<32x144xf32>) -> tensor<2x7x7x32xf32> {
  %x = nn.dequantize %q, %s {format = #nn.block_format<i8, f32, 0, axis = 3>} : (tensor<2x9x9x16xi8>, tensor<2x9x9x1xf32>) -> tensor<2x9x9x16xf32>
  %0 = nn.conv %x, %w {window = array<i64: 3, 3>} : (tensor<2x9x9x16xf32>, tensor<32x144xf32>) -> tensor<2x7x7x32xf32>
  return %0 : tensor<2x7x7x32xf32>
}

// Kernels of bytes read channels by four. With three of them a convolution is one of floats: its input is dequantized
// by loops, its weight when it is packed, and its values may lie in another order in the archive.
// CHECK-LABEL: func.func @colours
// CPU: %[[T:.*]] = linalg.transpose
// CPU: nn.dequantize %{{.*}} {format = #nn.archive_format<rows, i8, group = 0>}
// CPU-NOT: nn.quantize
// CPU-NOT: nn.replaces_input
// CPU: nn.conv
#image = #nn.block_format<i8, f32, 0, axis = 3>
#stored = #nn.archive_format<rows, i8, group = 0, kept = <i8, f32, 0, axis = 1>>
nn.archive @a {file = "model.safetensors"}
func.func @colours(%x: tensor<1x9x9x3xf32>) -> tensor<1x8x8x16xf32> {
  %w = nn.weight @a["w"] : tensor<16x3x2x2xi8>
  %s = nn.weight @a["s"] : tensor<16x1xf32>
  %e = tensor.empty() : tensor<16x2x2x3xi8>
  %t = linalg.transpose ins(%w : tensor<16x3x2x2xi8>) outs(%e : tensor<16x2x2x3xi8>) permutation = [0, 2, 3, 1]
  %m = tensor.collapse_shape %t [[0], [1, 2, 3]] : tensor<16x2x2x3xi8> into tensor<16x12xi8>
  %f = nn.dequantize %m, %s {format = #stored} : (tensor<16x12xi8>, tensor<16x1xf32>) -> tensor<16x12xf32>
  %q, %u = nn.quantize %x {format = #image, nn.replaces_input, unit_scale} : (tensor<1x9x9x3xf32>) -> (tensor<1x9x9x3xi8>, tensor<1x9x9x1xf32>)
  %d = nn.dequantize %q, %u {format = #image} : (tensor<1x9x9x3xi8>, tensor<1x9x9x1xf32>) -> tensor<1x9x9x3xf32>
  %0 = nn.conv %d, %f {window = array<i64: 2, 2>} : (tensor<1x9x9x3xf32>, tensor<16x12xf32>) -> tensor<1x8x8x16xf32>
  return %0 : tensor<1x8x8x16xf32>
}

// Loops do not need an image that holds a window: what the op needs of dynamic sizes stays as an assertion, which becomes
// a check of the call.
// CHECK-LABEL: func.func @least_sizes
// CPU-SAME: %[[X:[a-z0-9]*]]: tensor<?x?x9x16xf32>
// CPU-DAG: %[[LEAST:.*]] = arith.constant 5 : index
// CPU-DAG: %[[HEIGHT:.*]] = tensor.dim %[[X]], %c1
// CPU: %[[MET:.*]] = arith.cmpi sge, %[[HEIGHT]], %[[LEAST]] : index
// CPU: cf.assert %[[MET]], "nn.pool" {fuse.asserts_size}
// CPU-NOT: cf.assert
// REFERENCE-NOT: cf.assert
// REFERENCE: nn.pool
func.func @least_sizes(%x: tensor<?x?x9x16xf32>) -> tensor<?x?x5x16xf32> {
  %0 = nn.pool <average>, %x {window = array<i64: 5, 5>} : (tensor<?x?x9x16xf32>) -> tensor<?x?x5x16xf32>
  return %0 : tensor<?x?x5x16xf32>
}

// A row of integers with one scale is one of floats on GPUs, where kernels have scales of blocks.
// CHECK-LABEL: func.func @rows_with_one_scale
// CPU: nn.quantize
// GPU-NOT: nn.quantize
// GPU: math.roundeven
// GPU: nn.linear
func.func @rows_with_one_scale(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>) -> tensor<?x32xf32> {
  %q, %u = nn.quantize %x {format = #nn.block_format<i8, f32, 0, axis = 1>, unit_scale} : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x1xf32>)
  %d = nn.dequantize %q, %u {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x64xi8>, tensor<?x1xf32>) -> tensor<?x64xf32>
  %0 = nn.linear %d, %w : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}
