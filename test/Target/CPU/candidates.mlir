// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" | FileCheck %s

// 600 logits are three blocks of 256; the largest of each is in a vector of 16. The next candidate is the first logit of
// the first block that has the largest.
// CHECK-LABEL: func.func @candidates_run
// CHECK:         scf.for %{{.*}} = %c600_i64 to %c768_i64 step %c1_i64
// CHECK:         scf.for %{{.*}} = %c3_i64 to %c16_i64 step %c1_i64
// CHECK:         scf.for %[[BLOCK:.*]] = %c0_i64 to %c3_i64 step %c1_i64
// CHECK:           arith.cmpf uno
// CHECK:           vector.reduction <maxsi>
// CHECK:         scf.for %[[K:.*]] = %c0_i64 to %c8_i64 step %c1_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c16_i64 step %c16_i64
// CHECK:           vector.reduction <maxsi>
// CHECK:           vector.reduction <minsi>
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c256_i64 step %c16_i64
// CHECK:           vector.reduction <maxsi>
// CHECK:           vector.reduction <minsi>

// A sum of powers for each temperature.
// CHECK:         arith.divf %{{.*}} : vector<16xf32>
// CHECK:         vector.reduction <add>
// CHECK:         arith.divf %{{.*}} : vector<16xf32>
// CHECK:         vector.reduction <add>
// CHECK-LABEL: func.func @candidates_plan
rt.kernel @candidates(%l: tensor<?x600xf32> {nn.sizes = ["s0", ""]}, %t: tensor<?x2xf32> {nn.sizes = ["s0", ""]})
    -> (tensor<?x8xf32> {nn.sizes = ["s0", ""]}, tensor<?x8xi32> {nn.sizes = ["s0", ""]}, tensor<?x2xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<candidates>, sizes = ["s0"]} {
  %v, %i, %s = nn.candidates %l, %t {count = 8 : i64} : (tensor<?x600xf32>, tensor<?x2xf32>) -> (tensor<?x8xf32>, tensor<?x8xi32>, tensor<?x2xf32>)
  rt.yield %v, %i, %s : tensor<?x8xf32>, tensor<?x8xi32>, tensor<?x2xf32>
}
