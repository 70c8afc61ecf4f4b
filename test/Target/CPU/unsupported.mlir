// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels --verify-diagnostics

rt.kernel @power(%x: tensor<?xf32> {nn.sizes = ["s0"]}) -> (tensor<?xf32> {nn.sizes = ["s0"]}) attributes {root = "rows", sizes = ["s0"]} {
  // expected-error @below {{the cpu target cannot compile 'math.atan' in kernel 'power': the cpu target has no polynomial for it}}
  %0 = math.atan %x : tensor<?xf32>
  rt.yield %0 : tensor<?xf32>
}

// -----

rt.kernel @two(%x: tensor<?x32xf32> {nn.sizes = ["s0", ""]}, %w: tensor<32x32xf32>) -> (tensor<?x32xf32> {nn.sizes = ["s0", ""]}) attributes {root = "linear", sizes = ["s0"]} {
  %0 = nn.linear %x, %w : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'two': a kernel holds one product or attention}}
  %1 = nn.linear %0, %w : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  rt.yield %1 : tensor<?x32xf32>
}
