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

// A division of integers is not computed where it was not asked for.
// CHECK-LABEL: @branches
// CHECK: arith.select
// CHECK: scf.if
func.func @branches(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4xi32>
  %y:2 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>, affine_map<(a) -> (a)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xi32>) outs(%e, %e : tensor<4xi32>, tensor<4xi32>) {
  ^bb0(%v: i32, %o: i32, %p: i32):
    %is = arith.cmpi ne, %v, %zero : i32
    %a = scf.if %is -> i32 {
      %b = arith.addi %v, %v : i32
      scf.yield %b : i32
    } else {
      scf.yield %zero : i32
    }
    %c = scf.if %is -> i32 {
      %d = arith.divsi %v, %v : i32
      scf.yield %d : i32
    } else {
      scf.yield %zero : i32
    }
    linalg.yield %a, %c : i32, i32 } -> (tensor<4xi32>, tensor<4xi32>)
  return %y#0, %y#1 : tensor<4xi32>, tensor<4xi32>
}

// CHECK-LABEL: @assertion
// CHECK-NOT: cf.assert
// CHECK: return
func.func @assertion(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %is = arith.cmpi sge, %n, %c0 : index
  cf.assert %is, "a size"
  return %x : tensor<?xf32>
}

// -----

func.func @asserted(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %is = arith.cmpi eq, %n, %c3 : index
  // expected-error @below {{'cf.assert' cannot be proved before a call}}
  cf.assert %is, "a size"
  return %x : tensor<?xf32>
}

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
