// RUN: intarsia-opt %s --partition-pipeline=world=2 | FileCheck %s
// RUN: intarsia-opt %s --partition-pipeline=world=2 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: intarsia-opt %s --partition-pipeline='world=2 speeds=1,0.1' 2>&1 >/dev/null | FileCheck %s --check-prefix=SLOW
// RUN: not intarsia-opt %s --partition-pipeline=world=9 2>&1 >/dev/null | FileCheck %s --check-prefix=MANY

// REMARK: remark: pipeline of 2 ranks
// REMARK-NEXT: rank 0: layers.0 to layers.1
// REMARK-NEXT: rank 1: layers.2 to layers.3
// SLOW: rank 0: layers.0 to layers.2
// SLOW-NEXT: rank 1: layers.3 to layers.3
// MANY: error: --world=9 --partition=pipeline: the model has 4 layers, so that at most 4 ranks have one each

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
nn.archive @weights {file = "model.safetensors"}

// What is computed of inputs alone is computed by all; a value that a later stage reads is sent to it, a result goes to
// all ranks.
// CHECK: shard.grid @world(shape = 2)
// CHECK-LABEL: func.func @step.rank0
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<?x64xf32>
// CHECK-SAME: %[[KEYS:[a-z0-9]*]]: tensor<?x2x32x32xf32> {nn.name = "keys.0", nn.state}) -> (tensor<?x64xf32> {nn.name = "y"}, tensor<?x2x32x32xf32> {nn.name = "keys.0", nn.state = 5 : i64})
// CHECK-SAME: attributes {nn.empty_sizes = ["tokens"], rt.alternative = "step", rt.rank = 0 : i64, rt.stages = 2 : i64}
// CHECK: %[[MASK:.*]] = nn.relu %[[X]]
// CHECK: nn.weight @weights["w0"]
// CHECK: nn.cache_append(%[[KEYS]])
// CHECK: nn.weight @weights["w1"]
// CHECK: %[[H:.*]] = nn.linear
// CHECK-NOT: nn.weight @weights["w2"]
// CHECK: shard.send %[[H]] on @world grid_axes = [0] destination = [1]
// CHECK: %[[NONE:.*]] = tensor.empty(%{{.*}}) : tensor<?x64xf32>
// CHECK: %[[Y:.*]] = shard.broadcast %[[NONE]] on @world grid_axes = [0] root = [1]
// CHECK: return %[[Y]], %{{.*}} :

// CHECK-LABEL: func.func @step.rank1
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<?x64xf32>
// CHECK-SAME: %[[KEYS:[a-z0-9]*]]: tensor<?x2x32x32xf32> {nn.name = "keys.3", nn.state}) -> (tensor<?x64xf32> {nn.name = "y"}, tensor<?x2x32x32xf32> {nn.name = "keys.3", nn.state = 5 : i64})
// CHECK: %[[H:.*]] = shard.recv %{{.*}} on @world grid_axes = [0] source = [0]
// CHECK: %[[MASK:.*]] = nn.relu %[[X]]
// CHECK-NOT: nn.weight @weights["w0"]
// CHECK: nn.weight @weights["w2"]
// CHECK: nn.linear %[[H]]
// CHECK: arith.addf %{{.*}}, %[[MASK]]
// CHECK: nn.cache_append(%[[KEYS]])
// CHECK: %[[OUT:.*]] = nn.linear
// CHECK: shard.broadcast %[[OUT]] on @world grid_axes = [0] root = [1]
func.func @step(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["tokens", ""]},
                %positions: tensor<?xi64> {nn.name = "positions", nn.sizes = ["tokens"]},
                %sequences: tensor<?xi64> {nn.name = "sequences", nn.sizes = ["tokens"]},
                %pages: tensor<?x?xi64> {nn.name = "pages", nn.sizes = ["sequences", "length"]},
                %unused: tensor<?xi64> {nn.name = "unused", nn.sizes = ["tokens"]},
                %keys0: tensor<?x2x32x32xf32> {nn.name = "keys.0", nn.state},
                %keys3: tensor<?x2x32x32xf32> {nn.name = "keys.3", nn.state})
    -> (tensor<?x64xf32> {nn.name = "y"}, tensor<?x2x32x32xf32> {nn.name = "keys.0", nn.state = 5 : i64},
        tensor<?x2x32x32xf32> {nn.name = "keys.3", nn.state = 6 : i64}) attributes {nn.empty_sizes = ["tokens", "arg5.0"]} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %mask = nn.relu %x : tensor<?x64xf32> loc("layers.0.mask")
  %w0 = nn.weight @weights["w0"] : tensor<64x64xf32>
  %0 = nn.linear %x, %w0 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.0.linear")
  %h0 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [%n, 2, 32] : tensor<?x64xf32> into tensor<?x2x32xf32>
  %k0 = nn.cache_append(%keys0) <keys, f32, page = 32>, %h0, %positions, %sequences, %pages : (tensor<?x2x32x32xf32>, tensor<?x2x32xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x32xf32> loc("layers.0.append")
  %w1 = nn.weight @weights["w1"] : tensor<64x64xf32>
  %1 = nn.linear %0, %w1 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.1.linear")
  %w2 = nn.weight @weights["w2"] : tensor<64x64xf32>
  %2 = nn.linear %1, %w2 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.2.linear")
  %3 = arith.addf %2, %mask : tensor<?x64xf32> loc("layers.2.add")
  %h3 = tensor.expand_shape %3 [[0], [1, 2]] output_shape [%n, 2, 32] : tensor<?x64xf32> into tensor<?x2x32xf32>
  %k3 = nn.cache_append(%keys3) <keys, f32, page = 32>, %h3, %positions, %sequences, %pages : (tensor<?x2x32x32xf32>, tensor<?x2x32xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x32xf32> loc("layers.3.append")
  %w3 = nn.weight @weights["w3"] : tensor<64x64xf32>
  %4 = nn.linear %3, %w3 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.3.linear")
  return %4, %k0, %k3 : tensor<?x64xf32>, tensor<?x2x32x32xf32>, tensor<?x2x32x32xf32>
}
