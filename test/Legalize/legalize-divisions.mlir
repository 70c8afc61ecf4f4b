// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s --legalize-divisions | FileCheck %s

// CHECK-LABEL: @quotient
// CHECK-SAME: %[[X:.+]]: tensor<4xi32>, %[[Y:.+]]: tensor<4xi32>
// CHECK: %[[ZERO:.+]] = arith.constant dense<0>
// CHECK: %[[ONE:.+]] = arith.constant dense<1>
// CHECK: %[[BY_ZERO:.+]] = arith.cmpi eq, %[[Y]], %[[ZERO]]
// CHECK: %[[BY_MINUS_ONE:.+]] = arith.cmpi eq, %[[Y]]
// CHECK: %[[HARMFUL:.+]] = arith.ori %[[BY_ZERO]], %[[BY_MINUS_ONE]]
// CHECK: %[[DIVISOR:.+]] = arith.select %[[HARMFUL]], %[[ONE]], %[[Y]]
// CHECK: %[[QUOTIENT:.+]] = arith.divsi %[[X]], %[[DIVISOR]]
// CHECK: %[[OF_ZERO:.+]] = arith.select %[[BY_ZERO]], %[[ZERO]], %[[QUOTIENT]]
// CHECK: %[[NEGATED:.+]] = arith.subi %[[ZERO]], %[[X]]
// CHECK: %[[RESULT:.+]] = arith.select %[[BY_MINUS_ONE]], %[[NEGATED]], %[[OF_ZERO]]
// CHECK: return %[[RESULT]]
func.func @quotient(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %z = arith.divsi %x, %y : tensor<4xi32>
  return %z : tensor<4xi32>
}

// Without a sign there is no -1. Any remainder by 1 is 0.
// CHECK-LABEL: @remainder
// CHECK: %[[BY_ZERO:.+]] = arith.cmpi eq
// CHECK-NOT: arith.ori
// CHECK: %[[DIVISOR:.+]] = arith.select %[[BY_ZERO]]
// CHECK: %[[RESULT:.+]] = arith.remui %{{.+}}, %[[DIVISOR]]
// CHECK: return %[[RESULT]]
func.func @remainder(%x: tensor<?xi8>, %y: tensor<?xi8>) -> tensor<?xi8> {
  %z = arith.remui %x, %y : tensor<?xi8>
  return %z : tensor<?xi8>
}

// CHECK-LABEL: @constants
// CHECK-NOT: arith.select
// CHECK: arith.divsi
// CHECK: arith.divui
// CHECK: return
func.func @constants(%x: tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>) {
  %c = arith.constant dense<[3, -2]> : tensor<2xi32>
  %m = arith.constant dense<-1> : tensor<2xi32>
  %y = arith.divsi %x, %c : tensor<2xi32>
  %z = arith.divui %x, %m : tensor<2xi32>
  return %y, %z : tensor<2xi32>, tensor<2xi32>
}

// CHECK-LABEL: @minus_one
// CHECK: arith.select
func.func @minus_one(%x: tensor<2xi32>) -> tensor<2xi32> {
  %c = arith.constant dense<[3, -1]> : tensor<2xi32>
  %y = arith.divsi %x, %c : tensor<2xi32>
  return %y : tensor<2xi32>
}

// Sizes are what the host computes.
// CHECK-LABEL: @sizes
// CHECK-NOT: arith.select
func.func @sizes(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %size = tensor.dim %x, %c0 : tensor<?xf32>
  %half = arith.divsi %size, %n : index
  %y = tensor.extract_slice %x[0] [%half] [1] : tensor<?xf32> to tensor<?xf32>
  return %y : tensor<?xf32>
}
