// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels --verify-diagnostics

rt.kernel @followed(%l: tensor<?x20xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x2xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<route>, sizes = ["s0"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.route' in kernel 'followed': an op stands between it and the kernel's result}}
  %i, %w = nn.route %l {top_k = 2 : i64} : (tensor<?x20xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  %r = nn.relu %w : tensor<?x2xf32>
  rt.yield %r : tensor<?x2xf32>
}

// -----

rt.kernel @computed_logits(%l: tensor<?x20xf32> {nn.sizes = ["s0", ""]}) -> (tensor<?x2xi32> {nn.sizes = ["s0", ""]}, tensor<?x2xf32> {nn.sizes = ["s0", ""]})
    attributes {root = #nn.root<route>, sizes = ["s0"]} {
  // expected-error @below {{the cpu target cannot compile 'arith.remf' in kernel 'computed_logits': processors have no instruction for the remainder of floats}}
  %a = arith.remf %l, %l : tensor<?x20xf32>
  %i, %w = nn.route %a {top_k = 2 : i64} : (tensor<?x20xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  rt.yield %i, %w : tensor<?x2xi32>, tensor<?x2xf32>
}
