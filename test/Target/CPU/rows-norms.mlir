// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// The mean, then the sum of squared differences: four vectors of sums, two vectors and 8 elements that are left of 104.
// CHECK-LABEL: func.func @layer_norm_run
// CHECK:         %{{.*}}:4 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c64_i64
// CHECK:         %{{.*}} = scf.for %{{.*}} = %c64_i64 to %c96_i64 step %c16_i64
// CHECK:         vector.reduction <add>
// CHECK:         %{{.*}} = scf.for %{{.*}} = %c96_i64 to %c104_i64 step %c1_i64
// CHECK:         %[[MEAN:.*]] = arith.divf
// CHECK:         %{{.*}}:4 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c64_i64
// CHECK:           %[[SPLAT:.*]] = vector.broadcast %[[MEAN]]
// CHECK:           %[[DIFFERENCE:.*]] = arith.subf %{{.*}}, %[[SPLAT]]
// CHECK:           arith.mulf %[[DIFFERENCE]], %[[DIFFERENCE]]
// CHECK:         vector.reduction <add>
// CHECK:         math.sqrt
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c96_i64 step %c16_i64
// CHECK:           llvm.store %{{.*}} : vector<16xf32>
// CHECK:         scf.for %{{.*}} = %c96_i64 to %c104_i64 step %c1_i64
// CHECK-LABEL: func.func @layer_norm_plan
// An f32 row in memory is read where it lies.
// CHECK:         llvm.store %c0_i64
rt.kernel @layer_norm(%x: tensor<?x104xf32> {nn.sizes = ["s0", ""]}, %g: tensor<104xf32>, %b: tensor<104xf32>)
    -> (tensor<?x104xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<rows>, sizes = ["s0"]} {
  %0 = nn.layer_norm %x, %g, %b {epsilon = 1.0e-6 : f32} : (tensor<?x104xf32>, tensor<104xf32>, tensor<104xf32>) -> tensor<?x104xf32>
  rt.yield %0 : tensor<?x104xf32>
}

// -----

// A row that is computed goes to scratch as it is read first.
// CHECK-LABEL: func.func @rms_norm_run
// CHECK:         %[[SUMS:.*]]:4 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c64_i64
// CHECK-COUNT-4:   llvm.store %{{.*}} : vector<16xf32>
// CHECK-NOT:       llvm.store
// CHECK:         math.sqrt
// CHECK-NOT:     arith.maximumf
// CHECK-LABEL: func.func @rms_norm_plan
// CHECK:         llvm.store %c256_i64
rt.kernel @rms_norm(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %g: tensor<64xf32>)
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<rows>, sizes = ["s0"]} {
  %r = nn.relu %x : tensor<?x64xf32>
  %0 = nn.rms_norm %r, %g {epsilon = 1.0e-6 : f32} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// The largest element, then exponentials into scratch and their sum; a row of -inf gives zeros.
// CHECK-LABEL: func.func @softmax_run
// CHECK:         %[[LARGEST:.*]] = vector.reduction <maximumf>
// CHECK:         %[[IS_LOWEST:.*]] = arith.cmpf oeq, %[[LARGEST]], %{{.*}} : f32
// CHECK:         %[[SHIFT:.*]] = arith.select %[[IS_LOWEST]], %{{.*}}, %[[LARGEST]]
// CHECK:         %{{.*}}:4 = scf.for
// CHECK:           %[[SPLAT:.*]] = vector.broadcast %[[SHIFT]]
// CHECK:           arith.subf %{{.*}}, %[[SPLAT]]
// CHECK:         %[[SUM:.*]] = vector.reduction <add>
// CHECK:         %[[IS_ZERO:.*]] = arith.cmpf oeq, %[[SUM]]
// CHECK:         %[[DIVISOR:.*]] = arith.select %[[IS_ZERO]], %{{.*}}, %[[SUM]]
// CHECK:         %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[DIVISOR]]
// CHECK:         vector.broadcast %[[INVERSE]]
// CHECK-LABEL: func.func @softmax_plan
rt.kernel @softmax(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<rows>, sizes = ["s0"]} {
  %0 = nn.softmax %x : tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
