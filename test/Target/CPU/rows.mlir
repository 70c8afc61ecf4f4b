// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Elementwise: whole vectors, then one by one; nothing is stored in between.
// CHECK-LABEL: func.func @rows_run
// CHECK: llvm.load {{.*}} vector<16xf32>
// CHECK-NOT: llvm.store
// CHECK: llvm.load {{.*}} vector<16xf32>
// CHECK: arith.addf {{.*}} : vector<16xf32>
// CHECK: llvm.store {{.*}} vector<16xf32>
// CHECK: llvm.load {{.*}} -> f32
// CHECK-LABEL: func.func @rows_plan
rt.kernel @rows(%x: tensor<?x?xf32> {nn.sizes = ["s0", "s1"]}, %y: tensor<?x?xf32> {nn.sizes = ["s0", "s1"]})
    -> (tensor<?x?xf32> {nn.sizes = ["s0", "s1"]}) attributes {root = #nn.root<rows>, sizes = ["s0", "s1"]} {
  %0 = nn.relu %x : tensor<?x?xf32>
  %1 = arith.addf %0, %y : tensor<?x?xf32>
  rt.yield %1 : tensor<?x?xf32>
}

// -----

// Results of different shapes are parts with tiles of their own, one after another: 2-d rows first, then a row.
// CHECK-LABEL: func.func @parts_run
// CHECK:         scf.for %[[TILE:.*]] = %{{.*}} to %{{.*}} step %c1_i64
// CHECK:           %[[IS_FIRST:.*]] = arith.cmpi slt, %[[TILE]], %[[TILES:.*]] : i64
// CHECK:           scf.if %[[IS_FIRST]]
// CHECK:             arith.maximumf
// CHECK:           } else {
// CHECK:             arith.subi %[[TILE]], %[[TILES]]
// CHECK:             arith.negf

// Slots of the launch for each part: rows of a tile, tiles. Tiles have 4096 elements or more.
// CHECK-LABEL: func.func @parts_plan
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %[[THREADS:.*]]: i64, %[[LAUNCH:.*]]: !llvm.ptr)
// CHECK:         "llvm.intr.smul.with.overflow"(%[[THREADS]], %c4_i64)
// CHECK:         arith.divui %{{.*}}, %c4096_i64
// CHECK:         %[[SLOT:.*]] = llvm.getelementptr %[[LAUNCH]][%c5_i64]
// CHECK:         %[[SLOT:.*]] = llvm.getelementptr %[[LAUNCH]][%c6_i64]
// CHECK:         %[[SLOT:.*]] = llvm.getelementptr %[[LAUNCH]][%c7_i64]
// CHECK:         %[[SLOT:.*]] = llvm.getelementptr %[[LAUNCH]][%c8_i64]
// CHECK:         %[[SLOT:.*]] = llvm.getelementptr %[[LAUNCH]][%c0_i64]
rt.kernel @parts(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %y: tensor<?xf32> {nn.sizes = ["s1"]})
    -> (tensor<?x40xf32> {nn.sizes = ["s0", ""]}, tensor<?xf32> {nn.sizes = ["s1"]}) attributes {root = #nn.root<rows>, sizes = ["s0", "s1"]} {
  %0 = nn.relu %x : tensor<?x40xf32>
  %1 = arith.negf %y : tensor<?xf32>
  rt.yield %0, %1 : tensor<?x40xf32>, tensor<?xf32>
}

// -----

// 40 elements of a row are two vectors and 8 elements.
// CHECK-LABEL: func.func @remainder_run
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c16_i64
// CHECK:           llvm.store %{{.*}} : vector<16xf32>
// CHECK:         scf.for %{{.*}} = %c32_i64 to %c40_i64 step %c8_i64
// CHECK:           llvm.store %{{.*}} : vector<8xf32>
// CHECK-LABEL: func.func @remainder_plan
rt.kernel @remainder(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x40xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<rows>, sizes = ["s0"]} {
  %0 = nn.relu %x : tensor<?x40xf32>
  rt.yield %0 : tensor<?x40xf32>
}
