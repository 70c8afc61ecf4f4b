// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s --legalize-ops --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: @softmax
// CHECK-COUNT-3: linalg.generic
// CHECK-NOT: linalg.softmax
func.func @softmax(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %e = tensor.empty() : tensor<3x5xf32>
  %y = linalg.softmax dimension(0) ins(%x : tensor<3x5xf32>) outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// CHECK-LABEL: @high_half
// CHECK: %[[WIDE:.+]] = arith.muli %{{.*}}, %{{.*}} : tensor<4xi64>
// CHECK: arith.shrui %[[WIDE]]
func.func @high_half(%x: tensor<4xi32>) -> tensor<4xi32> {
  %low, %high = arith.mulsi_extended %x, %x : tensor<4xi32>
  return %high : tensor<4xi32>
}

// CHECK-LABEL: @switch
// CHECK: scf.if
// CHECK: } else {
// CHECK: scf.if
// CHECK-NOT: index_switch
func.func @switch(%x: tensor<4xf32>, %i: index) -> tensor<4xf32> {
  %y = scf.index_switch %i -> tensor<4xf32>
  case 1 {
    %a = arith.addf %x, %x : tensor<4xf32>
    scf.yield %a : tensor<4xf32>
  }
  case 3 {
    %a = arith.mulf %x, %x : tensor<4xf32>
    scf.yield %a : tensor<4xf32>
  }
  default {
    scf.yield %x : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// CHECK-LABEL: @assertion
// CHECK-NOT: cf.assert
// CHECK: return
func.func @assertion(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %is = arith.cmpi sge, %n, %c0 : index
  %n64 = arith.index_cast %n : index to i64
  %c0_i64 = arith.constant 0 : i64
  %is64 = arith.cmpi sge, %n64, %c0_i64 : i64
  cf.assert %is, "a size"
  cf.assert %is64, "a size"
  return %x : tensor<?xf32>
}

// CHECK-LABEL: @affine
// CHECK: arith.muli
// CHECK: arith.minsi
// CHECK-NOT: affine
// CHECK: return
func.func @affine(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %m = affine.min affine_map<()[s] -> (s * 2, 7)>()[%n]
  %y = tensor.extract_slice %x[0] [%m] [1] : tensor<?xf32> to tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

// A byte for each, as NumPy has them.
// CHECK-LABEL: @bools
// CHECK: arith.constant dense<{{\[\[}}true, false, false], [true, true, false]]> : tensor<2x3xi1>
func.func @bools(%x: tensor<2x3xi1>) -> tensor<2x3xi1> {
  %w = arith.constant dense_resource<w> : tensor<2x3xi1>
  %y = arith.andi %x, %w : tensor<2x3xi1>
  return %y : tensor<2x3xi1>
}
{-# dialect_resources: { builtin: { w: "0x01000000010000010100" } } #-}

// -----

func.func @short(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error @below {{the resource 'w' has 8 bytes, 'tensor<2x3xf32>' needs 24}}
  %w = arith.constant dense_resource<w> : tensor<2x3xf32>
  %y = arith.addf %x, %w : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
{-# dialect_resources: { builtin: { w: "0x040000000000803F00000040" } } #-}

// -----

func.func @missing(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error @below {{the resource 'w' of a constant is not in the file}}
  %w = arith.constant dense_resource<w> : tensor<2x3xf32>
  %y = arith.addf %x, %w : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
