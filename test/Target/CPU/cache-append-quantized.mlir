// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Without a tail a group is the row of one token and head: its values go to scratch, then its largest and its least
// one, scale and zero, and 64 values of 4 bits in two blocks of 16 bytes.
// CHECK-LABEL: func.func @rows_run
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c2_i64 step %c1_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c16_i64
// CHECK:           vector.reduction <maximumf>
// CHECK:           vector.reduction <maximumf>
// CHECK:           %[[SCALE:.*]] = arith.trunci %{{.*}} : i32 to i8
// CHECK:           llvm.store %[[SCALE]]
// CHECK:           %[[ZERO:.*]] = arith.trunci %{{.*}} : i32 to i8
// CHECK:           llvm.store %[[ZERO]]
// CHECK:           scf.for %[[BLOCK:.*]] = %c0_i64 to %c2_i64 step %c1_i64
// CHECK:             arith.muli %[[BLOCK]], %c32_i64
// CHECK:             %[[FOUR:.*]] = arith.shli %{{.*}} : vector<16xi8>
// CHECK:             %[[PAIR:.*]] = arith.ori %{{.*}}, %[[FOUR]]
// CHECK:             arith.muli %[[BLOCK]], %c16_i64
// CHECK:             llvm.store %[[PAIR]]
// CHECK-LABEL: func.func @rows_plan
rt.kernel @rows(%c: tensor<?x2x32x32xi8> {nn.sizes = ["s0", "", "", ""]}, %q: tensor<?x2x2x32xi8> {nn.sizes = ["s0", "", "", ""]}, %r: tensor<?x2x64xf32> {nn.sizes = ["s1", "", ""]}, %p: tensor<?xi64> {nn.sizes = ["s1"]}, %s: tensor<?xi64> {nn.sizes = ["s1"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x2x32x32xi8> {nn.sizes = ["s0", "", "", ""]}, tensor<?x2x2x32xi8> {nn.sizes = ["s0", "", "", ""]}) attributes {root = #nn.root<cache_append>, sizes = ["s0", "s1", "s2", "s3"]} {
  %0, %1 = nn.cache_append(%c, %q) <values, ui4, page = 32>, %r, %p, %s, %t : (tensor<?x2x32x32xi8>, tensor<?x2x2x32xi8>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x32x32xi8>, tensor<?x2x2x32xi8>)
  rt.yield %0, %1 : tensor<?x2x32x32xi8>, tensor<?x2x2x32xi8>
}

// -----

// With a tail the last token of a page quantizes it: each feature's 32 slots are a group. They are rows of this call
// or come from the tail, which is read unless this call has the page's first token.
// CHECK-LABEL: func.func @pages_run
// CHECK:         %[[SLOT:.*]] = arith.remui %{{.*}}, %c32_i64
// CHECK:         %[[IS_LAST:.*]] = arith.cmpi eq, %[[SLOT]], %c31_i64
// CHECK:         scf.if %[[IS_LAST]]
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c2_i64 step %c1_i64
// CHECK:             scf.if %{{.*}} {
// CHECK-NEXT:        } else {
// CHECK:               scf.for %{{.*}} = %c0_i64 to %c2048_i64 step %c16_i64
// CHECK:                 llvm.load %{{.*}} -> vector<16xf16>
// CHECK:             scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c1_i64
// CHECK:               scf.if
// CHECK:                 arith.truncf %{{.*}} : vector<16xf32> to vector<16xf16>
// CHECK:                 arith.extf
// CHECK:             scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c1_i64
// CHECK:               scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c16_i64
// CHECK:               vector.reduction <maximumf>
// CHECK:               scf.for %{{.*}} = %c0_i64 to %c1_i64 step %c1_i64
// CHECK:                 arith.ori %{{.*}} : vector<16xi8>
rt.kernel @pages(%c: tensor<?x2x64x16xi8> {nn.sizes = ["s0", "", "", ""]}, %q: tensor<?x2x2x64xi8> {nn.sizes = ["s0", "", "", ""]}, %r: tensor<?x2x64xf32> {nn.sizes = ["s1", "", ""]}, %p: tensor<?xi64> {nn.sizes = ["s1"]}, %s: tensor<?xi64> {nn.sizes = ["s1"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]}, %l: tensor<?x2x64x32xf16> {nn.sizes = ["s2", "", "", ""]})
    -> (tensor<?x2x64x16xi8> {nn.sizes = ["s0", "", "", ""]}, tensor<?x2x2x64xi8> {nn.sizes = ["s0", "", "", ""]}) attributes {root = #nn.root<cache_append>, sizes = ["s0", "s1", "s2", "s3"]} {
  %0, %1 = nn.cache_append(%c, %q, %l) <keys, ui4, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>, tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>)
  rt.yield %0, %1 : tensor<?x2x64x16xi8>, tensor<?x2x2x64xi8>
}
