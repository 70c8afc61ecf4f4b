// RUN: intarsia-opt %s --target-declare-devices=targets=cpu:x86-64-v4 --target-emit-kernels=step=shape | FileCheck %s --check-prefix=V4
// RUN: intarsia-opt %s --target-declare-devices=targets=cpu:x86-64-v3 --target-emit-kernels=step=shape | FileCheck %s --check-prefix=V3
// RUN: intarsia-opt %s --target-declare-devices=targets=cpu:aarch64 --target-emit-kernels=step=shape | FileCheck %s --check-prefix=ARM

// How kernels are cut up for a processor: what is chosen, and what follows from them.

// Rows of the input stay in the cache while panels of the weight pass by.
// V4-LABEL: rt.kernel @linear(
// V4-SAME: rt.shapes = {"x86-64-v4" = {block_rows = 128 : i64, input = "in place", kernel = "linear", lanes = 16 : i64, products = "f32", results = "from registers", tile_rows = 8 : i64, tile_vectors = 2 : i64, weight = "panels"}}
// V3-LABEL: rt.kernel @linear(
// V3-SAME: rt.shapes = {"x86-64-v3" = {block_rows = 96 : i64, input = "in place", kernel = "linear", lanes = 8 : i64, products = "f32", results = "from registers", tile_rows = 6 : i64, tile_vectors = 2 : i64, weight = "panels"}}
// ARM-LABEL: rt.kernel @linear(
// ARM-SAME: rt.shapes = {aarch64 = {block_rows = 96 : i64, input = "in place", kernel = "linear", lanes = 4 : i64, products = "f32", results = "from registers", tile_rows = 6 : i64, tile_vectors = 4 : i64, weight = "panels"}}
rt.kernel @linear(%x: tensor<?x40xf32> {nn.sizes = ["s0", ""]}, %w: tensor<70x40xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x70xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x40xf32>, tensor<70x40xf32>) -> tensor<?x70xf32>
  rt.yield %0 : tensor<?x70xf32>
}

// A weight that lies row by row is packed, a panel at a time.
// V4-LABEL: rt.kernel @floats(
// V4-SAME: rt.shapes = {"x86-64-v4" = {block_rows = 128 : i64, input = "in place", kernel = "linear", lanes = 16 : i64, products = "f32", results = "from registers", tile_rows = 8 : i64, tile_vectors = 2 : i64, weight = "packed by tile"}}
// V3-LABEL: rt.kernel @floats(
// V3-SAME: rt.shapes = {"x86-64-v3" = {block_rows = 96 : i64, input = "in place", kernel = "linear", lanes = 8 : i64, products = "f32", results = "from registers", tile_rows = 6 : i64, tile_vectors = 2 : i64, weight = "packed by tile"}}
// ARM-LABEL: rt.kernel @floats(
// ARM-SAME: rt.shapes = {aarch64 = {block_rows = 96 : i64, input = "in place", kernel = "linear", lanes = 4 : i64, products = "f32", results = "from registers", tile_rows = 6 : i64, tile_vectors = 4 : i64, weight = "packed by tile"}}
rt.kernel @floats(%x: tensor<?x256xf32> {nn.sizes = ["rows", ""]}, %w: tensor<256x256xf32> {rt.layout = #rt.row_major})
    -> (tensor<?x256xf32> {nn.sizes = ["rows", ""]}) attributes {root = #nn.root<linear>, sizes = ["rows"]} {
  %0 = nn.linear %x, %w : (tensor<?x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  rt.yield %0 : tensor<?x256xf32>
}

// Bytes with a scale for a row of the weight and one for a row of the input.
// V4-LABEL: rt.kernel @tokens(
// V4-SAME: rt.shapes = {"x86-64-v4" = {block_rows = 2520 : i64, input = "quantized by the first tiles", instruction = "pmaddwd", kernel = "token linear", lanes = 16 : i64, tile_rows = 8 : i64, tile_vectors = 1 : i64, weight = "panels of bytes"}}
// V3-LABEL: rt.kernel @tokens(
// V3-SAME: rt.shapes = {"x86-64-v3" = {block_rows = 2520 : i64, input = "quantized by the first tiles", instruction = "pmaddwd", kernel = "token linear", lanes = 8 : i64, tile_rows = 5 : i64, tile_vectors = 1 : i64, weight = "panels of bytes"}}
// ARM-LABEL: rt.kernel @tokens(
// ARM-SAME: rt.shapes = {aarch64 = {block_rows = 4964 : i64, input = "quantized by the first tiles", instruction = "multiply-add", kernel = "token linear", lanes = 4 : i64, tile_rows = 2 : i64, tile_vectors = 2 : i64, weight = "panels of bytes"}}
rt.kernel @tokens(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// Blocks of 4 bits are unpacked, some steps at a time; of few rows in registers.
// V4-LABEL: rt.kernel @blocks(
// V4-SAME: rt.shapes = {"x86-64-v4" = {block_panels = 4 : i64, block_rows = 4092 : i64, few_rows = 16 : i64, few_rows_panels = 2 : i64, input = "quantized by the first tiles", instruction = "pmaddwd", kernel = "quantized linear", lanes = 16 : i64, tile_rows = 6 : i64, tile_vectors = 2 : i64, unpacked_steps = 8 : i64, weight = "quantized panels, unpacked by tile"}}
// V3-LABEL: rt.kernel @blocks(
// V3-SAME: rt.shapes = {"x86-64-v3" = {block_panels = 4 : i64, block_rows = 4095 : i64, few_rows = 4 : i64, few_rows_panels = 2 : i64, input = "quantized by the first tiles", instruction = "pmaddwd", kernel = "quantized linear", lanes = 8 : i64, tile_rows = 3 : i64, tile_vectors = 2 : i64, unpacked_steps = 8 : i64, weight = "quantized panels, unpacked by tile"}}
// ARM-LABEL: rt.kernel @blocks(
// ARM-SAME: rt.shapes = {aarch64 = {block_panels = 4 : i64, block_rows = 4096 : i64, few_rows = 4 : i64, few_rows_panels = 2 : i64, input = "quantized by the first tiles", instruction = "multiply-add", kernel = "quantized linear", lanes = 4 : i64, tile_rows = 2 : i64, tile_vectors = 2 : i64, unpacked_steps = 8 : i64, weight = "quantized panels, unpacked by tile"}}
rt.kernel @blocks(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// The right operand of a matmul is packed by panels.
// V4-LABEL: rt.kernel @matmul(
// V4-SAME: rt.shapes = {"x86-64-v4" = {kernel = "matmul", lanes = 16 : i64, left = "in place", right = "packed by tile", tile_rows = 8 : i64, tile_vectors = 2 : i64}}
// V3-LABEL: rt.kernel @matmul(
// V3-SAME: rt.shapes = {"x86-64-v3" = {kernel = "matmul", lanes = 8 : i64, left = "in place", right = "packed by tile", tile_rows = 6 : i64, tile_vectors = 2 : i64}}
// ARM-LABEL: rt.kernel @matmul(
// ARM-SAME: rt.shapes = {aarch64 = {kernel = "matmul", lanes = 4 : i64, left = "in place", right = "packed by tile", tile_rows = 6 : i64, tile_vectors = 4 : i64}}
rt.kernel @matmul(%a: tensor<2x?x20xf32> {nn.sizes = ["", "s0", ""]}, %b: tensor<2x20x40xf32>)
    -> (tensor<2x?x40xf32> {nn.sizes = ["", "s0", ""]}) attributes {root = #nn.root<matmul>, sizes = ["s0"]} {
  %0 = nn.matmul %a, %b : (tensor<2x?x20xf32>, tensor<2x20x40xf32>) -> tensor<2x?x40xf32>
  rt.yield %0 : tensor<2x?x40xf32>
}

// Attention takes 32 queries, and keys by blocks.
// V4-LABEL: rt.kernel @attention(
// V4-SAME: rt.shapes = {"x86-64-v4" = {block_keys = 128 : i64, kernel = "attention", lanes = 16 : i64, queries = 32 : i64, query = "packed by tile", tile_rows = 8 : i64, tile_vectors = 2 : i64, value = "in place"}}
// V3-LABEL: rt.kernel @attention(
// V3-SAME: rt.shapes = {"x86-64-v3" = {block_keys = 128 : i64, kernel = "attention", lanes = 8 : i64, queries = 32 : i64, query = "packed by tile", tile_rows = 6 : i64, tile_vectors = 2 : i64, value = "in place"}}
// ARM-LABEL: rt.kernel @attention(
// ARM-SAME: rt.shapes = {aarch64 = {block_keys = 128 : i64, kernel = "attention", lanes = 4 : i64, queries = 32 : i64, query = "packed by tile", tile_rows = 6 : i64, tile_vectors = 4 : i64, value = "in place"}}
rt.kernel @attention(%q: tensor<2x?x4x48xf32> {nn.sizes = ["", "s0", "", ""]}, %k: tensor<2x?x2x48xf32> {nn.sizes = ["", "s1", "", ""]}, %v: tensor<2x?x2x48xf32> {nn.sizes = ["", "s1", "", ""]})
    -> (tensor<2x?x4x48xf32> {nn.sizes = ["", "s0", "", ""]}) attributes {root = #nn.root<attention>, sizes = ["s0", "s1"]} {
  %0 = nn.attention %q, %k, %v {scale = 0.5 : f32} : (tensor<2x?x4x48xf32>, tensor<2x?x2x48xf32>, tensor<2x?x2x48xf32>) -> tensor<2x?x4x48xf32>
  rt.yield %0 : tensor<2x?x4x48xf32>
}

// Rows, one after the other.
// V4-LABEL: rt.kernel @rows(
// V4-SAME: rt.shapes = {"x86-64-v4" = {kernel = "rows", lanes = 16 : i64, parts = [{results = [0], walk = "rows"}], tile_elements = 4096 : i64, tiles_per_thread = 4 : i64}}
// V3-LABEL: rt.kernel @rows(
// V3-SAME: rt.shapes = {"x86-64-v3" = {kernel = "rows", lanes = 8 : i64, parts = [{results = [0], walk = "rows"}], tile_elements = 4096 : i64, tiles_per_thread = 4 : i64}}
// ARM-LABEL: rt.kernel @rows(
// ARM-SAME: rt.shapes = {aarch64 = {kernel = "rows", lanes = 4 : i64, parts = [{results = [0], walk = "rows"}], tile_elements = 4096 : i64, tiles_per_thread = 4 : i64}}
rt.kernel @rows(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x256xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<rows>, sizes = ["s0"]} {
  %0 = nn.softmax %x : tensor<?x256xf32>
  rt.yield %0 : tensor<?x256xf32>
}

// A reduction over the outer dimension walks over columns.
// V4-LABEL: rt.kernel @generic(
// V4-SAME: rt.shapes = {"x86-64-v4" = {kernel = "rows", lanes = 16 : i64, parts = [{columns = 128 : i64, results = [0], walk = "columns"}], tile_elements = 4096 : i64, tiles_per_thread = 4 : i64}}
// V3-LABEL: rt.kernel @generic(
// V3-SAME: rt.shapes = {"x86-64-v3" = {kernel = "rows", lanes = 8 : i64, parts = [{columns = 64 : i64, results = [0], walk = "columns"}], tile_elements = 4096 : i64, tiles_per_thread = 4 : i64}}
// ARM-LABEL: rt.kernel @generic(
// ARM-SAME: rt.shapes = {aarch64 = {kernel = "rows", lanes = 4 : i64, parts = [{columns = 32 : i64, results = [0], walk = "columns"}], tile_elements = 4096 : i64, tiles_per_thread = 4 : i64}}
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
