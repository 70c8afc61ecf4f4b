// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 | FileCheck %s
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx942 | FileCheck %s --check-prefix=GFX942

// A warp an expert counts its pairs, then sorts them and lists tiles.
// CHECK: gpu.func @itx_k0_0({{.*}}itx.grid = "1"
// CHECK: arith.cmpi eq
// CHECK: gpu.shuffle xor
// CHECK: gpu.func @itx_k0_1({{.*}}itx.grid = "1"
// CHECK: gpu.shuffle xor

// Tiles of few rows and of many: each pair has at most one, each expert at most one that is not full. A block whose
// number is not below that of tiles ends at once. Rows of the input are found by a table, those of gate and up in turn.
// CHECK: gpu.func @itx_k0_2({{.*}}itx.grid = "{{.*}} * ((129 floordiv (tokens * 2 + 1)) ceildiv 129) * 3"
// CHECK: %[[TILES:.*]] = llvm.load %{{.*}} : !llvm.ptr<1> -> i64
// CHECK: %[[IS_TILE:.*]] = arith.cmpi slt, %{{.*}}, %[[TILES]] : i64
// CHECK: scf.if %[[IS_TILE]] {
// CHECK: llvm.nvvm.cp.async.cg.shared.global.16
// CHECK: scf.for
// CHECK: llvm.nvvm.mma.m16n8k16.row.col.bf16
// CHECK: gpu.func @itx_k0_3({{.*}}itx.grid = "{{.*}} * (((129 floordiv (tokens * 2 + 1)) ceildiv 129) * -1 + 1) * 2"
// CHECK: llvm.nvvm.mma.m16n8k16.row.col.bf16

// Then by the second matrix, and the rows of each token.
// CHECK: gpu.func @itx_k0_4
// CHECK: llvm.nvvm.cp.async.cg.shared.global.16
// CHECK: llvm.nvvm.mma.m16n8k16.row.col.bf16
// CHECK: gpu.func @itx_k0_5
// CHECK: llvm.nvvm.mma.m16n8k16.row.col.bf16
// CHECK: gpu.func @itx_k0_6({{.*}}itx.grid = "tokens ceildiv 8"
// CHECK-NOT: gpu.func

// GFX942: gpu.func @itx_k0_2
// GFX942: llvm.amdgcn.mfma.f32.16x16x16bf16.1k
rt.kernel @experts(%x: tensor<?x64xbf16> {nn.sizes = ["tokens", ""]}, %i: tensor<?x2xi32> {nn.sizes = ["tokens", ""]},
                   %w: tensor<?x2xf32> {nn.sizes = ["tokens", ""]}, %gu: tensor<8x2x96x64xbf16> {rt.layout = #rt.row_major},
                   %d: tensor<8x64x96xbf16> {rt.layout = #rt.row_major}) -> (tensor<?x64xf32> {nn.sizes = ["tokens", ""]})
    attributes {root = #nn.root<experts>, sizes = ["tokens"]} {
  %f = arith.extf %x : tensor<?x64xbf16> to tensor<?x64xf32>
  %0 = nn.experts %f, %i, %w, %gu, %d {activation = #nn.gated_activation<silu>, precision = bf16} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x96x64xbf16>, tensor<8x64x96xbf16>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// A warp a token.
// CHECK: gpu.func @itx_k1_0({{.*}}itx.grid = "tokens ceildiv 4"
// CHECK: gpu.shuffle xor
// GFX942: gpu.func @itx_k1_0({{.*}}itx.grid = "tokens ceildiv 2"
rt.kernel @route(%l: tensor<?x8xf32> {nn.sizes = ["tokens", ""]}) -> (tensor<?x2xi32> {nn.sizes = ["tokens", ""]}, tensor<?x2xf32> {nn.sizes = ["tokens", ""]})
    attributes {root = #nn.root<route>, sizes = ["tokens"]} {
  %i, %w = nn.route %l {top_k = 2 : i64} : (tensor<?x8xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  rt.yield %i, %w : tensor<?x2xi32>, tensor<?x2xf32>
}
