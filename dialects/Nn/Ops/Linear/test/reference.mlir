// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// CHECK-DAG: #[[$INPUT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG: #[[$WEIGHT:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d3)>

// CHECK-LABEL: func.func @linear
// CHECK-SAME: %[[X:.*]]: tensor<?x?x384xbf16>, %[[W:.*]]: tensor<1536x384xbf16>
func.func @linear(%x: tensor<?x?x384xbf16>, %w: tensor<1536x384xbf16>, %b: tensor<1536xbf16>) -> tensor<?x?x1536xbf16> {
  // Sums are f64, from zero.
  // CHECK: %[[ZERO:.*]] = linalg.fill ins(%{{.*}} : f64) outs(%{{.*}} : tensor<?x?x1536xf64>)
  // CHECK: linalg.generic {indexing_maps = [#[[$INPUT]], #[[$WEIGHT]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[X]], %[[W]]
  // CHECK: arith.extf %{{.*}} : bf16 to f64
  // The bias joins before the one rounding to bf16.
  // CHECK: arith.addf %{{.*}}, %{{.*}} : f64
  // CHECK-NOT: arith.truncf
  // CHECK: arith.addf %{{.*}}, %{{.*}} : f64
  // CHECK-NEXT: arith.truncf %{{.*}} : f64 to bf16
  // CHECK-NOT: = nn.
  %0 = nn.linear %x, %w, %b : (tensor<?x?x384xbf16>, tensor<1536x384xbf16>, tensor<1536xbf16>) -> tensor<?x?x1536xbf16>
  return %0 : tensor<?x?x1536xbf16>
}
