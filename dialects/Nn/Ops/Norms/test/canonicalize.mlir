// RUN: intarsia-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @biases
func.func @biases(%x: tensor<?x4xf32>, %g: tensor<4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %c = arith.constant dense<1.0> : tensor<4xf32>
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}} {
  %0 = nn.layer_norm %x, %g, %z {epsilon = 1.0e-5 : f32} : (tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {
  %1 = nn.layer_norm %x, %g, %c {epsilon = 1.0e-5 : f32} : (tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  return %0, %1 : tensor<?x4xf32>, tensor<?x4xf32>
}

// A norm of one group is a layer norm.
// CHECK-LABEL: func.func @groups
func.func @groups(%x: tensor<?x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) {
  %z = arith.constant dense<0.0> : tensor<4xf32>
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {epsilon = 9.99999974E-6 : f32} :
  %0 = nn.group_norm %x, %g, %b {epsilon = 1.0e-5 : f32, groups = 1} : (tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}} {epsilon = 9.99999974E-6 : f32} :
  %1 = nn.group_norm %x, %g, %z {epsilon = 1.0e-5 : f32, groups = 1} : (tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  // CHECK: nn.group_norm %{{.*}}, %{{.*}} {epsilon = 9.99999974E-6 : f32, groups = 2 : i64} :
  %2 = nn.group_norm %x, %g, %z {epsilon = 1.0e-5 : f32, groups = 2} : (tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  return %0, %1, %2 : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>
}
