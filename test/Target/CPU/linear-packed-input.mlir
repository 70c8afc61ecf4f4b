// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// An input that is not f32 in memory is packed, the rows of a tile before its panels: 40 = 2 * 16 + 8 features. The
// matmul reads the packed rows.
// CHECK-LABEL: func.func @widened_run
// CHECK-SAME:    %[[WORKSPACE:[^ ]*]]: !llvm.ptr)
// CHECK:         %[[PACKED:.*]] = llvm.getelementptr %[[WORKSPACE]][%c1024_i64]
// CHECK:         scf.for %[[ROW:.*]] = %[[FIRST:.*]] to %{{.*}} step %c1_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c16_i64
// CHECK:             llvm.load {{.*}} -> vector<16xf16>
// CHECK:             arith.extf {{.*}} : vector<16xf16> to vector<16xf32>
// CHECK:             %[[TO:.*]] = llvm.getelementptr %[[PACKED]]
// CHECK:             llvm.store %{{.*}}, %[[TO]] {{.*}} : vector<16xf32>
// CHECK:           scf.for %{{.*}} = %c32_i64 to %c40_i64 step %c1_i64
// CHECK:             arith.extf {{.*}} : f16 to f32
// CHECK:         %[[LEFT:.*]] = llvm.getelementptr %[[PACKED]]
// CHECK:         vector.fma
rt.kernel @widened(%x: tensor<?x40xf16> {nn.sizes = ["s0", ""]}, %w: tensor<64x40xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %e = arith.extf %x : tensor<?x40xf16> to tensor<?x40xf32>
  %0 = nn.linear %e, %w : (tensor<?x40xf32>, tensor<64x40xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// f32 is read where it lies.
// CHECK-LABEL: func.func @direct_run
// CHECK-NOT:     vector<16xf32>, !llvm.ptr
// CHECK:         vector.fma
rt.kernel @direct(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x40xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x40xf32>, tensor<64x40xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
