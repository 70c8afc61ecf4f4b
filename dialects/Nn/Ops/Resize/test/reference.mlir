// RUN: intarsia-opt %s --lower-nn-to-reference | FileCheck %s

// Positions are computed once for each row of the result.
// CHECK-LABEL: func.func @nearest
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel"]
// CHECK: math.floor
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "parallel"]
// CHECK: tensor.extract %arg0
// CHECK-NOT: math.floor
func.func @nearest(%x: tensor<2x8x4xi8>) -> tensor<2x16x4xi8> {
  %0 = nn.resize <nearest>, %x {axes = array<i64: 1>, sizes = array<i64: 16>} : (tensor<2x8x4xi8>) -> tensor<2x16x4xi8>
  return %0 : tensor<2x16x4xi8>
}

// A kernel that is three elements wide is a loop, over all that it may cover; one axis comes after another in f64.
// CHECK-LABEL: func.func @antialias
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: tensor.extract %arg0
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: tensor.extract %{{.+}} : tensor<3x8x4xf64>
// CHECK: arith.truncf %{{.+}} : f64 to f16
func.func @antialias(%x: tensor<9x8x4xf16>) -> tensor<3x2x4xf16> {
  %0 = nn.resize <linear>, %x {axes = array<i64: 0, 1>, sizes = array<i64: 3, 2>, antialias} : (tensor<9x8x4xf16>) -> tensor<3x2x4xf16>
  return %0 : tensor<3x2x4xf16>
}
