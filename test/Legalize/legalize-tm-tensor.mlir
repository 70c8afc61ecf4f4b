// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s --legalize-tm-tensor --split-input-file --verify-diagnostics | FileCheck %s

// Along rows, then back.
// CHECK-LABEL: @scan
// CHECK: %[[ROWS:.+]] = linalg.transpose ins(%{{.+}} : tensor<5x3xf32>)
// CHECK: %[[SUMS:.+]] = nn.cumulate <add>, %[[ROWS]] : tensor<3x5xf32>
// CHECK: %[[Y:.+]] = linalg.transpose ins(%[[SUMS]] : tensor<3x5xf32>)
// CHECK: tensor.extract_slice %[[Y]][4, 0] [1, 3] [1, 1]
// CHECK-NOT: tm_tensor
func.func @scan(%x: tensor<5x3xf32>, %last: tensor<3xf32>) -> (tensor<5x3xf32>, tensor<3xf32>) {
  %e = tensor.empty() : tensor<5x3xf32>
  %y:2 = tm_tensor.scan dimension(0) inclusive(true) ins(%x : tensor<5x3xf32>) outs(%e, %last : tensor<5x3xf32>, tensor<3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<5x3xf32>, tensor<3xf32>
  return %y#0, %y#1 : tensor<5x3xf32>, tensor<3xf32>
}

// An exclusive one begins with what its second output holds, here a number for each row.
// CHECK-LABEL: @exclusive
// CHECK-SAME: (%[[X:.+]]: tensor<4x?xi32>, %{{.+}}, %[[START:.+]]: tensor<4xi32>)
// CHECK: %[[BEFORE:.+]] = nn.cumulate <maxsi>, %[[X]] {exclusive} : tensor<4x?xi32>
// CHECK: linalg.generic {{.+}} ins(%[[START]], %[[BEFORE]] :
// CHECK: arith.maxsi
// CHECK-NOT: tm_tensor
func.func @exclusive(%x: tensor<4x?xi32>, %e: tensor<4x?xi32>, %start: tensor<4xi32>) -> tensor<4x?xi32> {
  %y:2 = tm_tensor.scan dimension(1) inclusive(false) ins(%x : tensor<4x?xi32>) outs(%e, %start : tensor<4x?xi32>, tensor<4xi32>) {
  ^bb0(%a: i32, %b: i32):
    %s = arith.maxsi %a, %b : i32
    tm_tensor.yield %s : i32
  } -> tensor<4x?xi32>, tensor<4xi32>
  return %y#0 : tensor<4x?xi32>
}

// CHECK-LABEL: @sort
// CHECK: %{{.+}}, %[[INDICES:.+]] = nn.sort %arg0 {axis = 1 : i64, descending}
// CHECK: linalg.generic {{.+}} ins(%[[INDICES]]
// CHECK: tensor.extract %arg0{{.+}} {legalize.inside} : tensor<4x7xf32>
// CHECK: linalg.generic {{.+}} ins(%[[INDICES]]
// CHECK: tensor.extract %arg1{{.+}} {legalize.inside} : tensor<4x7xi64>
func.func @sort(%x: tensor<4x7xf32>, %i: tensor<4x7xi64>) -> (tensor<4x7xf32>, tensor<4x7xi64>) {
  %y:2 = tm_tensor.sort dimension(1) outs(%x, %i : tensor<4x7xf32>, tensor<4x7xi64>) {
  ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
    %s = arith.cmpf oge, %a, %b : f32
    tm_tensor.yield %s : i1
  } -> tensor<4x7xf32>, tensor<4x7xi64>
  return %y#0, %y#1 : tensor<4x7xf32>, tensor<4x7xi64>
}

// Without a sign the highest bit is turned over.
// CHECK-LABEL: @sort_unsigned
// CHECK: arith.constant -128 : i8
// CHECK: arith.xori
// CHECK: nn.sort %{{.+}} {axis = 0 : i64} : (tensor<?xi8>)
func.func @sort_unsigned(%x: tensor<?xi8>) -> tensor<?xi8> {
  %y = tm_tensor.sort dimension(0) outs(%x : tensor<?xi8>) {
  ^bb0(%a: i8, %b: i8):
    %s = arith.cmpi ule, %a, %b : i8
    tm_tensor.yield %s : i1
  } -> tensor<?xi8>
  return %y : tensor<?xi8>
}

// CHECK-LABEL: @scatter
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: cf.assert %{{.+}}, "index of 'tm_tensor.scatter' in dimension 0"
// CHECK-NOT: cf.assert
// CHECK: scf.if
func.func @scatter(%x: tensor<4x6xf32>, %u: tensor<3x6xf32>, %i: tensor<3x1xi64>) -> tensor<4x6xf32> {
  %y = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%u, %i : tensor<3x6xf32>, tensor<3x1xi64>) outs(%x : tensor<4x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %b, %a : f32
    tm_tensor.yield %s : f32
  } -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

func.func @dynamic(%x: tensor<?xf32>, %e: tensor<?xf32>, %last: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'tm_tensor.scan' is along a dynamic dimension, and its second result is read; read the last element of the first one}}
  %y:2 = tm_tensor.scan dimension(0) inclusive(true) ins(%x : tensor<?xf32>) outs(%e, %last : tensor<?xf32>, tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<?xf32>, tensor<f32>
  return %y#1 : tensor<f32>
}

// -----

func.func @difference(%x: tensor<5xf32>, %last: tensor<f32>) -> tensor<5xf32> {
  %e = tensor.empty() : tensor<5xf32>
  // expected-error@+1 {{'tm_tensor.scan' has a region that is no sum}}
  %y:2 = tm_tensor.scan dimension(0) inclusive(true) ins(%x : tensor<5xf32>) outs(%e, %last : tensor<5xf32>, tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.subf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<5xf32>, tensor<f32>
  return %y#0 : tensor<5xf32>
}

// -----

func.func @order(%x: tensor<5xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{'tm_tensor.sort' has a region that is no comparison of its first two arguments by size}}
  %y = tm_tensor.sort dimension(0) outs(%x : tensor<5xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.cmpf oeq, %a, %b : f32
    tm_tensor.yield %s : i1
  } -> tensor<5xf32>
  return %y : tensor<5xf32>
}
