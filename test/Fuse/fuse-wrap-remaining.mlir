// RUN: intarsia-opt %s --fuse-wrap-remaining --split-input-file | FileCheck %s

nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @each_alone
func.func @each_alone(%x: tensor<?x16xf32> {nn.sizes = ["rows", ""]}) -> (tensor<?x4xf32>, tensor<?x4x4xf32>) {
  // CHECK: nn.group "rows"({{.*}}) {why = "alone"}
  // CHECK-NEXT: nn.relu
  // CHECK: nn.group "linear"
  // CHECK: nn.linear
  // CHECK: nn.group "rows"
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
