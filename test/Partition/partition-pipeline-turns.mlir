// RUN: intarsia-opt %s --partition-pipeline='world=2 turns=2' | FileCheck %s
// RUN: intarsia-opt %s --partition-pipeline='world=2 turns=2 order=breadth-first' 2>&1 | FileCheck %s --check-prefix=BREADTH
// RUN: not intarsia-opt %s --partition-pipeline='world=2 turns=3 text=interleaved:3' 2>&1 >/dev/null | FileCheck %s --check-prefix=MANY
// RUN: not intarsia-opt %s --partition-pipeline='world=2 turns=2 order=depth-first' 2>&1 >/dev/null | FileCheck %s --check-prefix=ORDER

// BREADTH: remark: pipeline of 2 ranks with 2 stages each, breadth-first
// BREADTH-NEXT: rank 0: layers.0 to layers.0, layers.2 to layers.2, {{.*}} us for each kernel alone, idle for
// BREADTH-NEXT: rank 1: layers.1 to layers.1, layers.3 to layers.3, {{.*}} us for each kernel alone, idle for
// BREADTH: rt.order = "breadth-first"
// MANY: error: --world=2 --partition=interleaved:3: the model has 4 layers, so that each of 2 ranks has at most 2 stages
// ORDER: error: partition-pipeline: 2 stages of a rank in the order 'depth-first'; there are 1 to 256, interleaved or breadth-first

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
nn.archive @weights {file = "model.safetensors"}

// Of four stages each rank has two, that are no neighbours. The last rank sends to the first again; what the third stage
// reads of the first comes through the second. The functions of the last turn give the results.

// CHECK-LABEL: func.func @step.turn0.rank0
// CHECK-SAME: {nn.name = "keys.0", nn.state}) -> (tensor<?x2x32x32xf32> {nn.name = "keys.0", nn.state = 4 : i64})
// CHECK-SAME: rt.alternative = "step.turn0", rt.order = "interleaved", rt.rank = 0 : i64, rt.stages = 2 : i64, rt.turn = 0 : i64, rt.turns = 2 : i64
// CHECK-NOT: shard.recv
// CHECK: %[[FIRST:.*]] = nn.linear
// CHECK: shard.send %[[FIRST]] on @world grid_axes = [0] destination = [1]
// CHECK-NOT: shard.broadcast

// CHECK-LABEL: func.func @step.turn0.rank1
// CHECK-SAME: rt.rank = 1 : i64
// CHECK: %[[FIRST:.*]] = shard.recv %{{.*}} on @world grid_axes = [0] source = [0]
// CHECK: %[[SECOND:.*]] = nn.linear %[[FIRST]]
// CHECK: shard.send %[[FIRST]] on @world grid_axes = [0] destination = [0]
// CHECK: shard.send %[[SECOND]] on @world grid_axes = [0] destination = [0]
// CHECK-NOT: shard.broadcast

// CHECK-LABEL: func.func @step.rank0
// CHECK-SAME: -> (tensor<?x64xf32> {nn.name = "y"})
// CHECK-SAME: rt.alternative = "step", rt.order = "interleaved", rt.rank = 0 : i64, rt.stages = 2 : i64, rt.turn = 1 : i64, rt.turns = 2 : i64
// CHECK: %[[FIRST:.*]] = shard.recv %{{.*}} on @world grid_axes = [0] source = [1]
// CHECK: %[[SECOND:.*]] = shard.recv %{{.*}} on @world grid_axes = [0] source = [1]
// CHECK: %[[THIRD:.*]] = nn.linear %[[SECOND]]
// CHECK: %[[SUM:.*]] = arith.addf %[[THIRD]], %[[FIRST]]
// CHECK: shard.send %[[SUM]] on @world grid_axes = [0] destination = [1]
// CHECK: shard.broadcast %{{.*}} on @world grid_axes = [0] root = [1]

// CHECK-LABEL: func.func @step.rank1
// CHECK-SAME: {nn.name = "keys.3", nn.state}) -> (tensor<?x64xf32> {nn.name = "y"}, tensor<?x2x32x32xf32> {nn.name = "keys.3", nn.state = 4 : i64})
// CHECK: %[[SUM:.*]] = shard.recv %{{.*}} on @world grid_axes = [0] source = [0]
// CHECK: %[[LAST:.*]] = nn.linear %[[SUM]]
// CHECK-NOT: shard.send
// CHECK: shard.broadcast %[[LAST]] on @world grid_axes = [0] root = [1]
func.func @step(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["tokens", ""]},
                %positions: tensor<?xi64> {nn.name = "positions", nn.sizes = ["tokens"]},
                %sequences: tensor<?xi64> {nn.name = "sequences", nn.sizes = ["tokens"]},
                %pages: tensor<?x?xi64> {nn.name = "pages", nn.sizes = ["sequences", "length"]},
                %keys0: tensor<?x2x32x32xf32> {nn.name = "keys.0", nn.state},
                %keys3: tensor<?x2x32x32xf32> {nn.name = "keys.3", nn.state})
    -> (tensor<?x64xf32> {nn.name = "y"}, tensor<?x2x32x32xf32> {nn.name = "keys.0", nn.state = 4 : i64},
        tensor<?x2x32x32xf32> {nn.name = "keys.3", nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %w0 = nn.weight @weights["w0"] : tensor<64x64xf32>
  %0 = nn.linear %x, %w0 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.0.linear")
  %h0 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [%n, 2, 32] : tensor<?x64xf32> into tensor<?x2x32xf32>
  %k0 = nn.cache_append(%keys0) <keys, f32, page = 32>, %h0, %positions, %sequences, %pages : (tensor<?x2x32x32xf32>, tensor<?x2x32xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x32xf32> loc("layers.0.append")
  %w1 = nn.weight @weights["w1"] : tensor<64x64xf32>
  %1 = nn.linear %0, %w1 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.1.linear")
  %w2 = nn.weight @weights["w2"] : tensor<64x64xf32>
  %2 = nn.linear %1, %w2 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.2.linear")
  %3 = arith.addf %2, %0 : tensor<?x64xf32> loc("layers.2.add")
  %w3 = nn.weight @weights["w3"] : tensor<64x64xf32>
  %4 = nn.linear %3, %w3 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.3.linear")
  %h3 = tensor.expand_shape %4 [[0], [1, 2]] output_shape [%n, 2, 32] : tensor<?x64xf32> into tensor<?x2x32xf32>
  %k3 = nn.cache_append(%keys3) <keys, f32, page = 32>, %h3, %positions, %sequences, %pages : (tensor<?x2x32x32xf32>, tensor<?x2x32xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x32xf32> loc("layers.3.append")
  return %4, %k0, %k3 : tensor<?x64xf32>, tensor<?x2x32x32xf32>, tensor<?x2x32x32xf32>
}
