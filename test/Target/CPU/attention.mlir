// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// A tile is 32 queries of one of 4 heads; two heads share a head of the keys. Queries are packed and scaled (40 = 2 * 16
// + 8 features), keys pass in blocks of 128, in register tiles of 8 keys by 32 queries; softmax runs along the keys with
// a query in each lane, then 48 features of the values are added, weighted, in register tiles of 8 queries.
// CHECK-LABEL: func.func @plain_run
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %{{.*}}: !llvm.ptr)
// CHECK:         %[[BLOCKS:.*]] = arith.divui %{{.*}}, %c32_i64
// CHECK:         scf.for %[[TILE:.*]] = %[[BEGIN]] to %[[END]] step %c1_i64
// CHECK:           %[[BLOCK:.*]] = arith.remui %[[TILE]], %[[BLOCKS]]
// CHECK:           %[[REST:.*]] = arith.divui %[[TILE]], %[[BLOCKS]]
// CHECK:           %[[HEAD:.*]] = arith.remui %[[REST]], %c4_i64
// CHECK:           %[[BATCH:.*]] = arith.divui %[[REST]], %c4_i64
// CHECK:           %[[KEY_HEAD:.*]] = arith.divui %[[HEAD]], %c2_i64
// CHECK:           %[[QUERIES:.*]] = arith.minsi %{{.*}}, %c32_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c16_i64
// CHECK:             scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c16_i64
// CHECK:             scf.for %{{.*}} = %c32_i64 to %c40_i64 step %c1_i64
// CHECK:           scf.for %[[FIRST_KEY:.*]] = %c0_i64 to %[[KEYS:.*]] step %c128_i64
// CHECK:             %[[LEFT:.*]] = arith.subi %[[KEYS]], %[[FIRST_KEY]]
// CHECK:             %[[COUNT:.*]] = arith.minsi %[[LEFT]], %c128_i64
// CHECK:             scf.for %{{.*}} = %c0_i64 to %[[COUNT]] step %c8_i64
// CHECK:               %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c40_i64 step %c1_i64
// CHECK:             %[[LARGEST:.*]]:2 = scf.for %{{.*}} = %c0_i64 to %[[COUNT]] step %c1_i64
// CHECK-NOT:           llvm.store
// CHECK-NOT:           arith.select
// CHECK-COUNT-2:       arith.maximumf {{.*}} : vector<16xf32>
// CHECK:             arith.cmpf oeq, %[[LARGEST]]#0
// CHECK:             scf.for %{{.*}} = %c0_i64 to %[[COUNT]] step %c1_i64
// CHECK:             %[[IS_LATER:.*]] = arith.cmpi slt, %c0_i64, %[[FIRST_KEY]]
// CHECK:             scf.if %[[IS_LATER]]
// CHECK:             scf.for %{{.*}} = %c0_i64 to %[[QUERIES]] step %c8_i64
// CHECK:               %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %[[COUNT]] step %c1_i64
// CHECK:               %{{.*}}:8 = scf.for %{{.*}} = %c0_i64 to %[[COUNT]] step %c1_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %[[QUERIES]] step %c1_i64
// CHECK:             %[[INVERSE:.*]] = arith.divf
// CHECK:             scf.for %{{.*}} = %c0_i64 to %c48_i64 step %c16_i64
// CHECK:               vector.broadcast %[[INVERSE]]

// CHECK-LABEL: func.func @plain_plan
// CHECK:         arith.divui %{{.*}}, %c32_i64
rt.kernel @plain(%q: tensor<2x?x4x40xf32> {nn.sizes = ["", "s0", "", ""]}, %k: tensor<2x?x2x40xf32> {nn.sizes = ["", "s1", "", ""]}, %v: tensor<2x?x2x48xf32> {nn.sizes = ["", "s1", "", ""]})
    -> (tensor<2x?x4x48xf32> {nn.sizes = ["", "s0", "", ""]}) attributes {root = #nn.root<attention>, sizes = ["s0", "s1"]} {
  %0 = nn.attention %q, %k, %v {scale = 0.5 : f32} : (tensor<2x?x4x40xf32>, tensor<2x?x2x40xf32>, tensor<2x?x2x48xf32>) -> tensor<2x?x4x48xf32>
  rt.yield %0 : tensor<2x?x4x48xf32>
}

// -----

// Values with rows that are no whole vectors (24 = 16 + 8) are copied to rows of 32, zeros behind them. The result is
// stored in a vector and 8 elements.
// CHECK-LABEL: func.func @padded_values_run
// CHECK:         scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c128_i64
// CHECK:           scf.for %[[K:.*]] = %c0_i64 to %[[COUNT:.*]] step %c1_i64
// CHECK:             %[[TO:.*]] = arith.muli %[[K]], %c32_i64
// CHECK:             scf.for %{{.*}} = %c24_i64 to %c32_i64 step %c1_i64
// CHECK:               llvm.store %{{.*}} : f32
// CHECK:         arith.divf
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c16_i64 step %c16_i64
// CHECK:         scf.for %{{.*}} = %c16_i64 to %c24_i64 step %c1_i64
// CHECK-LABEL: func.func @padded_values_plan
rt.kernel @padded_values(%q: tensor<1x?x4x64xf32> {nn.sizes = ["", "s0", "", ""]}, %k: tensor<1x?x4x64xf32> {nn.sizes = ["", "s1", "", ""]}, %v: tensor<1x?x4x24xf32> {nn.sizes = ["", "s1", "", ""]})
    -> (tensor<1x?x4x24xf32> {nn.sizes = ["", "s0", "", ""]}) attributes {root = #nn.root<attention>, sizes = ["s0", "s1"]} {
  %0 = nn.attention %q, %k, %v {scale = 0.5 : f32} : (tensor<1x?x4x64xf32>, tensor<1x?x4x64xf32>, tensor<1x?x4x24xf32>) -> tensor<1x?x4x24xf32>
  rt.yield %0 : tensor<1x?x4x24xf32>
}
