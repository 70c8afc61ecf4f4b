// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels --verify-diagnostics

rt.kernel @computed(%q: tensor<2x?x4x64xf32> {nn.sizes = ["", "s0", "", ""]})
    -> (tensor<2x?x4x64xf32> {nn.sizes = ["", "s0", "", ""]}) attributes {root = #nn.root<attention>, sizes = ["s0"]} {
  %k = nn.relu %q : tensor<2x?x4x64xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.attention' in kernel 'computed': a query, key or value that is computed in the same kernel}}
  %0 = nn.attention %q, %k, %q {scale = 0.5 : f32} : (tensor<2x?x4x64xf32>, tensor<2x?x4x64xf32>, tensor<2x?x4x64xf32>) -> tensor<2x?x4x64xf32>
  rt.yield %0 : tensor<2x?x4x64xf32>
}

// -----

rt.kernel @followed(%q: tensor<2x?x4x64xf32> {nn.sizes = ["", "s0", "", ""]})
    -> (tensor<2x?x4x64xf32> {nn.sizes = ["", "s0", "", ""]}) attributes {root = #nn.root<attention>, sizes = ["s0"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.attention' in kernel 'followed': an op stands between it and the kernel's result}}
  %0 = nn.attention %q, %q, %q {scale = 0.5 : f32} : (tensor<2x?x4x64xf32>, tensor<2x?x4x64xf32>, tensor<2x?x4x64xf32>) -> tensor<2x?x4x64xf32>
  %1 = nn.relu %0 : tensor<2x?x4x64xf32>
  rt.yield %1 : tensor<2x?x4x64xf32>
}

// -----

rt.kernel @dynamic_heads(%q: tensor<2x?x4x?xf32> {nn.sizes = ["", "s0", "", "s1"]})
    -> (tensor<2x?x4x?xf32> {nn.sizes = ["", "s0", "", "s1"]}) attributes {root = #nn.root<attention>, sizes = ["s0", "s1"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.attention' in kernel 'dynamic_heads': its head size is dynamic}}
  %0 = nn.attention %q, %q, %q {scale = 0.5 : f32} : (tensor<2x?x4x?xf32>, tensor<2x?x4x?xf32>, tensor<2x?x4x?xf32>) -> tensor<2x?x4x?xf32>
  rt.yield %0 : tensor<2x?x4x?xf32>
}

// -----

rt.kernel @computed_mask(%q: tensor<2x?x4x64xf32> {nn.sizes = ["", "s0", "", ""]}, %m: tensor<2x1x1x?xf32> {nn.sizes = ["", "", "", "s0"]})
    -> (tensor<2x?x4x64xf32> {nn.sizes = ["", "s0", "", ""]}) attributes {root = #nn.root<attention>, sizes = ["s0"]} {
  // expected-error @below {{the cpu target cannot compile 'arith.remf' in kernel 'computed_mask': processors have no instruction for the remainder of floats}}
  %a = arith.remf %m, %m : tensor<2x1x1x?xf32>
  %0 = nn.attention %q, %q, %q mask %a {scale = 0.5 : f32} : (tensor<2x?x4x64xf32>, tensor<2x?x4x64xf32>, tensor<2x?x4x64xf32>, tensor<2x1x1x?xf32>) -> tensor<2x?x4x64xf32>
  rt.yield %0 : tensor<2x?x4x64xf32>
}
