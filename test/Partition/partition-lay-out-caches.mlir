// RUN: intarsia-opt %s --partition-lay-out-caches --split-input-file | FileCheck %s

// Each device lays out what its ops use; pages have the size that both take. Sizes that a call no longer decides are
// gone from the function.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
rt.device @reference {target = #rt.target<"reference", ["native"]>}
// CHECK-LABEL: func.func @both(
// CHECK-SAME: %{{.*}}: tensor<?x2x32x64xf16> {nn.sizes = ["pages", "", "", ""], nn.state}, %{{.*}}: tensor<?x2x64x32xf16> {nn.sizes = ["pages", "", "", ""], nn.state}, %{{.*}}: tensor<?x2x32x64xf16>
// CHECK-SAME: nn.expected_sizes = {pages = 7 : i64}
func.func @both(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %k: tensor<?x2x?x64xf16> {nn.sizes = ["pages", "", "slots", ""], nn.state}, %k2: tensor<?x2x?x64xf16> {nn.sizes = ["pages", "", "slots", ""], nn.state}, %v2: tensor<?x2x?x64xf16> {nn.sizes = ["pages", "", "slots", ""], nn.state})
    -> (tensor<?x2x?x64xf16> {nn.state = 4 : i64}, tensor<?x2x?x64xf16> {nn.state = 5 : i64}, tensor<?x2x?x64xf16> {nn.state = 6 : i64}, index) attributes {nn.expected_sizes = {pages = 7 : i64, slots = 9 : i64}} {
  // CHECK: nn.cache_append(%{{.*}}) <keys, f16, page = 32>, %{{.*}} -> tensor<?x2x32x64xf16>
  %a = nn.cache_append(%k) <keys, f16>, %r, %p, %s, %t {rt.device = @reference} : (tensor<?x2x?x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf16>
  // CHECK: nn.cache_append(%{{.*}}) <keys, f16, page = 32, transposed>, %{{.*}} -> tensor<?x2x64x32xf16>
  %b = nn.cache_append(%k2) <keys, f16>, %r, %p, %s, %t {rt.device = @cpu} : (tensor<?x2x?x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf16>
  // CHECK: nn.cache_append(%{{.*}}) <values, f16, page = 32>, %{{.*}} -> tensor<?x2x32x64xf16>
  %c = nn.cache_append(%v2) <values, f16>, %r, %p, %s, %t {rt.device = @cpu} : (tensor<?x2x?x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf16>
  // CHECK: %[[PAGE:.*]] = arith.constant 32 : index
  %two = arith.constant 2 : index
  %page = tensor.dim %b, %two : tensor<?x2x?x64xf16>
  // CHECK: return %{{.*}}, %[[PAGE]]
  return %a, %b, %c, %page : tensor<?x2x?x64xf16>, tensor<?x2x?x64xf16>, tensor<?x2x?x64xf16>, index
}

// -----

// Alone, the reference device has pages of 16 tokens, and quantized keys have a tail in the same order.
rt.device @reference {target = #rt.target<"reference", ["native"]>}
// CHECK-LABEL: func.func @alone(
// CHECK-SAME: tensor<?x2x16x64xi8>
// CHECK-SAME: tensor<?x2x2x64xi8>
// CHECK-SAME: tensor<?x2x16x64xf16>
func.func @alone(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %k: tensor<?x2x?x64xi8> {nn.state}, %q: tensor<?x2x2x64xi8> {nn.state}, %l: tensor<?x2x?x64xf16> {nn.state})
    -> (tensor<?x2x?x64xi8> {nn.state = 4 : i64}, tensor<?x2x2x64xi8> {nn.state = 5 : i64}, tensor<?x2x?x64xf16> {nn.state = 6 : i64}) {
  // CHECK: nn.cache_append(%{{.*}}, %{{.*}}, %{{.*}}) <keys, ui8, page = 16>
  %k1, %q1 = nn.cache_append(%k, %q, %l) <keys, ui8>, %r, %p, %s, %t : (tensor<?x2x?x64xi8>, tensor<?x2x2x64xi8>, tensor<?x2x?x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?x2x?x64xi8>, tensor<?x2x2x64xi8>)
  // CHECK: nn.cache_append(%{{.*}}) <keys, ui8, page = 16>, %{{.*}} {tail}
  %l1 = nn.cache_append(%l) <keys, ui8>, %r, %p, %s {tail} : (tensor<?x2x?x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?x2x?x64xf16>
  return %k1, %q1, %l1 : tensor<?x2x?x64xi8>, tensor<?x2x2x64xi8>, tensor<?x2x?x64xf16>
}

// -----

// What is laid out by hand stays, and the other caches of the function have pages of its size.
rt.device @reference {target = #rt.target<"reference", ["native"]>}
// CHECK-LABEL: func.func @by_hand(
// CHECK-SAME: tensor<?x2x8x64xf16>
// CHECK-SAME: tensor<?x2x8x64xf16>
func.func @by_hand(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %k: tensor<?x2x8x64xf16> {nn.state}, %v: tensor<?x2x?x64xf16> {nn.state}) -> (tensor<?x2x8x64xf16> {nn.state = 4 : i64}, tensor<?x2x?x64xf16> {nn.state = 5 : i64}) {
  %a = nn.cache_append(%k) <keys, f16, page = 8>, %r, %p, %s, %t {rt.device = @reference} : (tensor<?x2x8x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x8x64xf16>
  // CHECK: <values, f16, page = 8>
  %b = nn.cache_append(%v) <values, f16>, %r, %p, %s, %t {rt.device = @reference} : (tensor<?x2x?x64xf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf16>
  return %a, %b : tensor<?x2x8x64xf16>, tensor<?x2x?x64xf16>
}

// -----

// Elements that no phase has decided on stay what the tensors hold.
rt.device @reference {target = #rt.target<"reference", ["native"]>}
// CHECK-LABEL: func.func @undecided(
// CHECK-SAME: tensor<?x2x16x64xf32>
func.func @undecided(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>, %k: tensor<?x2x?x64xf32> {nn.state}) -> (tensor<?x2x?x64xf32> {nn.state = 4 : i64}) {
  // CHECK: nn.cache_append(%{{.*}}) <keys, f32, page = 16>
  %a = nn.cache_append(%k) <keys>, %r, %p, %s, %t : (tensor<?x2x?x64xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf32>
  return %a : tensor<?x2x?x64xf32>
}
