// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

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
