// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// The largest element is subtracted first; a row whose sum is 0 gives zeros.
// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<?x12xbf16>) -> tensor<?x12xbf16> {
  // CHECK: arith.maximumf
  // CHECK: arith.subf %{{.*}}, %{{.*}} : f64
  // CHECK: math.exp %{{.*}} : f64
  // CHECK: arith.addf %{{.*}}, %{{.*}} : f64
  // CHECK: arith.divf %{{.*}}, %{{.*}} : f64
  // CHECK: arith.select
  // CHECK-NEXT: arith.truncf %{{.*}} : f64 to bf16
  // CHECK-NOT: = nn.
  %0 = nn.softmax %x : tensor<?x12xbf16>
  return %0 : tensor<?x12xbf16>
}
