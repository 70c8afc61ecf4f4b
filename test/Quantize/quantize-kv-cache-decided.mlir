// RUN: intarsia-opt %s --quantize-kv-cache | FileCheck %s

// Formats that the IR has decided stay: those that say their elements, full precision too, and those that are laid out.
// CHECK-LABEL: func.func @full_precision(
// CHECK-SAME: tensor<?x2x?x64xf32> {nn.state}
func.func @full_precision(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>,
    %k: tensor<?x2x?x64xf32> {nn.state}) -> (tensor<?x2x?x64xf32> {nn.state = 4 : i64}) {
  // CHECK: nn.cache_append(%{{.*}}) <keys, f32>,
  %k1 = nn.cache_append(%k) <keys, f32>, %r, %p, %s, %t : (tensor<?x2x?x64xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xf32>
  return %k1 : tensor<?x2x?x64xf32>
}

// CHECK-LABEL: func.func @decided(
// CHECK-SAME: tensor<?x2x?x64xbf16>
// CHECK-SAME: tensor<?x2x32x64xf32>
func.func @decided(%r: tensor<?x2x64xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>,
    %k: tensor<?x2x?x64xbf16> {nn.state}, %v: tensor<?x2x32x64xf32> {nn.state})
    -> (tensor<?x2x?x64xbf16> {nn.state = 4 : i64}, tensor<?x2x32x64xf32> {nn.state = 5 : i64}) {
  // CHECK: nn.cache_append(%{{.*}}) <keys, bf16>,
  %k1 = nn.cache_append(%k) <keys, bf16>, %r, %p, %s, %t : (tensor<?x2x?x64xbf16>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x64xbf16>
  // CHECK: nn.cache_append(%{{.*}}) <values, f32, page = 32>,
  %v1 = nn.cache_append(%v) <values, f32, page = 32>, %r, %p, %s, %t : (tensor<?x2x32x64xf32>, tensor<?x2x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x64xf32>
  return %k1, %v1 : tensor<?x2x?x64xbf16>, tensor<?x2x32x64xf32>
}

// Functions without caches are as they were.
// CHECK-LABEL: func.func @other(
// CHECK-NEXT: nn.relu
func.func @other(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = nn.relu %x : tensor<?xf32>
  return %0 : tensor<?xf32>
}
