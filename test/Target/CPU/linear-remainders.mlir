// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Tiles of one row take four steps at a time, each after the other; what is left of the depth, 41 = 10 * 4 + 1, follows.
// CHECK-LABEL: func.func @depth_run
// CHECK:         %[[SUMS:.*]]:2 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c4_i64
// CHECK:         %{{.*}}:2 = scf.for %{{.*}} = %c40_i64 to %c41_i64 step %c1_i64 iter_args(%{{.*}} = %[[SUMS]]#0,
// CHECK-COUNT-2:   vector.fma
// CHECK-NOT:       vector.fma
// CHECK:           scf.yield
// CHECK-LABEL: func.func @depth_plan
rt.kernel @depth(%x: tensor<?x41xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x41xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x41xf32>, tensor<64x41xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// The last panel has 6 of 70 columns: a whole panel is stored in two vectors, the last one in vectors and one by one.
// CHECK-LABEL: func.func @columns_run
// CHECK:         %[[REST:.*]] = arith.subi %c70_i64, %[[COLUMN:.*]] : i64
// CHECK:         %[[COUNT:.*]] = arith.minsi %[[REST]], %c32_i64
// CHECK:         %[[IS_WHOLE:.*]] = arith.cmpi eq, %[[COUNT]], %c32_i64
// CHECK:         scf.if %[[IS_WHOLE]]
// CHECK-COUNT-2:   llvm.store {{.*}} : vector<16xf32>
// CHECK-NOT:       llvm.store
// CHECK:         } else {
// CHECK:           scf.for %{{.*}} = %c0_i64 to %[[VECTORS:.*]] step %c16_i64
// CHECK:             llvm.store {{.*}} : vector<16xf32>
// CHECK:           scf.for %{{.*}} = %[[VECTORS]] to %[[COUNT]] step %c1_i64
// CHECK:             llvm.store {{.*}} : f32
rt.kernel @columns(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<70x40xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x70xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x40xf32>, tensor<70x40xf32>) -> tensor<?x70xf32>
  rt.yield %0 : tensor<?x70xf32>
}

// -----

// Whole panels need no such choice.
// CHECK-LABEL: func.func @whole_run
// CHECK:         vector.fma
// CHECK-NOT:     llvm.store {{.*}} : f32
// CHECK-LABEL: func.func @whole_plan
rt.kernel @whole(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x40xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x40xf32>, tensor<64x40xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
