// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// With both sides transposed, sums go over the first dimension of the left side and the last of the right side.
// CHECK-DAG: #[[$LEFT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1)>
// CHECK-DAG: #[[$RIGHT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>

// CHECK-LABEL: func.func @matmul
func.func @matmul(%a: tensor<?x16x3xf32>, %b: tensor<?x4x16xf32>) -> tensor<?x3x4xf32> {
  // CHECK: linalg.generic {indexing_maps = [#[[$LEFT]], #[[$RIGHT]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
  // CHECK: arith.addf %{{.*}}, %{{.*}} : f64
  // CHECK: arith.truncf %{{.*}} : f64 to f32
  // CHECK-NOT: = nn.
  %0 = nn.matmul %a, %b {transpose_lhs, transpose_rhs} : (tensor<?x16x3xf32>, tensor<?x4x16xf32>) -> tensor<?x3x4xf32>
  return %0 : tensor<?x3x4xf32>
}
