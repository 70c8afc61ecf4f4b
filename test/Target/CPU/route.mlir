// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// Logits become integers in the same order, NaN the largest. 20 of them are 16 and 4; up to 32 the least integer, and as
// a logit -inf. The largest by vectors of 16, then the first index that has it, which is marked as taken.
// CHECK-LABEL: func.func @route_run
// CHECK:         scf.for %[[TOKEN:.*]] = %{{.*}} to %{{.*}} step %c1_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c16_i64 step %c16_i64
// CHECK:             %[[IS_NAN:.*]] = arith.cmpf uno, %[[LOGIT:.*]], %[[LOGIT]] : vector<16xf32>
// CHECK:             %[[KEY:.*]] = arith.select %[[IS_NAN]]
// CHECK:             llvm.store %[[KEY]]
// CHECK:           scf.for %{{.*}} = %c16_i64 to %c20_i64 step %c1_i64
// CHECK:           llvm.getelementptr %[[KEYS:.*]][%c20_i64]
// CHECK-NEXT:      llvm.store %c-2147483648_i32
// CHECK:           llvm.getelementptr %[[KEYS]][%c31_i64]
// CHECK-NEXT:      llvm.store %c-2147483648_i32
// CHECK:           scf.for %[[K:.*]] = %c0_i64 to %c2_i64 step %c1_i64
// CHECK:             %[[BEST:.*]] = scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c16_i64
// CHECK:               arith.maxsi
// CHECK:             %[[LARGEST:.*]] = vector.reduction <maxsi>, %[[BEST]] : vector<16xi32> into i32
// CHECK:             %[[INDICES:.*]] = scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c16_i64
// CHECK:               arith.cmpi eq, %{{.*}} : vector<16xi32>
// CHECK:               arith.minsi
// CHECK:             %[[INDEX:.*]] = vector.reduction <minsi>, %[[INDICES]] : vector<16xi32> into i32
// CHECK:             llvm.store %c-2147483648_i32
// CHECK:             llvm.store %[[INDEX]]

// Weights are the softmax over all experts.
// CHECK:           %[[SUM:.*]] = scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c16_i64
// CHECK:           %[[TOTAL:.*]] = vector.reduction <add>, %[[SUM]]
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c2_i64 step %c1_i64
// CHECK:             %[[WEIGHT:.*]] = arith.divf
// CHECK:             llvm.store %[[WEIGHT]]

// A tile has 16 tokens or more.
// CHECK-LABEL: func.func @route_plan
// CHECK:         %[[PER_TILE:.*]] = arith.maxsi %{{.*}}, %c16_i64
// CHECK:         llvm.store %[[PER_TILE]]
rt.kernel @route(%l: tensor<?x20xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x2xi32> {nn.sizes = ["s0", ""]}, tensor<?x2xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<route>, sizes = ["s0"]} {
  %i, %w = nn.route %l {top_k = 2 : i64} : (tensor<?x20xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  rt.yield %i, %w : tensor<?x2xi32>, tensor<?x2xf32>
}

// -----

// Normalised weights are the softmax over the chosen ones.
// CHECK-LABEL: func.func @normalized_run
// CHECK:         vector.reduction <minsi>
// CHECK:         %[[SUM:.*]] = scf.for %{{.*}} = %c0_i64 to %c2_i64 step %c1_i64 {{.*}} -> (f32)
// CHECK-NOT:     vector.reduction
// CHECK:         arith.divf
// CHECK-LABEL: func.func @normalized_plan
rt.kernel @normalized(%l: tensor<?x32xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x2xi32> {nn.sizes = ["s0", ""]}, tensor<?x2xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<route>, sizes = ["s0"]} {
  %i, %w = nn.route %l {normalize, top_k = 2 : i64} : (tensor<?x32xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  rt.yield %i, %w : tensor<?x2xi32>, tensor<?x2xf32>
}
