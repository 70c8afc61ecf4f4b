// RUN: intarsia-opt %s --partition-rows='world=2 kind=data' 2>/dev/null | FileCheck %s
// RUN: intarsia-opt %s --partition-rows='world=2 kind=data' 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: intarsia-opt %s --partition-rows='world=1 kind=data' | FileCheck %s --check-prefix=ONE
// RUN: not intarsia-opt %s --partition-rows='world=2 kind=context' 2>&1 >/dev/null | FileCheck %s --check-prefix=KIND

// REMARK: remark: data of 2 ranks: each computes 1/2 of the rows of a call in 2 ops; 1 gather brings all rows for caches and results; computed by each rank: 'linalg.generic' of 'sum' gives no rows along one dimension
// ONE-NOT: shard.grid
// KIND: error: --partition=context: 'main' keeps no caches of a context, so that ranks share the examples of a batch: use data

nn.archive @weights {file = "model.safetensors"}

// CHECK: shard.grid @world(shape = 2)
// CHECK-LABEL: func.func @main.rank0
// CHECK-SAME: attributes {rt.alternative = "main", rt.rank = 0 : i64}
// CHECK: %[[N:.*]] = tensor.dim %arg0, %c0
// CHECK: %[[OWN:.*]] = arith.ceildivsi %[[N]], %c2
// CHECK: %[[X:.*]] = tensor.extract_slice %arg0[0, 0] [%[[OWN]], 16] [1, 1]
// CHECK: nn.linear %[[X]]
// CHECK: nn.relu
// CHECK: tensor.expand_shape %{{.*}} output_shape [1, %[[OWN]], 8] : tensor<?x8xf32> into tensor<1x?x8xf32>
// CHECK: shard.all_gather %{{.*}} on @world grid_axes = [0] gather_axis = 0 : tensor<1x?x8xf32> -> tensor<2x?x8xf32>
// CHECK: tensor.collapse_shape
// CHECK: %[[ALL:.*]] = tensor.extract_slice %{{.*}}[0, 0] [%[[N]], 8] [1, 1]

// What mixes rows has all of them.
// CHECK: linalg.generic {{.*}} ins(%[[ALL]]

// The second half begins behind the first one, and ends with the last row once more if there is none for it.
// CHECK-LABEL: func.func @main.rank1
// CHECK: %[[FIRST:.*]] = arith.muli
// CHECK: %[[LAST:.*]] = arith.subi
// CHECK: linalg.generic
// CHECK: arith.addi %{{.*}}, %[[FIRST]]
// CHECK: arith.minsi %{{.*}}, %[[LAST]]
// CHECK: tensor.extract %arg0
func.func @main(%x: tensor<?x16xf32> {nn.name = "x", nn.sizes = ["batch", ""]}) -> (tensor<?x8xf32> {nn.name = "y"}, tensor<8xf32> {nn.name = "sum"}) {
  %w = nn.weight @weights["w"] : tensor<8x16xf32>
  %h = nn.linear %x, %w : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  %y = nn.relu %h : tensor<?x8xf32>
  %c0 = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8xf32>
  %zero = linalg.fill ins(%c0 : f32) outs(%empty : tensor<8xf32>) -> tensor<8xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(f, b) -> (b, f)>, affine_map<(f, b) -> (f)>], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<?x8xf32>) outs(%zero : tensor<8xf32>) {
  ^bb0(%a: f32, %s: f32):
    %r = arith.addf %s, %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32> loc("sum")
  return %y, %sum : tensor<?x8xf32>, tensor<8xf32>
}
