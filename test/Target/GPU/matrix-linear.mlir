// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 | FileCheck %s --check-prefix=SM80
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx942 | FileCheck %s --check-prefix=GFX942
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx1100 | FileCheck %s --check-prefix=GFX1100

// Functions for one row, for up to four, for tiles of 16 rows, for small tiles and for large ones, each with an empty grid
// for other numbers of rows. Each lane of the first two reads 16 bytes of a weight's row at a time.

// SM80: gpu.func @itx_k0_0
// SM80-SAME: itx.grid = "((2 floordiv (rows + 1)) ceildiv 2 + (1 floordiv (rows + 1)) * -1) * 8"
// SM80: scf.for
// SM80: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xf16>
// SM80: math.fma %{{.*}} : vector<8xf32>
// SM80: gpu.func @itx_k0_1
// SM80-SAME: itx.grid = "((5 floordiv (rows + 1)) ceildiv 5 + ((2 floordiv (rows + 1)) ceildiv 2) * -1) * 8"
// SM80-NOT: llvm.nvvm.mma
// SM80: gpu.func @itx_k0_2
// SM80-SAME: itx.grid = "(rows ceildiv 16) * ((17 floordiv (rows + 1)) ceildiv 17 + ((5 floordiv (rows + 1)) ceildiv 5) * -1) * 4"
// SM80: gpu.func @itx_k0_3
// SM80-SAME: itx.grid = "(rows ceildiv 64) * ((3329 floordiv (rows + 1)) ceildiv 3329 + ((17 floordiv (rows + 1)) ceildiv 17) * -1) * 4"
// SM80-SAME: known_block_size = array<i32: 128, 1, 1>

// Four tiles in shared memory: one is multiplied while the others are copied. Sums go through shared memory to where they
// are stored, in vectors.
// SM80: gpu.func @itx_k0_4
// SM80-SAME: itx.grid = "(rows ceildiv 128) * (((3329 floordiv (rows + 1)) ceildiv 3329) * -1 + 1) * 2"
// SM80-SAME: itx.shared = "65536"
// SM80-COUNT-24: llvm.nvvm.cp.async.cg.shared.global.16
// SM80: llvm.nvvm.cp.async.commit.group
// SM80: scf.for
// SM80: llvm.nvvm.cp.async.wait.group
// SM80-NEXT: gpu.barrier
// SM80-COUNT-8: llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3
// SM80-COUNT-32: llvm.nvvm.mma.m16n8k16.row.col.f32.f32
// SM80-COUNT-8: llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3
// SM80-COUNT-32: llvm.nvvm.mma.m16n8k16.row.col.f32.f32
// SM80-NOT: llvm.nvvm.mma
// SM80: gpu.barrier
// SM80: llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<3>
// SM80: llvm.nvvm.bar.warp.sync
// SM80: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>

// AMD's tiles pass through registers: the next one is loaded before this one is multiplied, and stored behind it.
// GFX942: gpu.func @itx_k0_4
// GFX942-SAME: itx.shared = "32768"
// Nothing moves across.
// GFX942: scf.for
// GFX942: gpu.barrier
// GFX942-COUNT-4: llvm.load %{{.*}} : !llvm.ptr<1> -> vector<8xf16>
// GFX942: llvm.amdgcn.sched.barrier
// GFX942-COUNT-8: llvm.load %{{.*}} : !llvm.ptr<3> -> vector<8xf16>
// GFX942-COUNT-32: llvm.amdgcn.mfma.f32.16x16x16f16
// GFX942: llvm.amdgcn.sched.barrier
// GFX942-COUNT-4: llvm.store %{{.*}} : vector<8xf16>, !llvm.ptr<3>

// GFX1100: llvm.amdgcn.sched.barrier
// GFX1100: llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v16f16
rt.kernel @linear(%x: tensor<?x256xf16> {nn.sizes = ["rows", ""]}, %w: tensor<256x256xf16> {rt.layout = #rt.row_major})
    -> (tensor<?x256xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = arith.extf %x : tensor<?x256xf16> to tensor<?x256xf32>
  %1 = nn.linear %0, %w {precision = f16} : (tensor<?x256xf32>, tensor<256x256xf16>) -> tensor<?x256xf32>
  rt.yield %1 : tensor<?x256xf32>
}
