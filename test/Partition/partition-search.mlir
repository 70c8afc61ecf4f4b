// RUN: intarsia-opt %s --partition-search=world=2 2>/dev/null | FileCheck %s
// RUN: intarsia-opt %s --partition-search=world=2 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: intarsia-opt %s --partition-search='world=2 memory=50kB' 2>/dev/null | FileCheck %s --check-prefix=SMALL
// RUN: intarsia-opt %s --partition-search='world=2 memory=50kB' 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: intarsia-opt %s --partition-search='world=2 speeds=1,0.1' 2>&1 >/dev/null | FileCheck %s --check-prefix=UNLIKE
// RUN: intarsia-opt %s --partition-search='world=2 hosts=1,1 network=1Gbit/s,200us' 2>&1 >/dev/null | FileCheck %s --check-prefix=SLOW
// RUN: intarsia-opt %s --partition-search='world=2 hosts=1,1 network=900Gbit/s,1us' 2>&1 >/dev/null | FileCheck %s --check-prefix=FAST
// RUN: intarsia-opt %s --partition-search='world=4 hosts=2,2 network=1Gbit/s,200us' 2>&1 >/dev/null | FileCheck %s --check-prefix=FOUR
// RUN: not intarsia-opt %s --partition-search='world=4 hosts=2,1 network=1Gbit/s,200us' 2>&1 >/dev/null | FileCheck %s --check-prefix=HOSTS
// RUN: not intarsia-opt %s --partition-search='world=2 hosts=1,1 network=1Gbit' 2>&1 >/dev/null | FileCheck %s --check-prefix=NETWORK
// RUN: intarsia-opt %s --partition-search=world=9 2>&1 >/dev/null | FileCheck %s --check-prefix=LAYERS
// RUN: not intarsia-opt %s --partition-search='world=2 memory=1kB' 2>&1 >/dev/null | FileCheck %s --check-prefix=NONE
// RUN: not intarsia-opt %s --partition-search='world=2 memory=1' 2>&1 >/dev/null | FileCheck %s --check-prefix=SIZE
// RUN: intarsia-opt %s --partition-search=world=1 2>/dev/null | FileCheck %s --check-prefix=ONE

// The chosen partition is carried out, and all alternatives are recorded.
// CHECK: module attributes {rt.partition = [{chosen = "yes", exchanges_us = {{[0-9.]+}} : f64, expected_us = {{[0-9.]+}} : f64, partition = "tensor", rank_bytes = 65536 : i64, why = "the fastest that fits"}, {chosen = "no", {{.*}}partition = "pipeline", rank_bytes = 40960 : i64, why = "{{[0-9.]+}} % slower"}, {chosen = "no", partition = "context", why = "calls of one row at the expected sizes are not enough for 2 ranks"}, {chosen = "no", {{.*}}partition = "context,heads", rank_bytes = 73728 : i64, why = "{{[0-9.]+}} % slower"}]}
// CHECK: func.func @step.rank0
// CHECK: shard.all_reduce

// REMARK: remark: --partition=auto over 2 ranks: tensor
// REMARK-NEXT: tensor {{ *[0-9.]+}} us a step, {{[0-9.]+}} us of them in exchanges, 0.066 MB on the fullest rank{{$}}
// REMARK-NEXT: pipeline {{ *[0-9.]+}} us a step, {{[0-9.]+}} us of them in exchanges, 0.041 MB on the fullest rank: {{[0-9.]+}} % slower

// Less memory than the faster one needs: the caches of all layers are in parts on each rank, but two weights are whole.
// SMALL: func.func @step.rank0
// SMALL: shard.send
// WHY: remark: --partition=auto over 2 ranks: pipeline
// WHY-NEXT: tensor {{.*}}: needs 0.066 MB of 0.050 MB a rank

// Parts of a layer that a slow rank has hold up the others at each of them.
// UNLIKE: remark: --partition=auto over 2 ranks:
// A sum of 256 bytes between hosts: the time of a short message, and 2.048 us at 0.125 GB/s. A pipeline sends a value and
// the result.
// SLOW: remark: --partition=auto over 2 ranks of 2 hosts: tensor
// SLOW-NEXT: tensor {{ *}}204.2 us a step, 202.0 us of them in exchanges
// SLOW-NEXT: pipeline {{.*}}, 405.5 us of them in exchanges
// FAST: tensor {{ *}}3.2 us a step, 1.0 us of them in exchanges
// Those of a host add up in its memory first.
// FOUR: remark: --partition=auto over 4 ranks of 2 hosts: tensor
// FOUR-NEXT: tensor {{ *}}204.8 us a step, 202.7 us of them in exchanges
// HOSTS: error: --rank-hosts: the ranks of all hosts are 3, at least one each; --world has 4
// NETWORK: error: --rank-network=1Gbit: write the bandwidth of a host's adapter and the time of a short message, as in 10Gbit/s,50us
// LAYERS: pipeline --world=9 --partition=pipeline: the model has 4 layers
// NONE: error: --rank-memory=1kB: no partition over 2 ranks fits; the smallest, pipeline, needs 0.041 MB a rank: allow more, or give a larger --world
// SIZE: error: --rank-memory=1: is no size: write a positive number and a unit
// ONE-NOT: rt.partition
// ONE: func.func @step(

rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}
nn.archive @weights {file = "model.safetensors"}

func.func @step(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["tokens", ""]},
                %positions: tensor<?xi64> {nn.name = "positions", nn.sizes = ["tokens"]},
                %sequences: tensor<?xi64> {nn.name = "sequences", nn.sizes = ["tokens"]},
                %pages: tensor<?x?xi64> {nn.name = "pages", nn.sizes = ["sequences", "length"]},
                %unused: tensor<?xi64> {nn.name = "unused", nn.sizes = ["tokens"]},
                %keys0: tensor<?x2x32x32xf32> {nn.name = "keys.0", nn.state},
                %keys3: tensor<?x2x32x32xf32> {nn.name = "keys.3", nn.state})
    -> (tensor<?x64xf32> {nn.name = "y"}, tensor<?x2x32x32xf32> {nn.name = "keys.0", nn.state = 5 : i64},
        tensor<?x2x32x32xf32> {nn.name = "keys.3", nn.state = 6 : i64}) {
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
