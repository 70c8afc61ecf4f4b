// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s --legalize-nn --split-input-file | FileCheck %s

// 90 = 9 * 10: transforms of 9, twiddle factors, transforms of 10, each a product with a matrix. The first reads real
// numbers.
// CHECK-LABEL: func.func @factors
// CHECK-NOT: nn.fft
// CHECK: nn.matmul %{{.+}}, %{{.+}} : (tensor<?x10xf32>, tensor<10x20xf32>) -> tensor<?x20xf32>
// CHECK: linalg.generic {{.+}} ins(%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} : tensor<?x9x10x2xf32>, tensor<10x9x2xf32>, tensor<?x9x10x2xf32>, tensor<10x9x2xf32>) outs(%{{.+}} : tensor<?x10x9x2xf32>)
// CHECK: nn.matmul %{{.+}}, %{{.+}} : (tensor<?x18xf32>, tensor<18x18xf32>) -> tensor<?x18xf32>
// CHECK: tensor.extract_slice %{{.+}}[0, 0, 0] [%{{.+}}, 46, 2] [1, 1, 1]
func.func @factors(%x: tensor<?x90x1xf32>) -> tensor<?x46x2xf32> {
  %0 = nn.fft %x {axis = 1, onesided} : (tensor<?x90x1xf32>) -> tensor<?x46x2xf32>
  return %0 : tensor<?x46x2xf32>
}

// -----

// A large prime is a convolution of 512 = 16 * 32 elements, forth and back.
// CHECK-LABEL: func.func @prime
// CHECK: nn.pad <constant>, %{{.+}} {high = array<i64: 0, 381, 0>, low = array<i64: 0, 0, 0>}
// CHECK-COUNT-4: nn.matmul
// CHECK-NOT: nn.matmul
func.func @prime(%x: tensor<4x131x2xf32>) -> tensor<4x131x2xf32> {
  %0 = nn.fft %x {axis = 1} : (tensor<4x131x2xf32>) -> tensor<4x131x2xf32>
  return %0 : tensor<4x131x2xf32>
}

// -----

// A dynamic number stays a sum.
// CHECK-LABEL: func.func @dynamic_fft
// CHECK: nn.fft
func.func @dynamic_fft(%x: tensor<4x?x2xf32>) -> tensor<4x?x2xf32> {
  %0 = nn.fft %x {axis = 1} : (tensor<4x?x2xf32>) -> tensor<4x?x2xf32>
  return %0 : tensor<4x?x2xf32>
}

// -----

// Runs become twice as long in each turn. The size must be one of 32 bits.
// CHECK-LABEL: func.func @sort
// CHECK: %[[SIZE:.+]] = arith.index_cast %{{.+}} : index to i32
// CHECK: %[[END:.+]] = arith.extsi %[[SIZE]] : i32 to i64
// CHECK: scf.while {{.+}} : (tensor<?xi64>, tensor<i64>, i64)
// CHECK: arith.cmpi slt, %{{.+}}, %[[END]] : i64
// CHECK-NOT: nn.sort
func.func @sort(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xi64>) {
  %0:2 = nn.sort %x {axis = 0} : (tensor<?xf32>) -> (tensor<?xf32>, tensor<?xi64>)
  return %0#0, %0#1 : tensor<?xf32>, tensor<?xi64>
}

// -----

// Sorts of a static size are kernels, along other dimensions that are dynamic too; so is the sort of nn.nms.
// CHECK-LABEL: func.func @stays
// CHECK: nn.sort %arg0 {axis = 1 : i64}
// CHECK: nn.top_k
// CHECK: nn.sort %{{.+}} {axis = 2 : i64, descending}
// CHECK: scf.while
// CHECK: nn.nonzero
// CHECK-NOT: nn.nms
func.func @stays(%x: tensor<?x8xf32>, %b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>, %n: tensor<i64>, %i: tensor<f32>)
    -> (tensor<?x8xf32>, tensor<?x3xf32>, tensor<12x3xi64>) {
  %0:2 = nn.sort %x {axis = 1} : (tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
  %1:2 = nn.top_k %x {axis = 1, k = 3} : (tensor<?x8xf32>) -> (tensor<?x3xf32>, tensor<?x3xi64>)
  %2:2 = nn.nms %b, %s, %n, %i : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<f32>) -> (tensor<12x3xi64>, tensor<i64>)
  return %0#0, %1#0, %2#0 : tensor<?x8xf32>, tensor<?x3xf32>, tensor<12x3xi64>
}

// -----

// Ops without elements stay: slices of them have no first element.
// CHECK-LABEL: func.func @empty
// CHECK: nn.sort %arg0 {axis = 2 : i64}
// CHECK: nn.fft
func.func @empty(%x: tensor<3x0x?xf16>, %y: tensor<16x4x0x1xf32>)
    -> (tensor<3x0x?xf16>, tensor<3x0x?xi64>, tensor<9x4x0x2xf32>) {
  %0:2 = nn.sort %x {axis = 2} : (tensor<3x0x?xf16>) -> (tensor<3x0x?xf16>, tensor<3x0x?xi64>)
  %1 = nn.fft %y {axis = 0, onesided} : (tensor<16x4x0x1xf32>) -> tensor<9x4x0x2xf32>
  return %0#0, %0#1, %1 : tensor<3x0x?xf16>, tensor<3x0x?xi64>, tensor<9x4x0x2xf32>
}
