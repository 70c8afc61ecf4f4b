// RUN: intarsia-opt %s --target-gpu-emit-kernels=architecture=gfx942 | FileCheck %s --implicit-check-not=scf.for

// A warp stores the row of a token and head.

// CHECK-LABEL: gpu.func @itx_k0_0
// CHECK-SAME: itx.grid = "tokens"
// CHECK: llvm.call @itx_cache_append(%arg0, %{{.*}}, %c1_i64, %c0_i64, %c2_i64, %c32_i64, %c64_i64
// CHECK-NEXT: gpu.return
rt.kernel @floats(%c: tensor<?x2x32x64xf16> {nn.sizes = ["pages", "", "", ""]}, %r: tensor<?x2x64xf32> {nn.sizes = ["tokens", "", ""]},
                  %p: tensor<?xi64> {nn.sizes = ["tokens"]}, %s: tensor<?xi64> {nn.sizes = ["tokens"]},
                  %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]})
    -> (tensor<?x2x32x64xf16> {nn.sizes = ["pages", "", "", ""]})
    attributes {root = #nn.root<cache_append>, sizes = ["tokens", "pages", "sequences", "entries"]} {
  %0 = nn.cache_append(%c) <keys, f16, page = 32>, %r, %p, %s, %t : (tensor<?x2x32x64xf16>, tensor<?x2x64xf32>,
      tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x64xf16>
  rt.yield %0 : tensor<?x2x32x64xf16>
}

// Pages of quantized keys are written with the token of their last slot, from rows and the tail.

// CHECK-LABEL: gpu.func @itx_k1_0
// CHECK: llvm.call @itx_cache_append_quantized_pages(%arg0, %arg1, %c5_i64, %c0_i64, %c2_i64, %c32_i64, %c64_i64, %arg2, %c1_i64, %arg3
// CHECK-NEXT: gpu.return
rt.kernel @quantized(%c: tensor<?x2x32x32xi8> {nn.sizes = ["pages", "", "", ""]}, %m: tensor<?x2x2x64xi8> {nn.sizes = ["pages", "", "", ""]},
                     %l: tensor<?x2x32x64xf16> {nn.sizes = ["sequences", "", "", ""]}, %r: tensor<?x2x64xf32> {nn.sizes = ["tokens", "", ""]},
                     %p: tensor<?xi64> {nn.sizes = ["tokens"]}, %s: tensor<?xi64> {nn.sizes = ["tokens"]},
                     %t: tensor<?x?xi64> {nn.sizes = ["sequences", "entries"]})
    -> (tensor<?x2x32x32xi8> {nn.sizes = ["pages", "", "", ""]}, tensor<?x2x2x64xi8> {nn.sizes = ["pages", "", "", ""]})
    attributes {root = #nn.root<cache_append>, sizes = ["tokens", "pages", "sequences", "entries"]} {
  %0, %1 = nn.cache_append(%c, %m, %l) <keys, ui4, page = 32>, %r, %p, %s, %t : (tensor<?x2x32x32xi8>,
      tensor<?x2x2x64xi8>, tensor<?x2x32x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) ->
      (tensor<?x2x32x32xi8>, tensor<?x2x2x64xi8>)
  rt.yield %0, %1 : tensor<?x2x32x32xi8>, tensor<?x2x2x64xi8>
}
