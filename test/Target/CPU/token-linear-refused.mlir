// RUN: intarsia-opt %s --split-input-file --target-cpu-emit-kernels --verify-diagnostics

// Groups of weights have scales of their own, which one for each row of the input cannot be multiplied with at the end.
rt.kernel @groups(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 32, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'groups': its input has one scale for each row, its weight is not stored in integers of 8 bits with one scale for each output feature}}
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<64x256xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}

// -----

rt.kernel @deep(%x: tensor<?x140000xf32> {nn.sizes = ["s0", ""]}, %w: tensor<64x140000xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>})
    -> (tensor<?x64xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x140000xf32>) -> (tensor<?x140000xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 0, axis = 1>} : (tensor<?x140000xi8>, tensor<?x1xf32>) -> tensor<?x140000xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'deep': sums of products of 140000 features do not fit in 32 bits}}
  %0 = nn.linear %r, %w : (tensor<?x140000xf32>, tensor<64x140000xf32>) -> tensor<?x64xf32>
  rt.yield %0 : tensor<?x64xf32>
}
