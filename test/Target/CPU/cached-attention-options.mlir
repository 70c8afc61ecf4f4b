// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// A window: keys begin with the page that the run's first token sees, and keys before a token's window are dropped too.
// CHECK-LABEL: func.func @window_run
// CHECK:         %[[SEEN:.*]]:2 = scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c1_i64
// CHECK:         %[[BEFORE:.*]] = arith.subi %[[SEEN]]#1, %c99_i64
// CHECK:         %[[POSITION:.*]] = arith.maxsi %[[BEFORE]], %c0_i64
// CHECK:         %[[PAGE:.*]] = arith.divui %[[POSITION]], %c32_i64
// CHECK:         %[[FIRST:.*]] = arith.muli %[[PAGE]], %c32_i64
// CHECK:         scf.for %{{.*}} = %[[FIRST]] to %[[SEEN]]#0 step %c128_i64
// CHECK:           %[[IS_BEHIND:.*]] = arith.cmpi sle, %{{.*}} : vector<16xi64>
// CHECK:           arith.subi %{{.*}}, %c100_i64
// CHECK:           %[[IS_INSIDE:.*]] = arith.cmpi sgt, %{{.*}} : vector<16xi64>
// CHECK:           %[[VISIBLE:.*]] = arith.andi %[[IS_BEHIND]], %[[IS_INSIDE]]
// CHECK:           arith.select %[[VISIBLE]]
rt.kernel @window(%q: tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}, %k: tensor<?x2x64x32xf16> {nn.sizes = ["s1", "", "", ""]}, %v: tensor<?x2x32x64xf16> {nn.sizes = ["s1", "", "", ""]},
          %p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}) attributes {root = #nn.root<cached_attention>, sizes = ["s0", "s1", "s2", "s3"]} {
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32, window = 100 : i64} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  rt.yield %0 : tensor<?x4x64xf32>
}

// -----

// A soft cap of 30: scores become 30 tanh(score / 30) before they are dropped.
// CHECK-LABEL: func.func @soft_cap_run
// CHECK:         %[[VISIBLE:.*]] = arith.cmpi sle, %{{.*}} : vector<16xi64>
// CHECK:         %[[INVERSE:.*]] = arith.constant dense<0.0333333351> : vector<16xf32>
// CHECK:         arith.mulf %{{.*}}, %[[INVERSE]]
// CHECK:         %[[CAP:.*]] = arith.constant dense<3.000000e+01> : vector<16xf32>
// CHECK:         %[[CAPPED:.*]] = arith.mulf %{{.*}}, %[[CAP]]
// CHECK:         arith.select %[[VISIBLE]], %[[CAPPED]]
rt.kernel @soft_cap(%q: tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}, %k: tensor<?x2x64x32xf16> {nn.sizes = ["s1", "", "", ""]}, %v: tensor<?x2x32x64xf16> {nn.sizes = ["s1", "", "", ""]},
          %p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]})
    -> (tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}) attributes {root = #nn.root<cached_attention>, sizes = ["s0", "s1", "s2", "s3"]} {
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t {scale = 0.125 : f32, soft_cap = 30.0 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  rt.yield %0 : tensor<?x4x64xf32>
}

// -----

// A row's sink begins its maximum, and its total with 1; without one they begin with -inf and 0.
// CHECK-LABEL: func.func @sinks_run
// CHECK:         %[[HEAD:.*]] = arith.addi %{{.*}}, %{{.*}} : i64
// CHECK:         %[[SINK:.*]] = llvm.load %{{.*}} -> f32
// CHECK-NEXT:    %[[MAXIMUM:.*]] = llvm.getelementptr
// CHECK-NEXT:    llvm.store %[[SINK]], %[[MAXIMUM]]
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK:         llvm.store %[[ONE]]
rt.kernel @sinks(%q: tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}, %k: tensor<?x2x64x32xf16> {nn.sizes = ["s1", "", "", ""]}, %v: tensor<?x2x32x64xf16> {nn.sizes = ["s1", "", "", ""]},
          %p: tensor<?xi64> {nn.sizes = ["s0"]}, %s: tensor<?xi64> {nn.sizes = ["s0"]}, %t: tensor<?x?xi64> {nn.sizes = ["s2", "s3"]}, %h: tensor<4xf32>)
    -> (tensor<?x4x64xf32> {nn.sizes = ["s0", "", ""]}) attributes {root = #nn.root<cached_attention>, sizes = ["s0", "s1", "s2", "s3"]} {
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32, transposed>, (%v) <values, f16, page = 32>, %p, %s, %t sinks %h {scale = 0.125 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<4xf32>) -> tensor<?x4x64xf32>
  rt.yield %0 : tensor<?x4x64xf32>
}
