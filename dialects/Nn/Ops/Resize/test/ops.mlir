// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK-LABEL: func.func @resize
func.func @resize(%x: tensor<?x8x8x4xf16>, %i: tensor<3x?xi8>, %like: tensor<?xf32>) {
  // CHECK: nn.resize <linear>, %{{.+}} {antialias, axes = array<i64: 1, 2>, exclude_outside, offsets = array<f32: -5.000000e-01, -5.000000e-01>, scales = array<f32: 2.000000e+00, 4.000000e+00>, shifts = array<f32: 5.000000e-01, 5.000000e-01>, sizes = array<i64: 4, 2>} : (tensor<?x8x8x4xf16>) -> tensor<?x4x2x4xf16>
  // CHECK: nn.resize <nearest>, %{{.+}} like %{{.+}} {axes = array<i64: 1>, rounding = #nn.nearest_rounding<half_down>} : (tensor<3x?xi8>, tensor<?xf32>) -> tensor<3x?xi8>
  // CHECK: nn.resize <cubic>, %{{.+}} {axes = array<i64: 2>, coefficient = -5.000000e-01 : f32, corners, outside = 1.000000e+00 : f32, sizes = array<i64: 20>}
  %0 = nn.resize <linear>, %x {axes = array<i64: 1, 2>, sizes = array<i64: 4, 2>, scales = array<f32: 2.0, 4.0>, shifts = array<f32: 0.5, 0.5>, offsets = array<f32: -0.5, -0.5>, antialias, exclude_outside} : (tensor<?x8x8x4xf16>) -> tensor<?x4x2x4xf16>
  %1 = nn.resize <nearest>, %i like %like {axes = array<i64: 1>, rounding = #nn.nearest_rounding<half_down>} : (tensor<3x?xi8>, tensor<?xf32>) -> tensor<3x?xi8>
  %2 = nn.resize <cubic>, %x {axes = array<i64: 2>, sizes = array<i64: 20>, corners, coefficient = -0.5 : f32, outside = 1.0 : f32} : (tensor<?x8x8x4xf16>) -> tensor<?x8x20x4xf16>
  return
}
