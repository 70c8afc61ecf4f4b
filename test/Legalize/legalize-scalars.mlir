// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s --legalize-scalars | FileCheck %s

// CHECK-LABEL: @splat
// CHECK-SAME: %[[SCALAR:[a-z0-9]+]]: tensor<f32>
// CHECK: linalg.broadcast ins(%[[SCALAR]] : tensor<f32>) outs(%{{.*}} : tensor<4xf32>) dimensions = [0]
func.func @splat(%s: f32) -> tensor<4xf32> {
  %y = tensor.splat %s : tensor<4xf32>
  return %y : tensor<4xf32>
}

// An element at a known position is a slice without dimensions.
// CHECK-LABEL: @fill
// CHECK: %[[ELEMENT:.+]] = tensor.extract_slice %{{.*}}[1, 2] [1, 1] [1, 1] : tensor<4x6xf32> to tensor<f32>
// CHECK: linalg.broadcast ins(%[[ELEMENT]] : tensor<f32>)
func.func @fill(%x: tensor<4x6xf32>) -> tensor<3xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %s = tensor.extract %x[%c1, %c2] : tensor<4x6xf32>
  %e = tensor.empty() : tensor<3xf32>
  %y = linalg.fill ins(%s : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// CHECK-LABEL: @captured
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32>, %[[SCALAR:[a-z0-9]+]]: tensor<f32>
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[X]], %[[SCALAR]] : tensor<4xf32>, tensor<f32>)
// CHECK-NEXT: ^bb0(%[[V:.+]]: f32, %[[S:.+]]: f32, %{{.*}}: f32)
// CHECK-NEXT: arith.mulf %[[V]], %[[S]]
func.func @captured(%x: tensor<4xf32>, %s: f32) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.mulf %v, %s : f32
    linalg.yield %r : f32 } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// What the host decides by stays an element that it reads.
// CHECK-LABEL: @condition
// CHECK: %[[IS:.+]] = tensor.extract %{{.*}}[] : tensor<i1>
// CHECK: scf.if %[[IS]]
func.func @condition(%x: tensor<4xf32>, %is: i1) -> tensor<4xf32> {
  %y = scf.if %is -> tensor<4xf32> {
    scf.yield %x : tensor<4xf32>
  } else {
    %z = arith.addf %x, %x : tensor<4xf32>
    scf.yield %z : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// What is computed from scalars of a call is computed in tensors, and returned in one.
// CHECK-LABEL: @computed
// CHECK-SAME: %[[SCALAR:[a-z0-9]+]]: tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
// CHECK: %[[ONE:.+]] = arith.constant dense<1.000000e+00> : tensor<f32>
// CHECK: %[[SUM:.+]] = arith.addf %[[SCALAR]], %[[ONE]] : tensor<f32>
// CHECK: %[[ALL:.+]] = linalg.broadcast ins(%[[SUM]] : tensor<f32>)
// CHECK: return %{{.*}}, %[[SUM]] : tensor<4xf32>, tensor<f32>
func.func @computed(%s: f32) -> (tensor<4xf32>, f32) {
  %one = arith.constant 1.0 : f32
  %a = arith.addf %s, %one : f32
  %y = tensor.splat %a : tensor<4xf32>
  return %y, %a : tensor<4xf32>, f32
}
