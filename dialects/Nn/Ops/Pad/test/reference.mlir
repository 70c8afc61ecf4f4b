// RUN: intarsia-opt %s --lower-nn-to-reference | FileCheck %s

// CHECK-LABEL: func.func @constant
// CHECK: tensor.extract_slice %arg0[0, 2] [2, 6] [1, 1]
// CHECK: tensor.concat dim(1)
func.func @constant(%x: tensor<2x8xi8>) -> tensor<2x9xi8> {
  %0 = nn.pad <constant>, %x {low = array<i64: 0, -2>, high = array<i64: 0, 3>} : (tensor<2x8xi8>) -> tensor<2x9xi8>
  return %0 : tensor<2x9xi8>
}

// Positions are computed once for each dimension that has more of them.
// CHECK-LABEL: func.func @reflect
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel"]
// CHECK: arith.remsi
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel"]
// CHECK-NOT: arith.remsi
// CHECK: tensor.extract %arg0
func.func @reflect(%x: tensor<2x8xi8>) -> tensor<2x13xi8> {
  %0 = nn.pad <reflect>, %x {low = array<i64: 0, 2>, high = array<i64: 0, 3>} : (tensor<2x8xi8>) -> tensor<2x13xi8>
  return %0 : tensor<2x13xi8>
}
