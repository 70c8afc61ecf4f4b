// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file | FileCheck %s

// Statistics are over the last of the dimensions that rows, scale and bias are split into.
// CHECK-LABEL: func.func @group_norm
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32>, %[[G:.*]]: tensor<8xf32>
func.func @group_norm(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // CHECK: %[[PARTS:.*]] = tensor.expand_shape %[[X]] {{\[\[}}0], [1, 2]] output_shape [%{{.*}}, 4, 2] : tensor<?x8xf32> into tensor<?x4x2xf32>
  // CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[PARTS]] : tensor<?x4x2xf32>) outs(%{{.*}} : tensor<?x4xf64>)
  // CHECK: %[[SCALE:.*]] = tensor.expand_shape %[[G]] {{\[\[}}0, 1]] output_shape [4, 2]
  // CHECK: %[[R:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel"]} ins(%[[PARTS]], %{{.*}}, %{{.*}}, %[[SCALE]]
  // CHECK: tensor.collapse_shape %[[R]] {{\[\[}}0], [1, 2]] : tensor<?x4x2xf32> into tensor<?x8xf32>
  // CHECK-NOT: = nn.
  %0 = nn.group_norm %x, %g {epsilon = 1.0e-5 : f32, groups = 4} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
