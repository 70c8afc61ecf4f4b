// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels --verify-diagnostics

rt.kernel @computed(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>)
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<matmul>, sizes = ["s0"]} {
  %r = nn.relu %a : tensor<?x20xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.matmul' in kernel 'computed': an operand is computed in the same kernel}}
  %0 = nn.matmul %r, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

rt.kernel @other_shape(%a: tensor<?x20xf32> {nn.sizes = ["s0", ""]}, %b: tensor<20x64xf32>)
    -> (tensor<?x32xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<matmul>, sizes = ["s0"]} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x20xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.matmul' in kernel 'other_shape': a result of its kernel is of another shape}}
  %0 = nn.matmul %a, %b : (tensor<?x20xf32>, tensor<20x64xf32>) -> tensor<?x64xf32>
  %1 = tensor.extract_slice %0[0, 0] [%n, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  rt.yield %1 : tensor<?x32xf32>
}
