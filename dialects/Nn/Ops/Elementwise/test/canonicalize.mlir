// RUN: intarsia-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @relu
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
func.func @relu(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK-DAG: %[[C:.*]] = arith.constant dense<[0.000000e+00, 0.000000e+00, 2.000000e+00, 0x7FC00000]> : tensor<4xf32>
  // CHECK-DAG: %[[R:.*]] = nn.relu %[[X]]
  // CHECK-DAG: %[[S:.*]] = nn.sigmoid %[[X]]
  %0 = nn.relu %x : tensor<4xf32>
  %1 = nn.relu %0 : tensor<4xf32>
  %2 = nn.sigmoid %x : tensor<4xf32>
  %3 = nn.relu %2 : tensor<4xf32>
  %c = arith.constant dense<[-1.0, -0.0, 2.0, 0x7FC00000]> : tensor<4xf32>
  %4 = nn.relu %c : tensor<4xf32>
  // CHECK: return %[[R]], %[[S]], %[[C]]
  return %1, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A tanh may be negative.
// CHECK-LABEL: func.func @relu_of_tanh
func.func @relu_of_tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: nn.tanh
  // CHECK-NEXT: nn.relu
  %0 = nn.tanh %x : tensor<4xf32>
  %1 = nn.relu %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @zeros
func.func @zeros() -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK-DAG: %[[H:.*]] = arith.constant dense<5.000000e-01>
  // CHECK-DAG: %[[Z:.*]] = arith.constant dense<-0.000000e+00>
  %z = arith.constant dense<-0.0> : tensor<4xf32>
  %0 = nn.gelu %z {form = #nn.gelu_form<tanh>} : tensor<4xf32>
  %1 = nn.silu %z : tensor<4xf32>
  %2 = nn.tanh %z : tensor<4xf32>
  %3 = nn.sigmoid %z : tensor<4xf32>
  // CHECK: return %[[Z]], %[[Z]], %[[Z]], %[[H]]
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
