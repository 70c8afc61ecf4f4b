// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>

// CHECK-LABEL: func.func @products
func.func @products(%a: tensor<64x32xf16>, %b: tensor<32x48xf16>, %x: tensor<1x64xf16>, %w: tensor<64x32xf16>) {
  // CHECK: wafer.dist_gemm mesh %{{.*}}, %{{.*}} on 8 : tensor<64x32xf16>, tensor<32x48xf16> -> tensor<64x48xf32>
  %c = wafer.dist_gemm mesh %a, %b on 8 : tensor<64x32xf16>, tensor<32x48xf16> -> tensor<64x48xf32>
  // CHECK: wafer.dist_gemm cannon transposed
  %d = wafer.dist_gemm cannon transposed %a, %w on 8 : tensor<64x32xf16>, tensor<64x32xf16> -> tensor<64x64xf32>
  // CHECK: wafer.dist_gemv tree %{{.*}}, %{{.*}} on 8 groups 2
  %y = wafer.dist_gemv tree %x, %w on 8 groups 2 : tensor<1x64xf16>, tensor<64x32xf16> -> tensor<1x32xf16>
  // CHECK: wafer.dist_map silu %{{.*}} on 8 : tensor<1x32xf16>
  %z = wafer.dist_map silu %y on 8 : tensor<1x32xf16>
  // CHECK: wafer.dist_norm rms %{{.*}}, %{{.*}} on 8 {epsilon = {{.*}} : f32} : tensor<1x32xf32>
  %v = arith.constant dense<1.0> : tensor<1x32xf32>
  %n = wafer.dist_norm rms %v, %v on 8 {epsilon = 1.0e-6 : f32} : tensor<1x32xf32>
  return
}

// CHECK-LABEL: func.func @caches
func.func @caches(%q: tensor<2x32xf32>, %k: tensor<16x32xf32>, %p: tensor<2x1xf32>, %f: tensor<1x16xf32>, %r: tensor<1x32xf32>, %t: tensor<1x1xf32>) {
  // CHECK: wafer.dist_attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} on 4 heads 2 columns 2 {scale = 2.500000e-01 : f32} :
  %o = wafer.dist_attention %q, %k, %k, %p on 4 heads 2 columns 2 {scale = 0.25 : f32} :
    tensor<2x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<2x1xf32> -> tensor<2x32xf32>
  // CHECK: wafer.dist_attention {{.*}} rotated by %{{.*}} : tensor<1x16xf32> on 4 heads 1 columns 3 {scale = 1.000000e+00 : f32, soft_cap = 5.000000e+01 : f32, window = 7 : i64}
  %c = wafer.dist_attention %q, %k, %k, %p rotated by %f : tensor<1x16xf32> on 4 heads 1 columns 3
    {scale = 1.0 : f32, window = 7, soft_cap = 50.0 : f32} :
    tensor<2x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<2x1xf32> -> tensor<2x32xf32>
  // CHECK: wafer.dist_append %{{.*}}, %{{.*}} on 4 : tensor<16x32xf32>, tensor<1x32xf32> -> tensor<16x32xf32>
  %a = wafer.dist_append %k, %r on 4 : tensor<16x32xf32>, tensor<1x32xf32> -> tensor<16x32xf32>
  // CHECK: wafer.dist_append %{{.*}}, %{{.*}} at %{{.*}} : tensor<1x1xf32> rotated by %{{.*}} : tensor<1x16xf32> on 4 :
  %b = wafer.dist_append %k, %r at %t : tensor<1x1xf32> rotated by %f : tensor<1x16xf32> on 4 : tensor<16x32xf32>, tensor<1x32xf32> -> tensor<16x32xf32>
  return
}

// CHECK-LABEL: wafer.program @cache
wafer.program @cache on #wafer grid 2 by 2 {
  %cache = wafer.buffer "cache" : memref<4x2xf32>
  %entry = wafer.buffer "entry" : memref<1x2xf32>
  %scores = wafer.buffer "scores" : memref<3x4xf32>
  %position = wafer.buffer "position" : memref<3x1xf32>
  wafer.route @up along y [#wafer.path<start = <start = 1, end = 2>, by = -1, color = 0>]
  // CHECK: wafer.repeat launches 2
  wafer.repeat launches 2 {
    // CHECK: wafer.compute take
    wafer.compute take %entry, %cache : memref<1x2xf32>, memref<4x2xf32>
    // CHECK: wafer.compute put
    wafer.compute put %cache, %entry : memref<4x2xf32>, memref<1x2xf32>
    wafer.yield
  }
  // CHECK: wafer.compute mask %{{.*}}, %{{.*}} {factor = 5.000000e+00 : f32}
  wafer.compute mask %scores, %position {factor = 5.0 : f32} : memref<3x4xf32>, memref<3x1xf32>
  // CHECK: wafer.receive add maximum %{{.*}} on @up
  wafer.receive add maximum %position on @up at <y = <start = 0, end = 1>> : memref<3x1xf32>
}

// CHECK-LABEL: wafer.program @shift on <name = "tiny"
// CHECK-SAME: grid 4 by 2
wafer.program @shift on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  // CHECK: wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  // CHECK: wafer.load %{{.*}} from 0 as <rows = none, columns = x>
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  // CHECK: wafer.repeat 2
  wafer.repeat 2(%a, %b) : memref<1x8xf16>, memref<1x8xf16> {
  ^bb0(%now: memref<1x8xf16>, %next: memref<1x8xf16>):
    // CHECK: wafer.send %{{.*}} on @east at <x = <start = 0, end = 3>>
    wafer.send %now on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
    // CHECK: wafer.receive %{{.*}} on @east at <x = <start = 1, end = 4>>
    wafer.receive %next on @east at <x = <start = 1, end = 4>> : memref<1x8xf16>
    // CHECK: wafer.await
    wafer.await
    // CHECK: wafer.compute copy %{{.*}}, %{{.*}} at <x = <start = 0, end = 1>>
    wafer.compute copy %next, %now at <x = <start = 0, end = 1>> : memref<1x8xf16>, memref<1x8xf16>
    wafer.yield %next, %now : memref<1x8xf16>, memref<1x8xf16>
  }
  // CHECK: wafer.store
  wafer.store %a to 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
}

// CHECK-LABEL: func.func @quantized
func.func @quantized(%c: tensor<64x32xi4>, %s: tensor<8x32xf16>) {
  // CHECK: wafer.dist_decode %{{.*}}, %{{.*}} on 4 : tensor<64x32xi4>, tensor<8x32xf16> -> tensor<64x32xf16>
  %w = wafer.dist_decode %c, %s on 4 : tensor<64x32xi4>, tensor<8x32xf16> -> tensor<64x32xf16>
  return
}

// CHECK-LABEL: wafer.program @decode on
// CHECK-SAME: defects = [1, 2, 7, 0]
// CHECK-SAME: grid 4 by 2 at [2, 1]
wafer.program @decode on #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0, defects = [1, 2, 7, 0]> grid 4 by 2 at [2, 1] {
  %codes = wafer.buffer "codes" : memref<4x3xi4>
  %scales = wafer.buffer "scales" : memref<2x3xf16>
  %w = wafer.buffer "w" : memref<4x3xf32>
  // CHECK: wafer.compute decode %{{.*}}, %{{.*}}, %{{.*}} : memref<4x3xf32>, memref<4x3xi4>, memref<2x3xf16>
  wafer.compute decode %w, %codes, %scales : memref<4x3xf32>, memref<4x3xi4>, memref<2x3xf16>
}

// CHECK-LABEL: func.func @moved
func.func @moved(%w: tensor<64x32xf16>, %c: tensor<64x32xi4>) {
  // CHECK: wafer.dist_relayout %{{.*}} along y from 4 to 6 on 8 : tensor<64x32xf16>
  %v = wafer.dist_relayout %w along y from 4 to 6 on 8 : tensor<64x32xf16>
  // CHECK: wafer.dist_relayout %{{.*}} along x from 6 to 2 on 6 : tensor<64x32xi4>
  %d = wafer.dist_relayout %c along x from 6 to 2 on 6 : tensor<64x32xi4>
  return
}

// CHECK-LABEL: wafer.program @collect
wafer.program @collect on #wafer grid 4 by 4 {
  %w = wafer.buffer "w" : memref<3x2xi8>
  %next = wafer.buffer "next" : memref<3x2xi8>
  %kept = wafer.buffer "kept" : memref<3x3xi8>
  // CHECK: wafer.load %{{.*}} from 0 as <rows = y, columns = x, extent = 3> : memref<3x2xi8>, tensor<9x6xi8>
  wafer.load %w from 0 as <rows = y, columns = x, extent = 3> : memref<3x2xi8>, tensor<9x6xi8>
  wafer.compute zero %kept : memref<3x3xi8>
  wafer.repeat 4(%w, %next) : memref<3x2xi8>, memref<3x2xi8> {
  ^bb0(%a: memref<3x2xi8>, %b: memref<3x2xi8>):
    // CHECK: wafer.compute collect %{{.*}}, %{{.*}} {relayout = #wafer.relayout<along = y, from = 3, to = 2, height = 9, width = 6>}
    wafer.compute collect %kept, %a {relayout = #wafer.relayout<along = y, from = 3, to = 2, height = 9, width = 6>} : memref<3x3xi8>, memref<3x2xi8>
    wafer.yield %b, %a : memref<3x2xi8>, memref<3x2xi8>
  }
}
