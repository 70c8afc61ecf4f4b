// RUN: intarsia-opt %s --fuse-compute-at-load --split-input-file --verify-diagnostics

// The ranks of a world have functions of their own: none of them has a global, or continues another one.
module {
  shard.grid @world(shape = 2)
  // expected-error@+1 {{function 'main' has the global '@h', which models of several ranks cannot have: compile it for one process}}
  func.func @main(%x: tensor<4xf32>, %h: tensor<4xf32> {nn.global = "@h", nn.name = "@h"}) -> tensor<4xf32> {
    %y = arith.addf %x, %h : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

module {
  shard.grid @world(shape = 2)
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{function 'rest' has sizes that a call computes, which models of several ranks cannot have: compile it for one process}}
  func.func @rest(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nn.continues = @main} {
    return %x : tensor<4xf32>
  }
}
