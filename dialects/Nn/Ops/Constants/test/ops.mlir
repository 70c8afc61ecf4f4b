// RUN: intarsia-opt %s --split-input-file --verify-diagnostics | intarsia-opt | FileCheck %s

// CHECK: nn.constants @constants {tensors = {b = dense_resource<b> : tensor<3xi1>, w = dense_resource<w> : tensor<2xf32>}}
nn.constants @constants {tensors = {w = dense_resource<w> : tensor<2xf32>, b = dense_resource<b> : tensor<3xi1>}}
// CHECK: nn.weight @constants["w"] : tensor<2xf32>
func.func @main() -> tensor<2xf32> {
  %w = nn.weight @constants["w"] : tensor<2xf32>
  return %w : tensor<2xf32>
}
// CHECK: dialect_resources: {
{-# dialect_resources: { builtin: { w: "0x040000000000803F00000040", b: "0x01000000010001" } } #-}
