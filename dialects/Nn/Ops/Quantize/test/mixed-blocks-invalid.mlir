// RUN: intarsia-opt %s -split-input-file -verify-diagnostics

func.func @format(%x: tensor<4x256xf32>) {
  // expected-error@+1 {{'nn.quantize' op has blocks of 8 and of 4 bits, which are of i8 and of 128 features; the format is #nn.block_format<i8, f32, 256, axis = 1>}}
  %q, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 256, axis = 1>, wide_blocks = 1} : (tensor<4x256xf32>) -> (tensor<4x256xi8>, tensor<4x1xf32>)
  return
}

// -----

func.func @element(%x: tensor<4x256xf32>) {
  // expected-error@+1 {{which are of i8 and of 128 features; the format is #nn.block_format<i4, f32, 128, axis = 1>}}
  %q, %s = nn.quantize %x {format = #nn.block_format<i4, f32, 128, axis = 1>, wide_blocks = 1} : (tensor<4x256xf32>) -> (tensor<4x256xi4>, tensor<4x2xf32>)
  return
}

// -----

func.func @count(%x: tensor<4x300xf32>) {
  // expected-error@+1 {{'nn.quantize' op has 4 blocks of 8 bits, the input has 3 blocks}}
  %q, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 128, axis = 1>, wide_blocks = 4} : (tensor<4x300xf32>) -> (tensor<4x300xi8>, tensor<4x3xf32>)
  return
}

// -----

func.func @negative(%x: tensor<4x300xf32>) {
  // expected-error@+1 {{'nn.quantize' op has -1 blocks of 8 bits}}
  %q, %s = nn.quantize %x {format = #nn.block_format<i8, f32, 128, axis = 1>, wide_blocks = -1} : (tensor<4x300xf32>) -> (tensor<4x300xi8>, tensor<4x3xf32>)
  return
}

// -----

func.func @zero_points(%x: tensor<4x128xf32>) {
  // expected-error@+1 {{'nn.quantize' op has blocks of 8 and of 4 bits, and zero points: such blocks have none}}
  %q, %s, %z = nn.quantize %x {format = #nn.block_format<i8, f32, 128, axis = 1>, wide_blocks = 0} : (tensor<4x128xf32>) -> (tensor<4x128xi8>, tensor<4x1xf32>, tensor<4x1xi8>)
  return
}

// -----

func.func @length(%x: tensor<4x128xf32>, %p: tensor<127xi32>) {
  // expected-error@+1 {{'nn.quantize' op channels has 127 entries, input has 128}}
  %q, %s = nn.quantize %x channels %p {format = #nn.block_format<i8, f32, 128, axis = 1>} : (tensor<4x128xf32>, tensor<127xi32>) -> (tensor<4x128xi8>, tensor<4x1xf32>)
  return
}

// -----

func.func @type(%x: tensor<4x128xf32>, %p: tensor<128xi64>) {
  // expected-error@+1 {{'nn.quantize' op type of channels is 'tensor<128xi64>', must be i32 of rank 1}}
  %q, %s = nn.quantize %x channels %p {format = #nn.block_format<i8, f32, 128, axis = 1>} : (tensor<4x128xf32>, tensor<128xi64>) -> (tensor<4x128xi8>, tensor<4x1xf32>)
  return
}

// -----

func.func @twice(%x: tensor<4x3xf32>) {
  %p = arith.constant dense<[0, 2, 0]> : tensor<3xi32>
  // expected-error@+1 {{'nn.quantize' op channel 0 is named twice}}
  %q, %s = nn.quantize %x channels %p {format = #nn.block_format<i8, f32, 128, axis = 1>} : (tensor<4x3xf32>, tensor<3xi32>) -> (tensor<4x3xi8>, tensor<4x1xf32>)
  return
}

// -----

func.func @outside(%x: tensor<4x3xf32>) {
  %p = arith.constant dense<[0, 3, 1]> : tensor<3xi32>
  // expected-error@+1 {{'nn.quantize' op channel 3 is outside of the input, which has 3 features}}
  %q, %s = nn.quantize %x channels %p {format = #nn.block_format<i8, f32, 128, axis = 1>} : (tensor<4x3xf32>, tensor<3xi32>) -> (tensor<4x3xi8>, tensor<4x1xf32>)
  return
}
