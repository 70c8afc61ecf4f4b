// RUN: intarsia-opt %s --target-declare-devices="targets=cpu:x86-64-v4" --fuse-layouts --split-input-file | FileCheck %s

// Sizes that were asked of a transposed tensor are asked of the one that is left, along the dimension that it has there.
// CHECK-LABEL: func.func @sizes(
// CHECK-SAME: %[[X:.*]]: tensor<?x64x?xf32>
// CHECK: %[[E:.*]] = math.exp %[[X]]
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[A:.*]] = tensor.dim %[[X]], %[[C2]]
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[B:.*]] = tensor.dim %[[E]], %[[C0]]
// CHECK: tensor.empty(%[[A]], %[[B]])
func.func @sizes(%x: tensor<?x64x?xf32> {nn.sizes = ["n", "", "m"]}, %y: tensor<f32>) -> (tensor<?x64x?xf32>, tensor<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c0 : tensor<?x64x?xf32>
  %m = tensor.dim %x, %c2 : tensor<?x64x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?x64xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (b, c, a)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x64x?xf32>) outs(%e : tensor<?x?x64xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<?x?x64xf32>
  %u = math.exp %t : tensor<?x?x64xf32>
  %a = tensor.dim %t, %c0 : tensor<?x?x64xf32>
  %b = tensor.dim %u, %c1 : tensor<?x?x64xf32>
  %f = tensor.empty(%n, %m) : tensor<?x64x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (c, a, b)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%u : tensor<?x?x64xf32>) outs(%f : tensor<?x64x?xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<?x64x?xf32>
  %g = tensor.empty(%a, %b) : tensor<?x?xf32>
  %h = linalg.generic {indexing_maps = [affine_map<(a, b) -> ()>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<f32>) outs(%g : tensor<?x?xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<?x?xf32>
  return %r, %h : tensor<?x64x?xf32>, tensor<?x?xf32>
}
