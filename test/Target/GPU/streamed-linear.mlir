// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_90a | FileCheck %s
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 | FileCheck %s --check-prefix=NONE

// 160 tiles of 640 rows are not two whole waves of 132 blocks: each block computes one tile and shares the 28 that are
// left. The function says for which numbers of rows of tiles that is fastest; the sums of parts go to scratch.
// CHECK: gpu.func @itx_k0_[[STREAM:[0-9]+]]({{.*}} kernel attributes {itx.grid = "{{.*}} * 132", itx.scratch = "{{.*}} + 132) * 131072",
// CHECK-SAME: itx.why = "{{.*}}5 rows of tiles: {{[0-9.]+}} us, {{[0-9.]+}} otherwise
// CHECK-SAME: known_block_size = array<i32: 384, 1, 1>
// CHECK: wgmma.mma_async.sync.aligned.m64n256k16
// CHECK: scf.if
// CHECK: llvm.store %{{.*}} : vector<4xf32>, !llvm.ptr<1>
// CHECK: else
// CHECK: math.absf

// The launch behind it adds up what the blocks of a tile have, in their order, and computes what stands behind the linear.
// CHECK: gpu.func @itx_k0_
// CHECK-SAME: itx.scratch = "0"
// CHECK-SAME: known_block_size = array<i32: 256, 1, 1>
// CHECK: scf.for
// CHECK: arith.addf
// CHECK: math.absf

// Other numbers of rows are computed by whole tiles.
// CHECK: gpu.func @itx_k0_
// CHECK-NOT: itx.why
// CHECK-SAME: known_block_size = array<i32: 384, 1, 1>
// CHECK: wgmma.mma_async.sync.aligned.m64n256k16

// NONE-NOT: itx.why
rt.kernel @linear(%x: tensor<?x8192xf16> {nn.sizes = ["rows", ""]}, %w: tensor<8192x8192xf16> {rt.layout = #rt.row_major})
    -> (tensor<?x8192xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = arith.extf %x : tensor<?x8192xf16> to tensor<?x8192xf32>
  %1 = nn.linear %0, %w {precision = f16} : (tensor<?x8192xf32>, tensor<8192x8192xf16>) -> tensor<?x8192xf32>
  %2 = math.absf %1 : tensor<?x8192xf32>
  rt.yield %2 : tensor<?x8192xf32>
}

// Linears whose tiles are few and shallow are not shared.
// CHECK: gpu.func @itx_k1_
// CHECK-NOT: itx.why
rt.kernel @shallow(%x: tensor<?x256xf16> {nn.sizes = ["rows", ""]}, %w: tensor<256x256xf16> {rt.layout = #rt.row_major})
    -> (tensor<?x256xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = arith.extf %x : tensor<?x256xf16> to tensor<?x256xf32>
  %1 = nn.linear %0, %w {precision = f16} : (tensor<?x256xf32>, tensor<256x256xf16>) -> tensor<?x256xf32>
  rt.yield %1 : tensor<?x256xf32>
}
