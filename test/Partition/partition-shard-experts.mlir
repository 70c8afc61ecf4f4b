// RUN: intarsia-opt %s --partition-shard='world=2 experts=2' 2>/dev/null | FileCheck %s
// RUN: intarsia-opt %s --partition-shard='world=2 experts=2' 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: intarsia-opt %s --partition-shard='world=4 experts=2' 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not intarsia-opt %s --partition-shard='world=6 experts=6' 2>&1 >/dev/null | FileCheck %s --check-prefix=MANY

// REMARK: remark: split over 2 ranks: 1 expert layer by experts
// MANY: error: --world=6: 'experts' has 5 experts, so that at most 5 groups of ranks have some each

nn.archive @weights {file = "model.safetensors"}

// Of 5 experts the first rank has 3. Those of the other are -1; the router is the same on both.
// CHECK-LABEL: func.func @main.rank0
// CHECK: %[[I:.*]], %[[W:.*]] = nn.route
// CHECK: %[[OWN:.*]] = linalg.generic {{.*}} ins(%[[I]] : tensor<?x2xi32>)
// CHECK: arith.cmpi ult, %{{.*}}, %c5_i32
// CHECK: arith.select %{{.*}}, %c-1_i32, %c3_i32
// CHECK: tensor.extract_slice %{{.*}}[0, 0, 0, 0] [3, 2, 32, 16] [1, 1, 1, 1]
// CHECK: %[[P:.*]] = nn.experts %{{.*}}, %[[OWN]], %[[W]], {{.*}} gate_up_bias %{{.*}} down_bias {{.*}}tensor<3x2x32x16xf32>, tensor<3x16x32xf32>, tensor<3x2x32xf32>, tensor<3x16xf32>)
// CHECK: shard.all_reduce %[[P]] on @world grid_axes = [0]

// The biases of its experts are added by this rank.
// CHECK-LABEL: func.func @main.rank1
// CHECK: tensor.extract_slice %{{.*}}[3, 0, 0, 0] [2, 2, 32, 16] [1, 1, 1, 1]
// CHECK: nn.experts {{.*}} down_bias {{.*}}tensor<2x2x32x16xf32>, tensor<2x16x32xf32>, tensor<2x2x32xf32>, tensor<2x16xf32>)

// Two ranks share the features of each expert of a group, and the first of them adds its bias.
// BOTH: remark: split over 4 ranks: 1 expert layer by experts and features
// BOTH-LABEL: func.func @main.rank0
// BOTH: nn.experts {{.*}} down_bias {{.*}}tensor<3x2x16x16xf32>, tensor<3x16x16xf32>, tensor<3x2x16xf32>, tensor<3x16xf32>)
// BOTH-LABEL: func.func @main.rank3
// BOTH: tensor.extract_slice %{{.*}}[3, 0, 0, 0] [2, 2, 32, 16] [1, 1, 1, 1]
// BOTH: tensor.extract_slice %{{.*}}[0, 0, 16, 0] [2, 2, 16, 16] [1, 1, 1, 1]
// BOTH-NOT: down_bias
// BOTH: return
func.func @main(%x: tensor<?x16xf32> {nn.name = "x", nn.sizes = ["tokens", ""]}) -> (tensor<?x16xf32> {nn.name = "y"}) {
  %wr = nn.weight @weights["router"] : tensor<5x16xf32>
  %l = nn.linear %x, %wr : (tensor<?x16xf32>, tensor<5x16xf32>) -> tensor<?x5xf32> loc("router")
  %i, %w = nn.route %l {top_k = 2 : i64} : (tensor<?x5xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  %gu = nn.weight @weights["gu"] : tensor<5x2x32x16xf32>
  %d = nn.weight @weights["d"] : tensor<5x16x32xf32>
  %gb = nn.weight @weights["gb"] : tensor<5x2x32xf32>
  %db = nn.weight @weights["db"] : tensor<5x16xf32>
  %y = nn.experts %x, %i, %w, %gu, %d gate_up_bias %gb down_bias %db {activation = #nn.gated_activation<silu>} : (tensor<?x16xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<5x2x32x16xf32>, tensor<5x16x32xf32>, tensor<5x2x32xf32>, tensor<5x16xf32>) -> tensor<?x16xf32> loc("experts")
  return %y : tensor<?x16xf32>
}
