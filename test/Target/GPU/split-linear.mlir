// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 | FileCheck %s --check-prefixes=CHECK,SM80
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx942 | FileCheck %s
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_90a | FileCheck %s

// Two tiles of features fill few multiprocessors: up to eight blocks share the depth of each, where rows fill one tile. A
// block has a part of the tiles along the depth, and a launch behind adds up the parts. Large tiles are not
// split.

// CHECK: gpu.func @itx_k0_0
// CHECK-SAME: itx.grid = "{{[^"]*}}(8 floordiv (rows ceildiv 16
// CHECK: gpu.func @itx_k0_1
// CHECK: gpu.func @itx_k0_2
// CHECK-SAME: itx.grid = "{{[^"]*}}(8 floordiv (rows ceildiv 64
// CHECK-SAME: itx.scratch = "{{[^"]+}} * 280"
// SM80: llvm.nvvm.mma
// SM80: %[[IS_SPLIT:.*]] = arith.cmpi slt, %c1_i64, %{{.*}}
// SM80: scf.if %[[IS_SPLIT]]
// SM80: llvm.store %{{.*}} : vector<2xf32>, !llvm.ptr<1>
// SM80: else
// SM80: math.
// CHECK: gpu.func @itx_k0_3
// CHECK-SAME: itx.grid = "{{[^"]*}}(8 floordiv (rows ceildiv 64
// CHECK-SAME: itx.scratch = "0"
// CHECK: scf.for
// CHECK: arith.addf
// CHECK: gpu.func @itx_k0_4
// CHECK-NOT: floordiv (rows ceildiv 64
rt.kernel @narrow(%x: tensor<?x2072xf32> {nn.sizes = ["rows", ""]}, %w: tensor<70x2072xf16> {rt.layout = #rt.row_major})
    -> (tensor<?x70xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = arith.extf %w : tensor<70x2072xf16> to tensor<70x2072xf32>
  %1 = nn.linear %x, %0 {precision = f16} : (tensor<?x2072xf32>, tensor<70x2072xf32>) -> tensor<?x70xf32>
  %2 = math.absf %1 : tensor<?x70xf32>
  rt.yield %2 : tensor<?x70xf32>
}

// What is shallow is not split, however few its tiles are.
// CHECK: gpu.func @itx_k1_2
// CHECK-SAME: itx.grid = "{{[^"]*}}"
// CHECK-NOT: gpu.func @itx_k1_5
rt.kernel @shallow(%x: tensor<?x256xf32> {nn.sizes = ["rows", ""]}, %w: tensor<64x256xf16> {rt.layout = #rt.row_major})
    -> (tensor<?x64xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = nn.linear %x, %w {precision = f16} : (tensor<?x256xf32>, tensor<64x256xf16>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
