// RUN: intarsia-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @biases
func.func @biases(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %c = arith.constant dense<1.0> : tensor<4xf32>
  // CHECK: nn.linear %{{.*}}, %{{.*}} : (tensor<?x8xf32>, tensor<4x8xf32>)
  %0 = nn.linear %x, %w, %z : (tensor<?x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  // CHECK: nn.linear %{{.*}}, %{{.*}}, %{{.*}} :
  %1 = nn.linear %x, %w, %c : (tensor<?x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  return %0, %1 : tensor<?x4xf32>, tensor<?x4xf32>
}
