// RUN: intarsia-test-opt %s --test-symbolic-sizes | FileCheck %s

// CHECK-LABEL: func.func @nn_ops
func.func @nn_ops(%x: tensor<?x?x384xf32> {nn.sizes = ["batch", "sequence", ""]}, %ids: tensor<?x?xi64> {nn.sizes = ["batch", "sequence"]},
                  %w: tensor<1536x384xf32>, %t: tensor<100x384xf32>, %a: tensor<?x8xf32>) {
  // CHECK: nn.linear {{.*}}["[batch, sequence, 1536]"]
  %0 = nn.linear %x, %w : (tensor<?x?x384xf32>, tensor<1536x384xf32>) -> tensor<?x?x1536xf32>
  // CHECK: nn.embedding {{.*}}["[batch, sequence, 384]"]
  %1 = nn.embedding %t, %ids : (tensor<100x384xf32>, tensor<?x?xi64>) -> tensor<?x?x384xf32>
  // CHECK: nn.matmul {{.*}}["[batch, sequence, sequence]"]
  %2 = nn.matmul %x, %1 {transpose_rhs} : (tensor<?x?x384xf32>, tensor<?x?x384xf32>) -> tensor<?x?x?xf32>
  // A dimension without a name has one of its own.
  // CHECK: nn.relu {{.*}}["[arg4.0, 8]"]
  %3 = nn.relu %a : tensor<?x8xf32>
  // CHECK: nn.quantize {{.*}}["[arg4.0, 8]", "[arg4.0 ceildiv 32, 8]"]
  %c, %s = nn.quantize %a {format = #nn.block_format<i4, f32, 32, axis = 0>} : (tensor<?x8xf32>) -> (tensor<?x8xi4>, tensor<?x8xf32>)
  return
}

// CHECK-LABEL: func.func @group
func.func @group(%x: tensor<?x384xf32> {nn.sizes = ["n", ""]}) -> tensor<?xf32> {
  // CHECK: nn.group {{.*}}["[n * 384]"]
  %r = nn.group rows(%a = %x) : (tensor<?x384xf32>) -> tensor<?xf32> {
    // CHECK: nn.gelu {{.*}}["[n, 384]"]
    %g = nn.gelu %a {form = #nn.gelu_form<erf>} : tensor<?x384xf32>
    // CHECK: tensor.collapse_shape {{.*}}["[n * 384]"]
    %f = tensor.collapse_shape %g [[0, 1]] : tensor<?x384xf32> into tensor<?xf32>
    nn.yield %f : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}

// CHECK-LABEL: func.func @indices
func.func @indices(%x: tensor<?x?xf32> {nn.sizes = ["a", "b"]}, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  // CHECK: tensor.dim {{.*}}["a"]
  %a = tensor.dim %x, %c0 : tensor<?x?xf32>
  %b = tensor.dim %x, %c1 : tensor<?x?xf32>
  // Equal polynomials are printed alike however they were computed.
  // CHECK: arith.muli {{.*}}["a * b"]
  %ab = arith.muli %a, %b : index
  // CHECK: arith.muli {{.*}}["a * b"]
  %ba = arith.muli %b, %a : index
  // CHECK: arith.addi {{.*}}["a * b * 2"]
  %sum = arith.addi %ab, %ba : index
  // CHECK: arith.divui {{.*}}["b * 2"]
  %quotient = arith.divui %sum, %a : index
  // CHECK: arith.divui {{.*}}["b floordiv 2"]
  %half = arith.divui %b, %c2 : index
  // The number in a dividend is smaller than the divisor: the size of an image behind windows of stride 2.
  // CHECK: arith.subi {{.*}}["b - 1"]
  %before = arith.subi %b, %c1 : index
  // CHECK: arith.floordivsi {{.*}}["(b + 1) floordiv 2 - 1"]
  %strides = arith.floordivsi %before, %c2 : index
  // CHECK: arith.addi {{.*}}["(b + 1) floordiv 2"]
  %windows = arith.addi %strides, %c1 : index
  // CHECK: arith.subi {{.*}}["a * b - 1"]
  %less = arith.subi %ab, %c1 : index
  // CHECK: arith.index_cast {{.*}}["a"]
  %cast = arith.index_cast %a : index to i64
  // CHECK: arith.maxsi %{{[^{]*}} : index
  %max = arith.maxsi %a, %b : index
  // CHECK: tensor.empty{{.*}}["[a * b * 2, ?0]"]
  %e = tensor.empty(%sum, %max) : tensor<?x?xf32>
  return
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: tensor<?x?x384xf32> {nn.sizes = ["batch", "sequence", ""]}, %y: tensor<?x?x384xf32> {nn.sizes = ["batch", "more", ""]}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %b = tensor.dim %x, %c0 : tensor<?x?x384xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x384xf32>
  // CHECK: tensor.expand_shape {{.*}}["[batch, sequence, 12, 32]"]
  %0 = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%b, %s, 12, 32] : tensor<?x?x384xf32> into tensor<?x?x12x32xf32>
  // CHECK: tensor.collapse_shape {{.*}}["[batch * sequence, 384]"]
  %1 = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x?x384xf32> into tensor<?x384xf32>
  // CHECK: tensor.expand_shape {{.*}}["[batch, sequence, 384]"]
  %2 = tensor.expand_shape %1 [[0, 1], [2]] output_shape [%b, %s, 384] : tensor<?x384xf32> into tensor<?x?x384xf32>
  // CHECK: tensor.extract_slice {{.*}}["[batch, 384]"]
  %3 = tensor.extract_slice %x[0, 0, 0] [%b, 1, 384] [1, 1, 1] : tensor<?x?x384xf32> to tensor<?x384xf32>
  // CHECK: tensor.insert_slice {{.*}}["[batch, sequence, 384]"]
  %4 = tensor.insert_slice %3 into %x[0, 0, 0] [%b, 1, 384] [1, 1, 1] : tensor<?x384xf32> into tensor<?x?x384xf32>
  // CHECK: tensor.concat {{.*}}["[batch, sequence + more, 384]"]
  %5 = tensor.concat dim(1) %x, %y : (tensor<?x?x384xf32>, tensor<?x?x384xf32>) -> tensor<?x?x384xf32>
  // CHECK: tensor.pad {{.*}}
  %6 = tensor.pad %1 low[1, 0] high[%s, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  // CHECK: } {test_sizes = ["[batch * sequence + sequence + 1, 384]"]}
  } : tensor<?x384xf32> to tensor<?x384xf32>
  // CHECK: tensor.cast {{.*}}["[batch, sequence, 384]"]
  %7 = tensor.cast %x : tensor<?x?x384xf32> to tensor<?x?x?xf32>
  // CHECK: tensor.splat {{.*}}["[sequence, 4]"]
  %8 = tensor.splat %zero[%s] : tensor<?x4xf32>
  // CHECK: arith.addf {{.*}}["[batch, sequence, 384]"]
  %9 = arith.addf %x, %x : tensor<?x?x384xf32>
  // CHECK: linalg.transpose
  // CHECK-SAME: {test_sizes = ["[sequence, batch, 384]"]}
  %10 = tensor.empty(%s, %b) : tensor<?x?x384xf32>
  %11 = linalg.transpose ins(%x : tensor<?x?x384xf32>) outs(%10 : tensor<?x?x384xf32>) permutation = [1, 0, 2]
  return
}

// Sizes of a kernel's operands may be expressions in those that it is launched with.
// CHECK-LABEL: rt.kernel @expressions
rt.kernel @expressions(%x: tensor<?xf32> {nn.sizes = ["s1 * s0 + 4"]}, %y: tensor<?x?xf32> {nn.sizes = ["s1", "s0"]})
    -> (tensor<?xf32> {nn.sizes = ["s0 * s1 + 4"]}) attributes {root = #nn.root<rows>, sizes = ["s0", "s1"]} {
  // CHECK: nn.relu {{.*}}["[s0 * s1 + 4]"]
  %r = nn.relu %x : tensor<?xf32>
  rt.yield %r : tensor<?xf32>
}

// CHECK-LABEL: rt.kernel @kernel
rt.kernel @kernel(%x: tensor<?x?xf32> {nn.sizes = ["s1", "s0"]}) -> (tensor<?x?xf32> {nn.sizes = ["s1", "s0"]})
    attributes {root = #nn.root<rows>, sizes = ["s0", "s1"]} {
  // CHECK: nn.relu {{.*}}["[s1, s0]"]
  %r = nn.relu %x : tensor<?x?xf32>
  rt.yield %r : tensor<?x?xf32>
}
