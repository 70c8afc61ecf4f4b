// RUN: intarsia-opt %s --lower-nn-to-reference | FileCheck %s

// A sum for each part of each element.
// CHECK-LABEL: func.func @complex
// CHECK: linalg.generic {{.+}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %arg0
// CHECK: math.cos
// CHECK: math.sin
func.func @complex(%x: tensor<3x7x2xf32>) -> tensor<3x7x2xf32> {
  %0 = nn.fft %x {axis = 1} : (tensor<3x7x2xf32>) -> tensor<3x7x2xf32>
  return %0 : tensor<3x7x2xf32>
}
