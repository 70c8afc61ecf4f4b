// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// A tile is a sequence in one direction. In each step its state is multiplied by four panels at a time, eight sums in
// flight; then gates are computed by vectors of the hidden state, and the state and the result are stored.
// CHECK-LABEL: func.func @lstm_run
// CHECK:         scf.for %[[TILE:.*]] = %{{.*}} to %{{.*}} step %c1_i64
// CHECK:           %[[DIRECTION:.*]] = arith.remui %[[TILE]], %c2_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c1_i64
// CHECK-COUNT-2:     llvm.store %cst{{.*}} : vector<16xf32>
// CHECK:           scf.for %[[STEP:.*]] = %c0_i64 to %[[STEPS:.*]] step %c1_i64
// CHECK:             scf.for %{{.*}} = %c0_i64 to %c8_i64 step %c4_i64
// CHECK:               %{{.*}}:8 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c1_i64
// CHECK-COUNT-8:         vector.fma {{.*}} : vector<16xf32>
// CHECK:             scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c1_i64
// CHECK:               %[[LAST:.*]] = arith.subi %[[STEPS]], %c1_i64
// CHECK:               %[[BACK:.*]] = arith.subi %[[LAST]], %[[STEP]]
// CHECK:               arith.select %{{.*}}, %[[STEP]], %[[BACK]]
// CHECK:               scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c16_i64
// CHECK-COUNT-4:         arith.divf {{.*}} : vector<16xf32>
// CHECK:                 llvm.store {{.*}} : vector<16xf32>
// CHECK:                 arith.divf {{.*}} : vector<16xf32>
// CHECK-COUNT-2:         llvm.store {{.*}} : vector<16xf32>
rt.kernel @lstm(%x: tensor<1x?x512xf32> {nn.sizes = ["", "s0", ""]}, %r: tensor<512x64xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<1x?x128xf32> {nn.sizes = ["", "s0", ""]}) attributes {root = #nn.root<recurrent>, sizes = ["s0"]} {
  %y, %h, %c = nn.recurrent <lstm>, <bidirectional>, %x, %r
      : (tensor<1x?x512xf32>, tensor<512x64xf32>) -> (tensor<1x?x128xf32>, tensor<2x1x64xf32>, tensor<2x1x64xf32>)
  rt.yield %y : tensor<1x?x128xf32>
}

// -----

// A state that is reset before it is multiplied takes two passes over panels: the six of z and r, and the three of h.
// Weights that are no panels are packed once for all steps; many sequences share register tiles of eight rows.
// CHECK-LABEL: func.func @gru_run
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c9_i64 step %c1_i64
// CHECK:           vector.shuffle
// CHECK:         scf.for %[[STEP:.*]] = %c0_i64 to %c5_i64 step %c1_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c6_i64 step %c1_i64
// CHECK:             scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c8_i64
// CHECK:           scf.for %{{.*}} = %c6_i64 to %c9_i64 step %c1_i64
// CHECK:             scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c8_i64
rt.kernel @gru(%x: tensor<20x5x288xf32>, %r: tensor<288x96xf32>) -> tensor<20x5x96xf32>
    attributes {root = #nn.root<recurrent>, sizes = []} {
  %y, %h = nn.recurrent <gru>, <forward>, %x, %r : (tensor<20x5x288xf32>, tensor<288x96xf32>) -> (tensor<20x5x96xf32>, tensor<1x20x96xf32>)
  rt.yield %y : tensor<20x5x96xf32>
}
