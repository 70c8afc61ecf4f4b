// RUN: intarsia-opt %s --fuse-split-reductions --split-input-file | FileCheck %s

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a)>

// CHECK-DAG: #[[$TWO:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @few
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<3x256x256xf32>, %[[FROM:[a-z0-9]+]]: tensor<3xf32>
// CHECK: %[[NEUTRAL:.+]] = linalg.fill {{.*}} outs({{.*}} : tensor<3x256xf32>)
// CHECK: %[[ROWS:.+]] = linalg.generic {indexing_maps = [#{{.*}}, #[[$TWO]]], iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[X]] : {{.*}}) outs(%[[NEUTRAL]] :
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: %[[ALL:.+]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%[[ROWS]] : tensor<3x256xf32>) outs(%[[FROM]] : tensor<3xf32>)
// CHECK-NOT: arith.mulf
// CHECK: arith.addf
// CHECK: return %[[ALL]]
func.func @few(%x: tensor<3x256x256xf32>, %from: tensor<3xf32>) -> tensor<3xf32> {
  %y = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x : tensor<3x256x256xf32>) outs(%from : tensor<3xf32>) {
  ^bb0(%v: f32, %o: f32):
    %q = arith.mulf %v, %v : f32
    %r = arith.addf %q, %o : f32
    linalg.yield %r : f32
  } -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a)>

// Few elements, or an order that matters.
// CHECK-LABEL: func.func @small
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT: linalg.generic
func.func @small(%x: tensor<3x128x128xf32>, %z: tensor<3x256x256xf32>, %from: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %y = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x : tensor<3x128x128xf32>) outs(%from : tensor<3xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<3xf32>
  %w = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "reduction", "reduction"]} ins(%z : tensor<3x256x256xf32>) outs(%from : tensor<3xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.subf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<3xf32>
  return %y, %w : tensor<3xf32>, tensor<3xf32>
}
