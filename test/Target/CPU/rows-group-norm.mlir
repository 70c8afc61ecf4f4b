// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v3" | FileCheck %s

// Each group of 12 features is normalised into scratch, its last four one by one; scale and bias go over the whole row.
// CHECK-LABEL: func.func @group_norm_run
// CHECK:         scf.for %[[GROUP:.*]] = %c0_i64 to %c3_i64 step %c1_i64
// CHECK:           %[[BEGIN:.*]] = arith.muli %[[GROUP]], %c12_i64
// CHECK:           %[[COUNT:.*]] = arith.uitofp %c12_i64
// CHECK:           scf.for %[[I:.*]] = %c0_i64 to %c8_i64 step %c8_i64
// CHECK-NEXT:        arith.addi %[[BEGIN]], %[[I]]
// CHECK:           vector.reduction <add>
// CHECK:           %[[MEAN:.*]] = arith.divf %{{.*}}, %[[COUNT]]
// CHECK:           vector.reduction <add>
// CHECK:           %[[ROOT:.*]] = math.sqrt
// CHECK:           %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[ROOT]]
// CHECK:           scf.for %[[I:.*]] = %c0_i64 to %c8_i64 step %c8_i64
// CHECK-NEXT:        %[[AT:.*]] = arith.addi %[[BEGIN]], %[[I]]
// CHECK:             vector.broadcast %[[MEAN]]
// CHECK:             vector.broadcast %[[INVERSE]]
// CHECK:             %[[NORMAL:.*]] = arith.mulf
// CHECK:             %[[ADDRESS:.*]] = llvm.getelementptr %[[SCRATCH:.*]][%[[AT]]]
// CHECK:             llvm.store %[[NORMAL]], %[[ADDRESS]]
// CHECK:           scf.for %{{.*}} = %c8_i64 to %c12_i64 step %c1_i64
// CHECK:         scf.for %[[I:.*]] = %c0_i64 to %c32_i64 step %c8_i64
// CHECK-NEXT:      %[[ADDRESS:.*]] = llvm.getelementptr %[[SCRATCH]][%[[I]]]
// CHECK-NEXT:      %[[X:.*]] = llvm.load %[[ADDRESS]]
// CHECK:           %[[SCALED:.*]] = arith.mulf %[[X]]
// CHECK:           arith.addf %[[SCALED]]
// CHECK-LABEL: func.func @group_norm_plan
rt.kernel @group_norm(%x: tensor<?x36xf32> {nn.sizes = ["s0", ""]}, %g: tensor<36xf32>, %b: tensor<36xf32>)
    -> (tensor<?x36xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<rows>, sizes = ["s0"]} {
  %0 = nn.group_norm %x, %g, %b {epsilon = 1.0e-5 : f32, groups = 3} : (tensor<?x36xf32>, tensor<36xf32>, tensor<36xf32>) -> tensor<?x36xf32>
  rt.yield %0 : tensor<?x36xf32>
}
