// RUN: intarsia-opt %s --legalize-counts --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @main(%{{.*}}: tensor<?x8xf32> {nn.name = "x", nn.sizes = ["n", ""]}, %{{[a-z0-9]+}}: tensor<i64>)
// CHECK-SAME: -> (tensor<?x8xf32>, tensor<i64>)
// CHECK: %[[Y:.*]] = arith.addf
// CHECK: return %[[Y]], %arg1

// CHECK-LABEL: func.func @main.rest(
// CHECK-SAME: tensor<?x8xf32> {nn.name = "x", nn.sizes = ["n", ""]}, %{{[a-z0-9]+}}: tensor<i64> {nn.sizes = []},
// CHECK-SAME: %[[Y:[a-z0-9]+]]: tensor<?x8xf32> {nn.sizes = ["n", ""]}, %{{[a-z0-9]+}}: tensor<i64> {nn.sizes = []},
// CHECK-SAME: %[[SIZE:[a-z0-9]+]]: tensor<?xi8> {nn.name = "@count0", nn.size_from = 1 : i64, nn.sizes = ["count0"]})
// CHECK-SAME: -> (tensor<?x8xf32> {nn.name = "rows"}) attributes {nn.continues = @main}
// CHECK: %[[K:.*]] = tensor.dim %[[SIZE]]
// CHECK: %[[I:.*]] = arith.index_cast %[[K]] : index to i64
// CHECK: %[[J:.*]] = arith.index_cast %[[I]] : i64 to index
// CHECK: tensor.extract_slice %[[Y]][0, 0] [%[[J]], 8] [1, 1]
// CHECK-NOT: tensor.extract %
func.func @main(%x: tensor<?x8xf32> {nn.name = "x", nn.sizes = ["n", ""]}, %k: tensor<i64>)
    -> (tensor<?x8xf32> {nn.name = "rows"}) {
  %y = arith.addf %x, %x : tensor<?x8xf32>
  %n = tensor.extract %k[] : tensor<i64>
  %i = arith.index_cast %n : i64 to index
  %rows = tensor.extract_slice %y[0, 0] [%i, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  return %rows : tensor<?x8xf32>
}

// Sizes of arguments, and offsets from data, are no sizes from data.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: func.func @whole.rest
// CHECK: return
func.func @whole(%x: tensor<?x8xf32>, %k: tensor<i64>) -> (tensor<?x8xf32>, tensor<1x8xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %y = linalg.exp ins(%x : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %v = tensor.extract %k[] : tensor<i64>
  %i = arith.index_cast %v : i64 to index
  %row = tensor.extract_slice %y[%i, 0] [1, 8] [1, 1] : tensor<?x8xf32> to tensor<1x8xf32>
  return %y, %row : tensor<?x8xf32>, tensor<1x8xf32>
}

// -----

func.func @inside(%c: i1, %k: tensor<i64>) -> tensor<?xf32> {
  %v = tensor.extract %k[] : tensor<i64>
  %i = arith.index_cast %v : i64 to index
  %one = arith.constant 1.0 : f32
  %r = scf.if %c -> tensor<?xf32> {
    // expected-error @below {{'tensor.splat' has a size that is an element of a tensor, inside of control flow}}
    %s = tensor.splat %one[%i] : tensor<?xf32>
    scf.yield %s : tensor<?xf32>
  } else {
    %s = tensor.splat %one[%i] : tensor<?xf32>
    scf.yield %s : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}
