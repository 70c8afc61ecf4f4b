// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Rows, pairs of a token and one of its experts, are sorted by expert: they are counted, the counts added up, and each
// row put into its slot. An index outside of the 8 experts goes behind them, and -1, which is none, behind those.
// CHECK-LABEL: func.func @experts_run
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %{{.*}}: !llvm.ptr)
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c12_i64 step %c1_i64
// CHECK-COUNT-1:   llvm.store %c0_i64
// CHECK:         scf.for %{{.*}} = %c0_i64 to %[[TOKENS:.*]] step %c1_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c2_i64 step %c1_i64
// CHECK:             %[[IS_EXPERT:.*]] = arith.cmpi ult, %[[EXPERT:.*]], %c8_i64
// CHECK:             %[[IS_NONE:.*]] = arith.cmpi eq, %[[EXPERT]], %c-1_i64
// CHECK:             %[[OTHER:.*]] = arith.select %[[IS_NONE]], %c9_i64, %c8_i64
// CHECK:             arith.select %[[IS_EXPERT]], %[[EXPERT]], %[[OTHER]]
// CHECK:         scf.for %{{.*}} = %c2_i64 to %c12_i64 step %c1_i64
// CHECK:         scf.for %{{.*}} = %c0_i64 to %[[TOKENS]] step %c1_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c2_i64 step %c1_i64

// Tiles: the rows of each expert in blocks of 128 are gathered and multiplied by the tile's panels of gate and up.
// Tiles of any number of rows have the same order of additions: one multiply-add of an element after the other.
// CHECK:         %[[END_OF_TILES:.*]] = arith.minsi %[[END]], %[[TILES:.*]] : i64
// CHECK:         scf.for %{{.*}} = %[[BEGIN]] to %[[END_OF_TILES]] step %c1_i64
// CHECK:           %[[END_PANEL:.*]] = arith.minsi %{{.*}}, %c2_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c8_i64 step %c1_i64
// CHECK:             scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c128_i64
// CHECK:               %[[ROWS:.*]] = arith.minsi %{{.*}}, %c128_i64
// CHECK:               scf.for %{{.*}} = %c0_i64 to %[[ROWS]] step %c1_i64
// CHECK:                 scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c16_i64
// CHECK:               scf.for %{{.*}} = %{{.*}} to %[[END_PANEL]] step %c1_i64
// CHECK:                 scf.for %{{.*}} = %c0_i64 to %c2_i64 step %c1_i64
// CHECK:                   %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c1_i64
// CHECK:                   %{{.*}}:2 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c4_i64

// The second panel has 8 of 40 columns: activations are stored by vectors and one by one.
// CHECK:                 %[[REST:.*]] = arith.subi %c40_i64, %{{.*}}
// CHECK:                 %[[COLUMNS:.*]] = arith.minsi %[[REST]], %c32_i64
// CHECK:                 scf.for %{{.*}} = %c0_i64 to %[[VECTORS:.*]] step %c16_i64
// CHECK:                 scf.for %{{.*}} = %[[VECTORS]] to %[[COLUMNS]] step %c1_i64

// Finishing tiles own columns of the result: they set them to zero, add the sums of all experts, times the weights,
// and make tokens NaN whose expert is outside.
// CHECK:         %[[LATER:.*]] = arith.subi %[[BEGIN]], %[[TILES]]
// CHECK:         %[[FIRST:.*]] = arith.maxsi %[[LATER]], %c0_i64
// CHECK:         scf.for %{{.*}} = %[[FIRST]] to %{{.*}} step %c1_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %[[TOKENS]] step %c1_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c8_i64 step %c1_i64
// CHECK:             %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// CHECK:             %[[SCALED:.*]] = arith.mulf %{{.*}} : vector<16xf32>
// CHECK:             %[[SUM:.*]] = arith.addf %{{.*}}, %[[SCALED]]
// CHECK:             llvm.store %[[SUM]]
// CHECK:           arith.constant dense<0x7FC00000> : vector<16xf32>

// Slots of the launch: activations of all rows in shared scratch, two panels of gate and up, two of the second matmul.
// CHECK-LABEL: func.func @experts_plan
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %{{.*}}: i64, %[[LAUNCH:.*]]: !llvm.ptr)
// CHECK:         %[[FINISH:.*]] = llvm.getelementptr %[[LAUNCH]][%c3_i64]
// CHECK:         llvm.store %{{.*}}, %[[FINISH]]
// CHECK:         "llvm.intr.smul.with.overflow"(%{{.*}}, %c160_i64)
// CHECK:         %[[SHARED:.*]] = llvm.getelementptr %[[LAUNCH]][%c2_i64]
// CHECK:         llvm.store %{{.*}}, %[[SHARED]]
rt.kernel @experts(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %i: tensor<?x2xi32> {nn.sizes = ["s0", ""]}, %w: tensor<?x2xf32> {nn.sizes = ["s0", ""]},
                   %g: tensor<8x2x40x64xf32> {rt.layout = #rt.panels<32>}, %d: tensor<8x64x40xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<experts>, sizes = ["s0"]} {
  %0 = nn.experts %x, %i, %w, %g, %d {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x40x64xf32>, tensor<8x64x40xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// A tile of eight rows has one multiply-add for each of its sums; one of a single row takes four steps, one after the
// other.
// CHECK-LABEL: func.func @ordered_run
// CHECK:         %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c1_i64
// CHECK-COUNT-16:  vector.fma
// CHECK-NOT:       vector.fma
// CHECK:           scf.yield
// CHECK:         %{{.*}}:2 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c4_i64
// CHECK-COUNT-8:   vector.fma
// CHECK-NOT:       vector.fma
// CHECK:           scf.yield
// CHECK-LABEL: func.func @ordered_plan
rt.kernel @ordered(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %i: tensor<?x2xi32> {nn.sizes = ["s0", ""]}, %w: tensor<?x2xf32> {nn.sizes = ["s0", ""]},
                   %g: tensor<8x2x96x64xf32> {rt.layout = #rt.panels<32>}, %d: tensor<8x64x96xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<experts>, sizes = ["s0"]} {
  %0 = nn.experts %x, %i, %w, %g, %d {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x96x64xf32>, tensor<8x64x96xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Matrices that lie row by row are packed, a panel at a time; nothing is prefetched.
// CHECK-LABEL: func.func @row_major_run
// CHECK-NOT:     llvm.intr.prefetch
// CHECK:         vector.shuffle
// CHECK:         vector.fma
// CHECK:         vector.shuffle
// CHECK:         vector.fma
// CHECK-NOT:     llvm.intr.prefetch
// CHECK-LABEL: func.func @row_major_plan
rt.kernel @row_major(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %i: tensor<?x2xi32> {nn.sizes = ["s0", ""]}, %w: tensor<?x2xf32> {nn.sizes = ["s0", ""]},
                     %g: tensor<8x2x40x64xf32> {rt.layout = #rt.row_major}, %d: tensor<8x64x40xf32> {rt.layout = #rt.row_major})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<experts>, sizes = ["s0"]} {
  %0 = nn.experts %x, %i, %w, %g, %d {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x40x64xf32>, tensor<8x64x40xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
