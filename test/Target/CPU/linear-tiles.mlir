// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" | FileCheck %s
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v3" | FileCheck %s --check-prefix=V3
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=aarch64" | FileCheck %s --check-prefix=ARM

// Tiles, the three panels of the weight (70 columns), rows in steps of a register tile. Whole tiles are stored from
// registers. The last register tile has any number of rows from 7 to 1, each with a loop of its own, and passes through
// scratch; those of one and two rows take several steps at a time. Of the last panel's vectors only the first one has
// columns, six, which are stored as four and two.
// CHECK-LABEL: func.func @linear_run
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %{{.*}}: !llvm.ptr)
// CHECK:         scf.for %{{.*}} = %[[BEGIN]] to %[[END]] step %c1_i64
// CHECK:           %[[END_PANEL:.*]] = arith.minsi %{{.*}}, %c3_i64
// CHECK:           scf.for %{{.*}} = %{{.*}} to %[[END_PANEL]] step %c1_i64
// CHECK:             scf.for %[[ROW:.*]] = %[[FIRST_ROW:.*]] to %[[END_ROW:.*]] step %c8_i64
// CHECK:               %[[REST:.*]] = arith.subi %[[END_ROW]], %[[ROW]]
// CHECK:               %[[COUNT:.*]] = arith.minsi %[[REST]], %c8_i64
// CHECK:               %[[IS_WHOLE_PANEL:.*]] = arith.cmpi slt, %{{.*}}, %c2_i64
// CHECK:               scf.if %[[IS_WHOLE_PANEL]]
// CHECK:               %[[IS_WHOLE:.*]] = arith.cmpi eq, %[[COUNT]], %c8_i64
// CHECK:               scf.if %[[IS_WHOLE]]
// CHECK:                 %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// CHECK-COUNT-16:          vector.fma {{.*}} : vector<16xf32>
// CHECK-NOT:               vector.fma
// CHECK:                 scf.yield
// CHECK-NOT:             llvm.load
// CHECK-COUNT-16:        llvm.store {{.*}} : vector<16xf32>
// CHECK:                 } else {
// CHECK:                 %{{.*}}:14 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// CHECK:                 %{{.*}}:12 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// CHECK:                 %{{.*}}:10 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// CHECK:                 %{{.*}}:8 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// CHECK:                 %{{.*}}:6 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// CHECK:                 %{{.*}}:4 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c2_i64
// CHECK:                 %{{.*}}:2 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c4_i64
// CHECK:               %{{.*}}:8 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// CHECK:                 vector.extract_strided_slice %{{.*}} {offsets = [0], sizes = [4], strides = [1]}
// CHECK:                 llvm.store {{.*}} : vector<4xf32>
// CHECK:                 vector.extract_strided_slice %{{.*}} {offsets = [4], sizes = [2], strides = [1]}
// CHECK:                 llvm.store {{.*}} : vector<2xf32>
// CHECK:               %{{.*}}:7 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64

// With 16 registers six rows by two vectors of 8, one or two rows by all columns, so that as many sums are in flight. With
// NEON six rows by half of the panel's columns, in vectors of 4.
// V3-LABEL:  func.func @linear_run
// V3:          scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c6_i64
// V3:            %{{.*}}:12 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// V3-COUNT-12:     vector.fma {{.*}} : vector<8xf32>
// V3-NOT:          vector.fma
// V3:            %{{.*}}:12 = scf.for
// V3:            %{{.*}}:10 = scf.for
// V3:            %{{.*}}:8 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// V3:            %{{.*}}:4 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c2_i64
// V3:            %{{.*}}:6 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// ARM-LABEL: func.func @linear_run
// ARM:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c6_i64
// ARM-COUNT-2:   %{{.*}}:24 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
rt.kernel @linear(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<70x40xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x70xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x40xf32>, tensor<70x40xf32>) -> tensor<?x70xf32>
  rt.yield %0 : tensor<?x70xf32>
}
