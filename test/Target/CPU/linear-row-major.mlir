// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v3" | FileCheck %s

// A weight that lies row by row is packed into a panel [k][32] in scratch: blocks of 8 x 8 are transposed by shuffles,
// what is left of the depth (20 = 2 * 8 + 4) goes element by element. Where columns are beyond the last (40 = 32 + 8),
// the last one is read, and zeros take the place of what was read.
// The matmul reads that panel.
// CHECK-LABEL: func.func @linear_run
// CHECK-SAME:    %[[WORKSPACE:[^ ]*]]: !llvm.ptr)
// CHECK:         %[[PANELS:.*]] = llvm.getelementptr %[[WORKSPACE]][%c768_i64]
// CHECK:         %[[COLUMNS:.*]] = arith.minsi %{{.*}}, %c32_i64
// CHECK:         scf.for %[[C:.*]] = %c0_i64 to %c32_i64 step %c8_i64
// CHECK:           %[[LAST:.*]] = arith.addi %[[C]], %c7_i64
// CHECK:           %[[IS_WHOLE:.*]] = arith.cmpi slt, %[[LAST]], %[[COLUMNS]]
// CHECK:           scf.if %[[IS_WHOLE]]
// CHECK:             scf.for %{{.*}} = %c0_i64 to %c16_i64 step %c8_i64
// CHECK-COUNT-8:       llvm.load {{.*}} -> vector<8xf32>
// CHECK-COUNT-24:      vector.shuffle
// CHECK-COUNT-8:       llvm.store {{.*}} : vector<8xf32>
// CHECK:             scf.for %{{.*}} = %c16_i64 to %c20_i64 step %c1_i64
// CHECK:               scf.for %{{.*}} = %c0_i64 to %c8_i64 step %c1_i64
// CHECK:                 llvm.store {{.*}} : f32
// CHECK:           } else {
// CHECK:             scf.for %{{.*}} = %c0_i64 to %c16_i64 step %c8_i64
// CHECK:               %[[INSIDE:.*]] = arith.minsi %[[C]], %{{.*}} : i64
// CHECK:               %[[ROW:.*]] = llvm.load {{.*}} -> vector<8xf32>
// CHECK:               %[[IS_ROW_INSIDE:.*]] = arith.cmpi slt, %[[C]], %[[COLUMNS]]
// CHECK:               arith.select %[[IS_ROW_INSIDE]], %[[ROW]], %{{.*}} : vector<8xf32>
// CHECK-COUNT-24:      vector.shuffle
// CHECK-COUNT-8:       llvm.store {{.*}} : vector<8xf32>
// CHECK:             scf.for %{{.*}} = %c16_i64 to %c20_i64 step %c1_i64
// CHECK:               scf.for %{{.*}} = %c0_i64 to %c8_i64 step %c1_i64
// CHECK:                 %[[ELEMENT:.*]] = llvm.load {{.*}} -> f32
// CHECK:                 %[[IS_INSIDE:.*]] = arith.cmpi slt, %{{.*}}, %[[COLUMNS]]
// CHECK:                 %[[VALUE:.*]] = arith.select %[[IS_INSIDE]], %[[ELEMENT]], %{{.*}} : f32
// CHECK:                 llvm.store %[[VALUE]]
// CHECK-NOT:     llvm.intr.prefetch
// CHECK:         vector.fma
// CHECK-LABEL: func.func @linear_plan
// Sums of 6 x 32 f32, and a panel of 32 x 20.
// CHECK:         llvm.store %c3328_i64
rt.kernel @linear(%x: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %w: tensor<40x20xf32> {rt.layout = #rt.row_major})
    -> (tensor<?x40xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x20xf32>, tensor<40x20xf32>) -> tensor<?x40xf32>
  rt.yield %0 : tensor<?x40xf32>
}
