// RUN: intarsia-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @same
// CHECK-NEXT: return %arg0
func.func @same(%arg0: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %0 = nn.resize <cubic>, %arg0 {axes = array<i64: 1>, sizes = array<i64: 8>, shifts = array<f32: 0.5>, offsets = array<f32: -0.5>} : (tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %0 : tensor<2x8x4xf32>
}

// A part of the input in the size of all of it.
// CHECK-LABEL: func.func @zoomed
// CHECK: nn.resize
func.func @zoomed(%arg0: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %0 = nn.resize <linear>, %arg0 {axes = array<i64: 1>, sizes = array<i64: 8>, scales = array<f32: 0.5>} : (tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %0 : tensor<2x8x4xf32>
}

// CHECK-LABEL: func.func @moved
// CHECK: nn.resize
func.func @moved(%arg0: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %0 = nn.resize <linear>, %arg0 {axes = array<i64: 1>, sizes = array<i64: 8>, shifts = array<f32: 0.5>} : (tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %0 : tensor<2x8x4xf32>
}
