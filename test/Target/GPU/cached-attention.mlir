// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_80 | FileCheck %s --implicit-check-not=math.exp
// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=sm_90a | FileCheck %s --check-prefix=SM90

// A query that is rotated in the kernel is computed first. Then single tokens, split over 432 blocks, and what adds the
// parts up, or tiles of many tokens, 32 tokens of two heads each, by matrix instructions: queries are two summands of
// f16. All launches share the scratch: partial results of 2 heads in each block, then the query.

// CHECK-LABEL: gpu.func @itx_k0_0
// CHECK-SAME: itx.grid = "(tokens * 4) ceildiv 8", itx.scratch = "[[$SCRATCH:.*]]", itx.shared = "0"
// CHECK: llvm.store %{{.*}} : vector<4xf32>, !llvm.ptr<1>
// CHECK-LABEL: gpu.func @itx_k0_1
// CHECK-SAME: itx.grid = "432", itx.scratch = "[[$SCRATCH]]", itx.shared = "4160"
// CHECK: llvm.call @itx_cached_attention_decode
// CHECK-NEXT: gpu.return
// CHECK-LABEL: gpu.func @itx_k0_2
// CHECK-SAME: itx.grid = "432"
// CHECK: llvm.call @itx_cached_attention_combine
// CHECK-NEXT: gpu.return
// CHECK-LABEL: gpu.func @itx_k0_3
// CHECK-SAME: itx.grid = "(tokens ceildiv 32) * 2", itx.scratch = "[[$SCRATCH]]", itx.shared = "52224"
// CHECK: llvm.call @itx_cached_attention_matrix_tiles({{.*}}, %c2_i64, %c1_i64, %c32_i64, %c1_i64, %c2_i64, %c1_i64, %{{.*}})
// CHECK-NEXT: gpu.return

// On Hopper two groups of four warps have 64 tokens of two heads.

// SM90-LABEL: gpu.func @itx_k0_3
// SM90-SAME: itx.grid = "(tokens ceildiv 64) * 2"
// SM90-SAME: known_block_size = array<i32: 256, 1, 1>, nvvm.minctasm = 1 : i32
// SM90: llvm.call @itx_cached_attention_warpgroups({{.*}}, %c2_i64, %c8_i64, %c64_i64, %c1_i64, %c2_i64, %{{[^%]*}})
rt.kernel @cached(%q: tensor<?x4x128xf32> {nn.sizes = ["tokens", "", ""]},
                  %k: tensor<?x2x32x128xf16> {nn.sizes = ["pages", "", "", ""]},
                  %v: tensor<?x2x32x128xf16> {nn.sizes = ["pages", "", "", ""]},
                  %p: tensor<?xi64> {nn.sizes = ["tokens"]}, %s: tensor<?xi64> {nn.sizes = ["tokens"]},
                  %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %f: tensor<64xf32>)
    -> (tensor<?x4x128xf32> {nn.sizes = ["tokens", "", ""]})
    attributes {root = #nn.root<cached_attention>, sizes = ["tokens", "pages", "sequences", "entries"]} {
  %r = nn.rope %q, %p, %f {attention_factor = 1.0 : f32} : (tensor<?x4x128xf32>, tensor<?xi64>, tensor<64xf32>) -> tensor<?x4x128xf32>
  %0 = nn.cached_attention %r, (%k) <keys, f16, page = 32>, (%v) <values, f16, page = 32>, %p, %s, %t
      {scale = 0.125 : f32} : (tensor<?x4x128xf32>, tensor<?x2x32x128xf16>, tensor<?x2x32x128xf16>, tensor<?xi64>,
      tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x128xf32>
  rt.yield %0 : tensor<?x4x128xf32>
}

// Quantized values are multiplied in f32.

// CHECK-LABEL: gpu.func @itx_k1_2
// CHECK: llvm.call @itx_cached_attention_tiles
rt.kernel @quantized(%q: tensor<?x4x128xf32> {nn.sizes = ["tokens", "", ""]},
                     %k: tensor<?x2x32x128xf16> {nn.sizes = ["pages", "", "", ""]},
                     %v: tensor<?x2x32x128xi8> {nn.sizes = ["pages", "", "", ""]},
                     %w: tensor<?x2x2x32xi8> {nn.sizes = ["pages", "", "", ""]},
                     %p: tensor<?xi64> {nn.sizes = ["tokens"]}, %s: tensor<?xi64> {nn.sizes = ["tokens"]},
                     %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]})
    -> (tensor<?x4x128xf32> {nn.sizes = ["tokens", "", ""]})
    attributes {root = #nn.root<cached_attention>, sizes = ["tokens", "pages", "sequences", "entries"]} {
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32>, (%v, %w) <values, ui8, page = 32>, %p, %s, %t
      {scale = 0.125 : f32} : (tensor<?x4x128xf32>, tensor<?x2x32x128xf16>, tensor<?x2x32x128xi8>, tensor<?x2x2x32xi8>,
      tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x128xf32>
  rt.yield %0 : tensor<?x4x128xf32>
}

// Elements of 8 bits pass through registers on their way to shared memory, which four warps together have no room for.

// SM90-LABEL: gpu.func @itx_k2_2
// SM90: llvm.call @itx_cached_attention_matrix_tiles
rt.kernel @narrow(%q: tensor<?x4x128xf16> {nn.sizes = ["tokens", "", ""]},
                  %k: tensor<?x2x32x128xi8> {nn.sizes = ["pages", "", "", ""]},
                  %v: tensor<?x2x32x128xf16> {nn.sizes = ["pages", "", "", ""]},
                  %p: tensor<?xi64> {nn.sizes = ["tokens"]}, %s: tensor<?xi64> {nn.sizes = ["tokens"]},
                  %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]})
    -> (tensor<?x4x128xf16> {nn.sizes = ["tokens", "", ""]})
    attributes {root = #nn.root<cached_attention>, sizes = ["tokens", "pages", "sequences", "entries"]} {
  %0 = nn.cached_attention %q, (%k) <keys, f8E4M3FN, page = 32>, (%v) <values, f16, page = 32>, %p, %s, %t
      {scale = 0.125 : f32} : (tensor<?x4x128xf16>, tensor<?x2x32x128xi8>, tensor<?x2x32x128xf16>, tensor<?xi64>,
      tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x128xf16>
  rt.yield %0 : tensor<?x4x128xf16>
}

// Unless they may be rounded: to bf16, which queries are then, too.

// CHECK-LABEL: gpu.func @itx_k3_2
// CHECK: llvm.call @itx_cached_attention_matrix_tiles({{.*}}, %c2_i64, %c1_i64, %c32_i64, %c2_i64, %c1_i64, %c1_i64, %{{.*}})
rt.kernel @rounded(%q: tensor<?x4x128xf32> {nn.sizes = ["tokens", "", ""]},
                     %k: tensor<?x2x32x128xf16> {nn.sizes = ["pages", "", "", ""]},
                     %v: tensor<?x2x32x128xi8> {nn.sizes = ["pages", "", "", ""]},
                     %w: tensor<?x2x2x32xi8> {nn.sizes = ["pages", "", "", ""]},
                     %p: tensor<?xi64> {nn.sizes = ["tokens"]}, %s: tensor<?xi64> {nn.sizes = ["tokens"]},
                     %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]})
    -> (tensor<?x4x128xf32> {nn.sizes = ["tokens", "", ""]})
    attributes {root = #nn.root<cached_attention>, sizes = ["tokens", "pages", "sequences", "entries"]} {
  %0 = nn.cached_attention %q, (%k) <keys, f16, page = 32>, (%v, %w) <values, ui8, page = 32>, %p, %s, %t
      {precision = bf16, scale = 0.125 : f32} : (tensor<?x4x128xf32>, tensor<?x2x32x128xf16>, tensor<?x2x32x128xi8>, tensor<?x2x2x32xi8>,
      tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x128xf32>
  rt.yield %0 : tensor<?x4x128xf32>
}

// What is exact in f16 is multiplied in it, and queries that may be rounded are one summand.

// CHECK-LABEL: gpu.func @itx_k4_3
// CHECK: llvm.call @itx_cached_attention_matrix_tiles({{.*}}, %c2_i64, %c1_i64, %c64_i64, %c1_i64, %c1_i64, %c0_i64, %{{.*}})
rt.kernel @one_summand(%q: tensor<?x4x128xf32> {nn.sizes = ["tokens", "", ""]},
                  %k: tensor<?x2x32x128xf16> {nn.sizes = ["pages", "", "", ""]},
                  %v: tensor<?x2x32x128xf16> {nn.sizes = ["pages", "", "", ""]},
                  %p: tensor<?xi64> {nn.sizes = ["tokens"]}, %s: tensor<?xi64> {nn.sizes = ["tokens"]},
                  %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]}, %f: tensor<64xf32>)
    -> (tensor<?x4x128xf32> {nn.sizes = ["tokens", "", ""]})
    attributes {root = #nn.root<cached_attention>, sizes = ["tokens", "pages", "sequences", "entries"]} {
  %r = nn.rope %q, %p, %f {attention_factor = 1.0 : f32} : (tensor<?x4x128xf32>, tensor<?xi64>, tensor<64xf32>) -> tensor<?x4x128xf32>
  %0 = nn.cached_attention %r, (%k) <keys, f16, page = 32>, (%v) <values, f16, page = 32>, %p, %s, %t
      {precision = bf16, scale = 0.125 : f32} : (tensor<?x4x128xf32>, tensor<?x2x32x128xf16>, tensor<?x2x32x128xf16>, tensor<?xi64>,
      tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x128xf32>
  rt.yield %0 : tensor<?x4x128xf32>
}
