// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// One loop, computed in f64 and rounded once.
// CHECK-LABEL: func.func @silu
func.func @silu(%x: tensor<?x4xbf16>) -> tensor<?x4xbf16> {
  // CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]}
  // CHECK: arith.extf %{{.*}} : bf16 to f64
  // CHECK: math.exp %{{.*}} : f64
  // CHECK: arith.divf %{{.*}}, %{{.*}} : f64
  // CHECK-NEXT: arith.truncf %{{.*}} : f64 to bf16
  // CHECK-NOT: = nn.
  %0 = nn.silu %x : tensor<?x4xbf16>
  return %0 : tensor<?x4xbf16>
}

// -----

// Where the argument is far below 0, 1 + erf would have no digit left.
// CHECK-LABEL: func.func @gelu
func.func @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: math.erfc %{{.*}} : f64
  // CHECK-NOT: = nn.
  %0 = nn.gelu %x {form = #nn.gelu_form<erf>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
