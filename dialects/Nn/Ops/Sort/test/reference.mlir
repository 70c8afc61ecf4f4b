// RUN: intarsia-opt %s --lower-nn-to-reference | FileCheck %s

// Blocks of 256 elements are sorted by ranks and merged; of the first 300 elements runs have at most 512.
// CHECK-LABEL: func.func @merged
// CHECK: linalg.generic {{.+}} outs(%{{.+}} : tensor<2x1024xi64>)
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: tensor.collapse_shape %{{.+}} {{.+}} : tensor<2x4x256xi64> into tensor<2x1024xi64>
// CHECK: linalg.generic {{.+}} outs(%{{.+}} : tensor<2x1024xi64>)
// CHECK: linalg.generic {{.+}} outs(%{{.+}} : tensor<2x512xi64>)
// CHECK: tensor.extract_slice %{{.+}}[0, 0] [2, 300] [1, 1] : tensor<2x512xi64>
func.func @merged(%x: tensor<2x700xf16>) -> (tensor<2x300xf16>, tensor<2x300xi64>) {
  %0, %1 = nn.top_k %x {axis = 1, k = 300} : (tensor<2x700xf16>) -> (tensor<2x300xf16>, tensor<2x300xi64>)
  return %0, %1 : tensor<2x300xf16>, tensor<2x300xi64>
}

// Each is compared with all.
// CHECK-LABEL: func.func @ranks
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.cmpi slt, %{{.+}} : i64
func.func @ranks(%x: tensor<?x7xf64>) -> (tensor<?x7xf64>, tensor<?x7xi64>) {
  %0, %1 = nn.sort %x {axis = 0} : (tensor<?x7xf64>) -> (tensor<?x7xf64>, tensor<?x7xi64>)
  return %0, %1 : tensor<?x7xf64>, tensor<?x7xi64>
}
