// RUN: intarsia-opt %s --lower-nn-to-reference | FileCheck %s

// CHECK-LABEL: func.func @linear
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "parallel", "parallel"]
// CHECK-COUNT-4: tensor.extract %arg0
// CHECK-NOT: tensor.extract %arg0
// CHECK: arith.truncf %{{.+}} : f64 to f16
func.func @linear(%x: tensor<2x8x8x4xf16>, %g: tensor<2x5x5x2xf32>) -> tensor<2x5x5x4xf16> {
  %0 = nn.grid_sample <linear>, <border>, %x, %g : (tensor<2x8x8x4xf16>, tensor<2x5x5x2xf32>) -> tensor<2x5x5x4xf16>
  return %0 : tensor<2x5x5x4xf16>
}
