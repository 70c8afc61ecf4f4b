// RUN: intarsia-opt %s --lower-nn-to-reference | FileCheck %s

// A loop over steps carries the step, the states of all steps, and both states, in f64. The second direction reads
// positions from the last one backwards.
// CHECK-LABEL: func.func @lstm
// CHECK: tensor.expand_shape %{{.*}} {{\[\[}}0], [1], [2, 3, 4]] output_shape [2, 7, 2, 4, 8] : tensor<2x7x64xf32> into tensor<2x7x2x4x8xf32>
// CHECK: scf.for %{{.*}} -> (tensor<i64>, tensor<7x2x2x8xf64>, tensor<2x2x8xf64>, tensor<2x2x8xf64>)
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
// CHECK: arith.mulf %{{.*}} : f64
// CHECK: math.tanh %{{.*}} : f64
// CHECK: scf.yield
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0], [1], [2, 3]] : tensor<2x7x2x8xf32> into tensor<2x7x16xf32>
func.func @lstm(%x: tensor<2x7x64xf32>, %r: tensor<64x8xf32>) -> (tensor<2x7x16xf32>, tensor<2x2x8xf32>, tensor<2x2x8xf32>) {
  %y, %h, %c = nn.recurrent <lstm>, <bidirectional>, %x, %r : (tensor<2x7x64xf32>, tensor<64x8xf32>) -> (tensor<2x7x16xf32>, tensor<2x2x8xf32>, tensor<2x2x8xf32>)
  return %y, %h, %c : tensor<2x7x16xf32>, tensor<2x2x8xf32>, tensor<2x2x8xf32>
}

// Lengths are at least 0 and at most the sequence.
// CHECK-LABEL: func.func @lengths
// CHECK: scf.for
// CHECK: tensor.extract
// CHECK: arith.maxsi
// CHECK: arith.minui
func.func @lengths(%x: tensor<?x?x8xf32>, %r: tensor<8x8xf32>, %n: tensor<?xi32>) -> tensor<?x?x8xf32> {
  %y, %h = nn.recurrent <rnn>, <forward>, %x, %r lengths %n : (tensor<?x?x8xf32>, tensor<8x8xf32>, tensor<?xi32>) -> (tensor<?x?x8xf32>, tensor<1x?x8xf32>)
  return %y : tensor<?x?x8xf32>
}
