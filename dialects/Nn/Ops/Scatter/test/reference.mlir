// RUN: intarsia-opt %s --lower-nn-to-reference | FileCheck %s

// Sums are those of f64, rounded once.
// CHECK-LABEL: func.func @add
// CHECK: arith.extf %{{.+}} : f16 to f64
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.addf %{{.+}} : f64
// CHECK: arith.truncf %{{.+}} : f64 to f16
func.func @add(%x: tensor<4x9xf16>, %i: tensor<4x?xi64>, %u: tensor<4x?xf16>) -> tensor<4x9xf16> {
  %0 = nn.scatter <add>, %x, %i, %u {axis = 1} : (tensor<4x9xf16>, tensor<4x?xi64>, tensor<4x?xf16>) -> tensor<4x9xf16>
  return %0 : tensor<4x9xf16>
}

// Indices are compared once for each slice.
// CHECK-LABEL: func.func @set
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "reduction"]
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel"]
// CHECK: tensor.extract %arg2
func.func @set(%x: tensor<4x9xi8>, %i: tensor<3xi64>, %u: tensor<3x9xi8>) -> tensor<4x9xi8> {
  %0 = nn.scatter_nd <set>, %x[%i], %u : (tensor<4x9xi8>, tensor<3xi64>, tensor<3x9xi8>) -> tensor<4x9xi8>
  return %0 : tensor<4x9xi8>
}
