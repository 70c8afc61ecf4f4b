// RUN: not intarsia-opt %s --split-input-file --partition-pipeline='world=2 turns=2 text=interleaved' 2>&1 >/dev/null | FileCheck %s

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
nn.archive @weights {file = "model.safetensors"}

// CHECK: error: --partition=interleaved: 'main' keeps no caches, so that a call is computed in one piece
func.func @main(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["rows", ""]}) -> tensor<?x64xf32> {
  %w0 = nn.weight @weights["w0"] : tensor<64x64xf32>
  %0 = nn.linear %x, %w0 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.0.linear")
  %1 = nn.linear %0, %w0 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.1.linear")
  %2 = nn.linear %1, %w0 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.2.linear")
  %3 = nn.linear %2, %w0 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.3.linear")
  return %3 : tensor<?x64xf32>
}

// -----

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
nn.archive @weights {file = "model.safetensors"}

// CHECK: error: --partition=interleaved: result 0 of 'step' is computed by stage 3 of 4, and only the last one gives results
func.func @step(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["tokens", ""]},
                %positions: tensor<?xi64> {nn.name = "positions", nn.sizes = ["tokens"]},
                %sequences: tensor<?xi64> {nn.name = "sequences", nn.sizes = ["tokens"]},
                %pages: tensor<?x?xi64> {nn.name = "pages", nn.sizes = ["sequences", "length"]},
                %keys: tensor<?x2x32x32xf32> {nn.name = "keys", nn.state})
    -> (tensor<?x64xf32>, tensor<?x2x32x32xf32> {nn.name = "keys", nn.state = 4 : i64}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %w0 = nn.weight @weights["w0"] : tensor<64x64xf32>
  %0 = nn.linear %x, %w0 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.0.linear")
  %1 = nn.linear %0, %w0 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.1.linear")
  %2 = nn.linear %1, %w0 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.2.linear")
  %3 = nn.linear %2, %w0 : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("layers.3.linear")
  %h = tensor.expand_shape %3 [[0], [1, 2]] output_shape [%n, 2, 32] : tensor<?x64xf32> into tensor<?x2x32xf32>
  %k = nn.cache_append(%keys) <keys, f32, page = 32>, %h, %positions, %sequences, %pages : (tensor<?x2x32x32xf32>, tensor<?x2x32xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x32x32xf32> loc("layers.3.append")
  return %2, %k : tensor<?x64xf32>, tensor<?x2x32x32xf32>
}
