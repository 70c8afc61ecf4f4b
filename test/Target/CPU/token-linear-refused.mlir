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

// -----

// Scales of 256 features do not divide 384.
rt.kernel @half_a_block(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<384x256xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>})
    -> (tensor<?x384xi8> {nn.sizes = ["s0", ""]}, tensor<?x2xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xi8>, tensor<?x1xf32>) -> tensor<?x256xf32>
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'half_a_block': its result is quantized in another way than to integers of 8 bits with a scale for each 256 features or with known scales, or has no whole blocks of them}}
  %0 = nn.linear %r, %w : (tensor<?x256xf32>, tensor<384x256xf32>) -> tensor<?x384xf32>
  %1, %2 = nn.quantize %0 {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x384xf32>) -> (tensor<?x384xi8>, tensor<?x2xf32>)
  rt.yield %1, %2 : tensor<?x384xi8>, tensor<?x2xf32>
}

// -----

// Linears in floats have no tiles that quantize.
rt.kernel @floats(%x: tensor<?x256xf32> {nn.sizes = ["s0", ""]}, %w: tensor<256x256xf32> {rt.layout = #rt.panels<32>})
    -> (tensor<?x256xi8> {nn.sizes = ["s0", ""]}, tensor<?x1xf32> {nn.sizes = ["s0", ""]}) attributes {root = #nn.root<linear>, sizes = ["s0"]} {
  // expected-error @below {{the cpu target cannot compile 'nn.linear' in kernel 'floats': a result of its kernel is quantized, which it has no tiles for}}
  %0 = nn.linear %x, %w : (tensor<?x256xf32>, tensor<256x256xf32>) -> tensor<?x256xf32>
  %1, %2 = nn.quantize %0 {format = #nn.block_format<i8, f32, 256, axis = 1>} : (tensor<?x256xf32>) -> (tensor<?x256xi8>, tensor<?x1xf32>)
  rt.yield %1, %2 : tensor<?x256xi8>, tensor<?x1xf32>
}
