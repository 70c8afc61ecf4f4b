// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// The input has a border of the least number, which is never the largest of a window.
// CHECK-LABEL: func.func @largest
// CHECK-DAG: arith.constant 0xFF800000 : f32
// CHECK: tensor.concat dim(1) %{{.*}}, %arg0 : (tensor<1x1x2xf32>, tensor<1x9x2xf32>) -> tensor<1x10x2xf32>
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: arith.maximumf
func.func @largest(%x: tensor<1x9x2xf32>) -> tensor<1x4x2xf32> {
  %0 = nn.pool <max>, %x {window = array<i64: 3>, strides = array<i64: 2>, pads_low = array<i64: 1>} : (tensor<1x9x2xf32>) -> tensor<1x4x2xf32>
  return %0 : tensor<1x4x2xf32>
}

// -----

// Sums in f64, divided by how many positions are inside.
// CHECK-LABEL: func.func @mean
// CHECK: arith.addf %{{.*}}, %{{.*}} : f64
// CHECK: %[[MEAN:.*]] = arith.divf %{{.*}}, %{{.*}} : f64
// CHECK: arith.truncf %[[MEAN]] : f64 to f32
func.func @mean(%x: tensor<1x9x2xf32>) -> tensor<1x9x2xf32> {
  %0 = nn.pool <average>, %x {window = array<i64: 3>, pads_low = array<i64: 1>, pads_high = array<i64: 1>} : (tensor<1x9x2xf32>) -> tensor<1x9x2xf32>
  return %0 : tensor<1x9x2xf32>
}
