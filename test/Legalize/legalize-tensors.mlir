// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s --legalize-tensors | FileCheck %s

// CHECK-LABEL: @pad
// CHECK: %[[LOW:.+]] = linalg.fill {{.*}} -> tensor<2x6xf32>
// CHECK: %[[TALL:.+]] = tensor.concat dim(0) %[[LOW]], %{{.*}} : (tensor<2x6xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>
// CHECK: %[[HIGH:.+]] = linalg.fill {{.*}} -> tensor<6x3xf32>
// CHECK: tensor.concat dim(1) %[[TALL]], %[[HIGH]] : (tensor<6x6xf32>, tensor<6x3xf32>) -> tensor<6x9xf32>
func.func @pad(%x: tensor<4x6xf32>) -> tensor<6x9xf32> {
  %v = arith.constant 1.0 : f32
  %y = tensor.pad %x low[2, 0] high[0, 3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %v : f32
  } : tensor<4x6xf32> to tensor<6x9xf32>
  return %y : tensor<6x9xf32>
}

// What is read from the tensor itself is no padding with one value.
// CHECK-LABEL: @mirrored
// CHECK: tensor.pad
func.func @mirrored(%x: tensor<4xf32>) -> tensor<5xf32> {
  %y = tensor.pad %x low[0] high[1] {
  ^bb0(%i: index):
    %c3 = arith.constant 3 : index
    %v = tensor.extract %x[%c3] : tensor<4xf32>
    tensor.yield %v : f32
  } : tensor<4xf32> to tensor<5xf32>
  return %y : tensor<5xf32>
}

// CHECK-LABEL: @insert
// CHECK: %[[ROW:.+]] = tensor.expand_shape
// CHECK: %[[ABOVE:.+]] = tensor.extract_slice %{{.*}}[0, 0] [1, 6] [1, 1]
// CHECK: %[[WITHIN:.+]] = tensor.concat dim(1) %{{.*}}, %[[ROW]], %{{.*}} : (tensor<1x3xf32>, tensor<1x2xf32>, tensor<1x1xf32>)
// CHECK: %[[BELOW:.+]] = tensor.extract_slice %{{.*}}[2, 0] [2, 6] [1, 1]
// CHECK: tensor.concat dim(0) %[[ABOVE]], %[[WITHIN]], %[[BELOW]]
func.func @insert(%x: tensor<4x6xf32>, %s: tensor<2xf32>) -> tensor<4x6xf32> {
  %y = tensor.insert_slice %s into %x[1, 3] [1, 2] [1, 1] : tensor<2xf32> into tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// CHECK-LABEL: @slice_at_data
// CHECK: cf.assert %{{.+}}, "index of 'tensor.extract_slice' in dimension 0"
// CHECK: linalg.generic
// CHECK: tensor.extract %{{.+}} {legalize.inside} : tensor<4x6xf32>
func.func @slice_at_data(%x: tensor<4x6xf32>, %n: i64) -> tensor<2x6xf32> {
  %i = arith.index_cast %n : i64 to index
  %y = tensor.extract_slice %x[%i, 0] [2, 6] [1, 1] : tensor<4x6xf32> to tensor<2x6xf32>
  return %y : tensor<2x6xf32>
}

// CHECK-LABEL: @with_strides
// CHECK: linalg.generic
// CHECK: arith.cmpi ult, %{{.+}}, %[[REACH:.+]] : index
// CHECK: arith.remui
// CHECK: %[[AT:.+]] = arith.divui
// CHECK: scf.if
// CHECK: tensor.extract %{{.+}}[%[[AT]]] {legalize.inside} : tensor<2xf32>
// CHECK: else
// CHECK: tensor.extract %{{.+}} : tensor<4xf32>
func.func @with_strides(%x: tensor<4xf32>, %s: tensor<2xf32>) -> tensor<4xf32> {
  %y = tensor.insert_slice %s into %x[0] [2] [2] : tensor<2xf32> into tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK-LABEL: @gather
// CHECK: linalg.generic
// CHECK: %[[AT:.+]] = tensor.extract %{{.*}}[%{{.*}}, %{{.*}}] : tensor<3x1xindex>
// CHECK: tensor.extract %{{.*}}[%[[AT]], %{{.*}}] {legalize.written_as = "tensor.gather"} : tensor<4x6xf32>
func.func @gather(%x: tensor<4x6xf32>, %i: tensor<3x1xindex>) -> tensor<3x1x6xf32> {
  %y = tensor.gather %x[%i] gather_dims([0]) : (tensor<4x6xf32>, tensor<3x1xindex>) -> tensor<3x1x6xf32>
  return %y : tensor<3x1x6xf32>
}

// CHECK-LABEL: @elements
// CHECK: linalg.generic
// CHECK: linalg.index 0
// CHECK: arith.select
func.func @elements(%a: f32, %b: f32) -> tensor<2xf32> {
  %y = tensor.from_elements %a, %b : tensor<2xf32>
  return %y : tensor<2xf32>
}
