// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Rows go to the tail of their sequence, by features. A token stores nothing if a later one of this call is the first of
// the next page: then nobody reads the tail's page any more.
// CHECK-LABEL: func.func @tail_run
// CHECK:         scf.for %[[TOKEN:.*]] = %{{.*}} to %{{.*}} step %c1_i64
// CHECK:           %[[POSITION:.*]] = llvm.load %{{.*}} -> i64
// CHECK:           %[[SEQUENCE:.*]] = llvm.load %{{.*}} -> i64
// CHECK:           %[[SLOT:.*]] = arith.remui %[[POSITION]], %c32_i64
// CHECK:           %[[LEFT:.*]] = arith.subi %c32_i64, %[[SLOT]]
// CHECK-DAG:       %[[NEXT:.*]] = arith.addi %[[TOKEN]], %[[LEFT]]
// CHECK-DAG:       %[[NEXT_POSITION:.*]] = arith.addi %[[POSITION]], %[[LEFT]]
// CHECK:           %[[INSIDE:.*]] = arith.cmpi slt, %[[NEXT]], %{{.*}}
// CHECK:           arith.cmpi eq, %{{.*}}, %[[SEQUENCE]]
// CHECK:           arith.cmpi eq, %{{.*}}, %[[NEXT_POSITION]]
// CHECK:           scf.if %{{.*}} {
// CHECK-NEXT:      } else {
// CHECK:             scf.for %[[HEAD:.*]] = %c0_i64 to %c2_i64 step %c1_i64
// CHECK:               arith.muli %[[SEQUENCE]], %c4096_i64
// CHECK:               arith.muli %[[HEAD]], %c2048_i64
// CHECK:               scf.for %[[F:.*]] = %c0_i64 to %c64_i64 step %c16_i64
// CHECK:                 %[[ROUNDED:.*]] = arith.truncf %{{.*}} : vector<16xf32> to vector<16xf16>
// CHECK:                 %[[X:.*]] = vector.extract %[[ROUNDED]][0]
// CHECK:                 %[[COLUMN:.*]] = arith.muli %[[F]], %c32_i64
// CHECK:                 arith.addi %[[COLUMN]], %[[SLOT]]
// CHECK:                 llvm.store %[[X]]
rt.kernel @tail(%l: tensor<?x2x64x32xf16> {nn.sizes = ["s0", "", "", ""]}, %r: tensor<?x2x64xf32> {nn.sizes = ["s1", "", ""]}, %p: tensor<?xi64> {nn.sizes = ["s1"]}, %s: tensor<?xi64> {nn.sizes = ["s1"]})
    -> (tensor<?x2x64x32xf16> {nn.sizes = ["s0", "", "", ""]}) attributes {root = #nn.root<cache_append>, sizes = ["s0", "s1"]} {
  %0 = nn.cache_append(%l) <keys, ui4, page = 32, transposed>, %r, %p, %s {tail} : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x64x32xf16>
  rt.yield %0 : tensor<?x2x64x32xf16>
}
