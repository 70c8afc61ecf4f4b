// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 | FileCheck %s --implicit-check-not=scf.for
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_90a | FileCheck %s --check-prefix=SM90

// A block computes 64 queries of a head, the microkernel passes over the keys. Head sizes are constants of the call. A
// mask of one query and all heads has the stride 0 there.

// CHECK: llvm.func @itx_attention(!llvm.ptr<1>, i64,
// CHECK-LABEL: gpu.func @itx_k0_0
// CHECK-SAME: itx.grid = "batch * (queries ceildiv 64) * 4", itx.scratch = "0", itx.shared = "35328", known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 2 : i32
// CHECK: llvm.call @itx_attention(%arg0, %c0_i64, %{{.*}}, %c256_i64, %c64_i64, %c1_i64, %arg1,
// CHECK-SAME: %c1_i64, %arg3, %c8_i64, %arg6, %c0_i64, %c0_i64, %c1_i64, %arg4, %c0_i64, %arg7, %arg6, %c4_i64, %c2_i64, %c64_i64, %c64_i64,
// CHECK-NEXT: gpu.return
rt.kernel @dense(%q: tensor<?x?x4x64xf32> {nn.sizes = ["batch", "queries", "", ""]},
                 %k: tensor<?x?x2x64xf32> {nn.sizes = ["batch", "keys", "", ""]},
                 %v: tensor<?x?x2x64xf32> {nn.sizes = ["batch", "keys", "", ""]},
                 %m: tensor<?x1x1x?xi1> {nn.sizes = ["batch", "", "", "keys"]})
    -> (tensor<?x?x4x64xf32> {nn.sizes = ["batch", "queries", "", ""]})
    attributes {root = #nn.root<attention>, sizes = ["batch", "keys", "queries"]} {
  %0 = nn.attention %q, %k, %v mask %m {scale = 0.125 : f32} : (tensor<?x?x4x64xf32>, tensor<?x?x2x64xf32>,
      tensor<?x?x2x64xf32>, tensor<?x1x1x?xi1>) -> tensor<?x?x4x64xf32>
  rt.yield %0 : tensor<?x?x4x64xf32>
}

// Operands of 16 bits are multiplied by matrix instructions.

// CHECK-LABEL: gpu.func @itx_k1_0
// CHECK-SAME: itx.grid = "batch * (queries ceildiv 64) * 4"
// CHECK: llvm.call @itx_attention_matrix

// On Hopper two groups of four warps have 128 rows, and 64 keys at once; operands of 32 bits stay as they are.

// SM90-LABEL: gpu.func @itx_k0_0
// SM90: llvm.call @itx_attention(
// SM90-LABEL: gpu.func @itx_k1_0
// SM90-SAME: itx.grid = "batch * (queries ceildiv 128) * 4", itx.scratch = "0", itx.shared = "40960"
// SM90-SAME: known_block_size = array<i32: 256, 1, 1>
// SM90: llvm.call @itx_attention_warpgroups({{.*}}, %c8_i64, %c64_i64, %c1_i64, %c1_i64, %{{[^%]*}})
rt.kernel @half(%q: tensor<?x?x4x64xf16> {nn.sizes = ["batch", "queries", "", ""]},
                %k: tensor<?x?x2x64xf16> {nn.sizes = ["batch", "keys", "", ""]},
                %v: tensor<?x?x2x64xf16> {nn.sizes = ["batch", "keys", "", ""]})
    -> (tensor<?x?x4x64xf16> {nn.sizes = ["batch", "queries", "", ""]})
    attributes {root = #nn.root<attention>, sizes = ["batch", "keys", "queries"]} {
  %0 = nn.attention %q, %k, %v {scale = 0.125 : f32, causal} : (tensor<?x?x4x64xf16>, tensor<?x?x2x64xf16>,
      tensor<?x?x2x64xf16>) -> tensor<?x?x4x64xf16>
  rt.yield %0 : tensor<?x?x4x64xf16>
}

// So are those of f32 that may be rounded to those: of a kind that is a constant of the call, here bf16.

// CHECK-LABEL: gpu.func @itx_k2_0
// CHECK: llvm.call @itx_attention_matrix({{.*}}, %c1_i64, %c64_i64, %c2_i64, %c1_i64, %c0_i64, %{{.*}})
rt.kernel @rounded(%q: tensor<?x?x4x64xf32> {nn.sizes = ["batch", "queries", "", ""]},
                   %k: tensor<?x?x2x64xf32> {nn.sizes = ["batch", "keys", "", ""]},
                   %v: tensor<?x?x2x64xf32> {nn.sizes = ["batch", "keys", "", ""]})
    -> (tensor<?x?x4x64xf32> {nn.sizes = ["batch", "queries", "", ""]})
    attributes {root = #nn.root<attention>, sizes = ["batch", "keys", "queries"]} {
  %0 = nn.attention %q, %k, %v {precision = bf16, scale = 0.125 : f32} : (tensor<?x?x4x64xf32>, tensor<?x?x2x64xf32>,
      tensor<?x?x2x64xf32>) -> tensor<?x?x4x64xf32>
  rt.yield %0 : tensor<?x?x4x64xf32>
}

// There is no microkernel for tf32.

// CHECK-LABEL: gpu.func @itx_k3_0
// CHECK: llvm.call @itx_attention(
rt.kernel @tf32(%q: tensor<?x?x4x64xf32> {nn.sizes = ["batch", "queries", "", ""]},
                %k: tensor<?x?x2x64xf32> {nn.sizes = ["batch", "keys", "", ""]},
                %v: tensor<?x?x2x64xf32> {nn.sizes = ["batch", "keys", "", ""]})
    -> (tensor<?x?x4x64xf32> {nn.sizes = ["batch", "queries", "", ""]})
    attributes {root = #nn.root<attention>, sizes = ["batch", "keys", "queries"]} {
  %0 = nn.attention %q, %k, %v {precision = tf32, scale = 0.125 : f32} : (tensor<?x?x4x64xf32>, tensor<?x?x2x64xf32>,
      tensor<?x?x2x64xf32>) -> tensor<?x?x4x64xf32>
  rt.yield %0 : tensor<?x?x4x64xf32>
}
