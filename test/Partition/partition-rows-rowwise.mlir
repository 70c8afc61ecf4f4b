// RUN: intarsia-opt %s --partition-rows='world=2 kind=data' 2>/dev/null | FileCheck %s
// RUN: intarsia-opt %s --partition-rows='world=2 kind=data' 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// Norms and prefix sums of rows are those of each rank's rows. Prefix sums over the rows are computed whole.
// REMARK: data of 2 ranks: each computes 1/2 of the rows of a call in 3 ops

nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @main.rank0
// CHECK: %[[X:.*]] = tensor.extract_slice %arg0[0, 0] [%{{.*}}, 8]
// CHECK: %[[H:.*]] = nn.linear %[[X]]
// CHECK: %[[N:.*]] = nn.group_norm %[[H]]
// CHECK: nn.cumulate <add>, %[[N]]
// CHECK: shard.all_gather
// CHECK: nn.cumulate <add>, %arg1 : tensor<?xf32>
func.func @main(%x: tensor<?x8xf32> {nn.name = "x", nn.sizes = ["batch", ""]},
                %v: tensor<?xf32> {nn.name = "v", nn.sizes = ["batch"]})
    -> (tensor<?x8xf32> {nn.name = "y"}, tensor<?xf32> {nn.name = "z"}) {
  %w = nn.weight @weights["w"] : tensor<8x8xf32>
  %g = nn.weight @weights["g"] : tensor<8xf32>
  %h = nn.linear %x, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %n = nn.group_norm %h, %g {epsilon = 1.0e-5 : f32, groups = 2 : i64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %y = nn.cumulate <add>, %n : tensor<?x8xf32>
  %z = nn.cumulate <add>, %v : tensor<?xf32>
  return %y, %z : tensor<?x8xf32>, tensor<?xf32>
}
