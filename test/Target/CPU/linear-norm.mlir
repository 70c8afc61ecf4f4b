// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" | FileCheck %s

// The norm has tiles of its own, numbered on from those of the matmul: 16 rows each, read and written in place.
// CHECK-LABEL: func.func @linear_norm_run
// CHECK-SAME:    (%{{.*}}: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %{{.*}}: !llvm.ptr)
// CHECK:         %[[IS_FINISH:.*]] = arith.cmpi sge, %[[BEGIN]], %[[TILES:.*]] : i64
// CHECK:         scf.if %[[IS_FINISH]]
// CHECK:           %[[TILE:.*]] = arith.subi %[[BEGIN]], %[[TILES]]
// CHECK:           %[[FIRST:.*]] = arith.muli %[[TILE]], %c16_i64
// CHECK:           scf.for %[[ROW:.*]] = %[[FIRST]] to %{{.*}} step %c1_i64
// CHECK:             %{{.*}}:4 = scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c64_i64
// CHECK:             vector.reduction <add>
// CHECK:             %[[ROOT:.*]] = math.sqrt
// CHECK:             %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[ROOT]]
// CHECK:             scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c16_i64
// CHECK:               %[[X:.*]] = llvm.load %{{.*}} -> vector<16xf32>
// CHECK:               %[[BROADCAST:.*]] = vector.broadcast %[[INVERSE]]
// CHECK:               arith.mulf %[[X]], %[[BROADCAST]]
// CHECK:               llvm.store
// CHECK:         %[[END_OF_TILES:.*]] = arith.minsi %[[END]], %[[TILES]]
// CHECK:         scf.for %{{.*}} = %[[BEGIN]] to %[[END_OF_TILES]] step %c1_i64
// CHECK:           vector.fma
rt.kernel @linear_norm(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x40xf32> {rt.layout = #rt.panels<32>}, %g: tensor<64xf32>)
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x40xf32>, tensor<64x40xf32>) -> tensor<?x64xf32>
  %1 = nn.rms_norm %0, %g {epsilon = 1.0e-6 : f32} : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  rt.yield %1 : tensor<?x64xf32>
}
