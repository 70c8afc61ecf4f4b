// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Tokens of a tile, then heads: slot and page of the position, where the page lies by the sequence's row of the table,
// a row of 40 = 2 * 16 + 8 features.
// CHECK-LABEL: func.func @append_run
// CHECK:         scf.for %[[TOKEN:.*]] = %{{.*}} to %{{.*}} step %c1_i64
// CHECK:           %[[POSITION:.*]] = llvm.load %{{.*}} -> i64
// CHECK:           %[[SEQUENCE:.*]] = llvm.load %{{.*}} -> i64
// CHECK:           %[[SLOT:.*]] = arith.remui %[[POSITION]], %c32_i64
// CHECK:           %[[PAGE_INDEX:.*]] = arith.divui %[[POSITION]], %c32_i64
// CHECK:           scf.for %[[HEAD:.*]] = %c0_i64 to %c2_i64 step %c1_i64
// CHECK:             %[[ROW:.*]] = arith.muli %[[SEQUENCE]]
// CHECK:             arith.addi %[[ROW]], %[[PAGE_INDEX]]
// CHECK:             %[[PAGE:.*]] = llvm.load %{{.*}} -> i64
// CHECK:             arith.muli %[[PAGE]], %c2560_i64
// CHECK:             arith.muli %[[HEAD]], %c1280_i64
// CHECK:             scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c16_i64
// CHECK:               arith.muli %[[SLOT]], %c40_i64
// CHECK:               %[[ROUNDED:.*]] = arith.truncf %{{.*}} : vector<16xf32> to vector<16xf16>
// CHECK:               llvm.store %[[ROUNDED]]
// CHECK:             scf.for %{{.*}} = %c32_i64 to %c40_i64 step %c1_i64
// CHECK:               arith.truncf %{{.*}} : f32 to f16
// CHECK-LABEL: func.func @append_plan
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %[[THREADS:.*]]: i64, %{{.*}}: !llvm.ptr)
// CHECK:         "llvm.intr.smul.with.overflow"(%[[THREADS]], %c4_i64)
rt.kernel @append(%c: tensor<?x2x32x40xf16> {nn.sizes = ["s0", "", "", ""]}, %r: tensor<?x2x40xf32> {nn.sizes = ["s1", "", ""]}, %p: tensor<?xi64> {nn.sizes = ["s1"]}, %s: tensor<?xi64> {nn.sizes = ["s1"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x2x32x40xf16> {nn.sizes = ["s0", "", "", ""]}) attributes {root = #nn.root<cache_append>, sizes = ["s0", "s1", "s2", "s3"]} {
  %0 = nn.cache_append(%c) <values, f16, page = 32>, %r, %p, %s, %t : (tensor<?x2x32x40xf16>, tensor<?x2x40xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x40xf16>
  rt.yield %0 : tensor<?x2x32x40xf16>
}

// -----

// Keys lie by features: the elements of a row are a page apart and are stored one by one.
// CHECK-LABEL: func.func @transposed_run
// CHECK:         scf.for %[[F:.*]] = %c0_i64 to %c32_i64 step %c16_i64
// CHECK:           %[[ROUNDED:.*]] = arith.truncf %{{.*}} : vector<16xf32> to vector<16xf16>
// CHECK:           %[[X:.*]] = vector.extract %[[ROUNDED]][0]
// CHECK:           %[[COLUMN:.*]] = arith.muli %[[F]], %c32_i64
// CHECK:           %[[TO:.*]] = arith.addi %[[COLUMN]], %{{.*}}
// CHECK:           llvm.getelementptr %{{.*}}[%[[TO]]]
// CHECK:           llvm.store %[[X]]
// CHECK:           vector.extract %[[ROUNDED]][15]
// CHECK:         scf.for %{{.*}} = %c32_i64 to %c40_i64 step %c1_i64
// CHECK-LABEL: func.func @transposed_plan
rt.kernel @transposed(%c: tensor<?x2x40x32xf16> {nn.sizes = ["s0", "", "", ""]}, %r: tensor<?x2x40xf32> {nn.sizes = ["s1", "", ""]}, %p: tensor<?xi64> {nn.sizes = ["s1"]}, %s: tensor<?xi64> {nn.sizes = ["s1"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x2x40x32xf16> {nn.sizes = ["s0", "", "", ""]}) attributes {root = #nn.root<cache_append>, sizes = ["s0", "s1", "s2", "s3"]} {
  %0 = nn.cache_append(%c) <keys, f16, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x40x32xf16>, tensor<?x2x40xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x40x32xf16>
  rt.yield %0 : tensor<?x2x40x32xf16>
}

// -----

// Caches of bytes hold E4M3: rounded in the bits of f32.
// CHECK-LABEL: func.func @e4m3_run
// CHECK:         %[[BITS:.*]] = arith.bitcast %{{.*}} : vector<16xf32> to vector<16xi32>
// CHECK:         %[[BYTES:.*]] = arith.trunci %{{.*}} : vector<16xi32> to vector<16xi8>
// CHECK:         llvm.store %[[BYTES]]
// CHECK-LABEL: func.func @e4m3_plan
rt.kernel @e4m3(%c: tensor<?x2x32x40xi8> {nn.sizes = ["s0", "", "", ""]}, %r: tensor<?x2x40xf32> {nn.sizes = ["s1", "", ""]}, %p: tensor<?xi64> {nn.sizes = ["s1"]}, %s: tensor<?xi64> {nn.sizes = ["s1"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x2x32x40xi8> {nn.sizes = ["s0", "", "", ""]}) attributes {root = #nn.root<cache_append>, sizes = ["s0", "s1", "s2", "s3"]} {
  %0 = nn.cache_append(%c) <values, f8E4M3FN, page = 32>, %r, %p, %s, %t : (tensor<?x2x32x40xi8>, tensor<?x2x40xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x40xi8>
  rt.yield %0 : tensor<?x2x32x40xi8>
}
