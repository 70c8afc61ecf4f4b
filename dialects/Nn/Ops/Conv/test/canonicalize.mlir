// RUN: intarsia-opt %s --canonicalize | FileCheck %s

// A window of one position is a row of channels.
// CHECK-LABEL: func.func @pointwise
// CHECK: nn.linear %{{.*}}, %{{.*}}, %{{.*}} {note = "kept", precision = tf32} : (tensor<?x7x7x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x7x7x4xf32>
func.func @pointwise(%x: tensor<?x7x7x8xf32>, %w: tensor<4x8xf32>, %b: tensor<4xf32>) -> tensor<?x7x7x4xf32> {
  %0 = nn.conv %x, %w, %b {window = array<i64: 1, 1>, strides = array<i64: 1, 1>, precision = tf32, note = "kept"} : (tensor<?x7x7x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x7x7x4xf32>
  return %0 : tensor<?x7x7x4xf32>
}

// CHECK-LABEL: func.func @no_pointwise
// CHECK-COUNT-3: nn.conv
func.func @no_pointwise(%x: tensor<?x7x7x8xf32>, %w: tensor<4x8xf32>, %g: tensor<4x4xf32>) -> (tensor<?x4x4x4xf32>, tensor<?x9x7x4xf32>, tensor<?x7x7x4xf32>) {
  %0 = nn.conv %x, %w {window = array<i64: 1, 1>, strides = array<i64: 2, 2>} : (tensor<?x7x7x8xf32>, tensor<4x8xf32>) -> tensor<?x4x4x4xf32>
  %1 = nn.conv %x, %w {window = array<i64: 1, 1>, pads_low = array<i64: 1, 0>, pads_high = array<i64: 1, 0>} : (tensor<?x7x7x8xf32>, tensor<4x8xf32>) -> tensor<?x9x7x4xf32>
  %2 = nn.conv %x, %g {window = array<i64: 1, 1>, groups = 2} : (tensor<?x7x7x8xf32>, tensor<4x4xf32>) -> tensor<?x7x7x4xf32>
  return %0, %1, %2 : tensor<?x4x4x4xf32>, tensor<?x9x7x4xf32>, tensor<?x7x7x4xf32>
}

// CHECK-LABEL: func.func @zero_bias
// CHECK-NOT: arith.constant
// CHECK: nn.conv %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {
func.func @zero_bias(%x: tensor<1x9x8xf32>, %w: tensor<4x24xf32>) -> tensor<1x7x4xf32> {
  %b = arith.constant dense<0.0> : tensor<4xf32>
  %0 = nn.conv %x, %w, %b {window = array<i64: 3>} : (tensor<1x9x8xf32>, tensor<4x24xf32>, tensor<4xf32>) -> tensor<1x7x4xf32>
  return %0 : tensor<1x7x4xf32>
}
