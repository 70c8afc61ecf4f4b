// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// A tile is a panel of one matrix: 40 columns are two panels. The right operand's rows are copied to a panel [20][32],
// zeros behind the last column; rows in steps of a register tile.
// CHECK-LABEL: func.func @batch_run
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %{{.*}}: !llvm.ptr)
// CHECK:         scf.for %[[TILE:.*]] = %[[BEGIN]] to %[[END]] step %c1_i64
// CHECK:           %[[PANEL:.*]] = arith.remui %[[TILE]], %c2_i64
// CHECK:           %[[MATRIX:.*]] = arith.divui %[[TILE]], %c2_i64
// CHECK:           arith.muli %[[MATRIX]], %c800_i64
// CHECK:           %[[COLUMN:.*]] = arith.muli %[[PANEL]], %c32_i64
// CHECK:           %[[REST:.*]] = arith.subi %c40_i64, %[[COLUMN]]
// CHECK:           %[[COLUMNS:.*]] = arith.minsi %[[REST]], %c32_i64
// CHECK:           scf.for %[[K:.*]] = %c0_i64 to %c20_i64 step %c1_i64
// CHECK:             arith.muli %[[K]], %c40_i64
// CHECK:             scf.for %{{.*}} = %c0_i64 to %[[VECTORS:.*]] step %c16_i64
// CHECK:               llvm.store {{.*}} : vector<16xf32>
// CHECK:             scf.for %{{.*}} = %[[VECTORS]] to %[[COLUMNS]] step %c1_i64
// CHECK:               llvm.store {{.*}} : f32
// CHECK:             scf.for %{{.*}} = %[[COLUMNS]] to %c32_i64 step %c1_i64
// CHECK:               llvm.store {{.*}} : f32
// CHECK:           scf.for %[[M:.*]] = %c0_i64 to %[[ROWS:.*]] step %c8_i64
// CHECK:             %[[LEFT_ROWS:.*]] = arith.subi %[[ROWS]], %[[M]]
// CHECK:             %[[COUNT:.*]] = arith.minsi %[[LEFT_ROWS]], %c8_i64
// CHECK:             %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c20_i64 step %c1_i64
// CHECK-COUNT-16:      vector.fma {{.*}} : vector<16xf32>
// CHECK:             scf.for %{{.*}} = %c0_i64 to %[[COUNT]] step %c1_i64
// CHECK:               scf.for %{{.*}} = %c0_i64 to %[[VECTORS:.*]] step %c16_i64
// CHECK:                 llvm.store {{.*}} : vector<16xf32>
// CHECK:               scf.for %{{.*}} = %[[VECTORS]] to %[[COLUMNS]] step %c1_i64
// CHECK:                 llvm.store {{.*}} : f32

// Two matrices of two panels each; sums of 8 x 32 and a panel of 20 x 32.
// CHECK-LABEL: func.func @batch_plan
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %{{.*}}: i64, %[[LAUNCH:.*]]: !llvm.ptr)
// CHECK:         llvm.store %c3584_i64
// CHECK:         %[[TILES:.*]] = llvm.getelementptr %[[LAUNCH]][%c0_i64]
// CHECK:         llvm.store %c4_i64, %[[TILES]]
rt.kernel @batch(%a: tensor<2x?x20xf32> {nn.sizes = ["", "s0", ""]}, %b: tensor<2x20x40xf32>)
    -> (tensor<2x?x40xf32> {nn.sizes = ["", "s0", ""]}) attributes {root = #nn.root<matmul>, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<2x?x20xf32>, tensor<2x20x40xf32>) -> tensor<2x?x40xf32>
  rt.yield %0 : tensor<2x?x40xf32>
}

// -----

// A transposed right operand is transposed into the panel; of a transposed left one neighbours in a column are read, a
// size of the other dimension apart.
// CHECK-LABEL: func.func @transposed_run
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c16_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c16_i64 step %c16_i64
// CHECK:             vector.shuffle
// CHECK:           scf.for %{{.*}} = %c16_i64 to %c20_i64 step %c1_i64
// CHECK:         scf.for %{{.*}} = %c0_i64 to %[[ROWS:.*]] step %c8_i64
// CHECK:           %{{.*}}:16 = scf.for %[[K:.*]] = %c0_i64 to %c20_i64 step %c1_i64
// CHECK:             %[[COLUMN:.*]] = arith.muli %[[K]], %[[ROWS]]
// CHECK:             llvm.getelementptr %{{.*}}[%[[COLUMN]]]
// CHECK:             %[[COLUMN:.*]] = arith.muli %[[K]], %[[ROWS]]
// CHECK:             %[[NEXT:.*]] = arith.addi %[[COLUMN]], %c1_i64
// CHECK:             llvm.getelementptr %{{.*}}[%[[NEXT]]]
rt.kernel @transposed(%a: tensor<2x20x?xf32> {nn.sizes = ["", "", "s0"]}, %b: tensor<2x40x20xf32>)
    -> (tensor<2x?x40xf32> {nn.sizes = ["", "s0", ""]}) attributes {root = #nn.root<matmul>, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b {transpose_lhs, transpose_rhs} : (tensor<2x20x?xf32>, tensor<2x40x20xf32>) -> tensor<2x?x40xf32>
  rt.yield %0 : tensor<2x?x40xf32>
}

// -----

// Ops behind the matmul work on its sums as they are stored.
// CHECK-LABEL: func.func @epilogue_run
// CHECK:         vector.fma
// CHECK:         scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c16_i64
// CHECK:           %[[SUM:.*]] = llvm.load %{{.*}} -> vector<16xf32>
// CHECK:           %[[RESULT:.*]] = arith.maximumf %[[SUM]]
// CHECK:           llvm.store %[[RESULT]]
// CHECK-LABEL: func.func @epilogue_plan
rt.kernel @epilogue(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>)
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<matmul>, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  %1 = nn.relu %0 : tensor<?x64xf32>
  rt.yield %1 : tensor<?x64xf32>
}
