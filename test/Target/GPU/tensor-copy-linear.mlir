// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_90a | FileCheck %s
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_90a 2>&1 >%t | FileCheck %s --check-prefix=REMARK
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 2>&1 >%t | FileCheck %s --check-prefix=NONE --allow-empty

// Up to 16 rows are multiplied by instructions of a warp. Others come by tensor copies: tiles of 128 x 128 sums, or of
// 128 x 256 where there are many. There are at most 132 blocks.
// CHECK: gpu.func @itx_k0_2
// CHECK: llvm.nvvm.mma.m16n8k16.row.col.f32.f32
// CHECK: gpu.func @itx_k0_3(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: i64, %{{.*}}: !llvm.ptr<1>, %[[X:.*]]: !llvm.ptr, %[[W:.*]]: !llvm.ptr)
// CHECK-SAME: box = array<i64: 128, 64>, buffer = 0 : i64, columns = "256", element_bytes = 2 : i64, rows = "rows", swizzle_bytes = 128 : i64
// CHECK-SAME: box = array<i64: 128, 64>, buffer = 1 : i64, columns = "256", element_bytes = 2 : i64, rows = "256", swizzle_bytes = 128 : i64
// CHECK-NOT: cp.async.cg
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
// CHECK: gpu.func @itx_k0_4(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: i64, %{{.*}}: !llvm.ptr<1>, %[[X:.*]]: !llvm.ptr, %[[W:.*]]: !llvm.ptr)
// CHECK-SAME: * 132
// CHECK-SAME: box = array<i64: 256, 64>, buffer = 1
// CHECK-SAME: known_block_size = array<i32: 384, 1, 1>
// CHECK-SAME: nvvm.minctasm = 1

// A thread makes the mbarriers, one arrival for what has come and one of each warp that multiplies for what is read; then
// copies may know them.
// CHECK-COUNT-8: mbarrier.init.shared::cta.b64
// CHECK-NOT: mbarrier.init
// CHECK: fence.proxy.async.shared::cta;
// CHECK: gpu.barrier

// Consumers: 64 rows of a group of four warps. A stage is released behind the matrix instructions that follow it.
// CHECK: setmaxnreg.inc.sync.aligned.u32
// CHECK: scf.for
// CHECK: scf.for
// CHECK: mbarrier.try_wait.parity
// CHECK-COUNT-4: wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16
// CHECK-NOT: wgmma.mma_async
// CHECK: llvm.nvvm.wgmma.wait_group.sync.aligned"(%c1_i64)
// CHECK: mbarrier.arrive.shared::cta.b64
// CHECK: scf.yield
// CHECK: llvm.nvvm.wgmma.wait_group.sync.aligned"(%c0_i64)
// CHECK: mbarrier.arrive.shared::cta.b64
// CHECK: llvm.store %{{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK: llvm.nvvm.bar.warp.sync
// CHECK: llvm.store %{{.*}} : vector<4xf32>, !llvm.ptr<1>

// The producer: one thread waits for an empty stage, says how many bytes come, and copies both tiles.
// CHECK: setmaxnreg.dec.sync.aligned.u32
// CHECK: elect.sync
// CHECK: scf.for
// CHECK: scf.for
// CHECK: mbarrier.try_wait.parity
// CHECK: %[[BYTES:.*]] = arith.constant 49152 : i32
// CHECK: mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "l,n,~{memory}" %{{.*}}, %[[BYTES]]
// CHECK: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes{{.*}} %{{.*}}, %[[X]],
// CHECK: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes{{.*}} %{{.*}}, %[[W]],
// CHECK-NOT: cp.async.bulk
rt.kernel @linear(%x: tensor<?x256xf16> {nn.sizes = ["rows", ""]}, %w: tensor<256x256xf16> {rt.layout = #rt.row_major})
    -> (tensor<?x256xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = arith.extf %x : tensor<?x256xf16> to tensor<?x256xf32>
  %1 = nn.linear %0, %w {precision = f16} : (tensor<?x256xf32>, tensor<256x256xf16>) -> tensor<?x256xf32>
  rt.yield %1 : tensor<?x256xf32>
}

// An input in another type than is multiplied passes through registers, and all warps copy the weight. What threads have
// written comes before matrix instructions of four warps; the tile before is multiplied while the next one is prepared.
// CHECK: gpu.func @itx_k1_4
// CHECK-NOT: cp.async.bulk
// CHECK: scf.for
// CHECK: llvm.nvvm.cp.async.wait.group
// CHECK-NEXT: llvm.inline_asm has_side_effects "fence.proxy.async.shared::cta;"
// CHECK-NEXT: gpu.barrier
// CHECK: llvm.nvvm.wgmma.fence.sync.aligned
// CHECK-COUNT-4: llvm.inline_asm has_side_effects {{.*}}wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
// CHECK: llvm.nvvm.wgmma.commit_group.sync.aligned
// CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.wgmma.wait_group.sync.aligned"(%c1_i64)
// CHECK: scf.yield
// CHECK: llvm.call_intrinsic "llvm.nvvm.wgmma.wait_group.sync.aligned"(%c0_i64)
// CHECK-NEXT: gpu.barrier
rt.kernel @of_floats(%x: tensor<?x256xf32> {nn.sizes = ["rows", ""]}, %w: tensor<256x256xf16> {rt.layout = #rt.row_major})
    -> (tensor<?x256xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %1 = nn.linear %x, %w {precision = f16} : (tensor<?x256xf32>, tensor<256x256xf16>) -> tensor<?x256xf32>
  rt.yield %1 : tensor<?x256xf32>
}

// Tensor maps are of rows in multiples of 16 bytes.
// CHECK: gpu.func @itx_k2_0
// CHECK-NOT: cp.async.bulk
// REMARK-NOT: remark
// REMARK: remark: kernel 'of_short_rows' copies by threads on sm_90a: its rows have 200 bytes, and tensor copies need a multiple of 16
// REMARK-NOT: remark
// NONE-NOT: remark
rt.kernel @of_short_rows(%x: tensor<?x100xf16> {nn.sizes = ["rows", ""]}, %w: tensor<256x100xf16> {rt.layout = #rt.row_major})
    -> (tensor<?x256xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = arith.extf %x : tensor<?x100xf16> to tensor<?x100xf32>
  %1 = nn.linear %0, %w {precision = f16} : (tensor<?x100xf32>, tensor<256x100xf16>) -> tensor<?x256xf32>
  rt.yield %1 : tensor<?x256xf32>
}
