// RUN: intarsia-opt %s --target-declare-devices --split-input-file --fuse-canonicalize --fuse-shared-input-linears --fuse-attention --fuse-epilogues --fuse-embeddings --fuse-elementwise --fuse-wrap-remaining --verify-diagnostics | FileCheck %s

// A function of several blocks is left as it is, for fuse-verify to refuse.
// CHECK-LABEL: func.func @blocks
// CHECK: nn.linear
// CHECK: nn.relu
// CHECK-NOT: nn.group
func.func @blocks(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %early: i1) -> tensor<4x8xf32> {
  %h = nn.linear %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  cf.cond_br %early, ^one, ^other
^one:
  %g = nn.relu %h : tensor<4x8xf32>
  return %g : tensor<4x8xf32>
^other:
  return %h : tensor<4x8xf32>
}

// -----

// What is read inside of a region is read by the op that has it.
// CHECK-LABEL: func.func @region
// CHECK: %[[H:.*]] = nn.group linear
// CHECK-NOT: nn.relu
// CHECK: scf.if
// CHECK-NEXT: nn.relu %[[H]]
func.func @region(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %early: i1) -> tensor<4x8xf32> {
  %h = nn.linear %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %r = scf.if %early -> tensor<4x8xf32> {
    %g = nn.relu %h : tensor<4x8xf32>
    scf.yield %g : tensor<4x8xf32>
  } else {
    scf.yield %h : tensor<4x8xf32>
  }
  return %r : tensor<4x8xf32>
}
