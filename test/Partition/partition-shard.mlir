// RUN: intarsia-opt %s --partition-shard=world=2 | FileCheck %s
// RUN: intarsia-opt %s --partition-shard=world=2 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: intarsia-opt %s --partition-shard=world=1 | FileCheck %s --check-prefix=ONE
// RUN: not intarsia-opt %s --partition-shard=world=64 2>&1 >/dev/null | FileCheck %s --check-prefix=MANY

// REMARK: remark: split over 2 ranks: 1 attention layer by heads, 1 feed-forward layer by features, 1 product by results
// ONE-NOT: shard.grid
// MANY: error: --world=64: 'layers.0.o' has 4 heads, so that at most 4 ranks can share them; the largest world that can split the model is 4

nn.archive @weights {file = "model.safetensors"}

// CHECK: shard.grid @world(shape = 2)

// Queries have 4 heads, keys 2: each rank has one head of keys and the two of queries that share it.
// CHECK-LABEL: func.func @step.rank0
// CHECK-SAME: %[[KEYS:[a-z0-9]*]]: tensor<?x1x32x16xf32> {nn.name = "keys", nn.state}
// CHECK-SAME: attributes {rt.alternative = "step", rt.rank = 0 : i64}
// CHECK: %[[Q:.*]] = nn.weight @weights["q"]
// CHECK: %[[Q0:.*]] = tensor.extract_slice %[[Q]][0, 0] [32, 64] [1, 1]
// CHECK: nn.linear %{{.*}}, %[[Q0]]
// CHECK: tensor.expand_shape {{.*}} output_shape [%{{.*}}, 2, 16]
// CHECK: nn.cache_append(%[[KEYS]])
// CHECK: %[[A:.*]] = nn.cached_attention
// CHECK-SAME: -> tensor<?x2x16xf32>
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %[[A]]
// CHECK: %[[O:.*]] = nn.weight @weights["o"]
// CHECK: %[[O0:.*]] = tensor.extract_slice %[[O]][0, 0] [64, 32] [1, 1]

// The bias of a sum is that of rank 0.
// CHECK: %[[P:.*]] = nn.linear %[[FLAT]], %[[O0]], %{{.*}} : (tensor<?x32xf32>, tensor<64x32xf32>, tensor<64xf32>)
// CHECK: %[[SUM:.*]] = shard.all_reduce %[[P]] on @world grid_axes = [0]

// Weights are quantized as a whole, and their values are cut in whole blocks.
// CHECK: %[[UP:.*]] = nn.dequantize
// CHECK: %[[UP0:.*]] = tensor.extract_slice %[[UP]][0, 0] [96, 64] [1, 1]
// CHECK: nn.linear %{{.*}}, %[[UP0]]
// CHECK: nn.silu %{{.*}} : tensor<?x96xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, 0] [64, 96] [1, 1]
// CHECK: shard.all_reduce

// What the function gives is gathered: parts are equal, and the last one begins where enough features follow.
// CHECK: tensor.extract_slice %{{.*}}[0, 0] [2501, 64] [1, 1]
// CHECK: %[[G:.*]] = shard.all_gather %{{.*}} on @world grid_axes = [0] gather_axis = 0 : tensor<1x?x2501xf32> -> tensor<2x?x2501xf32>
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[G]]
// CHECK: %[[C:.*]] = tensor.collapse_shape
// CHECK: tensor.extract_slice %[[C]][0, 0] [%{{.*}}, 2501]
// CHECK: tensor.extract_slice %[[C]][0, 2502] [%{{.*}}, 2500]
// CHECK: tensor.concat dim(1)

// CHECK-LABEL: func.func @step.rank1
// CHECK: tensor.extract_slice %{{.*}}[32, 0] [32, 64] [1, 1]
// CHECK: nn.linear %{{.*}} : (tensor<?x32xf32>, tensor<64x32xf32>) -> tensor<?x64xf32>
// CHECK: tensor.extract_slice %{{.*}}[96, 0] [96, 64] [1, 1]
// CHECK: tensor.extract_slice %{{.*}}[2500, 0] [2501, 64] [1, 1]
// CHECK-NOT: func.func @step(
func.func @step(%ids: tensor<?xi64> {nn.name = "ids", nn.sizes = ["tokens"]},
                %positions: tensor<?xi64> {nn.name = "positions", nn.sizes = ["tokens"]},
                %sequences: tensor<?xi64> {nn.name = "sequences", nn.sizes = ["tokens"]},
                %pages: tensor<?x?xi64> {nn.name = "pages", nn.sizes = ["sequences", "length"]},
                %keys: tensor<?x2x32x16xf32> {nn.name = "keys", nn.state},
                %values: tensor<?x2x32x16xf32> {nn.name = "values", nn.state})
    -> (tensor<?x5001xf32> {nn.name = "logits"}, tensor<?x2x32x16xf32> {nn.name = "keys", nn.state = 4 : i64},
        tensor<?x2x32x16xf32> {nn.name = "values", nn.state = 5 : i64}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi64>
  %table = nn.weight @weights["table"] : tensor<5001x64xf32>
  %x = nn.embedding %table, %ids : (tensor<5001x64xf32>, tensor<?xi64>) -> tensor<?x64xf32>
  %wq = nn.weight @weights["q"] : tensor<64x64xf32>
  %q = nn.linear %x, %wq : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.0.q")
  %qh = tensor.expand_shape %q [[0], [1, 2]] output_shape [%n, 4, 16] : tensor<?x64xf32> into tensor<?x4x16xf32>
  %wkv = nn.weight @weights["kv"] : tensor<64x64xf32>
  %kv = nn.linear %x, %wkv : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.0.kv")
  %k = tensor.extract_slice %kv[0, 0] [%n, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %v = tensor.extract_slice %kv[0, 32] [%n, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %kh = tensor.expand_shape %k [[0], [1, 2]] output_shape [%n, 2, 16] : tensor<?x32xf32> into tensor<?x2x16xf32>
  %vh = tensor.expand_shape %v [[0], [1, 2]] output_shape [%n, 2, 16] : tensor<?x32xf32> into tensor<?x2x16xf32>
  %k1 = nn.cache_append(%keys) <keys, f32, page = 32>, %kh, %positions, %sequences, %pages : (tensor<?x2x32x16xf32>, tensor<?x2x16xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x16xf32>
  %v1 = nn.cache_append(%values) <values, f32, page = 32>, %vh, %positions, %sequences, %pages : (tensor<?x2x32x16xf32>, tensor<?x2x16xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x16xf32>
  %a = nn.cached_attention %qh, (%k1) <keys, f32, page = 32>, (%v1) <values, f32, page = 32>, %positions, %sequences, %pages {scale = 0.25 : f32} : (tensor<?x4x16xf32>, tensor<?x2x32x16xf32>, tensor<?x2x32x16xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x16xf32>
  %flat = tensor.collapse_shape %a [[0], [1, 2]] : tensor<?x4x16xf32> into tensor<?x64xf32>
  %wo = nn.weight @weights["o"] : tensor<64x64xf32>
  %bo = nn.weight @weights["o.bias"] : tensor<64xf32>
  %o = nn.linear %flat, %wo, %bo : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> tensor<?x64xf32> loc("layers.0.o")
  %y = arith.addf %x, %o : tensor<?x64xf32>
  %wup = nn.weight @weights["up"] : tensor<192x64xbf16>
  %uq, %us = nn.quantize %wup {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<192x64xbf16>) -> (tensor<192x64xi4>, tensor<192x2xf16>)
  %up = nn.dequantize %uq, %us {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<192x64xi4>, tensor<192x2xf16>) -> tensor<192x64xf32>
  %h = nn.linear %y, %up : (tensor<?x64xf32>, tensor<192x64xf32>) -> tensor<?x192xf32> loc("layers.0.up")
  %g = nn.silu %h : tensor<?x192xf32>
  %wdown = nn.weight @weights["down"] : tensor<64x192xbf16>
  %dq, %ds = nn.quantize %wdown {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x192xbf16>) -> (tensor<64x192xi4>, tensor<64x6xf16>)
  %down = nn.dequantize %dq, %ds {format = #nn.block_format<i4, f16, 32, axis = 1>} : (tensor<64x192xi4>, tensor<64x6xf16>) -> tensor<64x192xf32>
  %d = nn.linear %g, %down : (tensor<?x192xf32>, tensor<64x192xf32>) -> tensor<?x64xf32> loc("layers.0.down")
  %z = arith.addf %y, %d : tensor<?x64xf32>
  %logits = nn.linear %z, %table : (tensor<?x64xf32>, tensor<5001x64xf32>) -> tensor<?x5001xf32> loc("lm_head")
  return %logits, %k1, %v1 : tensor<?x5001xf32>, tensor<?x2x32x16xf32>, tensor<?x2x32x16xf32>
}
