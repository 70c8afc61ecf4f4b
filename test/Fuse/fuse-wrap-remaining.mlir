// RUN: intarsia-opt %s --target-declare-devices --fuse-wrap-remaining --split-input-file | FileCheck %s

nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @each_alone
func.func @each_alone(%x: tensor<?x16xf32> {nn.sizes = ["rows", ""]}) -> (tensor<?x4xf32>, tensor<?x4x4xf32>) {
  // CHECK: nn.group rows({{.*}}) {why = "alone"}
  // CHECK-NEXT: nn.relu
  // CHECK: nn.group linear
  // CHECK: nn.linear
  // CHECK: nn.group rows
  // CHECK: tensor.extract_slice
  // A reshape is a view between groups.
  // CHECK: }
  // CHECK: tensor.expand_shape
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x16xf32>
  %r = nn.relu %x : tensor<?x16xf32>
  %w = nn.weight @weights["w"] : tensor<16x16xf32>
  %h = nn.linear %r, %w : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %s = tensor.extract_slice %h[0, 4] [%n, 4] [1, 1] : tensor<?x16xf32> to tensor<?x4xf32>
  %v = tensor.expand_shape %h [[0], [1, 2]] output_shape [%n, 4, 4] : tensor<?x16xf32> into tensor<?x4x4xf32>
  return %s, %v : tensor<?x4xf32>, tensor<?x4x4xf32>
}

// -----

// Groups have copies of fills; one that leaves the function gets a group of its own.
// CHECK-LABEL: func.func @fills
func.func @fills(%x: tensor<?xf32> {nn.sizes = ["n"]}) -> (tensor<?xf32>, tensor<2x2xf32>, tensor<?xf32>) {
  // CHECK: %[[F:.*]] = nn.group rows
  // CHECK: linalg.fill
  // CHECK: %[[S:.*]] = nn.group rows
  // CHECK: tensor.splat
  // CHECK: %[[V:.*]] = tensor.expand_shape %[[S]]
  // CHECK: %[[R:.*]] = nn.group rows
  // CHECK: linalg.fill
  // CHECK: arith.maximumf
  // CHECK: return %[[F]], %[[V]], %[[R]]
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %s = tensor.splat %one : tensor<4xf32>
  %v = tensor.expand_shape %s [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %r = arith.maximumf %x, %f : tensor<?xf32>
  return %f, %v, %r : tensor<?xf32>, tensor<2x2xf32>, tensor<?xf32>
}

// -----

// CHECK-LABEL: func.func @fill_inside_only
func.func @fill_inside_only(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-COUNT-1: nn.group
  // CHECK-NOT: nn.group
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %r = arith.maximumf %x, %f : tensor<4xf32>
  return %r : tensor<4xf32>
}
