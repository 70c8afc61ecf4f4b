// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels --verify-diagnostics

rt.kernel @dense_gate_up(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %i: tensor<?x2xi32> {nn.sizes = ["s0", ""]}, %w: tensor<?x2xf32> {nn.sizes = ["s0", ""]},
          %g: tensor<8x2x64x64xf32> {rt.layout = #rt.panels<32>}, %d: tensor<8x64x64xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<experts>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x2xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xi8>, tensor<?x2xf32>) -> tensor<?x64xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.experts' in kernel 'dense_gate_up': its input is quantized to 8 bits, gate_up is not stored quantized}}
  %0 = nn.experts %r, %i, %w, %g, %d {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x64x64xf32>, tensor<8x64x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

rt.kernel @dense_down(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %i: tensor<?x2xi32> {nn.sizes = ["s0", ""]}, %w: tensor<?x2xf32> {nn.sizes = ["s0", ""]},
          %g: tensor<8x2x64x64xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>}, %d: tensor<8x64x64xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<experts>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x2xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xi8>, tensor<?x2xf32>) -> tensor<?x64xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.experts' in kernel 'dense_down': its intermediate rows are quantized, which needs 8 bits in blocks of 32 and down stored quantized}}
  %0 = nn.experts %r, %i, %w, %g, %d {activation = #nn.gated_activation<silu>, intermediate_format = #nn.block_format<i8, f32, 32, axis = 1>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x64x64xf32>, tensor<8x64x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

rt.kernel @narrow_panels(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %i: tensor<?x2xi32> {nn.sizes = ["s0", ""]}, %w: tensor<?x2xf32> {nn.sizes = ["s0", ""]},
          %g: tensor<8x2x64x64xf32> {rt.layout = #rt.panels<16>}, %d: tensor<8x64x64xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<experts>, sizes = ["s0"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.experts' in kernel 'narrow_panels': its weights are neither packed in panels of 32 nor tensors in memory}}
  %0 = nn.experts %x, %i, %w, %g, %d {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x64x64xf32>, tensor<8x64x64xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

rt.kernel @followed(%x: tensor<?x64xf32> {nn.sizes = ["s0", ""]}, %i: tensor<?x2xi32> {nn.sizes = ["s0", ""]}, %w: tensor<?x2xf32> {nn.sizes = ["s0", ""]},
          %g: tensor<8x2x64x64xf32> {rt.layout = #rt.panels<32>}, %d: tensor<8x64x64xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<experts>, sizes = ["s0"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.experts' in kernel 'followed': an op stands between it and the kernel's result}}
  %0 = nn.experts %x, %i, %w, %g, %d {activation = #nn.gated_activation<silu>} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8x2x64x64xf32>, tensor<8x64x64xf32>) -> tensor<?x64xf32>
  %1 = nn.relu %0 : tensor<?x64xf32>
  rt.yield %1 : tensor<?x64xf32>
}
