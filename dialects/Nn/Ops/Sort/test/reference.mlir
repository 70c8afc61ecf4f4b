// RUN: intarsia-opt %s --lower-nn-to-reference | FileCheck %s

// Runs of 1, 2 and 4 elements are merged, none longer than 4.
// CHECK-LABEL: func.func @merged
// CHECK: tensor.empty() : tensor<2x8xi32>
// CHECK: tensor.empty() : tensor<2x8xi64>
// CHECK: tensor.empty() : tensor<2x8xi64>
// CHECK: tensor.empty() : tensor<2x8xi64>
// CHECK: tensor.empty() : tensor<2x4xi64>
// CHECK: tensor.extract_slice %{{.+}}[0, 0] [2, 3] [1, 1] : tensor<2x4xi64>
// CHECK: tensor.empty() : tensor<2x3xf16>
func.func @merged(%x: tensor<2x7xf16>) -> (tensor<2x3xf16>, tensor<2x3xi64>) {
  %0, %1 = nn.top_k %x {axis = 1, k = 3} : (tensor<2x7xf16>) -> (tensor<2x3xf16>, tensor<2x3xi64>)
  return %0, %1 : tensor<2x3xf16>, tensor<2x3xi64>
}

// Each is compared with all.
// CHECK-LABEL: func.func @ranks
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.cmpi slt, %{{.+}} : i64
func.func @ranks(%x: tensor<?x7xf64>) -> (tensor<?x7xf64>, tensor<?x7xi64>) {
  %0, %1 = nn.sort %x {axis = 0} : (tensor<?x7xf64>) -> (tensor<?x7xf64>, tensor<?x7xi64>)
  return %0, %1 : tensor<?x7xf64>, tensor<?x7xi64>
}
