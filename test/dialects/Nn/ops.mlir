// RUN: intarsia-opt %s | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --mlir-print-op-generic | intarsia-opt | FileCheck %s
// RUN: intarsia-opt %s --emit-bytecode | intarsia-opt | FileCheck %s

// CHECK: nn.archive @weights {file = "model.safetensors"}
nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @attributes
// CHECK-SAME: %{{.*}}: tensor<?x?xi64> {nn.default = 1 : i64, nn.name = "ids", nn.range = array<i64: 0, 30522>, nn.sizes = ["batch", "sequence"]}
// CHECK-SAME: -> (tensor<?x?xi64> {nn.name = "same", nn.sizes = ["batch", "sequence"]})
// CHECK-SAME: attributes {nn.metadata = {labels = ["no", "yes"]}, nn.size_limits = {sequence = 512 : i64}}
func.func @attributes(%ids: tensor<?x?xi64> {nn.name = "ids", nn.sizes = ["batch", "sequence"], nn.default = 1 : i64,
                                             nn.range = array<i64: 0, 30522>})
    -> (tensor<?x?xi64> {nn.name = "same", nn.sizes = ["batch", "sequence"]})
    attributes {nn.metadata = {labels = ["no", "yes"]}, nn.size_limits = {sequence = 512 : i64}} {
  return %ids : tensor<?x?xi64>
}

// CHECK-LABEL: func.func @contractions
func.func @contractions(%x: tensor<?x?x384xf32>, %a: tensor<?x4x8xf32>, %b: tensor<?x16x8xf32>) {
  // CHECK: nn.weight @weights["dense.weight"] : tensor<1536x384xf32>
  %w = nn.weight @weights["dense.weight"] : tensor<1536x384xf32>
  %bias = nn.weight @weights["dense.bias"] : tensor<1536xf32>
  // CHECK: nn.linear %{{.*}}, %{{.*}}, %{{.*}} : (tensor<?x?x384xf32>, tensor<1536x384xf32>, tensor<1536xf32>) -> tensor<?x?x1536xf32>
  %h = nn.linear %x, %w, %bias : (tensor<?x?x384xf32>, tensor<1536x384xf32>, tensor<1536xf32>) -> tensor<?x?x1536xf32>
  // CHECK: nn.linear %{{.*}}, %{{.*}} : (tensor<?x?x384xf32>, tensor<1536x384xf32>) -> tensor<?x?x1536xf32>
  %g = nn.linear %x, %w : (tensor<?x?x384xf32>, tensor<1536x384xf32>) -> tensor<?x?x1536xf32>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} {transpose_rhs} : (tensor<?x4x8xf32>, tensor<?x16x8xf32>) -> tensor<?x4x16xf32>
  %c = nn.matmul %a, %b {transpose_rhs} : (tensor<?x4x8xf32>, tensor<?x16x8xf32>) -> tensor<?x4x16xf32>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} {transpose_lhs} : (tensor<?x4x8xf32>, tensor<?x4x16xf32>) -> tensor<?x8x16xf32>
  %d = nn.matmul %a, %c {transpose_lhs} : (tensor<?x4x8xf32>, tensor<?x4x16xf32>) -> tensor<?x8x16xf32>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} {precision = tf32, transpose_lhs} :
  %e = nn.matmul %a, %c {precision = tf32, transpose_lhs} : (tensor<?x4x8xf32>, tensor<?x4x16xf32>) -> tensor<?x8x16xf32>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<?x?x12x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x32xbf16>,
                     %m: tensor<?x1x1x?xi1>, %s: tensor<1x12x?x?xf32>) -> tensor<?x?x12x32xbf16> {
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} {scale = 1.250000e-01 : f32} : (tensor<?x?x12x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x32xbf16>, tensor<?x1x1x?xi1>) -> tensor<?x?x12x32xbf16>
  %0 = nn.attention %q, %k, %v mask %m {scale = 0.125 : f32} : (tensor<?x?x12x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x32xbf16>, tensor<?x1x1x?xi1>) -> tensor<?x?x12x32xbf16>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} {scale
  %1 = nn.attention %q, %k, %v mask %s {scale = 0.125 : f32} : (tensor<?x?x12x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x32xbf16>, tensor<1x12x?x?xf32>) -> tensor<?x?x12x32xbf16>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {causal, scale = 1.250000e-01 : f32}
  %2 = nn.attention %q, %k, %v {causal, scale = 0.125 : f32} : (tensor<?x?x12x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x32xbf16>) -> tensor<?x?x12x32xbf16>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {precision = f16, scale = 1.250000e-01 : f32}
  %3 = nn.attention %q, %k, %v {precision = f16, scale = 0.125 : f32} : (tensor<?x?x12x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x32xbf16>) -> tensor<?x?x12x32xbf16>
  return %2 : tensor<?x?x12x32xbf16>
}

// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<?x?x384xf16>, %g: tensor<384xf16>) {
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {epsilon = 9.99999996E-13 : f32} : (tensor<?x?x384xf16>, tensor<384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  %0 = nn.layer_norm %x, %g, %g {epsilon = 1.0e-12 : f32} : (tensor<?x?x384xf16>, tensor<384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}} {epsilon
  %1 = nn.layer_norm %x, %g {epsilon = 1.0e-12 : f32} : (tensor<?x?x384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  // CHECK: nn.rms_norm %{{.*}}, %{{.*}} {epsilon = 9.99999997E-7 : f32} : (tensor<?x?x384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  %2 = nn.rms_norm %x, %g {epsilon = 1.0e-6 : f32} : (tensor<?x?x384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  // CHECK: nn.group_norm %{{.*}}, %{{.*}}, %{{.*}} {epsilon = 9.99999974E-6 : f32, groups = 6 : i64} : (tensor<?x?x384xf16>, tensor<384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  %4 = nn.group_norm %x, %g, %g {epsilon = 1.0e-5 : f32, groups = 6} : (tensor<?x?x384xf16>, tensor<384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  // CHECK: nn.group_norm %{{.*}}, %{{.*}} {epsilon
  %5 = nn.group_norm %x, %g {epsilon = 1.0e-5 : f32, groups = 384} : (tensor<?x?x384xf16>, tensor<384xf16>) -> tensor<?x?x384xf16>
  // CHECK: nn.softmax %{{.*}} : tensor<?x?x384xf16>
  %3 = nn.softmax %x : tensor<?x?x384xf16>
  return
}

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<?x1536xf32>) {
  // CHECK: nn.gelu %{{.*}} {form = #nn.gelu_form<erf>} : tensor<?x1536xf32>
  %0 = nn.gelu %x {form = #nn.gelu_form<erf>} : tensor<?x1536xf32>
  // CHECK: nn.gelu %{{.*}} {form = #nn.gelu_form<tanh>} : tensor<?x1536xf32>
  %1 = nn.gelu %x {form = #nn.gelu_form<tanh>} : tensor<?x1536xf32>
  // CHECK: nn.silu %{{.*}} : tensor<?x1536xf32>
  %2 = nn.silu %x : tensor<?x1536xf32>
  // CHECK: nn.relu %{{.*}} : tensor<?x1536xf32>
  %3 = nn.relu %x : tensor<?x1536xf32>
  // CHECK: nn.tanh %{{.*}} : tensor<?x1536xf32>
  %4 = nn.tanh %x : tensor<?x1536xf32>
  // CHECK: nn.sigmoid %{{.*}} : tensor<?x1536xf32>
  %5 = nn.sigmoid %x : tensor<?x1536xf32>
  return
}

// CHECK-LABEL: func.func @tables
func.func @tables(%table: tensor<30522x384xf32>, %ids: tensor<?x?xi64>, %q: tensor<?x?x8x64xf32>, %f: tensor<16xf32>) {
  // CHECK: nn.embedding %{{.*}}, %{{.*}} : (tensor<30522x384xf32>, tensor<?x?xi64>) -> tensor<?x?x384xf32>
  %0 = nn.embedding %table, %ids : (tensor<30522x384xf32>, tensor<?x?xi64>) -> tensor<?x?x384xf32>
  // CHECK: nn.rope %{{.*}}, %{{.*}}, %{{.*}} : (tensor<?x?x8x64xf32>, tensor<?x?xi64>, tensor<16xf32>) -> tensor<?x?x8x64xf32>
  %1 = nn.rope %q, %ids, %f : (tensor<?x?x8x64xf32>, tensor<?x?xi64>, tensor<16xf32>) -> tensor<?x?x8x64xf32>
  // CHECK: nn.rope %{{.*}}, %{{.*}}, %{{.*}} {attention_factor = 1.500000e+00 : f32, interleaved}
  %2 = nn.rope %q, %ids, %f {attention_factor = 1.5 : f32, interleaved} : (tensor<?x?x8x64xf32>, tensor<?x?xi64>, tensor<16xf32>) -> tensor<?x?x8x64xf32>
  return
}

// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<64x128xf32>) {
  // CHECK: %[[C:.*]], %[[S:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<64x4xf16>)
  %c, %s = nn.quantize %x {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<64x4xf16>)
  // CHECK: nn.dequantize %[[C]], %[[S]] {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x128xi4>, tensor<64x4xf16>) -> tensor<64x128xf32>
  %0 = nn.dequantize %c, %s {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x128xi4>, tensor<64x4xf16>) -> tensor<64x128xf32>
  // CHECK: %[[U0:.*]], %[[U1:.*]], %[[U2:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<u4, f32, 64, axis = 0>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<1x128xf32>, tensor<1x128xi4>)
  %u:3 = nn.quantize %x {format = #nn.block_format<u4, f32, 64, axis = 0>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<1x128xf32>, tensor<1x128xi4>)
  // CHECK: nn.dequantize %[[U0]], %[[U1]] zero_points %[[U2]]
  %1 = nn.dequantize %u#0, %u#1 zero_points %u#2 {format = #nn.block_format<u4, f32, 64, axis = 0>} : (tensor<64x128xi4>, tensor<1x128xf32>, tensor<1x128xi4>) -> tensor<64x128xf32>
  // CHECK: %[[N0:.*]], %[[N1:.*]], %[[N2:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<64x8xi8>, tensor<f32>)
  %n:3 = nn.quantize %x {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<64x8xi8>, tensor<f32>)
  // CHECK: nn.dequantize %[[N0]], %[[N1]] tensor_scale %[[N2]]
  %2 = nn.dequantize %n#0, %n#1 tensor_scale %n#2 {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x128xi4>, tensor<64x8xi8>, tensor<f32>) -> tensor<64x128xf32>
  // CHECK: %[[R0:.*]], %[[R1:.*]], %[[R2:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<64x8xi8>, tensor<64x1xf32>)
  %r:3 = nn.quantize %x {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi4>, tensor<64x8xi8>, tensor<64x1xf32>)
  // CHECK: nn.dequantize %[[R0]], %[[R1]] tensor_scale %[[R2]]
  %4 = nn.dequantize %r#0, %r#1 tensor_scale %r#2 {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x128xi4>, tensor<64x8xi8>, tensor<64x1xf32>) -> tensor<64x128xf32>
  // CHECK: %[[F:.*]], %[[G:.*]] = nn.quantize %{{.*}} {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi8>, tensor<64x1xf32>)
  %f, %g = nn.quantize %x {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<64x128xf32>) -> (tensor<64x128xi8>, tensor<64x1xf32>)
  // CHECK: nn.dequantize %[[F]], %[[G]] {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<64x128xi8>, tensor<64x1xf32>) -> tensor<64x128xf32>
  %3 = nn.dequantize %f, %g {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<64x128xi8>, tensor<64x1xf32>) -> tensor<64x128xf32>
  return
}

nn.archive @gguf {file = "model.gguf"}
// CHECK-LABEL: func.func @ggml_blocks
func.func @ggml_blocks(%x: tensor<3x?x36xi8>) {
  // CHECK: %[[B:.*]] = nn.weight @gguf["blk.0.attn_q.weight"] : tensor<2048x1152xi8>
  %b = nn.weight @gguf["blk.0.attn_q.weight"] : tensor<2048x1152xi8>
  // CHECK: nn.dequantize %[[B]] {format = #nn.ggml_type<q4_k>} : (tensor<2048x1152xi8>) -> tensor<2048x2048xf32>
  %w = nn.dequantize %b {format = #nn.ggml_type<q4_k>} : (tensor<2048x1152xi8>) -> tensor<2048x2048xf32>
  // CHECK: %[[V:.*]] = nn.weight @gguf["values"] : tensor<4x64xi4>
  %v = nn.weight @gguf["values"] : tensor<4x64xi4>
  // CHECK: %[[S:.*]] = nn.weight @gguf["scales"] : tensor<4x2xi8>
  %s = nn.weight @gguf["scales"] : tensor<4x2xi8>
  // CHECK: nn.dequantize %[[V]], %[[S]] {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<4x64xi4>, tensor<4x2xi8>) -> tensor<4x64xbf16>
  %m = nn.dequantize %v, %s {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<4x64xi4>, tensor<4x2xi8>) -> tensor<4x64xbf16>
  // CHECK: nn.dequantize %{{.*}} {format = #nn.ggml_type<nvfp4>} : (tensor<3x?x36xi8>) -> tensor<3x?x64xf32>
  %e = nn.dequantize %x {format = #nn.ggml_type<nvfp4>} : (tensor<3x?x36xi8>) -> tensor<3x?x64xf32>
  return
}

// CHECK-LABEL: func.func @group
func.func @group(%x: tensor<?x384xf32>, %w: tensor<1536x384xf32>) -> tensor<?x1536xf32> {
  // CHECK: nn.group linear(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}) {why = "gelu: 6.2 us inside, 9.8 apart"} : (tensor<?x384xf32>, tensor<1536x384xf32>) -> tensor<?x1536xf32> {
  // CHECK-NEXT: nn.linear %[[A]], %[[B]]
  %r = nn.group linear(%a = %x, %b = %w) {why = "gelu: 6.2 us inside, 9.8 apart"}
      : (tensor<?x384xf32>, tensor<1536x384xf32>) -> tensor<?x1536xf32> {
    %h = nn.linear %a, %b : (tensor<?x384xf32>, tensor<1536x384xf32>) -> tensor<?x1536xf32>
    %g = nn.gelu %h {form = #nn.gelu_form<erf>} : tensor<?x1536xf32>
    // CHECK: nn.yield %{{.*}} : tensor<?x1536xf32>
    nn.yield %g : tensor<?x1536xf32>
  }
  return %r : tensor<?x1536xf32>
}
