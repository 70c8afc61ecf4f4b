// RUN: intarsia-opt %s --partition-search='world=2 hosts=1,1 network=900GB/s,100us load=sequences:1,tokens:10' 2>&1 >/dev/null | FileCheck %s --check-prefix=ONE
// RUN: intarsia-opt %s --partition-search='world=2 hosts=1,1 network=900GB/s,100us load=sequences:4,tokens:10' 2>/dev/null | FileCheck %s
// RUN: intarsia-opt %s --partition-search='world=2 hosts=1,1 network=900GB/s,100us load=sequences:4,tokens:10' 2>&1 >/dev/null | FileCheck %s --check-prefix=FOUR
// RUN: intarsia-opt %s --partition-search='world=2 hosts=1,1 network=900GB/s,100us load=prompt:1024,tokens:0' 2>&1 >/dev/null | FileCheck %s --check-prefix=PROMPT
// RUN: intarsia-opt %s --partition-search='world=2 hosts=1,1 network=900GB/s,100us load=prompt:1024,tokens:0' 2>/dev/null | FileCheck %s --check-prefix=STAGES
// RUN: not intarsia-opt %s --partition-search='world=2 load=prompt:4096' 2>&1 >/dev/null | FileCheck %s --check-prefix=LONG
// RUN: not intarsia-opt %s --partition-search='world=2 load=batch:2' 2>&1 >/dev/null | FileCheck %s --check-prefix=UNKNOWN

// A token takes a sum over the network in each of two layers, and in a pipeline a message and a result.
// ONE: remark: --partition=auto over 2 ranks of 2 hosts for sequences:1,tokens:10: tensor
// ONE-NEXT: tensor {{ *}}[[TENSOR:20[0-9][0-9]\.[0-9]]] us (0.0 us for prompts, [[TENSOR]] us for tokens)
// ONE-NEXT: pipeline {{ *}}[[PIPELINE:20[0-9][0-9]\.[0-9]]] us (0.0 us for prompts, [[PIPELINE]] us for tokens)
// ONE-NEXT: context {{ *}}calls of one row at the expected sizes are not enough for 2 ranks
// ONE-NEXT: context,heads --partition=context,heads: 'step' has 1 heads of keys, which 2 ranks cannot share evenly

// Of two halves of the sequences one is computed while the other is on its way; but the first stage sends one when it has
// the results of the other, so that there are two messages for each.
// FOUR: remark: --partition=auto over 2 ranks of 2 hosts for sequences:4,tokens:10: tensor
// FOUR-NEXT: tensor {{ *}}20{{[0-9][0-9]\.[0-9]}} us
// FOUR-NEXT: pipeline {{ *}}40{{[0-9][0-9]\.[0-9]}} us
// The sizes of a step are what fusing expects.
// CHECK: func.func @step.rank0({{.*}} attributes {nn.expected_sizes = {length = 1 : i64, pages = 4 : i64, sequences = 4 : i64, tokens = 4 : i64}
// CHECK: func.func @step.rank1({{.*}} attributes {nn.expected_sizes = {length = 1 : i64, pages = 4 : i64, sequences = 4 : i64, tokens = 4 : i64}

// Sums of two calls of 512 tokens, each waited for; 13 parts of 80 tokens in a pipeline, one behind another. The first stage
// has no cache, and no size of it.
// PROMPT: remark: --partition=auto over 2 ranks of 2 hosts for prompt:1024,tokens:0: pipeline
// PROMPT-NEXT: tensor {{.*}} us for prompts, 0.0 us for tokens), 800.6 us of them in exchanges
// STAGES: func.func @step.rank0({{.*}} attributes {nn.expected_sizes = {length = 24 : i64, sequences = 1 : i64, tokens = 512 : i64}
// STAGES: func.func @step.rank1({{.*}} attributes {nn.expected_sizes = {length = 24 : i64, pages = 24 : i64, sequences = 1 : i64, tokens = 512 : i64}

// LONG: error: --rank-load=prompt:4096: sequences of 4097 tokens are longer than the 4096 that 'step' takes
// UNKNOWN: error: --rank-load=batch:2: 'batch' is not known; it is how many sequences there are at once, how many tokens the prompt of each has, and how many each is continued by: sequences:8,prompt:512,tokens:128, any of them

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
nn.archive @weights {file = "model.safetensors"}

func.func @step(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["tokens", ""]},
                %positions: tensor<?xi64> {nn.name = "positions", nn.range = array<i64: 0, 4096>, nn.sizes = ["tokens"]},
                %sequences: tensor<?xi64> {nn.name = "sequences", nn.sizes = ["tokens"]},
                %pages: tensor<?x?xi64> {nn.name = "page_table", nn.sizes = ["sequences", "length"]},
                %keys: tensor<?x1x32x64xf32> {nn.name = "keys", nn.state, nn.sizes = ["pages", "", "", ""]})
    -> (tensor<?x64xf32> {nn.name = "y"}, tensor<?x1x32x64xf32> {nn.name = "keys", nn.state = 4 : i64}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %w0 = nn.weight @weights["w0"] : tensor<256x64xf32>
  %0 = nn.linear %x, %w0 : (tensor<?x64xf32>, tensor<256x64xf32>) -> tensor<?x256xf32> loc("layers.0.up")
  %1 = nn.relu %0 : tensor<?x256xf32> loc("layers.0.relu")
  %w1 = nn.weight @weights["w1"] : tensor<64x256xf32>
  %2 = nn.linear %1, %w1 : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32> loc("layers.0.down")
  %r = arith.addf %2, %x : tensor<?x64xf32> loc("layers.0.add")
  %w2 = nn.weight @weights["w2"] : tensor<256x64xf32>
  %3 = nn.linear %r, %w2 : (tensor<?x64xf32>, tensor<256x64xf32>) -> tensor<?x256xf32> loc("layers.1.up")
  %4 = nn.relu %3 : tensor<?x256xf32> loc("layers.1.relu")
  %w3 = nn.weight @weights["w3"] : tensor<64x256xf32>
  %5 = nn.linear %4, %w3 : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32> loc("layers.1.down")
  %h = tensor.expand_shape %5 [[0], [1, 2]] output_shape [%n, 1, 64] : tensor<?x64xf32> into tensor<?x1x64xf32>
  %k = nn.cache_append(%keys) <keys, f32, page = 32>, %h, %positions, %sequences, %pages : (tensor<?x1x32x64xf32>, tensor<?x1x64xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x1x32x64xf32> loc("layers.1.append")
  return %5, %k : tensor<?x64xf32>, tensor<?x1x32x64xf32>
}
