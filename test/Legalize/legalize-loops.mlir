// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s --legalize-loops | FileCheck %s

// CHECK-LABEL: @rows
// CHECK-NOT: scf.for
// CHECK: tensor.extract_slice %{{.*}}[%{{.*}}, 0] [1, 6] [1, 1]
// CHECK: %[[FIRST:.+]] = tensor.insert_slice
// CHECK: tensor.extract_slice
// CHECK: %[[SECOND:.+]] = tensor.insert_slice %{{.*}} into %[[FIRST]]
// CHECK: return %[[SECOND]]
func.func @rows(%x: tensor<2x6xf32>, %o: tensor<2x6xf32>) -> tensor<2x6xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %y = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %o) -> (tensor<2x6xf32>) {
    %s = tensor.extract_slice %x[%i, 0] [1, 6] [1, 1] : tensor<2x6xf32> to tensor<1x6xf32>
    %r = tensor.insert_slice %s into %a[%i, 0] [1, 6] [1, 1] : tensor<1x6xf32> into tensor<2x6xf32>
    scf.yield %r : tensor<2x6xf32>
  }
  return %y : tensor<2x6xf32>
}

// A loop whose counter no tensor needs runs on the host.
// CHECK-LABEL: @repeated
// CHECK: scf.for
func.func @repeated(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %y = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %x) -> (tensor<4xf32>) {
    %r = arith.addf %a, %a : tensor<4xf32>
    scf.yield %r : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// 65 iterations are too many.
// CHECK-LABEL: @long
// CHECK: scf.forall
func.func @long(%x: tensor<65xf32>) -> tensor<65xf32> {
  %e = tensor.empty() : tensor<65xf32>
  %y = scf.forall (%i) in (65) shared_outs(%o = %e) -> (tensor<65xf32>) {
    %s = tensor.extract_slice %x[%i] [1] [1] : tensor<65xf32> to tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %s into %o[%i] [1] [1] : tensor<1xf32> into tensor<65xf32>
    }
  }
  return %y : tensor<65xf32>
}

// CHECK-LABEL: @parallel
// CHECK-NOT: scf.forall
// CHECK-COUNT-4: tensor.insert_slice
func.func @parallel(%x: tensor<2x6xf32>) -> tensor<2x6xf32> {
  %e = tensor.empty() : tensor<2x6xf32>
  %y = scf.forall (%i, %j) = (0, 0) to (2, 6) step (1, 3) shared_outs(%o = %e) -> (tensor<2x6xf32>) {
    %s = tensor.extract_slice %x[%i, %j] [1, 3] [1, 1] : tensor<2x6xf32> to tensor<1x3xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %s into %o[%i, %j] [1, 3] [1, 1] : tensor<1x3xf32> into tensor<2x6xf32>
    }
  }
  return %y : tensor<2x6xf32>
}

// CHECK-LABEL: @sum
// CHECK-NOT: scf.parallel
// CHECK: %[[FIRST:.+]] = arith.addf %{{.*}}, %{{.*}} : f32
// CHECK: arith.addf %[[FIRST]]
func.func @sum(%x: tensor<2xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %y = scf.parallel (%i) = (%c0) to (%c2) step (%c1) init (%zero) -> f32 {
    %a = tensor.extract %x[%i] : tensor<2xf32>
    scf.reduce(%a : f32) {
    ^bb0(%l: f32, %q: f32):
      %s = arith.addf %l, %q : f32
      scf.reduce.return %s : f32
    }
  }
  return %y : f32
}
