// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4+avx512vnni" --split-input-file | FileCheck %s
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s --check-prefix=FLOATS

// The first tiles quantize blocks of 128 keys of a head, and their values by fours; the others attend: words of 4 features
// of 8 keys by 32 queries are multiplied, and words of 4 keys of 8 features of the values by 32 queries.
// CHECK-LABEL: func.func @bytes_run
// CHECK:         scf.for
// CHECK:           scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c1_i64
// CHECK:             vector.reduction <maxsi>
// CHECK:             vector.reduction <add>
// CHECK:           scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c4_i64
// CHECK-COUNT-4:     vector.reduction <maxsi>
// CHECK:         scf.for
// CHECK:           scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c128_i64
// CHECK:             scf.for %{{.*}} = %c0_i64 to %{{.*}} step %c8_i64
// CHECK:               %{{.*}}:16 = scf.for %{{.*}} = %c0_i64 to %c8_i64 step %c1_i64
// CHECK-COUNT-16:        llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK:             arith.maximumf
// CHECK:             scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c8_i64
// CHECK:               %{{.*}}:16 = scf.for
// CHECK-COUNT-16:        llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"

// Without the instruction the permission is not used.
// FLOATS-LABEL: func.func @bytes_run
// FLOATS-NOT:     vector.reduction
rt.kernel @bytes(%q: tensor<2x?x4x32xf32> {nn.sizes = ["", "s0", "", ""]}, %k: tensor<2x?x4x32xf32> {nn.sizes = ["", "s1", "", ""]})
    -> (tensor<2x?x4x32xf32> {nn.sizes = ["", "s0", "", ""]}) attributes {root = #nn.root<attention>, sizes = ["s0", "s1"]} {
  %0 = nn.attention %q, %k, %k {precision = i8, scale = 0.5 : f32} : (tensor<2x?x4x32xf32>, tensor<2x?x4x32xf32>, tensor<2x?x4x32xf32>) -> tensor<2x?x4x32xf32>
  rt.yield %0 : tensor<2x?x4x32xf32>
}
