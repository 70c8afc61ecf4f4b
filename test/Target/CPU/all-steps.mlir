// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v3" --target-expand-divisions --target-cpu-lower-to-llvm | FileCheck %s
// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v2" --target-expand-divisions --target-cpu-split-fused-multiply-add --target-cpu-lower-to-llvm | FileCheck %s --check-prefix=V2

// The passes that a kernel goes through on its way to LLVM IR, one after the other.
// CHECK:       llvm.func @linear_run(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr)
// CHECK:         llvm.intr.fmuladd{{.*}} vector<8xf32>
// CHECK:       llvm.func @linear_plan(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: !llvm.ptr)
// CHECK-NOT:   {{(scf|vector|arith|cf|func)\.[a-z_]}}
// V2:          llvm.func @linear_run
// V2-NOT:        fma
// V2-NOT:        fmuladd
// V2:            llvm.fmul {{.*}} vector<4xf32>
rt.kernel @linear(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x40xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x40xf32>, tensor<64x40xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
