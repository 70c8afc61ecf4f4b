// RUN: intarsia-opt %s --target-declare-devices=targets=cuda:sm_90a --target-emit-kernels=step=shape 2>%t | FileCheck %s --check-prefix=SM90
// RUN: intarsia-opt %s --target-declare-devices=targets=hip:gfx942 --target-emit-kernels=step=shape 2>%t | FileCheck %s --check-prefix=GFX942

// How kernels are cut up for a GPU, a shape for each kind of launch.

// Few rows are multiplied by lanes, others by tiles for some numbers of rows.
// SM90-LABEL: rt.kernel @floats(
// SM90-SAME: rt.shapes = {sm_90a = [{features = 32 : i64, kernel = "few rows linear", products = "f32", rows = 4 : i64, threads = 256 : i64, threads_one_row = 256 : i64}, {instruction = "multiply-adds m16n16k4 f32", kernel = "matrix linear", large = {block = [128, 64], depth = 16 : i64, loads_ahead = 1 : i64, rows_above = 2048 : i64, stages = 4 : i64, warp = [64, 32]}, least = {block = [16, 64], depth = 16 : i64, depth_parts = 1 : i64, loads_ahead = 4 : i64, rows_above = 4 : i64, rows_most = 16 : i64, stages = 4 : i64, warp = [16, 16]}, small = {block = [64, 64], depth = 16 : i64, depth_parts = 1 : i64, loads_ahead = 4 : i64, rows_above = 16 : i64, rows_most = 2048 : i64, stages = 4 : i64, warp = [32, 32]}}]}
// GFX942-LABEL: rt.kernel @floats(
// GFX942-SAME: rt.shapes = {gfx942 = [{features = 32 : i64, kernel = "few rows linear", products = "f32", rows = 4 : i64, threads = 256 : i64, threads_one_row = 256 : i64}, {instruction = "mfma m16n16k4 f32", kernel = "matrix linear", large = {block = [128, 128], depth = 16 : i64, loads_ahead = 1 : i64, rows_above = 9600 : i64, stages = 2 : i64, warp = [64, 64]}, least = {block = [16, 64], depth = 16 : i64, depth_parts = 1 : i64, loads_ahead = 4 : i64, rows_above = 4 : i64, rows_most = 16 : i64, stages = 2 : i64, warp = [16, 16]}, small = {block = [64, 64], depth = 16 : i64, depth_parts = 1 : i64, loads_ahead = 4 : i64, rows_above = 16 : i64, rows_most = 9600 : i64, stages = 2 : i64, warp = [32, 32]}}]}
rt.kernel @floats(%x: tensor<?x256xf32> {nn.sizes = ["rows", ""]}, %w: tensor<256x256xf32> {rt.layout = #rt.row_major})
    -> (tensor<?x256xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = nn.linear %x, %w : (tensor<?x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  rt.yield %0 : tensor<?x256xf32>
}

// On Hopper tensor copies bring operands of 16 bits.
// SM90-LABEL: rt.kernel @halves(
// SM90-SAME: rt.shapes = {sm_90a = [{features = 32 : i64, kernel = "few rows linear", products = "f32", rows = 4 : i64, threads = 256 : i64, threads_one_row = 256 : i64}, {instruction = "mma m16n8k16 f16", kernel = "matrix linear", least = {block = [16, 64], depth = 32 : i64, depth_parts = 1 : i64, loads_ahead = 4 : i64, rows_above = 4 : i64, rows_most = 16 : i64, stages = 4 : i64, warp = [16, 16]}}, {instruction = "wgmma m64n8k16 f16", kernel = "tensor copy linear", large = {block = [128, 256], depth = 64 : i64, loads_ahead = 1 : i64, rows_above = 8320 : i64, stages = 4 : i64, warp = [16, 256]}, small = {block = [128, 128], depth = 64 : i64, depth_parts = 1 : i64, loads_ahead = 1 : i64, rows_above = 16 : i64, rows_most = 8320 : i64, stages = 6 : i64, warp = [16, 128]}}]}
// GFX942-LABEL: rt.kernel @halves(
// GFX942-SAME: rt.shapes = {gfx942 = [{features = 32 : i64, kernel = "few rows linear", products = "f32", rows = 4 : i64, threads = 256 : i64, threads_one_row = 256 : i64}, {instruction = "mfma m16n16k16 f16", kernel = "matrix linear", large = {block = [128, 128], depth = 32 : i64, loads_ahead = 1 : i64, rows_above = 9600 : i64, stages = 2 : i64, warp = [64, 64]}, least = {block = [16, 64], depth = 32 : i64, depth_parts = 1 : i64, loads_ahead = 4 : i64, rows_above = 4 : i64, rows_most = 16 : i64, stages = 2 : i64, warp = [16, 16]}, small = {block = [64, 64], depth = 32 : i64, depth_parts = 1 : i64, loads_ahead = 4 : i64, rows_above = 16 : i64, rows_most = 9600 : i64, stages = 2 : i64, warp = [32, 32]}}]}
rt.kernel @halves(%x: tensor<?x256xf16> {nn.sizes = ["rows", ""]}, %w: tensor<256x256xf16> {rt.layout = #rt.row_major})
    -> (tensor<?x256xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = arith.extf %x : tensor<?x256xf16> to tensor<?x256xf32>
  %1 = nn.linear %0, %w {precision = f16} : (tensor<?x256xf32>, tensor<256x256xf16>) -> tensor<?x256xf32>
  rt.yield %1 : tensor<?x256xf32>
}

// The input is quantized by a launch of its own, then multiplied as integers.
// SM90-LABEL: rt.kernel @blocks(
// SM90-SAME: rt.shapes = {sm_90a = [{kernel = "quantize rows", threads = 256 : i64, values = "i8"}, {features = 32 : i64, kernel = "few rows linear", products = "f32", rows = 4 : i64, threads = 256 : i64, threads_one_row = 256 : i64}, {instruction = "mma m16n8k32 i8", kernel = "integer linear", large = {block = [128, 128], depth = 64 : i64, loads_ahead = 1 : i64, rows_above = 8320 : i64, stages = 3 : i64, warp = [64, 32]}, least = {block = [16, 64], depth = 64 : i64, depth_parts = 1 : i64, loads_ahead = 2 : i64, rows_above = 4 : i64, rows_most = 16 : i64, stages = 3 : i64, warp = [16, 16]}, small = {block = [64, 64], depth = 64 : i64, depth_parts = 1 : i64, loads_ahead = 2 : i64, rows_above = 16 : i64, rows_most = 8320 : i64, stages = 3 : i64, warp = [32, 32]}}]}
// GFX942-LABEL: rt.kernel @blocks(
// GFX942-SAME: rt.shapes = {gfx942 = [{kernel = "quantize rows", threads = 256 : i64, values = "i8"}, {features = 32 : i64, kernel = "few rows linear", products = "f32", rows = 4 : i64, threads = 256 : i64, threads_one_row = 256 : i64}, {instruction = "mfma m16n16k32 i8", kernel = "integer linear", large = {block = [128, 128], depth = 64 : i64, loads_ahead = 1 : i64, rows_above = 19328 : i64, stages = 2 : i64, warp = [64, 64]}, least = {block = [16, 64], depth = 64 : i64, depth_parts = 1 : i64, loads_ahead = 2 : i64, rows_above = 4 : i64, rows_most = 16 : i64, stages = 2 : i64, warp = [16, 16]}, small = {block = [64, 64], depth = 64 : i64, depth_parts = 1 : i64, loads_ahead = 2 : i64, rows_above = 16 : i64, rows_most = 19328 : i64, stages = 2 : i64, warp = [32, 32]}}]}
rt.kernel @blocks(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// A batched matmul has small tiles.
// SM90-LABEL: rt.kernel @matmul(
// SM90-SAME: rt.shapes = {sm_90a = [{block = [64, 64], depth = 16 : i64, instruction = "multiply-adds m16n16k4 f32", kernel = "matmul", loads_ahead = 1 : i64, stages = 4 : i64, warp = [32, 32]}]}
// GFX942-LABEL: rt.kernel @matmul(
// GFX942-SAME: rt.shapes = {gfx942 = [{block = [64, 64], depth = 16 : i64, instruction = "mfma m16n16k4 f32", kernel = "matmul", loads_ahead = 1 : i64, stages = 2 : i64, warp = [32, 32]}]}
rt.kernel @matmul(%a: tensor<2x?x20xf32> {nn.sizes = ["", "s0", ""]}, %b: tensor<2x20x40xf32>)
    -> (tensor<2x?x40xf32> {nn.sizes = ["", "s0", ""]}) attributes {root = #nn.root<matmul>, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<2x?x20xf32>, tensor<2x20x40xf32>) -> tensor<2x?x40xf32>
  rt.yield %0 : tensor<2x?x40xf32>
}

// Attention is a microkernel.
// SM90-LABEL: rt.kernel @attention(
// SM90-SAME: rt.shapes = {sm_90a = [{block_keys = 64 : i64, kernel = "attention", microkernel = "itx_attention_warpgroups", queries = 128 : i64, shared_bytes = 30720 : i64, threads = 256 : i64}]}
// GFX942-LABEL: rt.kernel @attention(
// GFX942-SAME: rt.shapes = {gfx942 = [{block_keys = 32 : i64, kernel = "attention", microkernel = "itx_attention_matrix", queries = 128 : i64, shared_bytes = 16384 : i64, threads = 256 : i64}]}
rt.kernel @attention(%q: tensor<2x?x4x48xf16> {nn.sizes = ["", "s0", "", ""]}, %k: tensor<2x?x2x48xf16> {nn.sizes = ["", "s1", "", ""]}, %v: tensor<2x?x2x48xf16> {nn.sizes = ["", "s1", "", ""]})
    -> (tensor<2x?x4x48xf16> {nn.sizes = ["", "s0", "", ""]}) attributes {root = #nn.root<attention>, sizes = ["s0", "s1"]} {
  %0 = nn.attention %q, %k, %v {scale = 0.5 : f32} : (tensor<2x?x4x48xf16>, tensor<2x?x2x48xf16>, tensor<2x?x2x48xf16>) -> tensor<2x?x4x48xf16>
  rt.yield %0 : tensor<2x?x4x48xf16>
}

// Rows, a warp each.
// SM90-LABEL: rt.kernel @rows(
// SM90-SAME: rt.shapes = {sm_90a = [{kernel = "rows", parts = [{results = [0], walk = "rows"}], threads = 256 : i64}]}
// GFX942-LABEL: rt.kernel @rows(
// GFX942-SAME: rt.shapes = {gfx942 = [{kernel = "rows", parts = [{results = [0], walk = "rows"}], threads = 256 : i64}]}
rt.kernel @rows(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x256xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<rows>, sizes = ["s0"]} {
  %0 = nn.softmax %x : tensor<?x256xf32>
  rt.yield %0 : tensor<?x256xf32>
}

// A reduction over the outer dimension.
// SM90-LABEL: rt.kernel @generic(
// SM90-SAME: rt.shapes = {sm_90a = [{kernel = "rows", parts = [{results = [0], walk = "rows"}], threads = 256 : i64}]}
// GFX942-LABEL: rt.kernel @generic(
// GFX942-SAME: rt.shapes = {gfx942 = [{kernel = "rows", parts = [{results = [0], walk = "rows"}], threads = 256 : i64}]}
rt.kernel @generic(%x: tensor<9x168xf32>) -> tensor<168xf32> attributes {root = #nn.root<generic>, sizes = []} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<168xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<168xf32>) -> tensor<168xf32>
  %r = linalg.reduce ins(%x : tensor<9x168xf32>) outs(%f : tensor<168xf32>) dimensions = [0] (%in: f32, %sum: f32) {
    %t = arith.addf %in, %sum : f32
    linalg.yield %t : f32
  }
  rt.yield %r : tensor<168xf32>
}

// What no kernel is made for says why.
// SM90-LABEL: rt.kernel @loops(
// SM90-SAME: rt.shapes = {sm_90a = [{kernel = "loops", why = "an op that is not elementwise, or f64, is in the same kernel"}]}
// GFX942-LABEL: rt.kernel @loops(
// GFX942-SAME: rt.shapes = {gfx942 = [{kernel = "loops", why = "an op that is not elementwise, or f64, is in the same kernel"}]}
rt.kernel @loops(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %y: tensor<8x16xf32>) -> tensor<4x16xf32> attributes {root = #nn.root<matmul>, sizes = []} {
  %n = nn.rms_norm %x, %s {epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %0 = nn.matmul %n, %y : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  rt.yield %0 : tensor<4x16xf32>
}
