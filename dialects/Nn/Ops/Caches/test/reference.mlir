// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

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
