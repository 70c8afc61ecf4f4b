// RUN: intarsia-opt %s --lower-nn-to-reference | FileCheck %s

// Blocks of 1024 are counted beside each other, then their counts are added up. Each row searches for its block and in
// it, by two and by ten halvings.
// CHECK-LABEL: func.func @blocks
// CHECK: tensor.empty() : tensor<3x1024xi32>
// CHECK: tensor.extract %arg0
// CHECK: tensor<3xi64>
// CHECK: tensor.empty() : tensor<3000xi64>
// CHECK-COUNT-14: tensor.extract
// CHECK-NOT: tensor.extract
// CHECK: tensor.empty() : tensor<3000x1xi64>
func.func @blocks(%x: tensor<3000xf32>) -> (tensor<3000x1xi64>, tensor<i64>) {
  %0:2 = nn.nonzero %x : (tensor<3000xf32>) -> (tensor<3000x1xi64>, tensor<i64>)
  return %0#0, %0#1 : tensor<3000x1xi64>, tensor<i64>
}

// CHECK-LABEL: func.func @none
// CHECK-NOT: tensor.extract
func.func @none(%x: tensor<4x0xf32>) -> (tensor<0x2xi64>, tensor<i64>) {
  %0:2 = nn.nonzero %x : (tensor<4x0xf32>) -> (tensor<0x2xi64>, tensor<i64>)
  return %0#0, %0#1 : tensor<0x2xi64>, tensor<i64>
}
