// RUN: intarsia-opt --wafer-lower-functions --wafer-verify-programs %s | FileCheck %s

// Caches stay: scores are added over the columns of a head, sums and the result over the rows of cores.
// CHECK-LABEL: wafer.program @attention
func.func @attention(%q: tensor<2x32xf32>, %k: tensor<16x32xf32>, %v: tensor<16x32xf32>, %p: tensor<2x1xf32>) -> tensor<2x32xf32> {
  // CHECK: wafer.load %{{.*}} from 1 as <rows = y, columns = x> : memref<4x8xf32>
  // CHECK: wafer.compute gemm_transposed
  // CHECK: wafer.receive add %{{.*}} on @up_in_2_x
  // CHECK: wafer.compute mask
  // CHECK: wafer.compute largest
  // CHECK: wafer.receive add maximum
  // CHECK: wafer.compute exp
  // CHECK: wafer.compute gemm
  // CHECK-NOT: maximum
  // CHECK: wafer.compute reciprocal
  %o = wafer.dist_attention %q, %k, %v, %p on 4 heads 2 columns 2 {scale = 0.25 : f32} :
    tensor<2x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<2x1xf32> -> tensor<2x32xf32>
  return %o : tensor<2x32xf32>
}

// One iteration a launch; the rows of cores that give a token are one more in each.
// CHECK-LABEL: wafer.program @append
func.func @append(%c: tensor<16x32xf32>, %r: tensor<1x32xf32>) -> tensor<16x32xf32> {
  // CHECK: wafer.repeat launches 4
  // CHECK: wafer.compute take %{{.*}}, %{{.*}} at <y = <start = 4, end = 4, start_moves = -1>>
  // CHECK: wafer.send %{{.*}} on @shift_y
  // CHECK: wafer.receive %{{.*}} on @shift_y at <y = <start = 3, end = 3, start_moves = -1>>
  // CHECK: wafer.compute put %{{.*}}, %{{.*}} at <y = <start = 3, end = 4>>
  %n = wafer.dist_append %c, %r on 4 : tensor<16x32xf32>, tensor<1x32xf32> -> tensor<16x32xf32>
  return %n : tensor<16x32xf32>
}
