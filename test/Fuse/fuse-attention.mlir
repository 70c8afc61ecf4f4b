// RUN: intarsia-opt %s --target-declare-devices --fuse-attention --split-input-file | FileCheck %s
// RUN: intarsia-opt %s --target-declare-devices --fuse-attention="flip=*extract_slice" --split-input-file | FileCheck %s --check-prefix=FLIPPED

// CHECK-LABEL: func.func @joined_heads
// CHECK-SAME: (%[[H:.*]]: tensor<?x?x96xf32> {{.*}}, %[[MASK:.*]]: tensor<?x1x1x?xi1>
func.func @joined_heads(%h: tensor<?x?x96xf32> {nn.sizes = ["batch", "sequence", ""]},
                        %mask: tensor<?x1x1x?xi1> {nn.sizes = ["batch", "", "", "sequence"]}) -> tensor<?x?x32xf32> {
  // CHECK: %[[A:.*]] = nn.group attention(%[[HEADS:.*]] = %[[H]], %[[M:.*]] = %[[MASK]])
  // CHECK-SAME: why = "attention: scores stay inside; tensor.extract_slice: {{.*}} us inside, {{.*}} apart"
  // CHECK-DAG: tensor.dim %[[HEADS]]
  // CHECK-COUNT-3: tensor.extract_slice %[[HEADS]]
  // CHECK-COUNT-3: tensor.expand_shape
  // CHECK: %[[R:.*]] = nn.attention {{.*}} mask %[[M]]
  // CHECK: tensor.collapse_shape %[[R]]
  // CHECK: nn.yield {{.*}} : tensor<?x?x32xf32>
  // CHECK: return %[[A]]

  // Forced apart, the slices stay outside, to be copied by kernels of their own.
  // FLIPPED-LABEL: func.func @joined_heads
  // FLIPPED-COUNT-3: tensor.extract_slice
  // FLIPPED: nn.group attention
  // FLIPPED-NOT: tensor.extract_slice
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %h, %c0 : tensor<?x?x96xf32>
  %s = tensor.dim %h, %c1 : tensor<?x?x96xf32>
  %q = tensor.extract_slice %h[0, 0, 0] [%n, %s, 32] [1, 1, 1] : tensor<?x?x96xf32> to tensor<?x?x32xf32>
  %k = tensor.extract_slice %h[0, 0, 32] [%n, %s, 32] [1, 1, 1] : tensor<?x?x96xf32> to tensor<?x?x32xf32>
  %v = tensor.extract_slice %h[0, 0, 64] [%n, %s, 32] [1, 1, 1] : tensor<?x?x96xf32> to tensor<?x?x32xf32>
  %qh = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%n, %s, 4, 8] : tensor<?x?x32xf32> into tensor<?x?x4x8xf32>
  %kh = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [%n, %s, 4, 8] : tensor<?x?x32xf32> into tensor<?x?x4x8xf32>
  %vh = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [%n, %s, 4, 8] : tensor<?x?x32xf32> into tensor<?x?x4x8xf32>
  %a = nn.attention %qh, %kh, %vh mask %mask {scale = 0.35 : f32} : (tensor<?x?x4x8xf32>, tensor<?x?x4x8xf32>, tensor<?x?x4x8xf32>, tensor<?x1x1x?xi1>) -> tensor<?x?x4x8xf32>
  %r = tensor.collapse_shape %a [[0], [1], [2, 3]] : tensor<?x?x4x8xf32> into tensor<?x?x32xf32>
  return %r : tensor<?x?x32xf32>
}

// -----

// The mask is made outside: all layers read the same one.
// CHECK-LABEL: func.func @mask_stays_outside
func.func @mask_stays_outside(%q: tensor<1x8x4x8xf32>, %ids: tensor<1x1x1x8xi64>) -> tensor<1x8x4x8xf32> {
  // CHECK: %[[M:.*]] = arith.cmpi
  // CHECK: nn.group attention(%{{.*}} = %{{.*}}, %{{.*}} = %[[M]])
  %zero = arith.constant dense<0> : tensor<1x1x1x8xi64>
  %m = arith.cmpi ne, %ids, %zero : tensor<1x1x1x8xi64>
  %a = nn.attention %q, %q, %q mask %m {scale = 0.35 : f32} : (tensor<1x8x4x8xf32>, tensor<1x8x4x8xf32>, tensor<1x8x4x8xf32>, tensor<1x1x1x8xi1>) -> tensor<1x8x4x8xf32>
  return %a : tensor<1x8x4x8xf32>
}

// -----

// Two read the result with its heads: it must leave the group as it is.
// CHECK-LABEL: func.func @heads_are_read_too
func.func @heads_are_read_too(%q: tensor<1x8x4x8xf32>) -> (tensor<1x8x4x8xf32>, tensor<1x8x32xf32>) {
  // CHECK: nn.group attention
  // CHECK: nn.yield %{{.*}} : tensor<1x8x4x8xf32>
  // CHECK: tensor.collapse_shape
  %a = nn.attention %q, %q, %q {scale = 0.35 : f32} : (tensor<1x8x4x8xf32>, tensor<1x8x4x8xf32>, tensor<1x8x4x8xf32>) -> tensor<1x8x4x8xf32>
  %r = tensor.collapse_shape %a [[0], [1], [2, 3]] : tensor<1x8x4x8xf32> into tensor<1x8x32xf32>
  return %a, %r : tensor<1x8x4x8xf32>, tensor<1x8x32xf32>
}

// -----

// Kernels of caches rotate the rows that they read, if nothing else reads them rotated.
// CHECK-LABEL: func.func @rotated_rows
// CHECK-SAME: (%[[Q:[a-z0-9]*]]: tensor<?x4x64xf32>
func.func @rotated_rows(%q: tensor<?x4x64xf32> {nn.sizes = ["tokens", "", ""]}, %k: tensor<?x2x64xf32> {nn.sizes = ["tokens", "", ""]}, %f: tensor<32xf32>,
    %positions: tensor<?xi64> {nn.sizes = ["tokens"]}, %sequences: tensor<?xi64> {nn.sizes = ["tokens"]}, %pages: tensor<?x?xi64> {nn.sizes = ["sequences", "table"]},
    %keys: tensor<?x2x64x32xf16> {nn.sizes = ["pages", "", "", ""]}, %values: tensor<?x2x32x64xf16> {nn.sizes = ["pages", "", "", ""]})
    -> (tensor<?x2x64x32xf16>, tensor<?x4x64xf32>) {
  // CHECK: %[[K:.*]] = nn.group cache_append({{.*}}) {why = "nn.rope: {{.*}} us inside, {{.*}} apart"}
  // CHECK-NEXT: %[[R:.*]] = nn.rope
  // CHECK-NEXT: nn.cache_append(%{{.*}}) <keys, f16, page = 32, transposed>, %[[R]]
  // CHECK: nn.group cached_attention({{.*}}) {why = "nn.rope: {{.*}} us inside, {{.*}} apart"}
  // CHECK-NEXT: %[[R:.*]] = nn.rope
  // CHECK-NEXT: nn.cached_attention %[[R]]
  %rq = nn.rope %q, %positions, %f : (tensor<?x4x64xf32>, tensor<?xi64>, tensor<32xf32>) -> tensor<?x4x64xf32>
  %rk = nn.rope %k, %positions, %f : (tensor<?x2x64xf32>, tensor<?xi64>, tensor<32xf32>) -> tensor<?x2x64xf32>
  %new = nn.cache_append(%keys) <keys, f16, page = 32, transposed>, %rk, %positions, %sequences, %pages : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  %a = nn.cached_attention %rq, (%new) <keys, f16, page = 32, transposed>, (%values) <values, f16, page = 32>, %positions, %sequences, %pages {scale = 1.250000e-01 : f32} : (tensor<?x4x64xf32>, tensor<?x2x64x32xf16>, tensor<?x2x32x64xf16>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x64xf32>
  return %new, %a : tensor<?x2x64x32xf16>, tensor<?x4x64xf32>
}

// -----

// Rotated once for two.
// CHECK-LABEL: func.func @rotated_for_two
func.func @rotated_for_two(%k: tensor<?x2x64xf32> {nn.sizes = ["tokens", "", ""]}, %f: tensor<32xf32>,
    %positions: tensor<?xi64> {nn.sizes = ["tokens"]}, %sequences: tensor<?xi64> {nn.sizes = ["tokens"]}, %pages: tensor<?x?xi64> {nn.sizes = ["sequences", "table"]},
    %keys: tensor<?x2x64x32xf16> {nn.sizes = ["pages", "", "", ""]}) -> (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>) {
  // CHECK-NOT: nn.group
  // CHECK: %[[R:.*]] = nn.rope
  // CHECK-NEXT: nn.cache_append(%{{.*}}) <keys, f16, page = 32, transposed>, %[[R]]
  %rk = nn.rope %k, %positions, %f : (tensor<?x2x64xf32>, tensor<?xi64>, tensor<32xf32>) -> tensor<?x2x64xf32>
  %new = nn.cache_append(%keys) <keys, f16, page = 32, transposed>, %rk, %positions, %sequences, %pages : (tensor<?x2x64x32xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x64x32xf16>
  return %new, %rk : tensor<?x2x64x32xf16>, tensor<?x2x64xf32>
}
