// RUN: intarsia-opt %s --partition-rows='world=2 kind=context heads' 2>/dev/null | FileCheck %s
// RUN: intarsia-opt %s --partition-rows='world=2 kind=context heads' 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: not intarsia-opt %s --partition-rows='world=3 kind=context heads' 2>&1 >/dev/null | FileCheck %s --check-prefix=THREE
// RUN: not intarsia-opt %s --partition-rows='world=4 kind=context heads' 2>&1 >/dev/null | FileCheck %s --check-prefix=FOUR

// REMARK: remark: context,heads of 2 ranks: each computes 1/2 of the rows of a call in {{[0-9]+}} ops, and attention of all rows by 1/2 of the heads, whose caches it has; 3 exchanges between them
// THREE: error: --partition=context,heads: 'step' has 2 heads of keys, which 3 ranks cannot share evenly
// FOUR: error: --partition=context,heads: 'step' has 2 heads of keys, which 4 ranks cannot share evenly; 2 can

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
nn.archive @weights {file = "model.safetensors"}

// CHECK-LABEL: func.func @step.rank1
// CHECK-SAME: tensor<?x1x32x16xf32> {nn.name = "keys", nn.state}) -> (tensor<?x64xf32> {nn.name = "y"}, tensor<?x1x32x16xf32> {nn.name = "keys", nn.state = 4 : i64})
// CHECK-SAME: cache_heads = {keys = {all = 2 : i64, first = 1 : i64}}
// CHECK: %[[N:.*]] = tensor.dim %arg0, %c0
// CHECK: %[[OWN:.*]] = arith.ceildivsi %[[N]], %c2

// Keys of this rank's tokens by ranks of heads, then all tokens of its head.
// CHECK: tensor.expand_shape {{.*}} output_shape [%[[OWN]], 2, 1, 16] : tensor<?x2x16xf32> into tensor<?x2x1x16xf32>
// CHECK: linalg.transpose {{.*}} permutation = [1, 0, 2, 3]
// CHECK: %[[EXCHANGED:.*]] = shard.all_to_all %{{.*}} on @world grid_axes = [0] split_axis = 0 concat_axis = 0 : tensor<2x?x1x16xf32> -> tensor<2x?x1x16xf32>
// CHECK: %[[PADDED:.*]] = tensor.collapse_shape %[[EXCHANGED]]
// CHECK: %[[KEYS:.*]] = tensor.extract_slice %[[PADDED]][0, 0, 0] [%[[N]], 1, 16] [1, 1, 1]
// CHECK: nn.cache_append(%{{.*}}) <keys, f32, page = 32>, %[[KEYS]], %arg1

// Attention of all tokens, and its results for this rank's.
// CHECK: %[[QUERIES:.*]] = tensor.extract_slice %{{.*}}[0, 0, 0] [%[[N]], 2, 16] [1, 1, 1]
// CHECK: %[[ATTENDED:.*]] = nn.cached_attention %[[QUERIES]]
// CHECK: tensor.extract %[[ATTENDED]]
// CHECK: shard.all_to_all %{{.*}} : tensor<2x?x2x16xf32> -> tensor<2x?x2x16xf32>
// CHECK: linalg.transpose {{.*}} permutation = [1, 0, 2, 3]
// CHECK: tensor.collapse_shape %{{.*}} : tensor<?x2x2x16xf32> into tensor<?x4x16xf32>
// CHECK: nn.linear
// CHECK: shard.all_gather
func.func @step(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["tokens", ""]},
                %positions: tensor<?xi64> {nn.name = "positions", nn.sizes = ["tokens"]},
                %sequences: tensor<?xi64> {nn.name = "sequences", nn.sizes = ["tokens"]},
                %pages: tensor<?x?xi64> {nn.name = "page_table", nn.sizes = ["sequences", "pages_of_a_sequence"]},
                %keys: tensor<?x2x32x16xf32> {nn.name = "keys", nn.state})
    -> (tensor<?x64xf32> {nn.name = "y"}, tensor<?x2x32x16xf32> {nn.name = "keys", nn.state = 4 : i64})
    attributes {nn.metadata = {architecture = "test"}} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %wq = nn.weight @weights["q"] : tensor<64x64xf32>
  %q = nn.linear %x, %wq : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %qh = tensor.expand_shape %q [[0], [1, 2]] output_shape [%n, 4, 16] : tensor<?x64xf32> into tensor<?x4x16xf32>
  %wk = nn.weight @weights["k"] : tensor<32x64xf32>
  %k = nn.linear %x, %wk : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  %kh = tensor.expand_shape %k [[0], [1, 2]] output_shape [%n, 2, 16] : tensor<?x32xf32> into tensor<?x2x16xf32>
  %k1 = nn.cache_append(%keys) <keys, f32, page = 32>, %kh, %positions, %sequences, %pages : (tensor<?x2x32x16xf32>, tensor<?x2x16xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x16xf32>
  %a = nn.cached_attention %qh, (%k1) <keys, f32, page = 32>, (%k1) <values, f32, page = 32>, %positions, %sequences, %pages {scale = 0.25 : f32} : (tensor<?x4x16xf32>, tensor<?x2x32x16xf32>, tensor<?x2x32x16xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x16xf32>
  %flat = tensor.collapse_shape %a [[0], [1, 2]] : tensor<?x4x16xf32> into tensor<?x64xf32>
  %wo = nn.weight @weights["o"] : tensor<64x64xf32>
  %o = nn.linear %flat, %wo : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return %o, %k1 : tensor<?x64xf32>, tensor<?x2x32x16xf32>
}
