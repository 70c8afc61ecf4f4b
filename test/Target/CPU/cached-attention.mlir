// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// A tile is some tokens and one of two heads of the keys. Tokens of the same sequence that follow one another form a run:
// a token begins one if it is the tile's first or of another sequence than the one before.
// CHECK-LABEL: func.func @runs_run
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %{{.*}}: !llvm.ptr)
// CHECK:         scf.for %[[TILE:.*]] = %[[BEGIN]] to %[[END]] step %c1_i64
// CHECK:           %[[HEAD:.*]] = arith.remui %[[TILE]], %c2_i64
// CHECK:           scf.for %[[TOKEN:.*]] = %[[FIRST:.*]] to %[[LAST:.*]] step %c1_i64
// CHECK:             %[[IS_FIRST:.*]] = arith.cmpi eq, %[[TOKEN]], %[[FIRST]]
// CHECK:             %[[IS_OTHER:.*]] = arith.cmpi ne, %[[SEQUENCE:.*]], %{{.*}}
// CHECK:             %[[BEGINS:.*]] = arith.ori %[[IS_FIRST]], %[[IS_OTHER]]
// CHECK:             scf.if %[[BEGINS]]
// CHECK:               %[[TOKENS:.*]]:2 = scf.for %{{.*}} = %[[TOKEN]] to %[[LAST]] step %c1_i64
// CHECK:                 arith.cmpi eq, %[[SEQUENCE]], %{{.*}}
// Two query heads share a head of the keys.
// CHECK:               %[[ROWS:.*]] = arith.muli %[[TOKENS]]#0, %c2_i64
// CHECK:               scf.for %{{.*}} = %c0_i64 to %[[ROWS]] step %c1_i64
// Keys up to the run's last position pass in blocks of four pages; where pages lie comes from the table.
// CHECK:               %[[SEEN:.*]]:2 = scf.for %{{.*}} = %c0_i64 to %[[TOKENS]]#0 step %c1_i64
// CHECK:               scf.for %[[KEY:.*]] = %c0_i64 to %[[SEEN]]#0 step %c128_i64
// CHECK:                 scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c1_i64
// CHECK:                   llvm.intr.prefetch
// CHECK:                   %[[PAGE:.*]] = llvm.load %{{.*}} -> i64
// CHECK:                   %[[OFFSET:.*]] = arith.muli %[[PAGE]], %c4096_i64
// CHECK:                   arith.muli %[[HEAD]], %c2048_i64
// CHECK:                   scf.for %{{.*}} = %c0_i64 to %[[ROWS]] step %c8_i64
// CHECK:                     %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c1_i64
// CHECK:                       llvm.load %{{.*}} -> vector<16xf16>
// CHECK:                       vector.fma
// Scores of slots behind the token's position are dropped, whatever they hold.
// CHECK:                 %[[LARGEST:.*]] = scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c16_i64
// CHECK:                   %[[VISIBLE:.*]] = arith.cmpi sle, %{{.*}} : vector<16xi64>
// CHECK-NOT:               arith.andi
// CHECK:                   %[[SCORE:.*]] = arith.select %[[VISIBLE]]
// CHECK:                   arith.maximumf %{{.*}}, %[[SCORE]]
// CHECK:                 vector.reduction <maxnumf>, %[[LARGEST]]
// CHECK:                 vector.reduction <add>
// CHECK:                 %[[IS_LATER:.*]] = arith.cmpi slt, %c0_i64, %[[KEY]]
// CHECK:                 scf.if %[[IS_LATER]]
// Values: a page's rows, as many as it has keys.
// CHECK:                   %[[DEPTH:.*]] = arith.minsi %{{.*}}, %c32_i64
// CHECK:                   scf.for %{{.*}} = %c0_i64 to %[[ROWS]] step %c8_i64
// CHECK:                     %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %[[DEPTH]] step %c1_i64
// CHECK:                       llvm.load %{{.*}} -> vector<16xf16>
// CHECK-LABEL: func.func @runs_plan
rt.kernel @runs(%q: tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}, %k: tensor<?x2x64x32xf16> {nn.sizes = ["s1", "", "", ""]}, %v: tensor<?x2x32x64xf16> {nn.sizes = ["s1", "", "", ""]},
          %p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}) attributes {root = #nn.root<cached_attention>, sizes = ["s0", "s1", "s2", "s3"]} {
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  rt.yield %0 : tensor<?x4x64xf32>
}

// -----

// Rows of values that are no whole vectors (40 = 2 * 16 + 8) are copied to rows of 48, and so are results stored.
// CHECK-LABEL: func.func @padded_run
// CHECK:         %[[DEPTH:.*]] = arith.minsi %{{.*}}, %c32_i64
// CHECK:         scf.for %[[SLOT:.*]] = %c0_i64 to %[[DEPTH]] step %c1_i64
// CHECK:           %[[FROM:.*]] = arith.muli %[[SLOT]], %c40_i64
// CHECK:           %[[TO:.*]] = arith.muli %[[SLOT]], %c48_i64
// CHECK:           scf.for %{{.*}} = %c40_i64 to %c48_i64 step %c1_i64
// CHECK:         scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c8_i64
// CHECK:           %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %[[DEPTH]] step %c1_i64
// CHECK:           %{{.*}}:8 = scf.for %{{.*}} = %c0_i64 to %[[DEPTH]] step %c1_i64
// CHECK:         arith.divf
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c16_i64
// CHECK:         scf.for %{{.*}} = %c32_i64 to %c40_i64 step %c1_i64
// CHECK-LABEL: func.func @padded_plan
rt.kernel @padded(%q: tensor<?x4x40xf32> {nn.sizes = ["s0", "", ""]}, %k: tensor<?x2x40x32xf16> {nn.sizes = ["s1", "", "", ""]}, %v: tensor<?x2x32x40xf16> {nn.sizes = ["s1", "", "", ""]},
          %p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x4x40xf32> {nn.sizes = ["s0", "", ""]}) attributes {root = #nn.root<cached_attention>, sizes = ["s0", "s1", "s2", "s3"]} {
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x40xf32>, tensor<?x2x40x32xf16>, tensor<?x2x32x40xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x40xf32>
  rt.yield %0 : tensor<?x4x40xf32>
}

// -----

// Caches of bytes hold E4M3, whose bits are moved into those of f16.
// CHECK-LABEL: func.func @e4m3_run
// CHECK:         %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c1_i64
// CHECK:           %[[BYTES:.*]] = llvm.load %{{.*}} -> vector<16xi8>
// CHECK:           %[[WORDS:.*]] = arith.extsi %[[BYTES]] : vector<16xi8> to vector<16xi16>
// CHECK:           arith.shli %[[WORDS]]
// CHECK:           arith.bitcast %{{.*}} : vector<16xi16> to vector<16xf16>
// CHECK:           vector.fma
rt.kernel @e4m3(%q: tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}, %k: tensor<?x2x64x32xi8> {nn.sizes = ["s1", "", "", ""]}, %v: tensor<?x2x32x64xi8> {nn.sizes = ["s1", "", "", ""]},
          %p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}) attributes {root = #nn.root<cached_attention>, sizes = ["s0", "s1", "s2", "s3"]} {
  %0 = nn.cached_attention %q, (%k) <keys, f8E4M3FN, page = 32, transposed>, (%v) <values, f8E4M3FN, page = 32>, %p, %s, %t {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xi8>, tensor<?x2x32x64xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  rt.yield %0 : tensor<?x4x64xf32>
}
