// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=x86-64-v4" --split-input-file --verify-diagnostics

rt.kernel @followed(%x: tensor<1x5x8xf32>, %r: tensor<8x8xf32>) -> tensor<1x5x8xf32>
    attributes {root = #nn.root<recurrent>, sizes = []} {
  // expected-error @below {{the cpu target cannot compile 'nn.recurrent' in kernel 'followed': an op stands between it and the kernel's result}}
  %y, %h = nn.recurrent <rnn>, <forward>, %x, %r : (tensor<1x5x8xf32>, tensor<8x8xf32>) -> (tensor<1x5x8xf32>, tensor<1x1x8xf32>)
  %z = nn.relu %y : tensor<1x5x8xf32>
  rt.yield %z : tensor<1x5x8xf32>
}

// -----

rt.kernel @quantized(%x: tensor<1x5x32xf32>, %r: tensor<32x32xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 32, axis = 1>>}) -> tensor<1x5x32xf32>
    attributes {root = #nn.root<recurrent>, sizes = []} {
  // expected-error @below {{the cpu target cannot compile 'nn.recurrent' in kernel 'quantized': its recurrent weights are quantized}}
  %y, %h = nn.recurrent <rnn>, <forward>, %x, %r : (tensor<1x5x32xf32>, tensor<32x32xf32>) -> (tensor<1x5x32xf32>, tensor<1x1x32xf32>)
  rt.yield %y : tensor<1x5x32xf32>
}
