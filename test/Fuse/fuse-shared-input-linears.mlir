// RUN: intarsia-opt %s --target-declare-devices --fuse-shared-input-linears --split-input-file | FileCheck %s
// RUN: intarsia-opt %s --target-declare-devices --fuse-shared-input-linears="flip=*query*" --split-input-file | FileCheck %s --check-prefix=FLIPPED

nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @query_key_value
// CHECK-SAME: (%[[X:.*]]: tensor<?x?x384xf32>
// FLIPPED-LABEL: func.func @query_key_value
func.func @query_key_value(%x: tensor<?x?x384xf32> {nn.sizes = ["batch", "sequence", ""]}) -> tensor<?x?x12x32xf32> {
  // CHECK: %[[W:.*]] = tensor.concat dim(0) {{.*}} -> tensor<1152x384xf32>
  // CHECK: %[[B:.*]] = tensor.concat dim(0) {{.*}} -> tensor<1152xf32>
  // CHECK: %[[H:.*]] = nn.linear %[[X]], %[[W]], %[[B]]
  // CHECK-SAME: tensor<?x?x1152xf32>
  // CHECK: %[[Q:.*]] = tensor.extract_slice %[[H]][0, 0, 0] [%{{.*}}, %{{.*}}, 384] [1, 1, 1]
  // CHECK: %[[K:.*]] = tensor.extract_slice %[[H]][0, 0, 384] [%{{.*}}, %{{.*}}, 384] [1, 1, 1]
  // CHECK: %[[V:.*]] = tensor.extract_slice %[[H]][0, 0, 768] [%{{.*}}, %{{.*}}, 384] [1, 1, 1]
  // CHECK-NOT: nn.linear
  // FLIPPED-COUNT-3: nn.linear
  // FLIPPED-NOT: tensor.concat
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?x?x384xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x384xf32>
  %wq = nn.weight @weights["query.weight"] : tensor<384x384xf32>
  %wk = nn.weight @weights["key.weight"] : tensor<384x384xf32>
  %wv = nn.weight @weights["value.weight"] : tensor<384x384xf32>
  %bq = nn.weight @weights["query.bias"] : tensor<384xf32>
  %bk = nn.weight @weights["key.bias"] : tensor<384xf32>
  %bv = nn.weight @weights["value.bias"] : tensor<384xf32>
  %q = nn.linear %x, %wq, %bq : (tensor<?x?x384xf32>, tensor<384x384xf32>, tensor<384xf32>) -> tensor<?x?x384xf32> loc("query")
  %qh = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%n, %s, 12, 32] : tensor<?x?x384xf32> into tensor<?x?x12x32xf32>
  %k = nn.linear %x, %wk, %bk : (tensor<?x?x384xf32>, tensor<384x384xf32>, tensor<384xf32>) -> tensor<?x?x384xf32> loc("key")
  %kh = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [%n, %s, 12, 32] : tensor<?x?x384xf32> into tensor<?x?x12x32xf32>
  %v = nn.linear %x, %wv, %bv : (tensor<?x?x384xf32>, tensor<384x384xf32>, tensor<384xf32>) -> tensor<?x?x384xf32> loc("value")
  %vh = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [%n, %s, 12, 32] : tensor<?x?x384xf32> into tensor<?x?x12x32xf32>
  %a = nn.attention %qh, %kh, %vh {scale = 0.17 : f32} : (tensor<?x?x12x32xf32>, tensor<?x?x12x32xf32>, tensor<?x?x12x32xf32>) -> tensor<?x?x12x32xf32>
  return %a : tensor<?x?x12x32xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// Gate and up of an MLP are read together, query and key apart from them: two linears, of two kernels.
// CHECK-LABEL: func.func @gate_and_up
// FLIPPED-LABEL: func.func @gate_and_up
// CHECK-SAME: (%[[X:.*]]: tensor<?x384xf32>
func.func @gate_and_up(%x: tensor<?x384xf32>) -> (tensor<?x64xf32>, tensor<?x384xf32>, tensor<?x32xf32>) {
  // CHECK: %[[WQK:.*]] = tensor.concat dim(0) {{.*}} : (tensor<64x384xf32>, tensor<32x384xf32>) -> tensor<96x384xf32>
  // CHECK: %[[QK:.*]] = nn.linear %[[X]], %[[WQK]]
  // CHECK: tensor.extract_slice %[[QK]][0, 64] [%{{.*}}, 32] [1, 1]
  // CHECK: %[[WGU:.*]] = tensor.concat dim(0) {{.*}} -> tensor<768x384xf32>
  // CHECK: %[[GU:.*]] = nn.linear %[[X]], %[[WGU]]
  // CHECK: %[[G:.*]] = tensor.extract_slice %[[GU]][0, 0] [%{{.*}}, 384] [1, 1]
  // CHECK: %[[U:.*]] = tensor.extract_slice %[[GU]][0, 384] [%{{.*}}, 384] [1, 1]
  // CHECK: %[[S:.*]] = nn.silu %[[G]]
  // CHECK: arith.mulf %[[S]], %[[U]]
  %wg = nn.weight @weights["gate"] : tensor<384x384xf32>
  %wq = nn.weight @weights["query"] : tensor<64x384xf32>
  %wu = nn.weight @weights["up"] : tensor<384x384xf32>
  %wk = nn.weight @weights["key"] : tensor<32x384xf32>
  %q = nn.linear %x, %wq : (tensor<?x384xf32>, tensor<64x384xf32>) -> tensor<?x64xf32>
  %k = nn.linear %x, %wk : (tensor<?x384xf32>, tensor<32x384xf32>) -> tensor<?x32xf32>
  %g = nn.linear %x, %wg : (tensor<?x384xf32>, tensor<384x384xf32>) -> tensor<?x384xf32>
  %u = nn.linear %x, %wu : (tensor<?x384xf32>, tensor<384x384xf32>) -> tensor<?x384xf32>
  %s = nn.silu %g : tensor<?x384xf32>
  %m = arith.mulf %s, %u : tensor<?x384xf32>
  return %q, %m, %k : tensor<?x64xf32>, tensor<?x384xf32>, tensor<?x32xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// Panels are of 32 features: with 40 the second result would begin within one, and all but an attention would copy it.
// CHECK-LABEL: func.func @features_that_panels_share
func.func @features_that_panels_share(%x: tensor<?x64xf32>) -> (tensor<?x40xf32>, tensor<?x40xf32>) {
  // CHECK-NOT: tensor.concat
  %wa = nn.weight @weights["a"] : tensor<40x64xf32>
  %wb = nn.weight @weights["b"] : tensor<40x64xf32>
  %a = nn.linear %x, %wa : (tensor<?x64xf32>, tensor<40x64xf32>) -> tensor<?x40xf32>
  %b = nn.linear %x, %wb : (tensor<?x64xf32>, tensor<40x64xf32>) -> tensor<?x40xf32>
  return %a, %b : tensor<?x40xf32>, tensor<?x40xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// Quantized weights are concatenated with those of their format and of the type that is quantized.
// CHECK-LABEL: func.func @quantized
func.func @quantized(%x: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>) {
  // CHECK: %[[A:.*]] = nn.dequantize {{.*}} -> tensor<64x64xf32>
  // CHECK: %[[B:.*]] = nn.dequantize {{.*}} -> tensor<32x64xf32>
  // CHECK: tensor.concat dim(0) %[[A]], %[[B]]
  // CHECK-NOT: tensor.concat
  // CHECK-COUNT-3: nn.linear
  // CHECK-NOT: nn.linear
  %wa = nn.weight @weights["a"] : tensor<64x64xf16>
  %wb = nn.weight @weights["b"] : tensor<32x64xf16>
  %wc = nn.weight @weights["c"] : tensor<32x64xf16>
  %wd = nn.weight @weights["d"] : tensor<32x64xf32>
  %ca, %sa = nn.quantize %wa {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x64xf16>) -> (tensor<64x64xi4>, tensor<64x2xf16>)
  %da = nn.dequantize %ca, %sa {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x64xi4>, tensor<64x2xf16>) -> tensor<64x64xf32>
  %cb, %sb = nn.quantize %wb {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<32x64xf16>) -> (tensor<32x64xi4>, tensor<32x2xf16>)
  %db = nn.dequantize %cb, %sb {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<32x64xi4>, tensor<32x2xf16>) -> tensor<32x64xf32>
  %cc, %sc = nn.quantize %wc {format = #nn.block_format<i8, f16, 32, axis = 1>} : (tensor<32x64xf16>) -> (tensor<32x64xi8>, tensor<32x2xf16>)
  %dc = nn.dequantize %cc, %sc {format = #nn.block_format<i8, f16, 32, axis = 1>} : (tensor<32x64xi8>, tensor<32x2xf16>) -> tensor<32x64xf32>
  %cd, %sd = nn.quantize %wd {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<32x64xf32>) -> (tensor<32x64xi4>, tensor<32x2xf16>)
  %dd = nn.dequantize %cd, %sd {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<32x64xi4>, tensor<32x2xf16>) -> tensor<32x64xf32>
  %a = nn.linear %x, %da : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %b = nn.linear %x, %db : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  %c = nn.linear %x, %dc : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  %d = nn.linear %x, %dd : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return %a, %b, %c, %d : tensor<?x64xf32>, tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>
}

// -----

nn.archive @weights {file = "model.gguf"}

// So are those that are stored in blocks.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<?x64xf32>) -> (tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>) {
  // CHECK: tensor.concat dim(0) %{{[^,]*}}, %{{[^,]*}} : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
  // CHECK-NOT: tensor.concat
  %wa = nn.weight @weights["a"] : tensor<1152xi8>
  %wb = nn.weight @weights["b"] : tensor<2176xi8>
  %wc = nn.weight @weights["c"] : tensor<1152xi8>
  %ea = nn.dequantize %wa {format = #nn.ggml_type<q4_0>} : (tensor<1152xi8>) -> tensor<2048xf32>
  %da = tensor.expand_shape %ea [[0, 1]] output_shape [32, 64] : tensor<2048xf32> into tensor<32x64xf32>
  %eb = nn.dequantize %wb {format = #nn.ggml_type<q8_0>} : (tensor<2176xi8>) -> tensor<2048xf32>
  %db = tensor.expand_shape %eb [[0, 1]] output_shape [32, 64] : tensor<2048xf32> into tensor<32x64xf32>
  %ec = nn.dequantize %wc {format = #nn.ggml_type<q4_0>} : (tensor<1152xi8>) -> tensor<2048xf32>
  %dc = tensor.expand_shape %ec [[0, 1]] output_shape [32, 64] : tensor<2048xf32> into tensor<32x64xf32>
  %a = nn.linear %x, %da : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  %b = nn.linear %x, %db : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  %c = nn.linear %x, %dc : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return %a, %b, %c : tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// One linear has a bias, the other has none: their kernels differ.
// CHECK-LABEL: func.func @bias_and_no_bias
func.func @bias_and_no_bias(%x: tensor<1x8x64xf32>, %q: tensor<1x8x2x32xf32>) -> tensor<1x8x2x32xf32> {
  // CHECK-NOT: tensor.concat
  %wk = nn.weight @weights["key"] : tensor<64x64xf32>
  %wv = nn.weight @weights["value"] : tensor<64x64xf32>
  %b = nn.weight @weights["bias"] : tensor<64xf32>
  %k = nn.linear %x, %wk : (tensor<1x8x64xf32>, tensor<64x64xf32>) -> tensor<1x8x64xf32>
  %kh = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [1, 8, 2, 32] : tensor<1x8x64xf32> into tensor<1x8x2x32xf32>
  %v = nn.linear %x, %wv, %b : (tensor<1x8x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> tensor<1x8x64xf32>
  %vh = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [1, 8, 2, 32] : tensor<1x8x64xf32> into tensor<1x8x2x32xf32>
  %a = nn.attention %q, %kh, %vh {scale = 0.17 : f32} : (tensor<1x8x2x32xf32>, tensor<1x8x2x32xf32>, tensor<1x8x2x32xf32>) -> tensor<1x8x2x32xf32>
  return %a : tensor<1x8x2x32xf32>
}
