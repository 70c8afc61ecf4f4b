// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Queries and keys are slices of one result: panels 0 and 1 go to the first result, whose rows have 64 columns, those
// behind them to the second, counted from its own beginning.
// CHECK-LABEL: func.func @two_results_run
// CHECK-SAME:    (%[[ARGUMENTS:.*]]: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr)
// CHECK:         %[[FIELD:.*]] = llvm.getelementptr %[[ARGUMENTS]][0]
// CHECK:         %[[BUFFERS:.*]] = llvm.load %[[FIELD]]
// CHECK:         %[[FIELD:.*]] = llvm.getelementptr %[[BUFFERS]][2]
// CHECK:         %[[QUERY:.*]] = llvm.load %[[FIELD]]
// CHECK:         %[[FIELD:.*]] = llvm.getelementptr %[[BUFFERS]][3]
// CHECK:         %[[KEY:.*]] = llvm.load %[[FIELD]]
// CHECK:         %[[END_PANEL:.*]] = arith.minsi %{{.*}}, %c3_i64
// CHECK:         scf.for %[[PANEL:.*]] = %{{.*}} to %[[END_PANEL]] step %c1_i64
// CHECK:         %[[IS_QUERY:.*]] = arith.cmpi slt, %[[PANEL]], %c2_i64
// CHECK:         scf.if %[[IS_QUERY]]
// CHECK:           %[[COLUMN:.*]] = arith.muli %[[PANEL]], %c32_i64
// CHECK:           %[[BEGIN:.*]] = arith.muli %{{.*}}, %c64_i64
// CHECK:           %[[OFFSET:.*]] = arith.addi %[[BEGIN]], %[[COLUMN]]
// CHECK:           %[[TO:.*]] = llvm.getelementptr %[[QUERY]][%[[OFFSET]]]
// CHECK:           llvm.store %{{.*}}, %[[TO]] {{.*}} vector<16xf32>
// CHECK:         } else {
// CHECK:           %[[INDEX:.*]] = arith.subi %[[PANEL]], %c2_i64
// CHECK:           %[[COLUMN:.*]] = arith.muli %[[INDEX]], %c32_i64
// CHECK:           %[[OFFSET:.*]] = arith.addi %{{.*}}, %[[COLUMN]]
// CHECK:           %[[TO:.*]] = llvm.getelementptr %[[KEY]][%[[OFFSET]]]
// CHECK:           llvm.store %{{.*}}, %[[TO]] {{.*}} vector<16xf32>
rt.kernel @two_results(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<96x40xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}, tensor<?x32xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x40xf32>
  %h = nn.linear %x, %w : (tensor<?x40xf32>, tensor<96x40xf32>) -> tensor<?x96xf32>
  %q = tensor.extract_slice %h[0, 0] [%n, 64] [1, 1] : tensor<?x96xf32> to tensor<?x64xf32>
  %k = tensor.extract_slice %h[0, 64] [%n, 32] [1, 1] : tensor<?x96xf32> to tensor<?x32xf32>
  rt.yield %q, %k : tensor<?x64xf32>, tensor<?x32xf32>
}

// -----

// Gate and up: a tile multiplies a panel of each (40 x 32 = 1280 elements), which lie two panels apart in the weight,
// and only their product is stored.
// CHECK-LABEL: func.func @gate_up_run
// CHECK:         %[[END_PANEL:.*]] = arith.minsi %{{.*}}, %c2_i64
// CHECK:         scf.for %[[PANEL:.*]] = %{{.*}} to %[[END_PANEL]] step %c1_i64
// CHECK:         scf.for %[[SLICE:.*]] = %c0_i64 to %c2_i64 step %c1_i64
// CHECK:           %[[APART:.*]] = arith.muli %[[SLICE]], %c2_i64
// CHECK:           %[[INDEX:.*]] = arith.addi %[[PANEL]], %[[APART]]
// CHECK:           %[[OFFSET:.*]] = arith.muli %[[INDEX]], %c1280_i64
// CHECK:           %[[WEIGHT:.*]] = llvm.getelementptr %{{.*}}[%[[OFFSET]]]
// The next panel of the same slice is prefetched.
// CHECK:           llvm.getelementptr %[[WEIGHT]][%c1280_i64]
// CHECK:           vector.fma {{.*}} : vector<16xf32>
// CHECK:         %[[GATE:.*]] = arith.maximumf {{.*}} : vector<16xf32>
// CHECK:         %[[UP:.*]] = llvm.load {{.*}} -> vector<16xf32>
// CHECK-NEXT:    %[[PRODUCT:.*]] = arith.mulf %[[GATE]], %[[UP]] : vector<16xf32>
// CHECK-NOT:     llvm.store
// CHECK:         llvm.store %[[PRODUCT]]
rt.kernel @gate_up(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<128x40xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x40xf32>
  %h = nn.linear %x, %w : (tensor<?x40xf32>, tensor<128x40xf32>) -> tensor<?x128xf32>
  %g = tensor.extract_slice %h[0, 0] [%n, 64] [1, 1] : tensor<?x128xf32> to tensor<?x64xf32>
  %u = tensor.extract_slice %h[0, 64] [%n, 64] [1, 1] : tensor<?x128xf32> to tensor<?x64xf32>
  %r = nn.relu %g : tensor<?x64xf32>
  %m = arith.mulf %r, %u : tensor<?x64xf32>
  rt.yield %m : tensor<?x64xf32>
}

// -----

// Panels in two slices alternate: panel 2 p is the gate's panel p, panel 2 p + 1 is up's.
// CHECK-LABEL: func.func @in_slices_run
// CHECK:         %[[END_PANEL:.*]] = arith.minsi %{{.*}}, %c2_i64
// CHECK:         scf.for %[[PANEL:.*]] = %{{.*}} to %[[END_PANEL]] step %c1_i64
// CHECK:         scf.for %[[SLICE:.*]] = %c0_i64 to %c2_i64 step %c1_i64
// CHECK:           %[[FIRST:.*]] = arith.muli %[[PANEL]], %c2_i64
// CHECK:           %[[INDEX:.*]] = arith.addi %[[FIRST]], %[[SLICE]]
// CHECK:           %[[OFFSET:.*]] = arith.muli %[[INDEX]], %c1280_i64
// CHECK:           %[[WEIGHT:.*]] = llvm.getelementptr %{{.*}}[%[[OFFSET]]]
// CHECK:           llvm.getelementptr %[[WEIGHT]][%c2560_i64]
// CHECK:           vector.fma
rt.kernel @in_slices(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<128x40xf32> {rt.layout = #rt.panels<32 in 2 slices>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x40xf32>
  %h = nn.linear %x, %w : (tensor<?x40xf32>, tensor<128x40xf32>) -> tensor<?x128xf32>
  %g = tensor.extract_slice %h[0, 0] [%n, 64] [1, 1] : tensor<?x128xf32> to tensor<?x64xf32>
  %u = tensor.extract_slice %h[0, 64] [%n, 64] [1, 1] : tensor<?x128xf32> to tensor<?x64xf32>
  %m = arith.mulf %g, %u : tensor<?x64xf32>
  rt.yield %m : tensor<?x64xf32>
}
