// RUN: intarsia-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{columns is 0, must be between 1 and 10000}}
#wafer = #wafer.target<name = "tiny", columns = 0, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>

// -----

// expected-error@+1 {{clock_ghz is 1100, must be between 0.01 and 10}}
#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1100.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>

// -----

// expected-error@+1 {{range has width 3 and period 2, the width must be between 1 and the period}}
#range = #wafer.range<start = 0, end = 8, period = 2, width = 3>

// -----

// expected-error@+1 {{range from 4 to 4 holds no position}}
#range = #wafer.range<start = 4, end = 4>

// -----

// expected-error@+1 {{path leads to where it starts}}
#path = #wafer.path<start = <start = 0, end = 1>, by = 0, color = 0>

// -----

// expected-error@+1 {{rows and columns are both split along x}}
#tiles = #wafer.tiles<rows = x, columns = x>

// -----

// expected-error@+1 {{skew needs rows and columns that are split}}
#tiles = #wafer.tiles<rows = none, columns = x, skew = rows>

// -----

func.func @depth(%a: tensor<8x8xf16>, %b: tensor<4x8xf16>) {
  // expected-error@+1 {{'wafer.dist_gemm' op multiplies 8 columns of A with 4 of B}}
  %c = wafer.dist_gemm mesh %a, %b on 4 : tensor<8x8xf16>, tensor<4x8xf16> -> tensor<8x8xf32>
  return
}

// -----

func.func @result(%a: tensor<8x8xf16>, %b: tensor<8x4xf16>) {
  // expected-error@+1 {{'wafer.dist_gemm' op result is 'tensor<8x8xf32>', operands give 8x4}}
  %c = wafer.dist_gemm mesh %a, %b on 4 : tensor<8x8xf16>, tensor<8x4xf16> -> tensor<8x8xf32>
  return
}

// -----

func.func @transposed(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>) {
  // expected-error@+1 {{'wafer.dist_gemm' op has no transposed form of summa; mesh and cannon have one}}
  %c = wafer.dist_gemm summa transposed %a, %b on 4 : tensor<8x8xf16>, tensor<8x8xf16> -> tensor<8x8xf32>
  return
}

// -----

func.func @dynamic(%a: tensor<?x8xf16>, %b: tensor<8x8xf16>) {
  // expected-error@+1 {{'wafer.dist_gemm' op has a dynamic size in 'tensor<?x8xf16>', tiles of cores have fixed sizes}}
  %c = wafer.dist_gemm mesh %a, %b on 4 : tensor<?x8xf16>, tensor<8x8xf16> -> tensor<?x8xf32>
  return
}

// -----

func.func @groups(%x: tensor<1x8xf16>, %w: tensor<8x8xf16>) {
  // expected-error@+1 {{'wafer.dist_gemv' op has 5 groups, must be between 1 and the grid's 4}}
  %y = wafer.dist_gemv tree %x, %w on 4 groups 5 : tensor<1x8xf16>, tensor<8x8xf16> -> tensor<1x8xf16>
  return
}

// -----

func.func @no_groups(%x: tensor<1x8xf16>, %w: tensor<8x8xf16>) {
  // expected-error@+1 {{'wafer.dist_gemv' op has groups, but ring has none}}
  %y = wafer.dist_gemv ring %x, %w on 4 groups 2 : tensor<1x8xf16>, tensor<8x8xf16> -> tensor<1x8xf16>
  return
}

// -----

func.func @map(%x: tensor<1x8xf16>) {
  // expected-error@+1 {{'wafer.dist_map' op gemm is no function of elements: add, multiply, exp, silu, gelu, gelu_tanh, relu, tanh}}
  %y = wafer.dist_map gemm %x on 4 : tensor<1x8xf16>
  return
}

// -----

func.func @norm(%x: tensor<1x8xf32>) {
  // expected-error@+1 {{'wafer.dist_norm' op has 3 inputs, must have a vector, a scale}}
  %y = wafer.dist_norm rms %x, %x, %x on 4 {epsilon = 1.0e-6 : f32} : tensor<1x8xf32>
  return
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
wafer.program @sum on #wafer grid 2 by 2 {
  %a = wafer.buffer "a" : memref<1x4xf32>
  // expected-error@+1 {{'wafer.compute' op sum gives 'memref<1x4xf32>', must be one element for each row of 'memref<1x4xf32>'}}
  wafer.compute sum %a, %a : memref<1x4xf32>, memref<1x4xf32>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
wafer.program @factor on #wafer grid 2 by 2 {
  %a = wafer.buffer "a" : memref<1x4xf32>
  // expected-error@+1 {{'wafer.compute' op copy has a factor, which affine, rsqrt, mask and rotate have}}
  wafer.compute copy %a, %a {factor = 2.0 : f32} : memref<1x4xf32>, memref<1x4xf32>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{'wafer.program' op has a grid of 9 by 8, tiny has 8 by 8 cores}}
wafer.program @grid on #wafer grid 9 by 8 {
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+2 {{'wafer.program' op needs 4224 bytes of each core, tiny has 4096}}
// expected-note@+1 {{the runtime reserves 1024 bytes}}
wafer.program @memory on #wafer grid 2 by 2 {
  // expected-note@+1 {{buffer "large" has 3200 bytes}}
  %a = wafer.buffer "large" : memref<40x40xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
wafer.program @colors on #wafer grid 2 by 2 {
  // expected-error@+2 {{'wafer.route' op has color 8, the target has colors 0 to 7}}
  // expected-note@+1 {{route @east uses colors 7, 8}}
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 1>, by = 1, color = 7, alternate = true>]
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
wafer.program @route on #wafer grid 2 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  // expected-error@+1 {{'wafer.send' op names @east, but the program has no such route}}
  wafer.send %a on @east : memref<1x8xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
wafer.program @tiles on #wafer grid 2 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  // expected-error@+1 {{'wafer.load' op 2 tiles of 'memref<1x8xf16>' do not hold dimension 1 of 'tensor<1x20xf16>'}}
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x20xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
wafer.program @compute on #wafer grid 2 by 2 {
  %a = wafer.buffer "a" : memref<2x8xf16>
  %b = wafer.buffer "b" : memref<4x4xf16>
  // expected-error@+1 {{'wafer.compute' op tiles 'memref<2x8xf16>', 'memref<2x8xf16>' and 'memref<4x4xf16>' disagree in their sizes}}
  wafer.compute gemm %a, %a, %b : memref<2x8xf16>, memref<2x8xf16>, memref<4x4xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
wafer.program @repeat on #wafer grid 2 by 2 {
  // expected-error@+1 {{'wafer.repeat' op must end with wafer.yield}}
  wafer.repeat 3 {
    wafer.await
  }
}

// -----

func.func @attention(%q: tensor<2x32xf32>, %k: tensor<16x32xf32>, %v: tensor<12x32xf32>, %p: tensor<2x1xf32>, %f: tensor<1x8xf32>) {
  // expected-error@+1 {{'wafer.dist_attention' op has 3 heads on 2 columns each, the grid has 4}}
  %o = wafer.dist_attention %q, %k, %k, %p on 4 heads 3 columns 2 {scale = 1.0 : f32} : tensor<2x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<2x1xf32> -> tensor<2x32xf32>
  return
}

// -----

func.func @attention(%q: tensor<2x32xf32>, %k: tensor<16x32xf32>, %v: tensor<12x32xf32>, %p: tensor<2x1xf32>, %f: tensor<1x8xf32>) {
  // expected-error@+1 {{op query 'tensor<2x32xf32>', keys 'tensor<16x32xf32>', values 'tensor<12x32xf32>' and result 'tensor<2x32xf32>' disagree in their sizes}}
  %o = wafer.dist_attention %q, %k, %v, %p on 4 heads 2 columns 2 {scale = 1.0 : f32} : tensor<2x32xf32>, tensor<16x32xf32>, tensor<12x32xf32>, tensor<2x1xf32> -> tensor<2x32xf32>
  return
}

// -----

func.func @attention(%q: tensor<2x32xf32>, %k: tensor<16x32xf32>, %v: tensor<12x32xf32>, %p: tensor<2x1xf32>, %f: tensor<1x8xf32>) {
  // expected-error@+1 {{op has frequencies 'tensor<1x8xf32>', must be one for each pair of features of 'tensor<2x32xf32>'}}
  %o = wafer.dist_attention %q, %k, %k, %p rotated by %f : tensor<1x8xf32> on 4 heads 2 columns 2 {scale = 1.0 : f32} : tensor<2x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<2x1xf32> -> tensor<2x32xf32>
  return
}

// -----

func.func @append(%c: tensor<15x32xf32>, %r: tensor<1x32xf32>) {
  // expected-error@+1 {{'wafer.dist_append' op cache 'tensor<15x32xf32>' has no slots and pairs of features for each of 4 cores}}
  %n = wafer.dist_append %c, %r on 4 : tensor<15x32xf32>, tensor<1x32xf32> -> tensor<15x32xf32>
  return
}

// -----

func.func @append(%c: tensor<16x32xf32>, %r: tensor<1x32xf32>, %p: tensor<1x1xf32>) {
  // expected-error@+1 {{op must have both positions and frequencies, or none}}
  %n = wafer.dist_append %c, %r at %p : tensor<1x1xf32> on 4 : tensor<16x32xf32>, tensor<1x32xf32> -> tensor<16x32xf32>
  return
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
wafer.program @take on #wafer grid 2 by 2 {
  %cache = wafer.buffer "cache" : memref<4x2xf32>
  %entry = wafer.buffer "entry" : memref<2x2xf32>
  // expected-error@+1 {{op take of 'memref<4x2xf32>' to 'memref<2x2xf32>'}}
  wafer.compute take %entry, %cache : memref<2x2xf32>, memref<4x2xf32>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
wafer.program @maximum on #wafer grid 2 by 2 {
  %a = wafer.buffer "a" : memref<1x2xf32>
  wafer.route @up along y [#wafer.path<start = <start = 1, end = 2>, by = -1, color = 0>]
  // expected-error@+1 {{op has maximum without add}}
  wafer.receive maximum %a on @up at <y = <start = 0, end = 1>> : memref<1x2xf32>
}

// -----

// expected-error@+1 {{defects are 3 numbers, must be a column and a row each}}
#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0, defects = [1, 2, 3]>

// -----

// expected-error@+1 {{defect (8, 0) is not on a wafer of 8 by 8 cores}}
#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0, defects = [8, 0]>

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0, defects = [3, 4]>

// expected-error@+1 {{'wafer.program' op has a grid of 7 by 7 from core (1, 1) on, which is not on tiny with its 8 by 8 cores; it leaves out columns and rows with cores that do not work}}
wafer.program @dead on #wafer grid 7 by 7 at [1, 1] {
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0, defects = [3, 4]>

// expected-error@+1 {{'wafer.program' op has a grid of 4 by 4 from core (5, 0) on, which is not on tiny with its 8 by 8 cores}}
wafer.program @beyond on #wafer grid 4 by 4 at [5, 0] {
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0, defects = [3, 4]>

// expected-error@+1 {{'wafer.program' op begins at 1 numbers, must be a column and a row}}
wafer.program @one on #wafer grid 4 by 4 at [5] {
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>

wafer.program @scales on #wafer grid 2 by 2 {
  %codes = wafer.buffer "codes" : memref<4x3xi4>
  %scales = wafer.buffer "scales" : memref<3x3xf16>
  %w = wafer.buffer "w" : memref<4x3xf32>
  // expected-error@+1 {{'wafer.compute' op decodes 'memref<4x3xi4>' with scales 'memref<3x3xf16>' to 'memref<4x3xf32>'}}
  wafer.compute decode %w, %codes, %scales : memref<4x3xf32>, memref<4x3xi4>, memref<3x3xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>

wafer.program @integers on #wafer grid 2 by 2 {
  %codes = wafer.buffer "codes" : memref<4x3xi4>
  %scales = wafer.buffer "scales" : memref<3x3xf16>
  %w = wafer.buffer "w" : memref<4x3xf32>
  // expected-error@+1 {{'wafer.compute' op copy has buffer 1 of 'memref<4x3xi4>'; decode reads quantized values, and nothing else computes with them}}
  wafer.compute copy %w, %codes : memref<4x3xf32>, memref<4x3xi4>
}

// -----

func.func @groups(%c: tensor<64x32xi4>, %s: tensor<6x32xf16>) {
  // expected-error@+1 {{'wafer.dist_decode' op has 6 rows of scales for 64: a tile of 16 rows on a grid of 4 is no whole number of groups of one scale}}
  %w = wafer.dist_decode %c, %s on 4 : tensor<64x32xi4>, tensor<6x32xf16> -> tensor<64x32xf16>
  return
}

// -----

func.func @sizes(%c: tensor<64x32xi4>, %s: tensor<8x16xf16>) {
  // expected-error@+1 {{'wafer.dist_decode' op codes 'tensor<64x32xi4>', scales 'tensor<8x16xf16>' and result 'tensor<64x32xf16>' disagree in their sizes}}
  %w = wafer.dist_decode %c, %s on 4 : tensor<64x32xi4>, tensor<8x16xf16> -> tensor<64x32xf16>
  return
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>

wafer.program @some_places on #wafer grid 2 by 2 {
  %a = wafer.buffer "a" at 0 : memref<4x3xf32>
  // expected-error@+1 {{'wafer.buffer' op "b" says not where it begins, but others of the program do}}
  %b = wafer.buffer "b" : memref<4x3xf32>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>

wafer.program @within_a_word on #wafer grid 2 by 2 {
  // expected-error@+1 {{'wafer.buffer' op "a" begins at byte 6, must be a multiple of 4}}
  %a = wafer.buffer "a" at 6 : memref<4x3xf32>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>

// expected-error@+2 {{'wafer.program' op needs 4120 bytes of each core, tiny has 4096}}
// expected-note@+1 {{the runtime reserves 1024 bytes}}
wafer.program @beyond on #wafer grid 2 by 2 {
  // expected-note@+1 {{buffer "a" has 48 bytes from byte 3048 on}}
  %a = wafer.buffer "a" at 3048 : memref<4x3xf32>
}

// -----

func.func @no_axis(%w: tensor<64x32xf16>) {
  // expected-error@+1 {{'wafer.dist_relayout' op has a matrix whose rows lie along no axis; they lie along x or y}}
  %v = wafer.dist_relayout %w along none from 4 to 6 on 6 : tensor<64x32xf16>
  return
}

// -----

func.func @beyond_the_cores(%w: tensor<64x32xf16>) {
  // expected-error@+1 {{moves a matrix between grids of 4 and 7, both must be between 2 and the 6 cores along each axis that take part}}
  %v = wafer.dist_relayout %w along x from 4 to 7 on 6 : tensor<64x32xf16>
  return
}

// -----

// expected-error@+1 {{rows of the matrix lie along no axis}}
#relayout = #wafer.relayout<along = none, from = 3, to = 2, height = 9, width = 6>

// -----

// expected-error@+1 {{a matrix of 9 by 0 cannot go from 3 to 2 cores of each axis}}
#relayout = #wafer.relayout<along = x, from = 3, to = 2, height = 9, width = 0>

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>

wafer.program @outside on #wafer grid 4 by 4 {
  %a = wafer.buffer "a" : memref<3x2xf16>
  %b = wafer.buffer "b" : memref<3x3xf16>
  // expected-error@+1 {{'wafer.compute' op collects outside of a repeat, in which tiles pass by}}
  wafer.compute collect %b, %a {relayout = #wafer.relayout<along = y, from = 3, to = 2, height = 9, width = 6>} : memref<3x3xf16>, memref<3x2xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>

wafer.program @tiles on #wafer grid 4 by 4 {
  %a = wafer.buffer "a" : memref<3x2xf16>
  %b = wafer.buffer "b" : memref<3x2xf16>
  wafer.repeat 4 {
    // expected-error@+1 {{'wafer.compute' op collects 'memref<3x2xf16>' from 'memref<3x2xf16>', tiles have 3x3 and 3x2 elements}}
    wafer.compute collect %b, %a {relayout = #wafer.relayout<along = y, from = 3, to = 2, height = 9, width = 6>} : memref<3x2xf16>, memref<3x2xf16>
    wafer.yield
  }
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>

wafer.program @cores on #wafer grid 4 by 4 {
  %a = wafer.buffer "a" : memref<3x2xf16>
  %b = wafer.buffer "b" : memref<3x3xf16>
  wafer.repeat 4 {
    // expected-error@+1 {{'wafer.compute' op collects on 5 cores of each axis, the program has 4 by 4}}
    wafer.compute collect %b, %a {relayout = #wafer.relayout<along = y, from = 5, to = 2, height = 9, width = 6>} : memref<3x3xf16>, memref<3x2xf16>
    wafer.yield
  }
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>

wafer.program @without on #wafer grid 4 by 4 {
  %a = wafer.buffer "a" : memref<3x2xf16>
  // expected-error@+1 {{'wafer.compute' op collect has no relayout}}
  wafer.compute collect %a, %a : memref<3x2xf16>, memref<3x2xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>

wafer.program @extent on #wafer grid 4 by 4 {
  %a = wafer.buffer "a" : memref<3x2xf16>
  // expected-error@+1 {{'wafer.load' op 3 tiles of 'memref<3x2xf16>' do not hold dimension 0 of 'tensor<10x6xf16>'}}
  wafer.load %a from 0 as <rows = y, columns = x, extent = 3> : memref<3x2xf16>, tensor<10x6xf16>
}
