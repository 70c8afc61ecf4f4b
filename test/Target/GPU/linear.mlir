// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 | FileCheck %s

// A block multiplies 64 rows by 64 features, of which the second block of features has 6: tiles of 16 k's in shared memory,
// zero outside of the matrices, 16 sums of a thread in registers. What comes behind is computed where a sum is stored.

// CHECK: llvm.mlir.global internal @itx_shared() {addr_space = 3 : i32, alignment = 1024 : i64}
// CHECK-LABEL: gpu.func @itx_k0_0
// CHECK-SAME: itx.grid = "(rows ceildiv 64) * 2", itx.scratch = "0", itx.shared = "8704", known_block_size = array<i32: 256, 1, 1>
// CHECK: %[[SUMS:.*]]:16 = scf.for %{{.*}} = %c0_i64 to %c30_i64 step %c16_i64
// CHECK: gpu.barrier
// CHECK: scf.if %{{.*}} -> (f32) {
// CHECK: llvm.load %{{.*}} : !llvm.ptr<1> -> f32
// CHECK: } else {
// CHECK: scf.yield %{{.*}} : f32
// CHECK: llvm.store %{{.*}} : f32, !llvm.ptr<3>
// CHECK: llvm.load %{{.*}} : !llvm.ptr<1> -> bf16
// CHECK: gpu.barrier
// CHECK-COUNT-256: math.fma
// CHECK-NOT: math.fma
// CHECK: scf.yield
// CHECK: scf.if
// CHECK: arith.addf %[[SUMS]]#0
// CHECK: arith.maximumf
// CHECK: llvm.store %{{.*}} : f32, !llvm.ptr<1>
// CHECK: arith.addf %[[SUMS]]#15
rt.kernel @linear(%x: tensor<?x30xf32> {nn.sizes = ["rows", ""]}, %w: tensor<70x30xbf16> {rt.layout = #rt.row_major},
                  %b: tensor<70xf32>) -> (tensor<?x70xf32> {nn.sizes = ["rows", ""]})
    attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = nn.linear %x, %w, %b : (tensor<?x30xf32>, tensor<70x30xbf16>, tensor<70xf32>) -> tensor<?x70xf32>
  %1 = nn.relu %0 : tensor<?x70xf32>
  rt.yield %1 : tensor<?x70xf32>
}

// Where rows before it are normalized or quantized, launches come from the ops' references, and temporaries are in scratch.

// CHECK-LABEL: gpu.func @itx_k1_0
// CHECK-SAME: itx.scratch = "{{.*}}rows
// CHECK-NOT: gpu.barrier
// CHECK: gpu.func @itx_k1_1
rt.kernel @behind_norm(%x: tensor<?x32xf32> {nn.sizes = ["rows", ""]}, %scale: tensor<32xf32>,
                       %w: tensor<16x32xf32> {rt.layout = #rt.row_major}) -> (tensor<?x16xf32> {nn.sizes = ["rows", ""]})
    attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = nn.rms_norm %x, %scale {epsilon = 1.0e-5 : f32} : (tensor<?x32xf32>, tensor<32xf32>) -> tensor<?x32xf32>
  %1 = nn.linear %0, %w : (tensor<?x32xf32>, tensor<16x32xf32>) -> tensor<?x16xf32>
  rt.yield %1 : tensor<?x16xf32>
}
