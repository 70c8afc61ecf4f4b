// RUN: intarsia-opt %s --lower-nn-to-reference --split-input-file --verify-diagnostics --allow-unregistered-dialect --mlir-very-unsafe-disable-verifier-on-parsing

// Every op of the dialect has a reference, so an op that the dialect does not know stands for a new one. Only without
// the verifier is it read.
func.func @new(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x : tensor<4xf32>
  // expected-error@+1 {{'nn.hardswish' op has no reference lowering}}
  %1 = "nn.hardswish"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Archives and weights are no computation.
nn.archive @weights {file = "model.safetensors"}
func.func @weight() -> tensor<4xf32> {
  %0 = nn.weight @weights["g"] : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @open(%c: tensor<?x2x?x8xf16>, %r: tensor<?x2x8xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>, %t: tensor<?x?xi64>) -> tensor<?x2x?x8xf16> {
  // expected-error@+1 {{'nn.cache_append' op is of a cache whose pages have no size yet; run partition-lay-out-caches first}}
  %0 = nn.cache_append(%c) <keys, f16>, %r, %p, %s, %t : (tensor<?x2x?x8xf16>, tensor<?x2x8xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x2x?x8xf16>
  return %0 : tensor<?x2x?x8xf16>
}
