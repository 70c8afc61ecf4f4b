// RUN: intarsia-opt %s --fuse-canonicalize --split-input-file | FileCheck %s

// Sizes are asked of arguments, so that no result is kept for its sizes alone.
// CHECK-LABEL: func.func @sizes_of_arguments
// CHECK-SAME: (%[[X:.*]]: tensor<?x?x8xf32>
func.func @sizes_of_arguments(%x: tensor<?x?x8xf32> {nn.sizes = ["batch", "sequence", ""]},
                              %w: tensor<4x8xf32>) -> (tensor<?x?x4xf32>, tensor<?xf32>) {
  // CHECK-DAG: %[[BATCH:.*]] = tensor.dim %[[X]], %{{.*}}
  // CHECK-DAG: %[[SEQUENCE:.*]] = tensor.dim %[[X]], %{{.*}}
  // CHECK: %[[TOKENS:.*]] = arith.muli %[[BATCH]], %[[SEQUENCE]]
  // CHECK: tensor.empty(%[[TOKENS]])
  // CHECK-NOT: tensor.dim
  %h = nn.linear %x, %w : (tensor<?x?x8xf32>, tensor<4x8xf32>) -> tensor<?x?x4xf32>
  %flat = tensor.collapse_shape %h [[0, 1], [2]] : tensor<?x?x4xf32> into tensor<?x4xf32>
  %c0 = arith.constant 0 : index
  %tokens = tensor.dim %flat, %c0 : tensor<?x4xf32>
  %e = tensor.empty(%tokens) : tensor<?xf32>
  return %h, %e : tensor<?x?x4xf32>, tensor<?xf32>
}

// -----

// CHECK-LABEL: func.func @named_ops_become_generic
func.func @named_ops_become_generic(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  // CHECK-NOT: linalg.transpose
  // CHECK: linalg.generic
  // CHECK-SAME: iterator_types = ["parallel", "parallel"]
  %e = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%x : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  return %t : tensor<3x2xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// A weight is transposed when it is packed: it must stay an expression of weights.
// CHECK-LABEL: func.func @transposed_weight_stays
func.func @transposed_weight_stays(%x: tensor<?x2xf32>) -> tensor<?x3xf32> {
  // CHECK: linalg.transpose
  %w = nn.weight @weights["w"] : tensor<2x3xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%w : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  %h = nn.linear %x, %t : (tensor<?x2xf32>, tensor<3x2xf32>) -> tensor<?x3xf32>
  return %h : tensor<?x3xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// So it does a tensor of matrices, whatever the shape that it is seen in.
// CHECK-LABEL: func.func @transposed_matrices_stay
func.func @transposed_matrices_stay() -> tensor<2x3x4xf32> {
  // CHECK: linalg.transpose
  %w = nn.weight @weights["w"] : tensor<2x12xf32>
  %m = tensor.expand_shape %w [[0], [1, 2]] output_shape [2, 4, 3] : tensor<2x12xf32> into tensor<2x4x3xf32>
  %e = tensor.empty() : tensor<2x3x4xf32>
  %t = linalg.transpose ins(%m : tensor<2x4x3xf32>) outs(%e : tensor<2x3x4xf32>) permutation = [0, 2, 1]
  return %t : tensor<2x3x4xf32>
}

// -----

nn.archive @weights {file = "model.safetensors"}

// Packing transposes what one tensor of an archive holds, and nothing else: the rest is a kernel.
// CHECK-LABEL: func.func @other_transposition_becomes_generic
func.func @other_transposition_becomes_generic(%x: tensor<?x2xf32>) -> tensor<?x3xf32> {
  // CHECK-NOT: linalg.transpose
  // CHECK: linalg.generic
  %w = nn.weight @weights["w"] : tensor<1x3xf32>
  %m = tensor.concat dim(0) %w, %w : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%m : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  %h = nn.linear %x, %t : (tensor<?x2xf32>, tensor<3x2xf32>) -> tensor<?x3xf32>
  return %h : tensor<?x3xf32>
}
