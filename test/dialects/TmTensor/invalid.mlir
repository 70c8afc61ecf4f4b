// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

func.func @outputs(%x: tensor<5xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{has 1 inputs and 1 outputs, must have one and two}}
  %y = tm_tensor.scan dimension(0) inclusive(true) ins(%x : tensor<5xf32>) outs(%x : tensor<5xf32>) {
  ^bb0(%a: f32, %b: f32):
    tm_tensor.yield %a : f32
  } -> tensor<5xf32>
  return %y : tensor<5xf32>
}

// -----

func.func @last(%x: tensor<5x3xf32>) -> tensor<5x3xf32> {
  // expected-error@+1 {{has outputs that are not of the input's shape, and of that without its dimension}}
  %y:2 = tm_tensor.scan dimension(0) inclusive(true) ins(%x : tensor<5x3xf32>) outs(%x, %x : tensor<5x3xf32>, tensor<5x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    tm_tensor.yield %a : f32
  } -> tensor<5x3xf32>, tensor<5x3xf32>
  return %y#0 : tensor<5x3xf32>
}

// -----

func.func @dimension(%x: tensor<5xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{is along dimension 1 of 1}}
  %y = tm_tensor.sort dimension(1) outs(%x : tensor<5xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf oge, %a, %b : f32
    tm_tensor.yield %c : i1
  } -> tensor<5xf32>
  return %y : tensor<5xf32>
}

// -----

func.func @arguments(%x: tensor<5xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{has a region with other arguments than elements}}
  %y = tm_tensor.sort dimension(0) outs(%x : tensor<5xf32>) {
  ^bb0(%a: f32):
    %c = arith.constant true
    tm_tensor.yield %c : i1
  } -> tensor<5xf32>
  return %y : tensor<5xf32>
}

// -----

func.func @yields(%x: tensor<5xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{has a region that does not yield 'i1'}}
  %y = tm_tensor.sort dimension(0) outs(%x : tensor<5xf32>) {
  ^bb0(%a: f32, %b: f32):
    tm_tensor.yield %a : f32
  } -> tensor<5xf32>
  return %y : tensor<5xf32>
}

// -----

func.func @indices(%x: tensor<4x6xf32>, %u: tensor<3x6xf32>, %i: tensor<3x2xi64>) -> tensor<4x6xf32> {
  // expected-error@+1 {{has indices 'tensor<3x2xi64>', must be [count, 1] integers as dimension_map says}}
  %y = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%u, %i : tensor<3x6xf32>, tensor<3x2xi64>) outs(%x : tensor<4x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    tm_tensor.yield %a : f32
  } -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

func.func @updates(%x: tensor<4x6xf32>, %u: tensor<3xf32>, %i: tensor<3x1xi64>) -> tensor<4x6xf32> {
  // expected-error@+1 {{has updates 'tensor<3xf32>' that do not fit into 'tensor<4x6xf32>'}}
  %y = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%u, %i : tensor<3xf32>, tensor<3x1xi64>) outs(%x : tensor<4x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    tm_tensor.yield %a : f32
  } -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

func.func @count(%x: tensor<4x2xf32>, %u: tensor<5x2xf32>, %i: tensor<3x1xi64>) -> tensor<4x2xf32> {
  // expected-error@+1 {{has 5 updates and 3 indices}}
  %y = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false)
      ins(%u, %i : tensor<5x2xf32>, tensor<3x1xi64>) outs(%x : tensor<4x2xf32>) {
  ^bb0(%a: f32, %b: f32):
    tm_tensor.yield %a : f32
  } -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// -----

func.func @twice(%x: tensor<4x2xf32>, %u: tensor<3xf32>, %i: tensor<3x2xi64>) -> tensor<4x2xf32> {
  // expected-error@+1 {{has dimension 0 in dimension_map twice}}
  %y = tm_tensor.scatter {dimension_map = array<i64: 0, 0>} unique_indices(false)
      ins(%u, %i : tensor<3xf32>, tensor<3x2xi64>) outs(%x : tensor<4x2xf32>) {
  ^bb0(%a: f32, %b: f32):
    tm_tensor.yield %a : f32
  } -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// -----

func.func @large(%x: tensor<4xf32>, %u: tensor<3x6xf32>, %i: tensor<3x1xi64>) -> tensor<4xf32> {
  // expected-error@+1 {{has updates 'tensor<3x6xf32>' of slices that are larger than 'tensor<4xf32>'}}
  %y = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false)
      ins(%u, %i : tensor<3x6xf32>, tensor<3x1xi64>) outs(%x : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    tm_tensor.yield %a : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
