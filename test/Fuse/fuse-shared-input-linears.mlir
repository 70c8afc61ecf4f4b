// RUN: intarsia-opt %s --fuse-shared-input-linears --split-input-file | FileCheck %s
// RUN: intarsia-opt %s --fuse-shared-input-linears="flip=*query*" --split-input-file | FileCheck %s --check-prefix=FLIPPED

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

// Gate and up of an MLP share their input, but their consumers would have to copy the slices: each keeps its epilogue.
// CHECK-LABEL: func.func @gate_and_up_stay_apart
func.func @gate_and_up_stay_apart(%x: tensor<?x384xf32>) -> tensor<?x384xf32> {
  // CHECK-NOT: tensor.concat
  // CHECK-COUNT-2: nn.linear
  %wg = nn.weight @weights["gate"] : tensor<384x384xf32>
  %wu = nn.weight @weights["up"] : tensor<384x384xf32>
  %g = nn.linear %x, %wg : (tensor<?x384xf32>, tensor<384x384xf32>) -> tensor<?x384xf32>
  %u = nn.linear %x, %wu : (tensor<?x384xf32>, tensor<384x384xf32>) -> tensor<?x384xf32>
  %s = nn.silu %g : tensor<?x384xf32>
  %m = arith.mulf %s, %u : tensor<?x384xf32>
  return %m : tensor<?x384xf32>
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
