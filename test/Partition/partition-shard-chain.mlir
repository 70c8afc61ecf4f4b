// RUN: intarsia-opt %s --partition-shard=world=2 | FileCheck %s
// RUN: intarsia-opt %s --partition-shard=world=2 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// Every second linear is a sum over the ranks: what it gives is whole on each of them, and the next one is cut by its
// results. The last one's input is such a sum, and no sum of it is made.
// REMARK: remark: split over 2 ranks: 1 feed-forward layer by features

nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @main.rank0
// CHECK: %[[UP:.*]] = nn.linear %{{.*}} : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
// CHECK: %[[RELU:.*]] = nn.relu %[[UP]] : tensor<?x64xf32>
// CHECK: %[[PART:.*]] = nn.linear %[[RELU]], %{{.*}} : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
// CHECK: %[[SUM:.*]] = shard.all_reduce %[[PART]]
// CHECK: %[[WHOLE:.*]] = nn.relu %[[SUM]] : tensor<?x32xf32>
// CHECK: nn.linear %[[WHOLE]], %{{.*}} : (tensor<?x32xf32>, tensor<48x32xf32>) -> tensor<?x48xf32>
// CHECK-NOT: shard.
// CHECK-LABEL: func.func @main.rank1
func.func @main(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["rows", ""]}) -> (tensor<?x48xf32> {nn.name = "y"}) {
  %w0 = nn.weight @weights["w0"] : tensor<128x64xf32>
  %0 = nn.linear %x, %w0 : (tensor<?x64xf32>, tensor<128x64xf32>) -> tensor<?x128xf32> loc("up")
  %1 = nn.relu %0 : tensor<?x128xf32>
  %w1 = nn.weight @weights["w1"] : tensor<32x128xf32>
  %2 = nn.linear %1, %w1 : (tensor<?x128xf32>, tensor<32x128xf32>) -> tensor<?x32xf32> loc("down")
  %3 = nn.relu %2 : tensor<?x32xf32>
  %w2 = nn.weight @weights["w2"] : tensor<48x32xf32>
  %4 = nn.linear %3, %w2 : (tensor<?x32xf32>, tensor<48x32xf32>) -> tensor<?x48xf32> loc("last")
  return %4 : tensor<?x48xf32>
}
