// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 | FileCheck %s

// Elements of 16 bits are multiplied as they are.
// CHECK: gpu.func @itx_k0_0({{.*}}itx.grid = "batch * (m ceildiv 64) * (n ceildiv 64)"
// CHECK: llvm.nvvm.cp.async.cg.shared.global.16
// CHECK: llvm.nvvm.mma.m16n8k16.row.col.f32.f32
rt.kernel @f16(%x: tensor<?x?x64xf16> {nn.sizes = ["batch", "m", ""]}, %y: tensor<?x?x64xf16> {nn.sizes = ["batch", "n", ""]})
    -> (tensor<?x?x?xf16> {nn.sizes = ["batch", "m", "n"]}) attributes {root = #nn.root<matmul>, sizes = ["batch", "m", "n"]} {
  %0 = nn.matmul %x, %y {transpose_rhs} : (tensor<?x?x64xf16>, tensor<?x?x64xf16>) -> tensor<?x?x?xf16>
  rt.yield %0 : tensor<?x?x?xf16>
}

// Those of f32 are not rounded.
// CHECK: gpu.func @itx_k1_0
// CHECK-NOT: nvvm.mma
// CHECK: math.fma
rt.kernel @f32(%x: tensor<?x16x64xf32> {nn.sizes = ["batch", "", ""]}, %y: tensor<?x64x8xf32> {nn.sizes = ["batch", "", ""]})
    -> (tensor<?x16x8xf32> {nn.sizes = ["batch", "", ""]}) attributes {root = #nn.root<matmul>, sizes = ["batch"]} {
  %0 = nn.matmul %x, %y : (tensor<?x16x64xf32>, tensor<?x64x8xf32>) -> tensor<?x16x8xf32>
  rt.yield %0 : tensor<?x16x8xf32>
}

// Unless that is permitted.
// CHECK: gpu.func @itx_k2_0
// CHECK-NOT: math.fma
// CHECK: llvm.nvvm.mma.m16n8k8.row.col.tf32
rt.kernel @tf32(%x: tensor<?x16x64xf32> {nn.sizes = ["batch", "", ""]}, %y: tensor<?x64x8xf32> {nn.sizes = ["batch", "", ""]})
    -> (tensor<?x16x8xf32> {nn.sizes = ["batch", "", ""]}) attributes {root = #nn.root<matmul>, sizes = ["batch"]} {
  %0 = nn.matmul %x, %y {precision = tf32} : (tensor<?x16x64xf32>, tensor<?x64x8xf32>) -> tensor<?x16x8xf32>
  rt.yield %0 : tensor<?x16x8xf32>
}
