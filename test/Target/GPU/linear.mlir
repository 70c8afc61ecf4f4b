// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 --verify-diagnostics | FileCheck %s

// Without instructions for f32 lanes multiply and add: each has 64 of the sums of a large tile, as the instructions of
// others would give it. Chunks of four k's are zero outside of the matrices. What comes behind is computed where a sum is
// stored. Registers leave room for three blocks.

// CHECK: llvm.mlir.global internal @itx_shared() {addr_space = 3 : i32, alignment = 1024 : i64}
// CHECK-LABEL: gpu.func @itx_k0_1
// CHECK-SAME: itx.grid = "(rows ceildiv 64) * {{[^"]*}}", itx.scratch = "0", itx.shared = "32768", known_block_size = array<i32: 128, 1, 1>
// CHECK-LABEL: gpu.func @itx_k0_2
// CHECK-SAME: itx.shared = "49152", known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 3
// CHECK: %[[SUMS:.*]]:66 = scf.for %{{.*}} = %c0_i64 to %c2_i64 step %c1_i64
// CHECK: gpu.barrier
// CHECK: scf.if %{{.*}} -> (f32) {
// CHECK: llvm.load %{{.*}} : !llvm.ptr<1> -> f32
// CHECK: } else {
// CHECK: scf.yield %{{.*}} : f32
// CHECK: llvm.load %{{.*}} : !llvm.ptr<1> -> bf16
// CHECK-COUNT-1024: math.fma
// CHECK-NOT: math.fma
// CHECK: scf.yield
// CHECK: gpu.barrier
// CHECK: llvm.store %{{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK: arith.addf
// CHECK: arith.maximumf
// CHECK: llvm.store %{{.*}} : vector<2xf32>, !llvm.ptr<1>
rt.kernel @linear(%x: tensor<?x30xf32> {nn.sizes = ["rows", ""]}, %w: tensor<70x30xbf16> {rt.layout = #rt.row_major},
                  %b: tensor<70xf32>) -> (tensor<?x70xf32> {nn.sizes = ["rows", ""]})
    attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = nn.linear %x, %w, %b : (tensor<?x30xf32>, tensor<70x30xbf16>, tensor<70xf32>) -> tensor<?x70xf32>
  %1 = nn.relu %0 : tensor<?x70xf32>
  rt.yield %1 : tensor<?x70xf32>
}

// Where rows before it are normalized or quantized, launches come from the ops' references, and temporaries are in
// scratch. A remark says that this is slow.

// CHECK-LABEL: gpu.func @itx_k1_0
// CHECK-SAME: itx.scratch = "{{.*}}rows
// CHECK-NOT: gpu.barrier
// CHECK: gpu.func @itx_k1_1
rt.kernel @behind_norm(%x: tensor<?x32xf32> {nn.sizes = ["rows", ""]}, %scale: tensor<32xf32>,
                       %w: tensor<16x32xf32> {rt.layout = #rt.row_major}) -> (tensor<?x16xf32> {nn.sizes = ["rows", ""]})
    attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = nn.rms_norm %x, %scale {epsilon = 1.0e-5 : f32} : (tensor<?x32xf32>, tensor<32xf32>) -> tensor<?x32xf32>
  // expected-remark @below {{kernel 'behind_norm' is slow on sm_80: it runs as plain loops, an element a thread, because 'nn.rms_norm' is in the same kernel, whose blocks see parts of rows}}
  %1 = nn.linear %0, %w : (tensor<?x32xf32>, tensor<16x32xf32>) -> tensor<?x16xf32>
  rt.yield %1 : tensor<?x16xf32>
}
