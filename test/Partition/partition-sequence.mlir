// RUN: intarsia-opt %s -split-input-file --partition-shard=world=3 --partition-sequence 2>/dev/null | FileCheck %s
// RUN: intarsia-opt %s -split-input-file --partition-shard=world=3 --partition-sequence 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: not intarsia-opt %s -split-input-file --partition-shard=world=2 --partition-sequence 2>&1 >/dev/null | FileCheck %s --check-prefix=ODD

// REMARK: remark: sequence over 3 ranks: each has 1/3 of the rows in 2 norms and 2 ops beside them; 2 sums of parts give a rank its rows, 2 gathers bring all rows together
// REMARK: remark: sequence over 3 ranks: each has 1/3 of the rows in 0 norms and 1 op beside them; 1 sum of parts gives a rank its rows, 1 gather brings all rows together
// REMARK: remark: sequence over 3 ranks: each has 1/3 of the rows in 0 norms and 1 op beside them; 1 sum of parts gives a rank its rows, 1 gather brings all rows together

// An encoder: rows are those of all examples. The norm behind the sum, and what is added to it, are computed for the rows
// of a rank; linears get all rows.

nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @main.rank1
// CHECK: %[[H:.*]] = nn.linear %{{.*}} -> tensor<?x?x24xf32>
// CHECK: %[[P:.*]] = nn.linear %{{.*}} -> tensor<?x?x24xf32>
// CHECK: %[[B:.*]] = tensor.dim %[[P]]
// CHECK: %[[S:.*]] = tensor.dim %[[P]]
// CHECK: %[[N:.*]] = arith.muli %[[B]], %[[S]]
// CHECK: %[[EACH:.*]] = arith.ceildivsi %[[N]], %{{.*}}
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %[[P]] {{\[}}[0, 1], [2]]
// CHECK: %[[OWN:.*]] = shard.reduce_scatter %[[FLAT]] on @world grid_axes = [0] scatter_axis = 0 : tensor<?x24xf32> -> tensor<?x24xf32>

// What is added is on each rank: it takes its rows, and none behind the last.
// CHECK: %[[ALL:.*]] = tensor.collapse_shape %[[H]]
// CHECK: %[[REST:.*]] = linalg.generic
// CHECK: arith.minsi
// CHECK: tensor.extract %[[ALL]]
// CHECK: %[[Y:.*]] = arith.addf %[[OWN]], %[[REST]] : tensor<?x24xf32>
// CHECK: %[[Z:.*]] = nn.layer_norm %[[Y]], {{.*}} (tensor<?x24xf32>, tensor<24xf32>, tensor<24xf32>) -> tensor<?x24xf32>
// CHECK: %[[G:.*]] = shard.all_gather %[[Z]] on @world grid_axes = [0] gather_axis = 0 : tensor<?x24xf32> -> tensor<?x24xf32>
// CHECK: %[[ROWS:.*]] = tensor.extract_slice %[[G]][0, 0] [%[[N]], 24] [1, 1]
// CHECK: %[[X:.*]] = tensor.expand_shape %[[ROWS]] {{\[}}[0, 1], [2]]
// CHECK: nn.linear %[[X]]
// CHECK: %[[OWN2:.*]] = shard.reduce_scatter
// CHECK-NOT: shard.all_gather
// CHECK: %[[Y2:.*]] = arith.addf %[[OWN2]], %[[Z]]
// CHECK: %[[Z2:.*]] = nn.layer_norm %[[Y2]]
// CHECK: shard.all_gather %[[Z2]]
// CHECK-NOT: shard.all_reduce
// CHECK: return
func.func @main(%x: tensor<?x?x24xf32> {nn.name = "x", nn.sizes = ["batch", "sequence", ""]}) -> (tensor<?x?x24xf32> {nn.name = "y"}) {
  %g = nn.weight @weights["g"] : tensor<24xf32>
  %b = nn.weight @weights["b"] : tensor<24xf32>
  %we = nn.weight @weights["embed"] : tensor<24x24xf32>
  %h = nn.linear %x, %we : (tensor<?x?x24xf32>, tensor<24x24xf32>) -> tensor<?x?x24xf32>
  %w0 = nn.weight @weights["up0"] : tensor<96x24xf32>
  %u0 = nn.linear %h, %w0 : (tensor<?x?x24xf32>, tensor<96x24xf32>) -> tensor<?x?x96xf32>
  %a0 = nn.relu %u0 : tensor<?x?x96xf32>
  %v0 = nn.weight @weights["down0"] : tensor<24x96xf32>
  %d0 = nn.linear %a0, %v0 : (tensor<?x?x96xf32>, tensor<24x96xf32>) -> tensor<?x?x24xf32> loc("down0")
  %y0 = arith.addf %d0, %h : tensor<?x?x24xf32>
  %z0 = nn.layer_norm %y0, %g, %b {epsilon = 1.0e-5 : f32} : (tensor<?x?x24xf32>, tensor<24xf32>, tensor<24xf32>) -> tensor<?x?x24xf32>
  %w1 = nn.weight @weights["up1"] : tensor<96x24xf32>
  %u1 = nn.linear %z0, %w1 : (tensor<?x?x24xf32>, tensor<96x24xf32>) -> tensor<?x?x96xf32>
  %a1 = nn.relu %u1 : tensor<?x?x96xf32>
  %v1 = nn.weight @weights["down1"] : tensor<24x96xf32>
  %d1 = nn.linear %a1, %v1 : (tensor<?x?x96xf32>, tensor<24x96xf32>) -> tensor<?x?x24xf32> loc("down1")
  %y1 = arith.addf %d1, %z0 : tensor<?x?x24xf32>
  %z1 = nn.layer_norm %y1, %g, %b {epsilon = 1.0e-5 : f32} : (tensor<?x?x24xf32>, tensor<24xf32>, tensor<24xf32>) -> tensor<?x?x24xf32>
  return %z1 : tensor<?x?x24xf32>
}

// -----

// The sum that the function returns is gathered; its negation and its norm, of which all rows are needed too, are not: all
// that they read is there.

nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @step.rank0
// CHECK: %[[OWN:.*]] = shard.reduce_scatter
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK: %[[G:.*]] = shard.all_gather %[[SUM]]
// CHECK: %[[Y:.*]] = tensor.extract_slice %[[G]]
// CHECK: %[[M:.*]] = arith.negf %[[Y]] : tensor<?x24xf32>
// CHECK: %[[Z:.*]] = nn.rms_norm %[[Y]]
// CHECK-NOT: shard.all_gather
// CHECK: nn.linear %[[Z]]
// CHECK: return %{{.*}}, %[[Y]], %[[M]]
func.func @step(%x: tensor<?x24xf32> {nn.name = "x", nn.sizes = ["tokens", ""]})
    -> (tensor<?x48xf32> {nn.name = "z"}, tensor<?x24xf32> {nn.name = "y"}, tensor<?x24xf32> {nn.name = "m"}) {
  %g = nn.weight @weights["g"] : tensor<24xf32>
  %w0 = nn.weight @weights["up0"] : tensor<96x24xf32>
  %u0 = nn.linear %x, %w0 : (tensor<?x24xf32>, tensor<96x24xf32>) -> tensor<?x96xf32>
  %a0 = nn.relu %u0 : tensor<?x96xf32>
  %v0 = nn.weight @weights["down0"] : tensor<24x96xf32>
  %d0 = nn.linear %a0, %v0 : (tensor<?x96xf32>, tensor<24x96xf32>) -> tensor<?x24xf32> loc("down0")
  %y0 = arith.addf %d0, %x : tensor<?x24xf32>
  %m0 = arith.negf %y0 : tensor<?x24xf32>
  %z0 = nn.rms_norm %y0, %g {epsilon = 1.0e-5 : f32} : (tensor<?x24xf32>, tensor<24xf32>) -> tensor<?x24xf32>
  %w1 = nn.weight @weights["up1"] : tensor<48x24xf32>
  %u1 = nn.linear %z0, %w1 : (tensor<?x24xf32>, tensor<48x24xf32>) -> tensor<?x48xf32>
  return %u1, %y0, %m0 : tensor<?x48xf32>, tensor<?x24xf32>, tensor<?x24xf32>
}

// -----

// Rows whose number is known are shared if they are a multiple of the ranks: no slice then.

nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @fixed.rank2
// CHECK: shard.reduce_scatter {{.*}} : tensor<9x24xf32> -> tensor<3x24xf32>
// CHECK: %[[Y:.*]] = nn.relu %{{.*}} : tensor<3x24xf32>
// CHECK: %[[G:.*]] = shard.all_gather %[[Y]] {{.*}} : tensor<3x24xf32> -> tensor<9x24xf32>
// CHECK: return %[[G]]
// ODD: error: --partition=tensor,sequence: sequence: 'down0' always has 9 rows, which 2 ranks cannot share evenly; leave sequence out
func.func @fixed(%x: tensor<9x24xf32> {nn.name = "x"}) -> (tensor<9x24xf32> {nn.name = "y"}) {
  %w0 = nn.weight @weights["up0"] : tensor<96x24xf32>
  %u0 = nn.linear %x, %w0 : (tensor<9x24xf32>, tensor<96x24xf32>) -> tensor<9x96xf32>
  %a0 = nn.relu %u0 : tensor<9x96xf32>
  %v0 = nn.weight @weights["down0"] : tensor<24x96xf32>
  %d0 = nn.linear %a0, %v0 : (tensor<9x96xf32>, tensor<24x96xf32>) -> tensor<9x24xf32> loc("down0")
  %y0 = nn.relu %d0 : tensor<9x24xf32>
  return %y0 : tensor<9x24xf32>
}
