// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Slots of the launch: workspace for a register tile's sums (8 x 32 x 4 bytes), no shared scratch, no finishing tiles;
// tiles are blocks of rows times groups of panels.
// CHECK-LABEL: func.func @linear_plan
// CHECK-SAME:    (%[[SIZES:.*]]: !llvm.ptr, %[[THREADS:.*]]: i64, %[[LAUNCH:.*]]: !llvm.ptr)
// CHECK:         %[[WORKSPACE:.*]] = llvm.getelementptr %[[LAUNCH]][%c1_i64]
// CHECK:         llvm.store %c1024_i64, %[[WORKSPACE]]
// CHECK:         %[[SHARED:.*]] = llvm.getelementptr %[[LAUNCH]][%c2_i64]
// CHECK:         llvm.store %c0_i64, %[[SHARED]]
// CHECK:         %[[FINISH:.*]] = llvm.getelementptr %[[LAUNCH]][%c3_i64]
// CHECK:         llvm.store %c0_i64, %[[FINISH]]
// CHECK:         %[[LARGE_BLOCK:.*]] = arith.maxsi %{{.*}}, %c8_i64 : i64
// CHECK:         %[[LARGE_BLOCKS:.*]] = arith.divui %{{.*}}, %[[LARGE_BLOCK]] : i64
// CHECK:         arith.divui %{{.*}}, %[[THREADS]] : i64
// CHECK:         %[[PANELS_PER_TILE:.*]] = arith.minsi
// CHECK:         %[[GROUPS:.*]] = arith.divui %{{.*}}, %[[PANELS_PER_TILE]] : i64
// Few tiles that are no multiple of the threads become one.
// CHECK:         "llvm.intr.smul.with.overflow"(%[[LARGE_BLOCKS]], %[[GROUPS]])
// CHECK:         %[[EVEN:.*]] = arith.divui %{{.*}}, %[[THREADS]] : i64
// CHECK:         "llvm.intr.smul.with.overflow"(%[[EVEN]], %[[THREADS]])
// CHECK:         arith.remui %{{.*}}, %[[THREADS]] : i64
// CHECK:         arith.select %{{.*}}, %{{.*}}, %[[LARGE_BLOCKS]] : i64
// CHECK:         %[[ROW_BLOCK:.*]] = arith.maxsi %{{.*}}, %c8_i64 : i64
// CHECK:         %[[BLOCKS:.*]] = arith.divui %{{.*}}, %[[ROW_BLOCK]] : i64
// CHECK:         "llvm.intr.smul.with.overflow"(%[[BLOCKS]], %[[GROUPS]])
// CHECK:         %[[TILES:.*]] = llvm.getelementptr %[[LAUNCH]][%c0_i64]
// CHECK:         llvm.store %{{.*}}, %[[TILES]]
// CHECK:         %[[SLOT:.*]] = llvm.getelementptr %[[LAUNCH]][%c5_i64]
// CHECK:         llvm.store %[[ROW_BLOCK]], %[[SLOT]]
// CHECK:         %[[SLOT:.*]] = llvm.getelementptr %[[LAUNCH]][%c6_i64]
// CHECK:         llvm.store %[[PANELS_PER_TILE]], %[[SLOT]]
// CHECK:         %[[SLOT:.*]] = llvm.getelementptr %[[LAUNCH]][%c7_i64]
// CHECK:         llvm.store %[[GROUPS]], %[[SLOT]]
rt.kernel @linear(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<70x40xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x70xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x40xf32>, tensor<70x40xf32>) -> tensor<?x70xf32>
  rt.yield %0 : tensor<?x70xf32>
}

// -----

// A norm has finishing tiles of 16 rows.
// CHECK-LABEL: func.func @norm_plan
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %{{.*}}: i64, %[[LAUNCH:.*]]: !llvm.ptr)
// CHECK:         %[[COUNT:.*]] = arith.divui %{{.*}}, %c16_i64 : i64
// CHECK:         %[[FINISH:.*]] = llvm.getelementptr %[[LAUNCH]][%c3_i64]
// CHECK:         llvm.store %[[COUNT]], %[[FINISH]]
rt.kernel @norm(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x40xf32> {rt.layout = #rt.panels<32>}, %g: tensor<64xf32>)
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x40xf32>, tensor<64x40xf32>) -> tensor<?x64xf32>
  %1 = nn.rms_norm %0, %g {epsilon = 1.0e-6 : f32} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  rt.yield %1 : tensor<?x64xf32>
}
