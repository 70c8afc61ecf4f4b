// RUN: intarsia-opt %s --target-cpu-emit-kernels="spec=znver4" --split-input-file --verify-diagnostics

rt.kernel @floats(%x: tensor<1x5x5x32xf32>, %w: tensor<32x288xf32>) -> tensor<1x3x3x32xf32> attributes {root = #nn.root<conv>, sizes = []} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 3>} : (tensor<1x5x5x32xf32>) -> (tensor<1x5x5x32xi8>, tensor<1x5x5x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 3>} : (tensor<1x5x5x32xi8>, tensor<1x5x5x1xf32>) -> tensor<1x5x5x32xf32>
  // expected-error@+1 {{its weight is not stored in integers of 8 bits with one scale for each output channel}}
  %y = nn.conv %r, %w {window = array<i64: 3, 3>} : (tensor<1x5x5x32xf32>, tensor<32x288xf32>) -> tensor<1x3x3x32xf32>
  rt.yield %y : tensor<1x3x3x32xf32>
}

// -----

rt.kernel @groups(%x: tensor<1x5x5x64xf32>, %w: tensor<32x288xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>}) -> tensor<1x3x3x32xf32> attributes {root = #nn.root<conv>, sizes = []} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 3>} : (tensor<1x5x5x64xf32>) -> (tensor<1x5x5x64xi8>, tensor<1x5x5x1xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 256, axis = 3>} : (tensor<1x5x5x64xi8>, tensor<1x5x5x1xf32>) -> tensor<1x5x5x64xf32>
  // expected-error@+1 {{its input is quantized, and it is transposed or has groups}}
  %y = nn.conv %r, %w {window = array<i64: 3, 3>, groups = 2} : (tensor<1x5x5x64xf32>, tensor<32x288xf32>) -> tensor<1x3x3x32xf32>
  rt.yield %y : tensor<1x3x3x32xf32>
}

// -----

rt.kernel @other_axis(%x: tensor<1x5x5x32xf32>, %w: tensor<32x288xf32> {rt.layout = #rt.panels<32, #nn.block_format<i8, f16, 0, axis = 1>>}) -> tensor<1x3x3x32xf32> attributes {root = #nn.root<conv>, sizes = []} {
  %c, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 0, axis = 2>} : (tensor<1x5x5x32xf32>) -> (tensor<1x5x5x32xi8>, tensor<1x5x1x32xf32>)
  %r = nn.dequantize %c, %s {format = #nn.block_format<i8, f32, 0, axis = 2>} : (tensor<1x5x5x32xi8>, tensor<1x5x1x32xf32>) -> tensor<1x5x5x32xf32>
  // expected-error@+1 {{with scales for channels of a position}}
  %y = nn.conv %r, %w {window = array<i64: 3, 3>} : (tensor<1x5x5x32xf32>, tensor<32x288xf32>) -> tensor<1x3x3x32xf32>
  rt.yield %y : tensor<1x3x3x32xf32>
}
