// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels --verify-diagnostics

rt.kernel @dense_weight(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'dense_weight': its input is quantized to 8 bits, its weight is not stored quantized}}
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Blocks of 64 activations are none that records are made of: the ops that quantize them have no kernel.
rt.kernel @other_blocks(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i4, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 64, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x4xf32>)
  // expected-error @below {{the cpu target cannot compile 'nn.dequantize' in kernel 'other_blocks': no kernel shape computes it}}
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 64, axis = 1>} : (tensor<?x256xi8>, tensor<?x4xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Sums are scaled by the input's scale once a block, which pieces of a weight must divide.
rt.kernel @short_blocks(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.ggml_type<q4_k>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 128, axis = 1>, wide_blocks = 1} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x2xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 128, axis = 1>} : (tensor<?x256xi8>, tensor<?x2xf32>) -> tensor<?x256xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'short_blocks': its input has a scale for each 128 features, its weight is stored in pieces of 256}}
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

// Rows with one scale are not permuted by any kernel.
rt.kernel @permuted_rows(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %p: tensor<256xi32>, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x channels %p {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x256xf32>, tensor<256xi32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  // expected-error @below {{the cpu target cannot compile 'nn.dequantize' in kernel 'permuted_rows': no kernel shape computes it}}
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
