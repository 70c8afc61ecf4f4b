// RUN: intarsia-opt %s --target-declare-devices=targets=cpu --fuse-expand-ops | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: intarsia-opt %s --target-declare-devices=targets=cuda:sm_90a --fuse-expand-ops | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: intarsia-opt %s --target-declare-devices=targets=reference --fuse-expand-ops | FileCheck %s --check-prefixes=CHECK,REFERENCE

// What a device has no kernel for becomes loops that add up in f32; the reference has every op, and GPUs have no
// groups.
// CHECK-LABEL: func.func @main
// CPU: nn.conv
// CPU: nn.conv
// CPU-NOT: nn.pool
// CPU: linalg.generic
// CPU: arith.addf %{{.*}}, %{{.*}} : f32
// GPU: nn.conv
// GPU-NOT: nn.conv
// GPU-NOT: nn.pool
// GPU: linalg.generic
// GPU: arith.mulf %{{.*}}, %{{.*}} : f32
// REFERENCE: nn.conv
// REFERENCE: nn.conv
// REFERENCE: nn.pool
// REFERENCE-NOT: linalg.generic
func.func @main(%x: tensor<2x9x9x16xf32>, %w: tensor<32x144xf32>, %v: tensor<32x9xf32>) -> tensor<2x1x1x32xf32> {
  %0 = nn.conv %x, %w {window = array<i64: 3, 3>} : (tensor<2x9x9x16xf32>, tensor<32x144xf32>) -> tensor<2x7x7x32xf32>
  %c = nn.conv %0, %v {window = array<i64: 3, 3>, groups = 32} : (tensor<2x7x7x32xf32>, tensor<32x9xf32>) -> tensor<2x5x5x32xf32>
  %1 = nn.pool <average>, %c {window = array<i64: 5, 5>} : (tensor<2x5x5x32xf32>) -> tensor<2x1x1x32xf32>
  return %1 : tensor<2x1x1x32xf32>
}
