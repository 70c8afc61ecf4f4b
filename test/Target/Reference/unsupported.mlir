// RUN: not intarsia-test-opt %s --test-reference-object=output=%t.so -o /dev/null 2>&1 | FileCheck %s

// An op that nothing lowers is named, with its location in the user's model.
// CHECK: model.mlir:7:3: error: 'linalg.unpack' op has no reference (kernel 'unpack')
// CHECK: kernels could not be lowered for the reference device
rt.kernel @unpack(%x: tensor<2x4xf32>) -> tensor<8xf32> attributes {root = #nn.root<generic>, sizes = []} {
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.unpack %x inner_dims_pos = [0] inner_tiles = [4] into %e : tensor<2x4xf32> -> tensor<8xf32> loc("model.mlir":7:3)
  rt.yield %r : tensor<8xf32>
}
