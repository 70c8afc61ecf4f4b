// RUN: intarsia-opt %s --partition-pipeline=world=3 | FileCheck %s

// What the third stage reads of the first comes through the second. Stages receive first and send last.
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @main.rank0
// CHECK: %[[FIRST:.*]] = nn.linear
// CHECK: shard.send %[[FIRST]] on @world grid_axes = [0] destination = [1]
// CHECK-NOT: shard.send
// CHECK: shard.broadcast

// CHECK-LABEL: func.func @main.rank1
// CHECK: %[[PASSED:.*]] = shard.recv %{{.*}} on @world grid_axes = [0] source = [0]
// CHECK: %[[SECOND:.*]] = nn.linear %[[PASSED]]
// CHECK: shard.send %[[PASSED]] on @world grid_axes = [0] destination = [2]
// CHECK: shard.send %[[SECOND]] on @world grid_axes = [0] destination = [2]
// CHECK: shard.broadcast

// CHECK-LABEL: func.func @main.rank2
// CHECK: %[[FIRST:.*]] = shard.recv %{{.*}} on @world grid_axes = [0] source = [1]
// CHECK: %[[SECOND:.*]] = shard.recv %{{.*}} on @world grid_axes = [0] source = [1]
// CHECK: %[[THIRD:.*]] = nn.linear %[[SECOND]]
// CHECK: arith.addf %[[THIRD]], %[[FIRST]]
func.func @main(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["rows", ""]}) -> (tensor<?x64xf32> {nn.name = "y"}) {
  %w0 = nn.weight @weights["w0"] : tensor<64x64xf32>
  %0 = nn.linear %x, %w0 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.0.linear")
  %w1 = nn.weight @weights["w1"] : tensor<64x64xf32>
  %1 = nn.linear %0, %w1 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.1.linear")
  %w2 = nn.weight @weights["w2"] : tensor<64x64xf32>
  %2 = nn.linear %1, %w2 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.2.linear")
  %3 = arith.addf %2, %0 : tensor<?x64xf32> loc("layers.2.add")
  return %3 : tensor<?x64xf32>
}
