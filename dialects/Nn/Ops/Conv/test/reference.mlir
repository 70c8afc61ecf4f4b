// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// Windows of two positions with a stride of 3 and a dilation of 2, over channels in two groups, in f64.
// CHECK-DAG: #[[$WINDOW:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1 * 3 + d4 * 2, d2, d5)>
// CHECK-DAG: #[[$WEIGHT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d2, d3, d4, d5)>
// CHECK-LABEL: func.func @groups
// CHECK: tensor.concat dim(1) %{{.*}}, %arg0 : (tensor<1x1x8xf32>, tensor<1x10x8xf32>) -> tensor<1x11x8xf32>
// CHECK: linalg.generic {indexing_maps = [#[[$WINDOW]], #[[$WEIGHT]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f64
// CHECK: tensor.collapse_shape %{{.*}} : tensor<1x3x2x3xf32> into tensor<1x3x6xf32>
func.func @groups(%x: tensor<1x10x8xf32>, %w: tensor<6x8xf32>) -> tensor<1x3x6xf32> {
  %0 = nn.conv %x, %w {window = array<i64: 2>, strides = array<i64: 3>, dilations = array<i64: 2>, pads_low = array<i64: 1>, groups = 2} : (tensor<1x10x8xf32>, tensor<6x8xf32>) -> tensor<1x3x6xf32>
  return %0 : tensor<1x3x6xf32>
}

// -----

// A position of a transposed one reads the input where a window that begins at it reaches the position.
// CHECK-LABEL: func.func @transposed
// CHECK: arith.remui
// CHECK: arith.divui
// CHECK: tensor.extract
// CHECK: arith.select
func.func @transposed(%x: tensor<1x5x8xf32>, %w: tensor<6x24xf32>) -> tensor<1x11x6xf32> {
  %0 = nn.conv %x, %w {window = array<i64: 3>, strides = array<i64: 2>, transposed} : (tensor<1x5x8xf32>, tensor<6x24xf32>) -> tensor<1x11x6xf32>
  return %0 : tensor<1x11x6xf32>
}
