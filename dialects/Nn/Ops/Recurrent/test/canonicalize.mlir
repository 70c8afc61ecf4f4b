// RUN: intarsia-opt %s --canonicalize | FileCheck %s

// What is zero anyhow is not given.
// CHECK-LABEL: func.func @zeros
// CHECK-SAME: (%[[X:.*]]: tensor<1x?x32xf32>, %[[R:.*]]: tensor<32x8xf32>)
// CHECK-NOT: arith.constant
// CHECK: nn.recurrent <lstm>, <forward>, %[[X]], %[[R]] : (
func.func @zeros(%x: tensor<1x?x32xf32>, %r: tensor<32x8xf32>) -> tensor<1x?x8xf32> {
  %b = arith.constant dense<0.0> : tensor<32xf32>
  %s = arith.constant dense<0.0> : tensor<1x1x8xf32>
  %p = arith.constant dense<0.0> : tensor<24xf32>
  %y, %h, %c = nn.recurrent <lstm>, <forward>, %x, %r bias %b hidden %s cell %s peepholes %p : (tensor<1x?x32xf32>, tensor<32x8xf32>, tensor<32xf32>, tensor<1x1x8xf32>, tensor<1x1x8xf32>, tensor<24xf32>) -> (tensor<1x?x8xf32>, tensor<1x1x8xf32>, tensor<1x1x8xf32>)
  return %y : tensor<1x?x8xf32>
}

// CHECK-LABEL: func.func @others
// CHECK: nn.recurrent <rnn>, <forward>, %{{.*}}, %{{.*}} bias %{{.*}} hidden
func.func @others(%x: tensor<1x?x8xf32>, %r: tensor<8x8xf32>) -> tensor<1x?x8xf32> {
  %b = arith.constant dense<[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]> : tensor<8xf32>
  %s = arith.constant dense<1.0> : tensor<1x1x8xf32>
  %y, %h = nn.recurrent <rnn>, <forward>, %x, %r bias %b hidden %s : (tensor<1x?x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<1x1x8xf32>) -> (tensor<1x?x8xf32>, tensor<1x1x8xf32>)
  return %y : tensor<1x?x8xf32>
}
