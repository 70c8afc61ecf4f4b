// RUN: intarsia-opt %s --quantize-observe --split-input-file | FileCheck %s
// RUN: intarsia-opt %s --quantize-observe=linears=*.mlp.* --split-input-file | FileCheck %s --check-prefix=SOME
// RUN: not intarsia-opt %s --quantize-observe=linears=none --split-input-file 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not intarsia-opt %s --quantize-observe=linears=[ --split-input-file 2>&1 | FileCheck %s --check-prefix=GLOB

nn.archive @weights {file = "model.safetensors"}

// Linears with one input observe it once; a value [batch, tokens, features] is rows of features, and 16 bits are widened.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<?x?x64xbf16>
// CHECK-SAME: -> (tensor<?x?x8xbf16> {nn.name = "y"}, tensor<?x?x8xbf16>, tensor<?x?x4xbf16>, tensor<?x?x3xbf16>,
// CHECK-SAME: tensor<64x64xf32> {nn.name = "second_moments.layer.0.query"},
// CHECK-SAME: tensor<8x8xf32> {nn.name = "second_moments.layer.0.mlp.down"})
// SOME-LABEL: func.func @main
// SOME-NOT: second_moments.layer.0.query
// SOME: second_moments.layer.0.mlp.down
// NONE: error: no linear of 'main' with a weight of the model has a name that 'none' matches
// GLOB: error: '[' is no glob:
func.func @main(%x: tensor<?x?x64xbf16> {nn.name = "x", nn.sizes = ["batch", "tokens", ""]}, %w: tensor<3x64xbf16> {nn.name = "w"})
    -> (tensor<?x?x8xbf16> {nn.name = "y"}, tensor<?x?x8xbf16>, tensor<?x?x4xbf16>, tensor<?x?x3xbf16>) {
  // CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[X]] {{\[}}[0, 1], [2]]
  // CHECK: %[[WIDE:.*]] = arith.extf %[[ROWS]]
  // CHECK: %[[MOMENTS:.*]] = nn.matmul %[[WIDE]], %[[WIDE]] {transpose_lhs} : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<64x64xf32>
  // CHECK-NOT: nn.matmul
  %wq = nn.weight @weights["query"] : tensor<8x64xbf16>
  %q = nn.linear %x, %wq : (tensor<?x?x64xbf16>, tensor<8x64xbf16>) -> tensor<?x?x8xbf16> loc("layer.0.query")
  %wk = nn.weight @weights["key"] : tensor<8x64xbf16>
  %k = nn.linear %x, %wk : (tensor<?x?x64xbf16>, tensor<8x64xbf16>) -> tensor<?x?x8xbf16> loc("layer.0.key")
  %wd = nn.weight @weights["down"] : tensor<4x8xbf16>
  // CHECK: nn.matmul
  // CHECK-NOT: nn.matmul
  %d = nn.linear %q, %wd : (tensor<?x?x8xbf16>, tensor<4x8xbf16>) -> tensor<?x?x4xbf16> loc("layer.0.mlp.down")
  // A matrix that is not a weight is nothing to quantize.
  %c = nn.linear %x, %w : (tensor<?x?x64xbf16>, tensor<3x64xbf16>) -> tensor<?x?x3xbf16> loc("layer.0.mlp.computed")
  // CHECK: return %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[MOMENTS]], %{{.*}}
  return %q, %k, %d, %c : tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x4xbf16>, tensor<?x?x3xbf16>
}
