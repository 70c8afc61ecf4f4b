// RUN: intarsia-opt %s --partition-rows='world=2 kind=data' 2>/dev/null | FileCheck %s
// RUN: intarsia-opt %s --partition-rows='world=2 kind=data' 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// Each rank multiplies its own batches, and its own rows of a left side. Rows that become columns are multiplied whole.
// REMARK: data of 2 ranks: each computes 1/2 of the rows of a call in 4 ops
// REMARK-SAME: computed by each rank: 'nn.matmul' of 'columns' mixes rows

nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @main.rank0
// CHECK: %[[X:.*]] = tensor.extract_slice %arg0[0, 0, 0] [%{{.*}}, 3, 8]
// CHECK: %[[H:.*]] = nn.linear %[[X]]
// CHECK: nn.matmul %[[H]], %[[H]] {transpose_rhs}
// CHECK: %[[ROWS:.*]] = tensor.extract_slice %arg1[0, 0] [%{{.*}}, 8]
// CHECK: %[[G:.*]] = nn.linear %[[ROWS]]
// CHECK: %[[MATRIX:.*]] = nn.weight @weights["matrix"]
// CHECK: nn.matmul %[[G]], %[[MATRIX]] :
// CHECK: shard.all_gather
// CHECK: %[[ALL:.*]] = tensor.extract_slice %{{.*}}[0, 0] [%{{.*}}, 8]
// CHECK: nn.matmul %[[MATRIX]], %[[ALL]] {transpose_rhs}
func.func @main(%x: tensor<?x3x8xf32> {nn.name = "x", nn.sizes = ["batch", "", ""]},
                %rows: tensor<?x8xf32> {nn.name = "rows", nn.sizes = ["batch", ""]})
    -> (tensor<?x3x3xf32> {nn.name = "scores"}, tensor<?x8xf32> {nn.name = "y"}, tensor<8x?xf32> {nn.name = "z"}) {
  %w = nn.weight @weights["w"] : tensor<8x8xf32>
  %matrix = nn.weight @weights["matrix"] : tensor<8x8xf32>
  %h = nn.linear %x, %w : (tensor<?x3x8xf32>, tensor<8x8xf32>) -> tensor<?x3x8xf32>
  %scores = nn.matmul %h, %h {transpose_rhs} : (tensor<?x3x8xf32>, tensor<?x3x8xf32>) -> tensor<?x3x3xf32>
  %g = nn.linear %rows, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %y = nn.matmul %g, %matrix : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %z = nn.matmul %matrix, %g {transpose_rhs} : (tensor<8x8xf32>, tensor<?x8xf32>) -> tensor<8x?xf32> loc("columns")
  return %scores, %y, %z : tensor<?x3x3xf32>, tensor<?x8xf32>, tensor<8x?xf32>
}
