// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// CHECK-DAG: #[[$INPUT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG: #[[$WEIGHT:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d3)>

// CHECK-LABEL: func.func @linear
// CHECK-SAME: %[[X:.*]]: tensor<?x?x384xbf16>, %[[W:.*]]: tensor<1536x384xbf16>
func.func @linear(%x: tensor<?x?x384xbf16>, %w: tensor<1536x384xbf16>, %b: tensor<1536xbf16>) -> tensor<?x?x1536xbf16> {
  // Sums are f64, from zero.
  // CHECK: %[[ZERO:.*]] = linalg.fill ins(%{{.*}} : f64) outs(%{{.*}} : tensor<?x?x1536xf64>)
  // CHECK: linalg.generic {indexing_maps = [#[[$INPUT]], #[[$WEIGHT]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[X]], %[[W]]
  // CHECK: arith.extf %{{.*}} : bf16 to f64
  // The bias joins before the one rounding to bf16.
  // CHECK: arith.addf %{{.*}}, %{{.*}} : f64
  // CHECK-NOT: arith.truncf
  // CHECK: arith.addf %{{.*}}, %{{.*}} : f64
  // CHECK-NEXT: arith.truncf %{{.*}} : f64 to bf16
  // CHECK-NOT: = nn.
  %0 = nn.linear %x, %w, %b : (tensor<?x?x384xbf16>, tensor<1536x384xbf16>, tensor<1536xbf16>) -> tensor<?x?x1536xbf16>
  return %0 : tensor<?x?x1536xbf16>
}

// -----

// Grouped heads: three query heads read one head of key and value.
// CHECK-DAG: #{{.*}} = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d1 floordiv 3, d4)>
// CHECK-DAG: #{{.*}} = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2 floordiv 3, d3)>

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<?x?x12x64xf32>, %k: tensor<?x?x4x64xf32>, %m: tensor<?x1x1x?xi1>) -> tensor<?x?x12x64xf32> {
  // CHECK: linalg.generic
  // CHECK-NOT: arith.truncf
  // CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f64
  // CHECK: linalg.index 3
  // CHECK: arith.cmpi sle
  // CHECK: arith.maximumf
  // CHECK: math.exp
  // CHECK: arith.divf
  // Weights are not rounded before the values are summed.
  // CHECK-NOT: arith.truncf
  // CHECK: arith.addf %{{.*}}, %{{.*}} : f64
  // CHECK: arith.truncf %{{.*}} : f64 to f32
  // CHECK-NOT: = nn.
  %0 = nn.attention %q, %k, %k mask %m {causal, scale = 0.125 : f32} : (tensor<?x?x12x64xf32>, tensor<?x?x4x64xf32>, tensor<?x?x4x64xf32>, tensor<?x1x1x?xi1>) -> tensor<?x?x12x64xf32>
  return %0 : tensor<?x?x12x64xf32>
}

// -----

// Groups are inlined; weights stay.
// CHECK-LABEL: func.func @group
nn.archive @weights {file = "model.safetensors"}
func.func @group(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  // CHECK: nn.weight @weights["g"]
  // CHECK-NOT: = nn.
  // CHECK: math.sqrt
  %g = nn.weight @weights["g"] : tensor<4xf32>
  %r = nn.group rows(%a = %x, %b = %g) : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32> {
    %n = nn.rms_norm %a, %b {epsilon = 1.0e-6 : f32} : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    nn.yield %n : tensor<?x4xf32>
  }
  return %r : tensor<?x4xf32>
}

// -----

// Statistics are over the last of the dimensions that rows, scale and bias are split into.
// CHECK-LABEL: func.func @group_norm
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32>, %[[G:.*]]: tensor<8xf32>
func.func @group_norm(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // CHECK: %[[PARTS:.*]] = tensor.expand_shape %[[X]] {{\[\[}}0], [1, 2]] output_shape [%{{.*}}, 4, 2] : tensor<?x8xf32> into tensor<?x4x2xf32>
  // CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[PARTS]] : tensor<?x4x2xf32>) outs(%{{.*}} : tensor<?x4xf64>)
  // CHECK: %[[SCALE:.*]] = tensor.expand_shape %[[G]] {{\[\[}}0, 1]] output_shape [4, 2]
  // CHECK: %[[R:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel"]} ins(%[[PARTS]], %{{.*}}, %{{.*}}, %[[SCALE]]
  // CHECK: tensor.collapse_shape %[[R]] {{\[\[}}0], [1, 2]] : tensor<?x4x2xf32> into tensor<?x8xf32>
  // CHECK-NOT: = nn.
  %0 = nn.group_norm %x, %g {epsilon = 1.0e-5 : f32, groups = 4} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// -----

// A result that is declared less static than what is computed is cast.
// CHECK-LABEL: func.func @cast
func.func @cast(%t: tensor<8x4xf32>, %i: tensor<3xi64>) -> tensor<?x4xf32> {
  // CHECK: %[[E:.*]] = linalg.generic
  // CHECK: tensor.extract
  // CHECK: tensor.cast %[[E]] : tensor<3x4xf32> to tensor<?x4xf32>
  %0 = nn.embedding %t, %i : (tensor<8x4xf32>, tensor<3xi64>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// -----

// Angles are products of f32; what follows is not rounded again before the result.
// CHECK-LABEL: func.func @rope
func.func @rope(%x: tensor<?x?x2x8xf32>, %p: tensor<?x?xi64>, %f: tensor<4xf32>) -> tensor<?x?x2x8xf32> {
  // CHECK: %[[ANGLE:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
  // CHECK: %[[EXACT:.*]] = arith.extf %[[ANGLE]] : f32 to f64
  // CHECK: math.cos %[[EXACT]] : f64
  // CHECK: arith.truncf %{{.*}} : f64 to f32
  // CHECK-NOT: = nn.
  %0 = nn.rope %x, %p, %f {attention_factor = 1.0 : f32} : (tensor<?x?x2x8xf32>, tensor<?x?xi64>, tensor<4xf32>) -> tensor<?x?x2x8xf32>
  return %0 : tensor<?x?x2x8xf32>
}

// -----

// A format of rows between the matmuls quantizes values of f32; without one they are not quantized.
// CHECK-LABEL: func.func @experts
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.divf %{{.*}}, %{{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK-NOT: arith.truncf
// CHECK-LABEL: func.func @unquantized
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK-NOT: arith.truncf
func.func @experts(%x: tensor<?x24xf32>, %i: tensor<?x2xi32>, %m: tensor<?x2xf32>, %g: tensor<5x2x64x24xf32>, %d: tensor<5x24x64xf32>) -> tensor<?x24xf32> {
  %0 = nn.experts %x, %i, %m, %g, %d {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x24xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<5x2x64x24xf32>, tensor<5x24x64xf32>) -> tensor<?x24xf32>
  return %0 : tensor<?x24xf32>
}
func.func @unquantized(%x: tensor<?x24xf32>, %i: tensor<?x2xi32>, %m: tensor<?x2xf32>, %g: tensor<5x2x64x24xf32>, %d: tensor<5x24x64xf32>) -> tensor<?x24xf32> {
  %0 = nn.experts %x, %i, %m, %g, %d {activation = #nn.gated_activation<silu>} : (tensor<?x24xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<5x2x64x24xf32>, tensor<5x24x64xf32>) -> tensor<?x24xf32>
  return %0 : tensor<?x24xf32>
}

// -----

// The values of the format are a table; rounding is to even.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<?x40xf32>) -> tensor<?x40xf32> {
  // CHECK: tensor.empty(%{{.*}}) : tensor<?x2xi8>
  // CHECK: math.roundeven
  // CHECK: arith.constant dense<[0.000000e+00, 5.000000e-01, 1.000000e+00, 1.500000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00, 6.000000e+00, -0.000000e+00, {{.*}}]> : tensor<16xf32>
  // CHECK-NOT: = nn.
  %c, %s = nn.quantize %x {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<?x40xf32>) -> (tensor<?x40xi4>, tensor<?x2xi8>)
  %0 = nn.dequantize %c, %s {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<?x40xi4>, tensor<?x2xi8>) -> tensor<?x40xf32>
  return %0 : tensor<?x40xf32>
}

// -----

// A code, the scale and the minimum of 32 elements come from their bytes.
// CHECK-LABEL: func.func @ggml_blocks
// CHECK-SAME: %[[B:.*]]: tensor<3x288xi8>
func.func @ggml_blocks(%b: tensor<3x288xi8>) -> tensor<3x512xf32> {
  // CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<3x512xf32>)
  // CHECK: tensor.extract %[[B]]
  // CHECK: arith.bitcast %{{.*}} : i16 to f16
  // CHECK: arith.mulf
  // CHECK: arith.subf
  // CHECK-NOT: = nn.
  %0 = nn.dequantize %b {format = #nn.ggml_type<q4_k>} : (tensor<3x288xi8>) -> tensor<3x512xf32>
  return %0 : tensor<3x512xf32>
}

// -----

// The levels of a format are a table. The size of a row follows from its bytes.
// CHECK-LABEL: func.func @dynamic_ggml_blocks
func.func @dynamic_ggml_blocks(%b: tensor<?xi8>) -> tensor<?xf32> {
  // CHECK: arith.constant dense<[-1.270000e+02, -1.040000e+02, {{.*}}, 1.130000e+02]> : tensor<16xf32>
  // CHECK: %[[BLOCKS:.*]] = arith.divui %{{.*}}, %{{.*}} : index
  // CHECK: %[[ELEMENTS:.*]] = arith.muli %[[BLOCKS]], %{{.*}} : index
  // CHECK: tensor.empty(%[[ELEMENTS]]) : tensor<?xf32>
  // CHECK-NOT: = nn.
  %0 = nn.dequantize %b {format = #nn.ggml_type<iq4_nl>} : (tensor<?xi8>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// The last token that writes to a slot is found, then the cache takes its row: what it held need not be a number.
// CHECK-LABEL: func.func @cache_append
// CHECK-SAME: %[[CACHE:.*]]: tensor<?x2x8x4xf16>, %[[ROWS:.*]]: tensor<?x2x8xf32>
func.func @cache_append(%c: tensor<?x2x8x4xf16>, %r: tensor<?x2x8xf32>, %p: tensor<?xi32>, %s: tensor<?xi32>, %t: tensor<?x?xi32>) -> tensor<?x2x8x4xf16> {
  // CHECK: %[[WRITERS:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} {{.*}} outs(%{{.*}} : tensor<?x4xindex>)
  // CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%[[CACHE]], %[[WRITERS]] : tensor<?x2x8x4xf16>, tensor<?x4xindex>) outs(%{{.*}} : tensor<?x2x8x4xf16>)
  // CHECK-NEXT: ^bb0(%[[OLD:.*]]: f16, %[[TOKEN:.*]]: index, %{{.*}}: f16):
  // CHECK: scf.if %{{.*}} -> (f16) {
  // CHECK: %[[ROW:.*]] = tensor.extract %[[ROWS]][%[[TOKEN]], %{{.*}}, %{{.*}}] : tensor<?x2x8xf32>
  // CHECK: %[[NEW:.*]] = arith.truncf %[[ROW]] : f32 to f16
  // CHECK: scf.yield %[[NEW]] : f16
  // CHECK: scf.yield %[[OLD]] : f16
  // CHECK-NOT: = nn.
  %0 = nn.cache_append(%c) <keys, f16, page = 4, transposed>, %r, %p, %s, %t : (tensor<?x2x8x4xf16>, tensor<?x2x8xf32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>) -> tensor<?x2x8x4xf16>
  return %0 : tensor<?x2x8x4xf16>
}

// -----

// Keys of a page are quantized together, from the tail and the rows.
// CHECK-LABEL: func.func @cache_append_quantized
// CHECK-SAME: %[[QUANTIZED:.*]]: tensor<?x1x2x16xi8>, %[[PARAMETERS:.*]]: tensor<?x1x2x2xi8>, %[[ROWS:.*]]: tensor<?x1x2xf32>, {{.*}}, %[[TAIL:.*]]: tensor<?x1x2x32xf16>
func.func @cache_append_quantized(%c: tensor<?x1x2x16xi8>, %q: tensor<?x1x2x2xi8>, %r: tensor<?x1x2xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %k: tensor<?x1x2x32xf16>) -> (tensor<?x1x2x16xi8>, tensor<?x1x2x2xi8>) {
  // CHECK: tensor.extract %[[TAIL]]
  // CHECK: arith.truncf %{{.*}} : f32 to f16
  // CHECK: arith.minimumf
  // CHECK: arith.maximumf
  // CHECK: math.roundeven
  // CHECK: ins(%[[QUANTIZED]], %[[WRITERS:.*]] : tensor<?x1x2x16xi8>, tensor<?xindex>)
  // Two values a byte.
  // CHECK: arith.shli %{{.*}}, %{{.*}} : i8
  // CHECK: ins(%[[PARAMETERS]], %[[WRITERS]] : tensor<?x1x2x2xi8>, tensor<?xindex>)
  // CHECK-NOT: = nn.
  %0, %1 = nn.cache_append(%c, %q, %k) <keys, ui4, page = 32, transposed>, %r, %p, %s, %t : (tensor<?x1x2x16xi8>, tensor<?x1x2x2xi8>, tensor<?x1x2x32xf16>, tensor<?x1x2xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x1x2x16xi8>, tensor<?x1x2x2xi8>)
  return %0, %1 : tensor<?x1x2x16xi8>, tensor<?x1x2x2xi8>
}

// -----

// The last page of each sequence is found first.
// CHECK-LABEL: func.func @tail_append
// CHECK-SAME: %[[TAIL:.*]]: tensor<?x1x2x32xf16>
func.func @tail_append(%k: tensor<?x1x2x32xf16>, %r: tensor<?x1x2xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>) -> tensor<?x1x2x32xf16> {
  // CHECK: arith.maxui %{{.*}}, %{{.*}} : index
  // CHECK: ins(%[[TAIL]], %{{.*}} : tensor<?x1x2x32xf16>, tensor<?x32xindex>)
  // CHECK: scf.if %{{.*}} -> (f16)
  // CHECK-NOT: = nn.
  %0 = nn.cache_append(%k) <keys, ui4, page = 32, transposed>, %r, %p, %s {tail} : (tensor<?x1x2x32xf16>, tensor<?x1x2xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x1x2x32xf16>
  return %0 : tensor<?x1x2x32xf16>
}

// -----

// Sums go over the positions that a token sees. A sink is one more column of the scores.
// CHECK-LABEL: func.func @cached_attention
func.func @cached_attention(%q: tensor<?x4x8xf32>, %k: tensor<?x2x8x32xi8>, %v: tensor<?x2x32x8xi8>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<2x3xi64>, %z: tensor<4xf32>) -> tensor<?x4x8xf32> {
  // CHECK: arith.constant dense<{{.*}}> : tensor<256xf32>
  // CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?x4x97xf64>)
  // CHECK: %[[SEEN:.*]] = arith.andi %{{.*}}, %{{.*}} : i1
  // CHECK-NEXT: scf.if %[[SEEN]] -> (f64) {
  // CHECK: scf.for
  // CHECK: arith.addf %{{.*}}, %{{.*}} : f64
  // CHECK: math.tanh
  // CHECK: math.exp
  // CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?x4x8xf32>)
  // CHECK: %[[BEGIN:.*]] = arith.subi %{{.*}}, %c40{{.*}} : index
  // CHECK: %[[END:.*]] = arith.addi %{{.*}}, %c1{{.*}} : index
  // CHECK: scf.for %{{.*}} = %[[BEGIN]] to %[[END]] step
  // CHECK-NOT: = nn.
  %0 = nn.cached_attention %q, (%k) <keys, f8E4M3FN, page = 32, transposed>, (%v) <values, f8E4M3FN, page = 32>, %p, %s, %t sinks %z {scale = 0.125 : f32, window = 40 : i64, soft_cap = 1.5 : f32} : (tensor<?x4x8xf32>, tensor<?x2x8x32xi8>, tensor<?x2x32x8xi8>, tensor<?xi64>, tensor<?xi64>, tensor<2x3xi64>, tensor<4xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
