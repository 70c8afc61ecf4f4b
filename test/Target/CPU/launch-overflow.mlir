// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file | FileCheck %s

// The launch says so if a size in it does not fit in 64 bits, also one that only the body computes with: the sum
// over what has s0 * s1 elements.
// CHECK-LABEL: func.func @collapsed_plan
// CHECK: %[[PAIR:.*]] = "llvm.intr.smul.with.overflow"
// CHECK: %[[OVERFLOW:.*]] = llvm.extractvalue %[[PAIR]][1]
// CHECK: arith.ori %[[OVERFLOW]], %{{.*}} : i1
// CHECK: scf.if %{{.*}} {
// CHECK: llvm.store %c-1_i64
rt.kernel @collapsed(%x: tensor<?x1xf32> {nn.sizes = ["s0", ""]}, %y: tensor<1x?xf32> {nn.sizes = ["", "s1"]})
    -> tensor<f32> attributes {root = #nn.root<generic>, sizes = ["s0", "s1"]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x1xf32>
  %m = tensor.dim %y, %c1 : tensor<1x?xf32>
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (0, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<?x1xf32>, tensor<1x?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.mulf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<?x?xf32>
  %f = tensor.collapse_shape %p [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
  %h = tensor.empty() : tensor<f32>
  %g = linalg.fill ins(%zero : f32) outs(%h : tensor<f32>) -> tensor<f32>
  %r = linalg.reduce ins(%f : tensor<?xf32>) outs(%g : tensor<f32>) dimensions = [0] (%in: f32, %sum: f32) {
    %t = arith.addf %in, %sum : f32
    linalg.yield %t : f32
  }
  rt.yield %r : tensor<f32>
}
