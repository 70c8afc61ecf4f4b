// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Keys end where the last query of a tile sees them; scores of keys behind a query's own become -inf. The last query
// sees the last key: the first one is `keys - queries` ahead.
// CHECK-LABEL: func.func @causal_run
// CHECK:         %[[AHEAD:.*]] = arith.subi %[[KEYS:.*]], %[[QUERIES:.*]] : i64
// CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c1_i64
// CHECK:           %[[FIRST:.*]] = arith.muli %{{.*}}, %c32_i64
// CHECK:           %[[COUNT:.*]] = arith.minsi %{{.*}}, %c32_i64
// CHECK:           %[[LAST:.*]] = arith.addi %[[FIRST]], %[[COUNT]]
// CHECK:           %[[SEEN:.*]] = arith.addi %[[LAST]], %[[AHEAD]]
// CHECK:           %[[WITHIN:.*]] = arith.minsi %[[KEYS]], %[[SEEN]]
// CHECK:           %[[END:.*]] = arith.maxsi %[[WITHIN]], %c0_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %[[END]] step %c128_i64
// CHECK:             vector.fma
// CHECK:             %[[QUERY:.*]] = arith.addi %{{.*}}, %{{.*}} : vector<16xi64>
// CHECK:             %[[KEY:.*]] = vector.broadcast %{{.*}} : i64 to vector<16xi64>
// CHECK:             %[[IS_SEEN:.*]] = arith.cmpi sle, %[[KEY]], %[[QUERY]]
// CHECK:             %[[SCORE:.*]] = arith.select %[[IS_SEEN]], %{{.*}} : vector<16xi1>, vector<16xf32>
// CHECK:             llvm.store %[[SCORE]]
// CHECK:             arith.maximumf %{{.*}}, %[[SCORE]]
rt.kernel @causal(%q: tensor<1x?x4x64xf32> {nn.sizes = ["", "s0", "", ""]}, %k: tensor<1x?x4x64xf32> {nn.sizes = ["", "s1", "", ""]}, %v: tensor<1x?x4x64xf32> {nn.sizes = ["", "s1", "", ""]})
    -> (tensor<1x?x4x64xf32> {nn.sizes = ["", "s0", "", ""]}) attributes {root = #nn.root<attention>, sizes = ["s0", "s1"]} {
  %0 = nn.attention %q, %k, %v {causal, scale = 0.5 : f32} : (tensor<1x?x4x64xf32>, tensor<1x?x4x64xf32>, tensor<1x?x4x64xf32>) -> tensor<1x?x4x64xf32>
  rt.yield %0 : tensor<1x?x4x64xf32>
}

// -----

// A mask of keys alone is read once for all queries.
// CHECK-LABEL: func.func @keys_run
// CHECK:         %[[BYTE:.*]] = llvm.load %{{.*}} -> i8
// CHECK:         %[[IS_SEEN:.*]] = arith.cmpi ne, %[[BYTE]], %{{.*}} : i8
// CHECK:         %[[ALL:.*]] = vector.broadcast %[[IS_SEEN]] : i1 to vector<16xi1>
// CHECK:         %[[SCORE:.*]] = arith.select %[[ALL]], %{{.*}} : vector<16xi1>, vector<16xf32>
// CHECK:         llvm.store %[[SCORE]]
// CHECK-LABEL: func.func @keys_plan
rt.kernel @keys(%q: tensor<2x?x4x64xf32> {nn.sizes = ["", "s0", "", ""]}, %m: tensor<2x1x1x?xi1> {nn.sizes = ["", "", "", "s0"]})
    -> (tensor<2x?x4x64xf32> {nn.sizes = ["", "s0", "", ""]}) attributes {root = #nn.root<attention>, sizes = ["s0"]} {
  %0 = nn.attention %q, %q, %q mask %m {scale = 0.5 : f32} : (tensor<2x?x4x64xf32>, tensor<2x?x4x64xf32>, tensor<2x?x4x64xf32>, tensor<2x1x1x?xi1>) -> tensor<2x?x4x64xf32>
  rt.yield %0 : tensor<2x?x4x64xf32>
}

// -----

// A mask of queries by keys is transposed into the scores, by blocks of 16 x 16 as the queries before it, and products
// are added to it.
// CHECK-LABEL: func.func @added_run
// CHECK:         vector.shuffle
// CHECK:         scf.for
// CHECK:         vector.shuffle
// CHECK:         scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c8_i64
// CHECK:           %{{.*}}:16 = scf.for {{.*}} iter_args(%{{[^ ]*}} = %{{[0-9]+}},
// CHECK-LABEL: func.func @added_plan
rt.kernel @added(%q: tensor<2x?x4x64xf32> {nn.sizes = ["", "s0", "", ""]}, %m: tensor<1x4x?x?xf32> {nn.sizes = ["", "", "s0", "s0"]})
    -> (tensor<2x?x4x64xf32> {nn.sizes = ["", "s0", "", ""]}) attributes {root = #nn.root<attention>, sizes = ["s0"]} {
  %0 = nn.attention %q, %q, %q mask %m {scale = 0.5 : f32} : (tensor<2x?x4x64xf32>, tensor<2x?x4x64xf32>, tensor<2x?x4x64xf32>, tensor<1x4x?x?xf32>) -> tensor<2x?x4x64xf32>
  rt.yield %0 : tensor<2x?x4x64xf32>
}
