// RUN: intarsia-opt %s --lower-groups-to-kernels -split-input-file -verify-diagnostics

shard.grid @world(shape = 2)
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

func.func @main(%x: tensor<4xf32> {nn.name = "x"}) -> tensor<4xf32> {
  // expected-error@+1 {{is nothing that ranks do together: that is a sum or maximum over a row of them, a sum of which each gets some rows, a gather or an exchange along the first dimension, a broadcast, and what one sends to another}}
  %0 = shard.all_reduce %x on @world grid_axes = [0] reduction = min : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

shard.grid @world(shape = 2)
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

func.func @main(%x: tensor<4x2xf32> {nn.name = "x"}) -> tensor<4x4xf32> {
  // expected-error@+1 {{is nothing that ranks do together}}
  %0 = shard.all_gather %x on @world grid_axes = [0] gather_axis = 1 : tensor<4x2xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

shard.grid @world(shape = 2)
rt.device @cpu {target = #rt.target<"cpu", ["x86-64-v3"]>}

func.func @main(%x: tensor<4x4xf32> {nn.name = "x"}) -> tensor<4x2xf32> {
  // expected-error@+1 {{is nothing that ranks do together}}
  %0 = shard.reduce_scatter %x on @world grid_axes = [0] scatter_axis = 1 : tensor<4x4xf32> -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
