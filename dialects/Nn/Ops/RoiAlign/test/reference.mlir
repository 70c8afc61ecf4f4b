// RUN: intarsia-opt %s --lower-nn-to-reference | FileCheck %s

// Points are computed once for each region.
// CHECK-LABEL: func.func @mean
// CHECK: tensor<3x14xf32>
// CHECK: tensor<3x10xf32>
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]
// CHECK-COUNT-4: tensor.extract %arg0
func.func @mean(%x: tensor<2x8x8x4xf32>, %b: tensor<3x4xf32>, %i: tensor<3xi64>) -> tensor<3x7x5x4xf32> {
  %0 = nn.roi_align %x, %b, %i {sizes = array<i64: 7, 5>, samples = 2} : (tensor<2x8x8x4xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x7x5x4xf32>
  return %0 : tensor<3x7x5x4xf32>
}
